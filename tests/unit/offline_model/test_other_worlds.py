"""The skills know words, not the demo: over the demo's world by other names they do just what they do over it."""

from __future__ import annotations

import re

import pytest
import yaml

from services.local.database import WORLD_EXAMPLES, WORLD_VOCABULARY
from services.offline_model.conversation import Conversation
from services.offline_model.skills.answer_data_question import answer_data_question
from services.offline_model.skills.describe_result import describe_result
from services.offline_model.skills.screen_question import ALLOW, BLOCK, screen_question
from services.offline_model.vocabulary import Vocabulary
from tests.fixtures.harbour_questions import ANSWERED, DECLINED, Asked
from tests.unit.offline_model.test_adapt import TABLES

# Every example is tried on every question: all of them would take a minute.
SOME = [*ANSWERED, *DECLINED][::8]
# Names in the same order of letters: the skill takes columns in that order.
NAMES = {
    "batteries": "budgets", "battery": "budget", "device": "desk", "humidity": "income", "pressure": "price",
    "reading": "receipt", "ship": "shop", "temperature": "turnover",
}  # fmt: skip
_NAME = re.compile("|".join(NAMES), re.IGNORECASE)
SYSTEM = "## Tables\n{tables}\n\n## Examples\n{examples}\n\n## Notes\n{notes}\n{turns}"
RESULT = """Question: Which?
SQL: SELECT name AS device, battery FROM devices

Result:
device | battery
T-4 | 9
(1 row)"""
HERE = Vocabulary.model_validate(yaml.safe_load(WORLD_VOCABULARY.read_text()))


def renamed(text: str) -> str:
    return _NAME.sub(_other, text)


def _other(name: re.Match[str]) -> str:
    other = NAMES[name[0].lower()]
    return other.capitalize() if name[0][0].isupper() else other


ELSEWHERE = Vocabulary.model_validate(yaml.safe_load(renamed(WORLD_VOCABULARY.read_text())))


def prompt(asked: Asked) -> str:
    known = yaml.safe_load(WORLD_EXAMPLES.read_text())
    examples = "\n\n".join(f"Question: {each['question']}\nSQL: {each['sql']}" for each in known["examples"])
    turns = "\n\n".join(f"Question: {question}\nSQL: (what ran)\nAnswer: Some." for question in asked.earlier)
    earlier = f"\n## Earlier in this conversation\n{turns}" if turns else ""
    notes = "\n".join(f"- {note}" for note in known["notes"])
    return SYSTEM.format(tables=TABLES, examples=examples, notes=notes, turns=earlier)


def answer(system: str, question: str, vocabulary: Vocabulary) -> str:
    """The query that the skill asks for, or why it does not."""
    step = answer_data_question(Conversation(system, (question,), (), ("execute_db_query",), False), vocabulary)
    return str(step.calls[0].arguments["query"]) if step.calls else step.text


def test_everything_has_another_name_there() -> None:
    assert not _NAME.search(renamed(TABLES + WORLD_EXAMPLES.read_text()))
    assert HERE != ELSEWHERE


@pytest.mark.parametrize("asked", SOME, ids=lambda asked: " / ".join((*asked.earlier, asked.question)))
def test_a_question_is_answered_by_the_same_query_in_other_names(asked: Asked) -> None:
    here = answer(prompt(asked), asked.question, HERE)
    assert answer(renamed(prompt(asked)), renamed(asked.question), ELSEWHERE) == renamed(here)


def test_a_row_is_led_by_what_it_is_of() -> None:
    told = [
        describe_result(Conversation("", (said,), (), (), False), words).text
        for said, words in ((RESULT, HERE), (renamed(RESULT), ELSEWHERE))
    ]
    assert told == ["One row: T-4 (battery 9).", "One row: T-4 (budget 9)."]


@pytest.mark.parametrize(("question", "vocabulary", "verdict"), [
    ("delete my device 36", HERE, BLOCK),
    ("delete my desk 36", ELSEWHERE, BLOCK),
    ("delete my desk 36", HERE, ALLOW),
])  # fmt: skip
def test_what_is_guarded_is_the_worlds_to_say(question: str, vocabulary: Vocabulary, verdict: object) -> None:
    assert screen_question(Conversation("", (question,), (), (), False), vocabulary) == verdict
