"""What prompts hold of tool results: so many characters, kept by cutting the oldest first. The history stays whole."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from services.runtime.agents.prompt_messages import prompt_messages
from services.runtime.calls.chat_model import ChatModel, ModelCall
from services.runtime.errors import ModelRefused

# How much tighter the budget is for a model that says that its context is too short for it.
TIGHTER: Final = 4
_TOO_LONG = re.compile(
    r"context[ _-]?(?:length|window|size|limit)|maximum context|prompt is too long|input is too long"
    r"|too many (?:input )?tokens|reduce the length|exceeds? the (?:maximum|limit|model)|request too large|http_413",
    re.IGNORECASE,
)


class GatheredResult(NamedTuple):
    """What a tool gave."""

    tool: str
    arguments: dict[str, Any]
    result: str


def within(messages: Sequence[BaseMessage], characters: int) -> list[BaseMessage]:
    """Returns messages whose tool results have so many characters at most; each that is cut says so."""
    left = characters
    kept: list[BaseMessage] = []
    for message in reversed(messages):
        if isinstance(message, ToolMessage) and len(message.text) > left:
            message = message.model_copy(update={"content": _cut(message.text, left)})
            left = 0
        elif isinstance(message, ToolMessage):
            left -= len(message.text)
        kept.append(message)
    return kept[::-1]


async def ask_within(
    model: ChatModel,
    purpose: str,
    messages: Sequence[BaseMessage],
    tools: Sequence[dict[str, Any]],
    characters: int,
) -> tuple[AIMessage, ModelCall]:
    """Asks a model within a budget; once more within a tighter one when its context is too short.

    Raises what `ChatModel.ask` does.
    """
    asked = within(messages, characters)
    try:
        return await model.ask(purpose, prompt_messages(asked), tools)
    except ModelRefused as refused:
        tighter = within(messages, characters // TIGHTER)
        # Where no result is long, there is nothing to be cut of.
        if not _TOO_LONG.search(refused.message) or [each.text for each in tighter] == [each.text for each in asked]:
            raise
    return await model.ask(purpose, prompt_messages(tighter), tools)


def lines_within(lines: Iterable[str], characters: int) -> list[str]:
    """Returns lines of so many characters at most; that of them is left out, the last says."""
    given = list(lines)
    kept: list[str] = []
    for number, line in enumerate(given):
        if len(line) > characters:
            left_out = f"[cut: {len(line) - characters} more characters, and {len(given) - number - 1} more lines]"
            return [*kept, line[:characters], left_out]
        kept.append(line)
        characters -= len(line)
    return kept


def gathered(messages: Sequence[BaseMessage], characters: int, *, without: str = "") -> list[GatheredResult]:
    """Returns what tools gave, oldest first, within a budget; refusals, and the tool `without`, are left out."""
    return list(_gathered(within(messages, characters), without))


def _gathered(messages: Iterable[BaseMessage], without: str) -> Iterator[GatheredResult]:
    asked: dict[str, dict[str, Any]] = {}
    for message in messages:
        if isinstance(message, AIMessage):
            asked |= {call["id"] or "": call["args"] for call in message.tool_calls}
        elif isinstance(message, ToolMessage) and message.name != without and not message.text.startswith("error: "):
            yield GatheredResult(message.name or "", asked.get(message.tool_call_id, {}), message.text)


def _cut(text: str, left: int) -> str:
    return f"{text[:left]}\n[cut: {len(text) - left} more characters; ask again for what you need of it]".lstrip()
