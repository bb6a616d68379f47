"""The skill behind `signalbox-offline-evaluator`: whether claims say what the cited lines say, and nothing is missing.

It knows nothing of weaknesses, and shares no rule with the skill that drafts: it checks premises, and that none is
missing. A claim has the code that it is about between backticks; that must stand on the cited lines, and every name
in it must be bound there where another claim says so, and nowhere else.
"""

from __future__ import annotations

import ast
import builtins
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from services.offline_model.conversation import Answer, Conversation
from services.offline_model.prompt_data import FindingToReview, as_prompt
from services.offline_model.skills.validate_cause import VALIDATE_CAUSE, validate_cause

CRITIQUE: Final = "critique"
APPROVED, NEEDS_RESEARCH, NEEDS_REANALYSIS = "approved", "needs_research", "needs_reanalysis"
NEEDS_REVIEW = "NEEDS_REVIEW"
_PLACE = re.compile(r"(?P<file>.+):(?P<first>\d+)-(?P<last>\d+)")
_ASKED = re.compile(r"\blines of (?P<file>\S+):(?P<line>\d+)")
_CODE = re.compile(r"`([^`]+)`")
_TEXT = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""")
# What binds a name, wherever it stands on a line.
_BINDS = "|".join(
    (
        r"\b(?:def|class|as|for|global|nonlocal|del|lambda)\s+{name}\b",
        r"\bdef\b.*[(,]\s*\**{name}\b",
        r"(?<![.\w]){name}\s*(?::[^=]+)?[-+*/|&%:]?=(?!=)",
        r"^\s*(?:from\s.*)?import\b.*\b{name}\b",
        r"\bimport\s+\*",
    )
)


@dataclass(frozen=True)
class _Claim:
    """A claim: the code that it is about, and where it says that this stands."""

    file: str
    lines: range
    code: tuple[str, ...]

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """The code parsed; nothing when some of it does not parse."""
        return [node for code in self.code for node in ast.walk(_parsed(code))]

    @property
    def binds(self) -> frozenset[str]:
        """The names that the code binds."""
        return frozenset(name for node in self.nodes for name in _bound(node))

    @property
    def relies_on(self) -> frozenset[str]:
        """The names that its expressions use; the head of a definition uses none."""
        trees = (tree for tree in map(_parsed, self.code) if isinstance(tree.body[0], ast.Expr))
        return (
            frozenset(node.id for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Name)) - self.binds
        )


@dataclass(frozen=True)
class _Case:
    """A draft and the code it was made from, by file and line."""

    verdict: str
    justification: str
    claims: tuple[_Claim, ...]
    flagged: tuple[str, range]
    code: Mapping[str, Mapping[int, str]]
    is_cut: bool


def judge_verdict(conversation: Conversation) -> Answer:
    """Judges a draft, as a critique or as an evaluation, or the cause of an incident: what was asked for."""
    if conversation.data.get("task") == VALIDATE_CAUSE:
        return validate_cause(conversation)
    case = _read_case(conversation.data)
    if case is None:
        return Answer("I was shown no case.")
    outcome, missing = _judged(case)
    reason = " ".join(missing) or "What is claimed is what the lines say, and all that it rests on is cited."
    if conversation.data.get("task") == CRITIQUE:
        return Answer(json.dumps({"outcome": outcome, "missing": missing, "reason": reason}))
    verdict, said = (NEEDS_REVIEW, reason) if missing else (case.verdict, case.justification)
    told = {"verdict": verdict, "confidence": 0.0, "justification": said, "exploration_gaps": missing}
    return Answer(json.dumps({"is_final": not missing, **told}))


def _judged(case: _Case) -> tuple[str, list[str]]:
    """Returns the outcome, and what is missing or wrong."""
    if case.verdict == NEEDS_REVIEW:
        unread = [
            m[0] for m in _ASKED.finditer(case.justification) if int(m["line"]) not in case.code.get(m["file"], {})
        ]
        return (NEEDS_RESEARCH, [f"Read the {what}." for what in unread]) if unread else (APPROVED, [])
    if case.is_cut:
        return NEEDS_RESEARCH, ["Not all of the code that was read could be shown to me."]
    wrong = [*_wrong_premises(case), *_uncited(case)][:10]
    return (NEEDS_REANALYSIS, wrong) if wrong else (APPROVED, [])


def _wrong_premises(case: _Case) -> Iterator[str]:
    """Yields which claims are not what the cited lines say."""
    if not any(claim.file == case.flagged[0] and set(claim.lines) & set(case.flagged[1]) for claim in case.claims):
        yield "No claim is about the flagged line."
    for number, claim in enumerate(case.claims, start=1):
        lines = case.code.get(claim.file, {})
        cited = _squeezed("\n".join(lines.get(line, "") for line in claim.lines))
        if not claim.code or not claim.nodes:
            yield f"Claim {number} has no Python code between backticks that it is about."
        for code in claim.code:
            if _squeezed(code) not in cited:
                yield f"Claim {number} is about `{code[:200]}`, which does not stand on the lines that it cites."


def _uncited(case: _Case) -> Iterator[str]:
    """Yields the names that claims rely on and that are bound where no claim says so."""
    cited = {(claim.file, line) for claim in case.claims for line in claim.lines}
    bound = {(claim.file, name) for claim in case.claims for name in claim.binds}
    for file, name in sorted({(claim.file, name) for claim in case.claims for name in claim.relies_on}):
        elsewhere = [line for line in _binding_lines(case, file, name) if (file, line) not in cited]
        if elsewhere:
            yield f"Line {elsewhere[0]} of {file} may bind `{name}` too: cite it."
        elif (file, name) not in bound and not hasattr(builtins, name):
            yield f"No claim says where `{name}` in {file} gets its value."


def _binding_lines(case: _Case, file: str, name: str) -> Iterator[int]:
    """Yields the lines that bind a name for the cited code: the module's, and those of functions that claims cite."""
    binds = re.compile(_BINDS.format(name=re.escape(name)))
    around = {
        _function_of(case.code[file], line) for claim in case.claims if claim.file == file for line in claim.lines
    }
    for line, written in case.code.get(file, {}).items():
        text = _TEXT.sub('""', written)
        # What defines at the left margin binds for the module; whatever else stands on its line binds inside.
        is_top = text.startswith(("def ", "class ", "async ")) and re.search(
            rf"\b(def|class)\s+{re.escape(name)}\b", text
        )
        if binds.search(text) and (is_top or _function_of(case.code[file], line) in {0, *around}):
            yield line


