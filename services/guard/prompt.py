"""The model's part of a screening: a minimal prompt, and the one word that is accepted as its answer.

Who asks, the text, and the turns that it continues, go in as data, so that nothing in them can pass for a line of the
prompt.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from services.guard.screen import TextKind
from services.kit.models.prompts import data_block, prompt

ALLOW = "ALLOW"
BLOCK = "BLOCK"
_AROUND_A_WORD: Final = re.compile(r"\A[\W_]+|[\W_]+\Z")
_KEYS: Final = {TextKind.QUESTION: ("question", "answer"), TextKind.GOAL: ("said", "asked")}


@dataclass(frozen=True)
class Turn:
    """An earlier text of the conversation, and what was answered or asked."""

    question: str
    answer: str


def system_prompt(caller: str, restricted_tables: Sequence[str], kind: TextKind = TextKind.QUESTION) -> str:
    """Names the caller, the rule for this kind of text and, for questions, the tables; wants one word."""
    known: dict[str, Any] = {"caller": caller}
    if kind is TextKind.QUESTION:
        known["restricted_tables"] = list(restricted_tables)
    return prompt(__package__, kind, known)


def user_prompt(text: str, turns: Sequence[Turn] = (), kind: TextKind = TextKind.QUESTION) -> str:
    """Carries the text and its kind, and the turns that it continues, oldest first."""
    said, answered = _KEYS.get(kind, _KEYS[TextKind.GOAL])
    told = [{said: turn.question, answered: turn.answer} for turn in turns]
    return data_block({"kind": kind, "text": text, **({"earlier_turns": told} if told else {})})


def asked_again(user: str, problem: str) -> str:
    """Returns the user's message once more, with what was wrong with the last answer."""
    return f"{user}\n\n{prompt(__package__, 'again', {'problem': problem})}"


def read_verdict(answer: str) -> str | None:
    """Returns ALLOW or BLOCK when the answer is that one word; case, markup and punctuation don't matter. Else None."""
    word = _AROUND_A_WORD.sub("", answer).upper()
    return word if word in {ALLOW, BLOCK} else None
