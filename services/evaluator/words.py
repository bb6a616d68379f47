"""What a draft says in words of code that nobody read, of comments, of another weakness, or against its own verdict.

Words name code as writers of English do: in backticks, as calls, with underscores or inner capitals, with points, as
files and lines. What is denied or advised need not be there. What they mean is for the model to judge.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from services.evaluator.bank import CodeBank, SourceFile, normal_path
from services.evaluator.citations import Problem, Reason
from services.evaluator.connections import Connections, Span
from services.evaluator.draft import Draft, Finding, Verdict

WHOLE_DRAFT: Final = -1
# So many words one after another are an echo of a comment, where one of them is as long and stands in no code.
ECHOED: Final = 3
LONG_WORD: Final = 6
MIN_NAME: Final = 2
# What stands in more places has to do with everything.
MOST_PLACES: Final = 200
_WORD: Final = re.compile(r"[^\W_]+")
_IDENTIFIER: Final = re.compile(r"[^\W\d]\w+")
_FILE: Final = re.compile(
    r"(?<![\w/.-])(?:[\w.-]+/)*(?![A-Z]\w+\.js\b)[^\W\d][\w-]*\.(?:py|jsx?|mjs|tsx?|java|c|h|cc|cpp|hpp|cs|go|rb|php|kt|rs|html?|ya?ml|sh)"
    r"(?![\w/])(?!\.\w)"
)
_LINES: Final = re.compile(
    r"(?:\blines?\s+|(?<=\w):)(?P<first>\d{1,7})\b(?:\s*(?:-|\N{EN DASH}|to|and)\s*(?P<last>\d{1,7})\b)?", re.IGNORECASE
)
_NAMED: Final = re.compile(
    r"`@?([^\W\d][\w.]*(?:\([^`\n]*\))?)`"
    r"|(?<![\w./-])@?([^\W\d]\w*(?:\.[^\W\d]\w+)*\((?=[\w\s,.'\"]*\))|[^\W\d]\w+(?:\.[^\W\d]\w+)+|\w*[^\W_]_[^\W_]\w*"
    r"|[a-z][a-z\d]*[A-Z]\w+|(?<=@)\w+)(?![\w/]|://)"
)
# As only code is written, and few products.
_CLASS: Final = re.compile(r"(?<![\w.`])(?!\w+(?:Script|Press)\b)[A-Z][a-z]{2,}[A-Z][a-z]{3,}\w*(?![\w(.])")
_LEFT_OUT: Final = re.compile(r"\.\.\.?|\N{HORIZONTAL ELLIPSIS}")
# Of every language, verdicts and hosts: none is a name of this code.
_COMMON: Final = re.compile(
    r"(?:none|null|nil|true|false|self|this|str|int|bool|float|bytes|char|\w*(?:error|exception)|com|org|net|io|internal"
    r"|true_positive|false_positive|needs_review)$"
)
_NOT_SAID_TO_BE_THERE: Final = re.compile(
    r"\b(?:no|not|none|never|nothing|without|nor|neither|lacks?|missing|absent|instead|rather|should|would|could|might|must"
    r"|needs?|consider|prefer|such as|recommend\w*|avoids?|safer|unless|\w+n['\u2019]t)\b|^\W*use\b",
    re.IGNORECASE,
)
_HIDDEN: Final = re.compile(r"`[^`\n]*`|\([^()\n]*\)")
_CLAUSE_ENDS: Final = re.compile(
    r"[.!?;:,](?=\s)(?!\s+n?or\b)|\n|\b(?:because|since|(?<!such )as|so|but|which|while)\b", re.IGNORECASE
)
_SENTENCE_ENDS: Final = re.compile(r"[.!?;](?=\s)|\n")
_CWE: Final = re.compile(r"\bCWE-\d+", re.IGNORECASE)
_IS: Final = r"(?:\b(?:is|are|remains?)|['\u2019]s|:)\s+(?:(?!not\b|no\b|hardly\b|never\b)\w+\s+){0,2}"
_DENIED: Final = r"(?:\bnot|\bno|\bnever|n['\u2019]t)\s+(?:an?\s+)?"
_WEAK: Final = "(?:vulnerab(?:le|ility)|exploitable|true[ _-]positive)"
_REVIEW: Final = r"\bneeds[_ ]review\b"
# What says otherwise than a verdict.
_AGAINST: Final = {
    verdict: re.compile(f"{said}|{_REVIEW}", re.IGNORECASE)
    for verdict, said in (
        (Verdict.TRUE_POSITIVE, f"{_IS}false[ _-]positive|{_DENIED}{_WEAK}"),
        (Verdict.FALSE_POSITIVE, f"{_IS}{_WEAK}|{_DENIED}false[ _-]positive"),
    )
}


def check_words(draft: Draft, finding: Finding, bank: CodeBank, connections: Connections) -> list[Problem]:
    """Returns what the words of a settled draft say against it, or of code that was not read: one problem a text."""
    read = _Read(draft, finding, bank, connections)
    texts = [(WHOLE_DRAFT, draft.justification), *((at, each.claim) for at, each in enumerate(draft.evidence))]
    return [Problem(at, *wrong) for at, text in texts if (wrong := next(read.problems(text, at == WHOLE_DRAFT), None))]


@dataclass(frozen=True)
class _Read:
    """What was read, as words may name it; what is called harmless is so by code that has to do with it."""

    draft: Draft
    finding: Finding
    bank: CodeBank
    connections: Connections

    def problems(self, text: str, is_whole: bool) -> Iterator[tuple[Reason, str]]:
        """Yields what a text says wrongly."""
        if is_whole and (against := _AGAINST[self.draft.verdict].search(text)):
            said = f"{against[0]!r} is said of a verdict {self.draft.verdict}: say which it is."
            yield Reason.CONTRADICTED, said
        weaknesses = {found.upper() for found in _CWE.findall(text)}
        if weaknesses and self.finding.cwe and self.finding.cwe not in weaknesses:
            said = f"It speaks of {', '.join(sorted(weaknesses))}, and the finding is {self.finding.cwe}: judge that."
            yield Reason.CONTRADICTED, said
        unread = [name for part in _parts(text, _SENTENCE_ENDS) for name in self._unread_places(part)]
        for part in _parts(text, _CLAUSE_ENDS):
            if not _NOT_SAID_TO_BE_THERE.search(part):
                unread += self._unread_names(part)
        if unread:
            wanted = "code that has to do with the finding" if self._is_false else "code"
            yield Reason.NOT_READ, f"{unread[0]!r} stands in no {wanted} that was read: fetch it, or leave it out."
        if self._is_false and (echoed := self._echo(text)):
            said = f"{echoed!r} is what a comment says, and comments prove nothing: say what the code does."
            yield Reason.COMMENT_ONLY, said

    @property
    def _is_false(self) -> bool:
        return self.draft.verdict is Verdict.FALSE_POSITIVE

    def _unread_places(self, sentence: str) -> Iterator[str]:
        """Yields files, and numbers of lines, that are none that were read."""
        files: list[SourceFile] = []
        for name in _FILE.findall(sentence):
            called = self._called.get(normal_path(name).lower(), [])
            files += called
            if not called and name.lower() not in self._code:
                yield name
        for found in _LINES.finditer(sentence):
            ends = (int(found["first"]), int(found["last"] or found["first"]))
            if not any(self._is_shown(file, number) for file in files or self._cited for number in ends):
                yield found[0].strip()

    def _is_shown(self, file: SourceFile, number: int) -> bool:
        line = file.lines.get(number)
        if line is None or not self._is_false:
            return line is not None
        return (line.carries or bool(line.unread)) and self.connections.reach(Span(file.path, number, number))

    def _unread_names(self, clause: str) -> Iterator[str]:
        """Yields names of code that stand in none that was read."""
        for found in _NAMED.finditer(clause):
            said = next(filter(None, found.groups()))
            path, _, arguments = said.partition("(")
            # With its arguments it is a quote, but where they are left out.
            is_quote = arguments.strip(") ") and not _LEFT_OUT.search(arguments)
            if self._is_unread(path.rpartition(".")[2].lower()) or (is_quote and _bare(said) not in self._bare_code):
                yield path
        yield from (name for name in _CLASS.findall(clause) if self._is_false and self._is_unread(name.lower()))

    def _is_unread(self, name: str) -> bool:
        if len(name) < MIN_NAME or _COMMON.match(name) or name in _bare(self._told):
            return False
        places = self._places.get(name, [])
        if not self._is_false or len(places) > MOST_PLACES:
            return not places
        return not any(map(self.connections.reach, places))

    @cached_property
    def _called(self) -> dict[str, list[SourceFile]]:
        """The files that may be meant by the last parts of their paths."""
        called: dict[str, list[SourceFile]] = {}
        for file in self.bank.files:
            parts = file.path.lower().split("/")
            for at in range(len(parts)):
                called.setdefault("/".join(parts[at:]), []).append(file)
        return called

    @cached_property
    def _cited(self) -> list[SourceFile]:
        paths = [self.finding.location.file, *(each.file for each in self.draft.evidence)]
        return [file for path in dict.fromkeys(map(normal_path, paths)) if (file := self.bank.file(path))]

    @cached_property
    def _lines(self) -> list[tuple[Span, str]]:
        """Everything that was read, but comments."""
        return [
            (Span(file.path, number, number), (line.text if line.unread else line.code).lower())
            for file in self.bank.files
            for number, line in file.lines.items()
        ]

    @cached_property
    def _told(self) -> str:
        paths = (file.path for file in self.bank.files)
        return "\n".join([self.finding.rule_id, self.finding.message, *paths]).lower()

    @cached_property
    def _code(self) -> str:
        return "\n".join([self._told, *(code for _, code in self._lines)])

    @cached_property
    def _bare_code(self) -> str:
        return _bare(self._code)

    @cached_property
    def _places(self) -> dict[str, list[Span]]:
        """The lines that hold a name, and those where what has it is defined."""
        places: dict[str, list[Span]] = {}
        for span, code in self._lines:
            for name in _IDENTIFIER.findall(code):
                places.setdefault(name, []).append(span)
        for file in self.bank.files:
            for first_line, (name, _) in file.definitions.items():
                places.setdefault(name.lower(), []).append(Span(file.path, first_line, first_line))
        return places

    @cached_property
    def _echoes(self) -> frozenset[tuple[str, ...]]:
        lines = (line for file in self.bank.files for line in file.lines.values() if not line.unread)
        return frozenset(_runs(" ".join(line.comment for line in lines)))

    def _echo(self, text: str) -> str:
        for run in _runs(text):
            words = (word for word in run if len(word) >= LONG_WORD and word != "positive")
            if run in self._echoes and any(word not in self._places and word not in self._told for word in words):
                return " ".join(run)
        return ""


def _runs(text: str) -> Iterator[tuple[str, ...]]:
    words = _WORD.findall(text.lower())
    return zip(*(words[at:] for at in range(ECHOED)), strict=False)


def _bare(code: str) -> str:
    return "".join(code.lower().split())


def _parts(text: str, ends: re.Pattern[str]) -> Iterator[str]:
    """Yields the parts of a text; what stands in backticks or brackets ends none."""
    whole = _HIDDEN.sub(lambda found: "x" * len(found[0]), text)
    start = 0
    for found in ends.finditer(whole):
        yield text[start : found.start()]
        start = found.end()
    yield text[start:]
