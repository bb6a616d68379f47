"""The skill behind `signalbox-offline-evaluator`: tries to prove a drafted verdict wrong.

It shares no reasoning with the skill that drafts verdicts: it runs the flagged code with what an attacker would send,
and approves what that does not contradict.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from services.offline_model.conversation import Answer, Conversation
from services.offline_model.counter_search.code import Code
from services.offline_model.counter_search.search import Found, Search
from services.offline_model.counter_search.signs import BY_SIGNS, has_bad_sign, is_given_as_secret
from services.offline_model.prompt_data import FindingToReview, as_prompt

CRITIQUE: Final = "critique"
APPROVED, NEEDS_RESEARCH, NEEDS_REANALYSIS = "approved", "needs_research", "needs_reanalysis"
TRUE_POSITIVE, FALSE_POSITIVE, NEEDS_REVIEW = "TRUE_POSITIVE", "FALSE_POSITIVE", "NEEDS_REVIEW"
_NUMBERED = re.compile(r"^\s*(?P<number>\d+) \| ?(?P<text>.*)$")
_RULE = re.compile(r"\b[BS](\d{3})\b")
_MAX_LINES = 60
_BY_CWE: Final[Mapping[str, str]] = {
    "89": "sql", "564": "sql", "943": "sql", "78": "command", "77": "command", "88": "command", "22": "path",
    "23": "path", "36": "path", "73": "path", "79": "xss", "80": "xss", "83": "xss", "94": "code", "95": "code",
    "96": "code", "918": "ssrf", "502": "loading", "611": "entities", "776": "xml", "295": "certificates",
    **dict.fromkeys(("326", "327", "328", "330", "338", "759", "916"), "crypto"),
    **dict.fromkeys(("259", "321", "798"), "secret"),
}  # fmt: skip
_BY_RULE: Final[Mapping[str, str]] = {
    "506": "loading", "301": "loading", "302": "loading", "403": "loading", "307": "code", "102": "code",
    "201": "code", "701": "xss", "310": "ssrf", "404": "command", "607": "command", "113": "timeouts", "306": "files",
    **dict.fromkeys(("303", "304", "305", "311", "324"), "crypto"), **dict.fromkeys(("105", "106", "107"), "secret"),
    **dict.fromkeys(("602", "603", "604", "605", "606"), "command"), "608": "sql", "202": "path", "501": "certificates",
    "614": "loading", **dict.fromkeys(map(str, range(313, 320)), "xml"),
    **dict.fromkeys(("308", "702", "703", "704"), "xss"),
}  # fmt: skip
# Rules that say more than the weakness that their scanner names.
_SPECIFIC = frozenset({"506", "301", "302", "403", "307", "102", "201", "701", "310", "404", "607", "113", "306"})


@dataclass(frozen=True)
class _Case:
    """A draft, what it is about, and the code that was read."""

    verdict: str
    confidence: float
    rule: str
    cwe: str
    file: str
    first_line: int
    last_line: int
    code: Code

    @property
    def weakness(self) -> str:
        """What the finding is about; empty when the search knows nothing of it."""
        found = _RULE.search(self.rule)
        by_rule = _BY_RULE.get(found[1], "") if found else ""
        specific = found is not None and found[1] in _SPECIFIC
        by_cwe = _BY_CWE.get(self.cwe.removeprefix("CWE-"), "")
        return (by_rule if specific else by_cwe) or by_rule

    @property
    def lines(self) -> Mapping[int, str]:
        """The lines of the flagged file."""
        return self.code.files.get(self.file, {})

    @property
    def flagged(self) -> str:
        """The flagged lines' text, with what a statement adds behind them."""
        return "\n".join(text for number, text in sorted(self.lines.items())
                         if self.first_line <= number <= self.last_line)  # fmt: skip