def _function_of(lines: Mapping[int, str], line: int) -> int:
    """Returns the line of the outermost definition that a line stands in, itself one or not; 0 outside of any."""
    for number in sorted((number for number in lines if number <= line), reverse=True):
        text = lines[number]
        if text[:1].strip() and text[:1] not in ")]}":
            return number if re.match(r"(async\s+def|def|class)\b", text) else 0
    return 0


def _bound(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.alias):
        yield node.asname or node.name.partition(".")[0]


def _parsed(code: str) -> ast.Module:
    """Parses a piece of code, also the head of what has a body; what does not parse is empty."""
    try:
        tree = ast.parse(f"{code} pass" if code.rstrip().endswith(":") else code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        tree = ast.Module([], [])
    return tree if tree.body else ast.Module([ast.Pass()], [])


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def _read_case(data: Mapping[str, Any]) -> _Case | None:
    """Returns the evaluator's case, or None when it is none."""
    given = as_prompt(FindingToReview, data)
    if given is None or given.draft is None:
        return None
    draft, finding = given.draft, given.finding
    return _Case(
        verdict=draft.verdict,
        justification=draft.justification,
        claims=tuple(_Claim(*_place(each.lines), tuple(_CODE.findall(each.claim))) for each in draft.claims),
        flagged=(finding.file, range(finding.first_line, finding.last_line + 1)),
        code={part.file: part.numbered for part in given.code_bank},
        is_cut=given.lines_left_out > 0,
    )


def _place(text: str) -> tuple[str, range]:
    found = _PLACE.fullmatch(text)
    return (found["file"], range(int(found["first"]), int(found["last"]) + 1)) if found else ("", range(0))
