"""The skills know words, not the demo: over the demo's world by other names they do just what they do over it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from services.local.database import WORLD_EXAMPLES, WORLD_VOCABULARY
from services.offline_model.conversation import Conversation
from services.offline_model.skills.answer_data_question import answer_data_question, describe_result
from services.offline_model.skills.screen_question import ALLOW, BLOCK, screen_question
from services.offline_model.vocabulary import Vocabulary
from tests.fixtures.harbour_questions import ANSWERED, DECLINED, Asked
from tests.unit.offline_model.test_statements import TABLES

# Every example is tried on every question: all of them would take a minute.
SOME = [*ANSWERED, *DECLINED][::8]
# Names in the same order of letters: the skill takes columns in that order.
NAMES = {
    "batteries": "budgets", "battery": "budget", "device": "desk", "humidity": "income", "pressure": "price",
    "reading": "receipt", "ship": "shop", "temperature": "turnover",
}  # fmt: skip
_NAME = re.compile("|".join(NAMES), re.IGNORECASE)
RESULT = {
    "question": "Which?",
    "sql_query": "SELECT name AS device, battery FROM devices",
    "result": ["rows: 1", "device | battery", "T-4 | 9"],
}
HERE = Vocabulary.model_validate(yaml.load(WORLD_VOCABULARY.read_text(), yaml.CSafeLoader))
KNOWN = yaml.load(WORLD_EXAMPLES.read_text(), yaml.CSafeLoader)


def renamed(text: str) -> str:
    return _NAME.sub(_other, text)


def _other(name: re.Match[str]) -> str:
    other = NAMES[name[0].lower()]
    return other.capitalize() if name[0][0].isupper() else other


ELSEWHERE = Vocabulary.model_validate(yaml.load(renamed(WORLD_VOCABULARY.read_text()), yaml.CSafeLoader))


def prompt(asked: Asked) -> dict[str, Any]:
    return {
        "question": asked.question,
        "tables": TABLES.splitlines(),
        "examples": KNOWN["examples"],
        "notes": KNOWN["notes"],
        "earlier_turns": [{"question": question} for question in asked.earlier],
    }


def elsewhere(data: dict[str, Any]) -> dict[str, Any]:
    """The same data in the other world's names."""
    return dict(json.loads(renamed(json.dumps(data))))


def answer(data: dict[str, Any], vocabulary: Vocabulary) -> str:
    """The query that the skill asks for, or why it does not."""
    step = answer_data_question(Conversation(data, (), ("execute_db_query",), must_call=False), vocabulary)
    return str(step.calls[0].arguments["query"]) if step.calls else step.text


def test_everything_has_another_name_there() -> None:
    assert not _NAME.search(renamed(TABLES + WORLD_EXAMPLES.read_text()))
    assert HERE != ELSEWHERE


@pytest.mark.parametrize("asked", SOME, ids=lambda asked: " / ".join((*asked.earlier, asked.question)))
def test_a_question_is_answered_by_the_same_query_in_other_names(asked: Asked) -> None:
    assert answer(elsewhere(prompt(asked)), ELSEWHERE) == renamed(answer(prompt(asked), HERE))


def test_a_row_is_led_by_what_it_is_of() -> None:
    told = [
        describe_result(Conversation(said, (), (), must_call=False), words).text
        for said, words in ((RESULT, HERE), (elsewhere(RESULT), ELSEWHERE))
    ]
    assert told == ["One row: T-4 (battery 9).", "One row: T-4 (budget 9)."]


@pytest.mark.parametrize(("question", "vocabulary", "verdict"), [
    ("delete my device 36", HERE, BLOCK),
    ("delete my desk 36", ELSEWHERE, BLOCK),
    ("delete my desk 36", HERE, ALLOW),
])  # fmt: skip
def test_what_is_guarded_is_the_worlds_to_say(question: str, vocabulary: Vocabulary, verdict: object) -> None:
    data = {"kind": "question", "caller": "27", "text": question}
    assert screen_question(Conversation(data, (), (), must_call=False), vocabulary) == verdict
