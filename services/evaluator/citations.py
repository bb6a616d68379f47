"""Whether a claim cites lines that exist, that were read, and that say what it says they do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from services.evaluator.bank import CodeBank, SourceFile
from services.evaluator.code_lines import CodeLine
from services.evaluator.draft import Claim

SHOWN_CHARACTERS = 300
SHOWN_LINES = 10


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


@dataclass(frozen=True)
class Problem:
    """What is wrong with one claim (index -1: with the whole draft), and what to do about it."""

    index: int
    reason: Reason
    message: str


def check_citation(index: int, claim: Claim, bank: CodeBank) -> Problem | None:
    """Returns the first thing that is wrong with where a claim points and what it quotes."""
    return _check_place(index, claim, bank) or _check_text(index, claim, bank)


def _check_place(index: int, claim: Claim, bank: CodeBank) -> Problem | None:
    if claim.commit != bank.commit:
        return Problem(
            index, Reason.WRONG_COMMIT, f"The claim is about commit {claim.commit or '(none)'}; cite {bank.commit}."
        )
    file = bank.file(claim.file)
    if file is None:
        return Problem(
            index,
            Reason.UNKNOWN_FILE,
            f"Nothing of {claim.file!r} has been read at this commit: fetch it, or cite a file that was read.",
        )
    if not 1 <= claim.first_line <= claim.last_line <= file.total_lines:
        return Problem(
            index,
            Reason.LINE_OUT_OF_RANGE,
            f"{claim.cited} does not exist: {claim.file} has lines 1 to {file.total_lines}.",
        )
    missing = file.missing(claim.first_line, claim.last_line)
    if missing:
        shown = ", ".join(map(str, missing[:SHOWN_LINES])) + (" and more" if len(missing) > SHOWN_LINES else "")
        return Problem(
            index, Reason.NOT_IN_CODE_BANK, f"Lines {shown} of {claim.file} were never read: fetch them before citing."
        )
    return None


def _check_text(index: int, claim: Claim, bank: CodeBank) -> Problem | None:
    file = bank.file(claim.file)
    lines = _cited_lines(claim, file) if file else []
    if not claim.text.strip():
        return Problem(index, Reason.NO_EVIDENCE, f"The claim on {claim.cited} is empty: say what the lines show.")
    quote = squeeze(claim.quote)
    if not quote:
        return None if any(line.carries for line in lines) else _comment_only(index, claim)
    text, certain = _squeezed(lines)
    places = list(_occurrences(quote, text))
    if not places:
        actual = text[:SHOWN_CHARACTERS] + ("…" if len(text) > SHOWN_CHARACTERS else "")
        return Problem(
            index, Reason.QUOTE_MISMATCH, f"{claim.cited} does not read so. It reads: {actual!r}. Quote word for word."
        )
    if any(re.search(r"\w", certain[at : at + len(quote)]) for at in places):
        return None
    return _comment_only(index, claim)


def _comment_only(index: int, claim: Claim) -> Problem:
    return Problem(
        index,
        Reason.COMMENT_ONLY,
        f"What {claim.cited} is cited for holds no code that runs, only comments, docstrings, blanks or brackets "
        "(or it was read out of its context). Comments prove nothing: cite the code itself, or drop the claim.",
    )


def _cited_lines(claim: Claim, file: SourceFile) -> Sequence[CodeLine]:
    return [file.lines[number] for number in range(claim.first_line, claim.last_line + 1)]


def squeeze(text: str) -> str:
    """Returns a text with each run of blanks made one space, and none around it."""
    return " ".join(text.split())


def _squeezed(lines: Sequence[CodeLine]) -> tuple[str, str]:
    """Returns the lines squeezed, and the same with all that is not surely code blanked, character by character."""
    text: list[str] = []
    certain: list[str] = []
    for line in lines:
        shown = line.certain.ljust(len(line.text))
        for char, code in zip(line.text + "\n", shown + "\n", strict=True):
            if not char.isspace():
                text.append(char)
                certain.append(code)
            elif text and text[-1] != " ":
                text.append(" ")
                certain.append(" ")
    return "".join(text).rstrip(), "".join(certain)


def _occurrences(quote: str, text: str) -> Iterator[int]:
    at = text.find(quote)
    while at >= 0:
        yield at
        at = text.find(quote, at + 1)
