"""Whether a claim cites lines that exist, that were read, and that say what it says they do."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, islice

from services.evaluator.bank import CodeBank, SourceFile
from services.evaluator.code_lines import CODE_KIND, STRING_KIND
from services.evaluator.draft import Evidence, Finding

SHOWN_CHARACTERS = 300
SHOWN_LINES = 10
# More lines than a screen holds show nothing in particular.
MAX_CITED_LINES = 60
MIN_TOKENS = 3
# A quote that stands in more places than this allows is looked at in the first of them.
MAX_COMPARED_CHARACTERS = 10_000
# What is read has a quotation mark for each character of a string.
_TOKEN = re.compile(r'"+|\w+|[^\w\s"]')


class Reason(StrEnum):
    """What is wrong with a claim; the proto lists the same codes."""

    NO_EVIDENCE = "no_evidence"
    UNKNOWN_FILE = "unknown_file"
    LINE_OUT_OF_RANGE = "line_out_of_range"
    WRONG_COMMIT = "wrong_commit"
    NOT_IN_CODE_BANK = "not_in_code_bank"
    QUOTE_MISMATCH = "quote_mismatch"
    UNCONNECTED = "unconnected"
    COMMENT_ONLY = "comment_only"
    NO_QUOTE = "no_quote"
    QUOTE_TOO_SHORT = "quote_too_short"
    RANGE_TOO_WIDE = "range_too_wide"
    DEAD_CODE = "dead_code"
    FLAGGED_NOT_CITED = "flagged_not_cited"
    UNREAD = "unread"
    SUPPLY_NOT_CITED = "supply_not_cited"
    NOT_READ = "not_read"
    CONTRADICTED = "contradicted"


@dataclass(frozen=True)
class Problem:
    """What is wrong with one claim (index -1: with the whole draft), and what to do about it."""

    index: int
    reason: Reason
    message: str


@dataclass(frozen=True)
class Citation:
    """What came of a claim: the lines whose code it quotes, or what is wrong with it."""

    covers: frozenset[int] = frozenset()
    problem: Problem | None = None


def check_citation(index: int, evidence: Evidence, finding: Finding, bank: CodeBank) -> Citation:
    """Returns what a claim's quote covers, or the first thing that is wrong with where it points and what it quotes."""
    problem = _check_place(index, evidence, bank)
    file = bank.file(evidence.file)
    return Citation(problem=problem) if problem or file is None else _check_text(index, evidence, finding, file)


def _check_place(index: int, evidence: Evidence, bank: CodeBank) -> Problem | None:
    if evidence.commit != bank.commit:
        return Problem(
            index, Reason.WRONG_COMMIT, f"The claim is about commit {evidence.commit or '(none)'}; cite {bank.commit}."
        )
    file = bank.file(evidence.file)
    if file is None:
        return Problem(
            index,
            Reason.UNKNOWN_FILE,
            f"Nothing of {evidence.file!r} has been read at this commit: fetch it, or cite a file that was read.",
        )
    if not 1 <= evidence.first_line <= evidence.last_line <= file.total_lines:
        return Problem(
            index,
            Reason.LINE_OUT_OF_RANGE,
            f"{evidence.cited} does not exist: {evidence.file} has lines 1 to {file.total_lines}.",
        )
    if evidence.last_line - evidence.first_line >= MAX_CITED_LINES:
        return Problem(
            index,
            Reason.RANGE_TOO_WIDE,
            f"{evidence.cited} has more than {MAX_CITED_LINES} lines: cite the few that show it.",
        )
    missing = file.missing(evidence.first_line, evidence.last_line)
    if missing:
        shown = ", ".join(map(str, missing[:SHOWN_LINES])) + (" and more" if len(missing) > SHOWN_LINES else "")
        return Problem(
            index,
            Reason.NOT_IN_CODE_BANK,
            f"Lines {shown} of {evidence.file} were never read: fetch them before citing.",
        )
    return None


