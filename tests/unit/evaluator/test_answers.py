"""Only the JSON that was asked for is an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from services.evaluator.answers import CritiqueAnswer, InvestigationAnswer, Outcome
from services.evaluator.draft import Verdict
from services.kit.models.records import UnreadableAnswer, read_text

FINAL = {
    "is_final": True,
    "verdict": "TRUE_POSITIVE",
    "confidence": 1,
    "justification": "Tainted.",
    "exploration_gaps": [],
}
APPROVED = {"outcome": "approved", "missing": [], "reason": "It follows."}


def test_investigation() -> None:
    answer = read_text(InvestigationAnswer, json.dumps(FINAL))
    assert (answer.is_final, answer.verdict, answer.confidence) == (True, Verdict.TRUE_POSITIVE, 1.0)


@pytest.mark.parametrize(
    "text",
    ["```json\n{}\n```", "```\n{}\n```\n", "  {}\n", "Sure! {}", "```sql\n{}\n```", "{}\nThat is all.", "{}\n{}"],
)
def test_what_stands_around_an_answer_is_taken_off(text: str) -> None:
    assert read_text(CritiqueAnswer, text.replace("{}", json.dumps(APPROVED))).outcome is Outcome.APPROVED


BROKEN: list[dict[str, Any]] = [
    {"is_final": "perhaps"},
    {"is_final": None},
    {"verdict": "positive"},
    {"verdict": None},
    {"confidence": 1.5},
    {"confidence": -0.1},
    {"confidence": "high"},
    {"justification": " "},
    {"exploration_gaps": ["x"]},
    {"is_final": False},
]


@pytest.mark.parametrize("changes", BROKEN)
def test_wrong_investigation(changes: dict[str, Any]) -> None:
    with pytest.raises(UnreadableAnswer):
        read_text(InvestigationAnswer, json.dumps({**FINAL, **changes}))


@pytest.mark.parametrize(
    "text",
    ["", "approved", "[]", "null", '{"outcome": "approved"', json.dumps(APPROVED) + '{"outcome": "needs_research"}',
     json.dumps({**APPROVED, "missing": ["x"]}), json.dumps({**APPROVED, "outcome": "needs_research"}),
     json.dumps({**APPROVED, "outcome": "sure"}), '{"outcome": NaN}', "[" * 100_000, "```" + "\n" * 100_000 + "x",
     "```" + "\n" * 100_000 + "```", "`" * 100_000, "```", "{" * 100_000, '{"a":' * 10_000],
)  # fmt: skip
def test_wrong_critique(text: str) -> None:
    with pytest.raises(UnreadableAnswer) as raised:
        read_text(CritiqueAnswer, text)
    assert len(str(raised.value)) < 500


@pytest.mark.parametrize(
    "text",
    [
        '{"outcome": "needs_research", "outcome": "approved", "missing": [], "reason": "It follows."}',
        f"{json.dumps(APPROVED)} or {json.dumps({**APPROVED, 'outcome': 'needs_research'})}",
    ],
)
def test_an_answer_that_says_two_things_says_nothing(text: str) -> None:
    with pytest.raises(UnreadableAnswer):
        read_text(CritiqueAnswer, text)
