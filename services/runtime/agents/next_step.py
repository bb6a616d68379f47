"""Asking a model for its next step, and once more with what was wrong where that can't be read."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage

from services.kit.models.answers import schemas_of
from services.kit.models.written_calls import has_unread_call
from services.runtime.agents.structured import unusable
from services.runtime.calls.chat_model import ModelCall, whole_text
from services.runtime.errors import BudgetSpent, ModelFailed

MOST_ASKED: Final = 3
UNREAD: Final = "it looks like a call of a tool, and could not be read as one"
_WANTED: Final = (
    'Call a tool, or answer with nothing but {"name": "…", "arguments": {…}}; if you call none, answer in words alone.'
)
Answered = tuple[AIMessage, ModelCall]


async def ask_for_step(
    ask: Callable[[list[BaseMessage]], Awaitable[Answered]],
    tools: Sequence[Mapping[str, Any]],
    *,
    most: int = MOST_ASKED,
    written: re.Pattern[str] | None = None,
) -> tuple[AIMessage, list[ModelCall]]:
    """Returns what a model answers that is offered tools, and the calls that brought an answer.

    `ask` asks it, with what is said behind the prompt. An answer that nobody can read, and a text that looks like a
    call and could not be read as one, are asked for again with what was wrong, `most` times in all. The last such text
    may be an answer, and is returned. `written` finds what a tool takes and is no call. Raises what asking does.
    """
    names = schemas_of(tools)
    told: list[BaseMessage] = []
    calls: list[ModelCall] = []
    answer = AIMessage("")
    for turn in range(1, most + 1):
        said, problem = "", UNREAD
        try:
            answer, call = await ask(told)
        except (ModelFailed, BudgetSpent) as error:
            if turn == most or isinstance(error, BudgetSpent):
                if not calls:
                    raise
                break
            problem = error.message
        else:
            calls.append(call)
            said = whole_text(answer)
            is_unread = has_unread_call(said, names) or (names and written and written.search(said))
            if answer.tool_calls or answer.invalid_tool_calls or not is_unread:
                break
        told = unusable(said, problem, _WANTED, turn=turn)
    return answer, calls