def _check_text(index: int, evidence: Evidence, finding: Finding, file: SourceFile) -> Citation:
    if not evidence.claim.strip():
        return _wrong(index, Reason.NO_EVIDENCE, f"The claim on {evidence.cited} is empty: say what the lines show.")
    quote, cited = squeeze(evidence.quote), _Cited.of(evidence, file)
    if not quote:
        said = f"The claim on {evidence.cited} quotes nothing: quote the code that shows it, word for word."
        return _wrong(index, Reason.NO_QUOTE, said)
    places = list(islice(_occurrences(quote, cited.text), max(1, MAX_COMPARED_CHARACTERS // len(quote))))
    if not places:
        actual = cited.text[:SHOWN_CHARACTERS] + ("…" if len(cited.text) > SHOWN_CHARACTERS else "")
        said = f"{evidence.cited} does not read so. It reads: {actual!r}. Quote word for word."
        return _wrong(index, Reason.QUOTE_MISMATCH, said)
    if not any(cited.has_code(at, at + len(quote)) for at in places):
        unread = next(filter(None, (file.lines[number].unread for number in cited.numbers)), "")
        if unread:
            return _wrong(index, Reason.UNREAD, f"Nobody knows what of {evidence.cited} is code: {unread}.")
        return _wrong(index, Reason.COMMENT_ONLY, _comment_only(evidence))
    shown = [cited.lines_of(at, at + len(quote)) for at in places if cited.says_enough(at, at + len(quote))]
    if not shown:
        said = (
            f"The quote of {evidence.cited} is too little: quote whole tokens of code, at least {MIN_TOKENS}, or a "
            "line. Comments do not count."
        )
        return _wrong(index, Reason.QUOTE_TOO_SHORT, said)
    flagged = finding.flagged_lines(file.path)
    alive = [lines for lines in shown if lines & flagged or not all(file.lines[number].never_runs for number in lines)]
    if not alive:
        said = f"What is quoted of {evidence.cited} never runs, and shows nothing: cite code that does."
        return _wrong(index, Reason.DEAD_CODE, said)
    return Citation(covers=frozenset[int]().union(*alive))


def _wrong(index: int, reason: Reason, message: str) -> Citation:
    return Citation(problem=Problem(index, reason, message))


def _comment_only(evidence: Evidence) -> str:
    return (
        f"What {evidence.cited} is cited for holds no code that runs, only comments, docstrings, blanks or brackets "
        "(or its grammar can make no sense of it). Comments prove nothing: cite the code itself, or drop the claim."
    )


def squeeze(text: str) -> str:
    """Returns a text with each run of blanks made one space, and none around it."""
    return " ".join(text.split())


@dataclass(frozen=True)
class _Cited:
    """Cited lines, squeezed: for each character its kind (code, string, or neither), and where each line starts."""

    text: str
    kinds: str
    numbers: tuple[int, ...]
    starts: tuple[int, ...]

    @classmethod
    def of(cls, evidence: Evidence, file: SourceFile) -> _Cited:
        """Reads the lines that a claim cites."""
        numbers = range(evidence.first_line, evidence.last_line + 1)
        squeezed = [file.lines[number].squeezed for number in numbers]
        starts = accumulate((len(text) for text, _ in squeezed), initial=0)
        text = "".join(text for text, _ in squeezed).rstrip()
        return cls(text, "".join(kinds for _, kinds in squeezed)[: len(text)], tuple(numbers), tuple(starts))

    def has_code(self, start: int, end: int) -> bool:
        """Whether a part has anything that is surely code."""
        return any(kind != " " and char.isalnum() for char, kind in self._chars(start, end))

    def says_enough(self, start: int, end: int) -> bool:
        """Whether a part holds enough whole tokens, or all code of a line."""
        if self._cuts_word(start) or self._cuts_word(end):
            return False
        tokens = self._tokens(start, end)
        words = [token for token in tokens if token.startswith('"') or _is_word(token[0])]
        if words and len(tokens) >= MIN_TOKENS:
            return True
        return any(len(word) > 1 for word in words) and self._covers_line(start, end)

    def lines_of(self, start: int, end: int) -> frozenset[int]:
        """The lines whose code a part holds some of."""
        return frozenset(
            self.numbers[at]
            for at in self._lines(start, end)
            if self.kinds[max(start, self.starts[at]) : min(end, self.starts[at + 1])].strip()
        )

    def _lines(self, start: int, end: int) -> range:
        return range(bisect_right(self.starts, start) - 1, bisect_left(self.starts, end))

    def _chars(self, start: int, end: int) -> Iterator[tuple[str, str]]:
        return zip(self.text[start:end], self.kinds[start:end], strict=True)

    def _cuts_word(self, at: int) -> bool:
        if not 0 < at < len(self.text) or STRING_KIND in self.kinds[at - 1 : at + 1]:
            return False
        return _is_word(self.text[at - 1]) and _is_word(self.text[at])

    def _tokens(self, start: int, end: int) -> list[str]:
        """Returns the tokens of a part: names, numbers, signs; a string is one, however long."""
        bare = "".join(
            '"' if kind == STRING_KIND else char if kind == CODE_KIND else " " for char, kind in self._chars(start, end)
        )
        return _TOKEN.findall(bare)

    def _covers_line(self, start: int, end: int) -> bool:
        """Whether a part holds all code of a line that has some."""
        for at in self._lines(start, end):
            kinds = self.kinds[self.starts[at] : self.starts[at + 1]]
            first = self.starts[at] + len(kinds) - len(kinds.lstrip())
            if kinds.strip() and start <= first and self.starts[at] + len(kinds.rstrip()) <= end:
                return True
        return False


def _is_word(char: str) -> bool:
    return char == "_" or char.isalnum()


def _occurrences(quote: str, text: str) -> Iterator[int]:
    at = text.find(quote)
    while at >= 0:
        yield at
        at = text.find(quote, at + 1)