def judge_verdict(conversation: Conversation) -> Answer:
    """Judges a draft, as a critique or as a comprehensive evaluation, whichever was asked for."""
    case = _read_case(conversation.data)
    if case is None:
        return Answer("I was shown no case.")
    outcome, reason = _judged(case)
    missing = [] if outcome == APPROVED else [reason]
    if conversation.data.get("task") == CRITIQUE:
        return Answer(json.dumps({"outcome": outcome, "missing": missing, "reason": reason}))
    approved = outcome == APPROVED
    return Answer(
        json.dumps(
            {
                "is_final": approved,
                "verdict": case.verdict if approved else NEEDS_REVIEW,
                "confidence": case.confidence if approved else 0.0,
                "justification": reason,
                "exploration_gaps": missing,
            }
        )
    )


def _judged(case: _Case) -> tuple[str, str]:
    """Returns the outcome, and why."""
    if case.verdict == NEEDS_REVIEW:
        return APPROVED, "Nothing is claimed that a search could contradict."
    if not case.file.endswith((".py", ".pyw")) or not case.weakness:
        return NEEDS_RESEARCH, "I know no way to try this out; a person or a larger model has to."
    if case.weakness == "crypto" and re.search(r"\bnew\(", case.flagged):
        return _by_search(case, _searched(case, "algorithm"))
    if case.weakness in BY_SIGNS:
        return _by_signs(case)
    flagged = case.flagged.strip()
    if case.verdict == FALSE_POSITIVE and re.match(r"(import|from)\s", flagged) and "\n" not in flagged:
        return APPROVED, "An import runs nothing that a request could reach."
    if case.weakness == "xss" and re.search(r"autoescape\s*=\s*(True|select_autoescape\(\))", flagged):
        return (
            APPROVED if case.verdict == FALSE_POSITIVE else NEEDS_REANALYSIS
        ), "The templates escape what they show."
    if case.weakness == "code" and re.search(r"debug\s*=\s*True", flagged):
        return _if(case.verdict == TRUE_POSITIVE), "The debugger is switched on."
    return _by_search(case, _searched(case, case.weakness))


def _searched(case: _Case, weakness: str) -> Found:
    return Search(case.code, case.file, case.first_line, case.last_line, weakness).run()


def _if(agrees: bool) -> str:
    return APPROVED if agrees else NEEDS_REANALYSIS


def _by_search(case: _Case, found: Found) -> tuple[str, str]:
    said = f"Run with what an attacker would send: {found.value}."
    if case.verdict == TRUE_POSITIVE:
        if found is Found.WAY:
            return APPROVED, f"{said} The draft says so too."
        return (NEEDS_RESEARCH if found is Found.PERHAPS else NEEDS_REANALYSIS), said
    if found is Found.WAY:
        return NEEDS_REANALYSIS, f"{said} So it is no false positive."
    if found is Found.PERHAPS:
        return NEEDS_RESEARCH, f"{said} Where it comes from has to be read."
    return APPROVED, f"{said} No counterexample was found."


def _by_signs(case: _Case) -> tuple[str, str]:
    whole = "\n".join(case.lines.values())
    bad = has_bad_sign(case.weakness, case.flagged, whole_file=whole)
    if case.weakness == "secret" and not bad:
        bad = is_given_as_secret(case.flagged, ("\n".join(lines.values()) for lines in case.code.files.values()))
    if bad == (case.verdict == TRUE_POSITIVE):
        return APPROVED, f"The flagged lines {'show' if bad else 'do not show'} the misuse."
    return (
        NEEDS_REANALYSIS,
        f"The flagged lines {'show' if bad else 'do not show'} the misuse; the draft says otherwise.",
    )


def _read_case(data: Mapping[str, Any]) -> _Case | None:
    """Returns the evaluator's case, or None when it is none."""
    given = as_prompt(FindingToReview, data)
    if given is None or given.draft is None:
        return None
    files = {
        part.file: {int(line["number"]): line["text"] for line in map(_NUMBERED.match, part.code) if line is not None}
        for part in given.code_bank
    }
    finding = given.finding
    return _Case(
        verdict=given.draft.verdict,
        confidence=given.draft.confidence,
        rule=finding.rule,
        cwe=finding.cwe,
        file=finding.file,
        first_line=finding.first_line,
        last_line=min(finding.last_line, finding.first_line + _MAX_LINES),
        code=Code({path: lines for path, lines in files.items() if path.endswith((".py", ".pyw"))}),
    )
