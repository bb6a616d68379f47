"""What a draft says in words of files and lines that nobody read, of functions that are nowhere, or of another verdict.

Held is only what no honest author would write: what libraries do, what an attacker would send and what is weak
elsewhere is said of code that was not read, too. What words mean is for the model to judge.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Final

from services.evaluator.bank import CodeBank, SourceFile, normal_path
from services.evaluator.citations import Problem, Reason
from services.evaluator.draft import Draft, Finding, Verdict

WHOLE_DRAFT: Final = -1
MOST_TOLD: Final = 10
_SOURCE: Final = r"\.(?:py|jsx?|mjs|tsx?|java|c|h|cc|cpp|hpp|cs|go|rb|php|kt|rs)"
# With a folder or a line; neither a product ("Node.js"), nor a part of an address or of what an attacker sends.
_FILE: Final = re.compile(
    rf"(?<![\w/.:=?&%@-])(?:(?:[\w-]+/)+(?![A-Z]\w+\.js\b)[\w-]+{_SOURCE}\b(?!\.\w)|[\w-]+{_SOURCE}(?=:\d))"
)
_LINES: Final = re.compile(
    rf"(?:\blines?\s+|(?<=\w){_SOURCE}:)(?P<first>\d{{1,7}})\b"
    r"(?:\s*(?:[-\u2010-\u2015]|to|and)\s*(?P<last>\d{1,7})\b)?",
    re.IGNORECASE,
)
# As functions of programs are named, and no words of prose: what has points may be a library's.
_FUNCTION: Final = re.compile(
    r"(_*[a-z][a-z\d]*_\w+|[a-z]{2,}[A-Z][a-z]{2,}\w*)(?:\((?:[A-Za-z_][\w.]*)?\)?)?", re.ASCII
)
_QUOTE: Final = re.compile(r"`([^`\n]*)`|\"[^\"\n]*\"")
_AROUND_NAMES: Final = "*'.,;:!?@[]{}"
_WORD: Final = re.compile(r"\w+")
_NOT_SAID_TO_BE_THERE: Final = re.compile(
    r"\b(?:no|not|none|never|nothing|without|nor|neither|lacks?|missing|absent|instead|rather|should|would|could|might|must"
    r"|needs?|consider|prefer|such as|recommend\w*|avoids?|safer|unless|unlike|if|even|\w+n['\u2019]t)\b|^\W*use\b",
    re.IGNORECASE,
)
_SENTENCE_ENDS: Final = re.compile(r"[.!?;](?=\s)|\n")
# A text or a sentence that begins with a verdict, or with what it is called.
_SAID: Final = re.compile(
    r"(?:^|[.!?\n])[\W_]{0,9}(?:(?:(?:final )?verdict|conclusion)\b[\W_]{0,9}(?:is\b\s{0,9})?)?"
    r"(?:(?:this|it|the finding)(?: is|['\u2019]s) )?(?:(?:an?|clearly) ){0,2}"
    r"(?P<verdict>true[ _-]positive|false[ _-]positive|needs[ _-]review)\b(?!\s+(?:if|only|when|unless|would))",
    re.IGNORECASE,
)


def check_words(draft: Draft, finding: Finding, bank: CodeBank) -> list[Problem]:
    """Returns what the words of a settled draft say against it, or of code that was not read: one problem a text."""
    read = _Read(draft, finding, bank)
    texts = [(WHOLE_DRAFT, draft.justification), *((at, each.claim) for at, each in enumerate(draft.evidence))]
    return [Problem(at, *wrong) for at, text in texts if (wrong := next(read.problems(text, at == WHOLE_DRAFT), None))]


@dataclass(frozen=True)
class _Read:
    """What was read, as words may name it."""

    draft: Draft
    finding: Finding
    bank: CodeBank

    def problems(self, text: str, is_whole: bool) -> Iterator[tuple[Reason, str]]:
        """Yields what a text says wrongly."""
        for said in _SAID.finditer(text) if is_whole else ():
            verdict = re.sub(r"[ -]", "_", said["verdict"].upper())
            if verdict != self.draft.verdict:
                yield (
                    Reason.CONTRADICTED,
                    f"It says {verdict}, and the verdict is {self.draft.verdict}: say which it is.",
                )
        sentences = [each for each in _SENTENCE_ENDS.split(text) if not _NOT_SAID_TO_BE_THERE.search(each)]
        if unread := [*islice((name for each in sentences for name in self._unread_in(each)), MOST_TOLD)]:
            names = ", ".join(map(repr, dict.fromkeys(unread)))
            message = (
                f"Nothing that was read has {names}: fetch what has it, or say it without; what a library does is said "
                "with the library's name, as in `shlex.quote`."
            )
            yield Reason.NOT_READ, message

    def _unread_in(self, sentence: str) -> Iterator[str]:
        """Yields files, numbers of lines and, of what is called harmless, functions, that are none that were read."""
        files: list[SourceFile] = []
        for name in _FILE.findall(sentence):
            called = self._called.get(normal_path(name).lower(), [])
            files += called
            if not called and name.lower() not in self._files_in_code:
                yield name
        for found in _LINES.finditer(sentence):
            ends = (int(found["first"]), int(found["last"] or found["first"]))
            if not any(number in file.lines for file in files or self.bank.files for number in ends):
                yield found[0].strip()
        if self.draft.verdict is Verdict.FALSE_POSITIVE:
            for word in _QUOTE.sub(_one_word, sentence).split():
                named = _FUNCTION.fullmatch(word.strip(_AROUND_NAMES).removesuffix("'s"))
                if named and _plain(named[1]) not in self._names:
                    yield named[1]

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
    def _code(self) -> str:
        """Everything that was read, with what the analyser says; comments are code to nobody."""
        lines = (line.text if line.unread else line.code for file in self.bank.files for line in file.lines.values())
        names = (name for file in self.bank.files for name, _ in file.definitions.values())
        told = (self.finding.rule_id, self.finding.message, *Verdict, *(file.path for file in self.bank.files))
        return "\n".join([*told, *names, *lines])

    @cached_property
    def _files_in_code(self) -> frozenset[str]:
        return frozenset(_FILE.findall(self._code.lower()))

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(map(_plain, _WORD.findall(self._code)))


def _one_word(quote: re.Match[str]) -> str:
    """Returns what is quoted if it is one word; a longer quote is of code, a library, or what an attacker sends."""
    quoted = quote[1] or ""
    return f" {quoted} " if len(quoted.split()) == 1 else " "


def _plain(name: str) -> str:
    """Returns a name as it is the same in any spelling: `user_name` is `userName`."""
    return name.lower().replace("_", "")
