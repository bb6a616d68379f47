"""What prompts hold of what was said and found: so many characters, kept by summarising the oldest first, by rule.

The history stays whole.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from services.kit.models.provider_words import says_too_long
from services.runtime.agents.prompt_messages import prompt_messages
from services.runtime.agents.refusals import TOOL_NAME_LENGTH
from services.runtime.calls.chat_model import ChatModel, ModelCall
from services.runtime.errors import ModelRefused

AskedT = TypeVar("AskedT")
# How much tighter the budget is for a model that says that its context is too short for it.
TIGHTER: Final = 4
# What a call takes beside its arguments, and how many stay of an answer that is cut.
_CALL_CHARACTERS: Final = 60
_CALLS_KEPT: Final = 32
# How much stays of a line that says what a text was that is cut: in messages, and in records of several texts.
_LINE_KEPT: Final = 200
_RECORDS_LINE_KEPT: Final = 60
# For what says that something was cut, however little there may be of the rest.
_ROOM: Final = 5000


class GatheredResult(NamedTuple):
    """What a tool gave."""

    tool: str
    arguments: dict[str, Any]
    result: str


def within(messages: Sequence[BaseMessage], characters: int) -> list[BaseMessage]:
    """Returns messages that hold so many characters at most; each that is cut says so.

    What is cut keeps its place as long as there is room for that, which is about as much again; older ones are left
    out, and a message says how many. Not counted are system messages, what a person said first, and what is said last.
    """
    left, room, left_out = characters, characters + _ROOM, 0
    kept: list[BaseMessage] = []
    opening = next((place for place, each in enumerate(messages) if isinstance(each, HumanMessage)), -1)
    for place in reversed(range(len(messages))):
        message = messages[place]
        is_last = place == len(messages) - 1 and isinstance(message, HumanMessage)
        if not (is_last or place == opening or isinstance(message, SystemMessage)):
            if _size(message) > left:
                message = _cut(message, left)
                room, left = room - _size(message) + left, 0
            else:
                left -= _size(message)
            if room < 0:
                left_out += 1
                continue
        if left_out and room < 0 and place <= opening:
            kept.append(HumanMessage(f"[cut: {left_out} messages between]"))
            left_out = 0
        kept.append(message)
    return kept[::-1]


async def once_tighter(
    ask: Callable[[int], Awaitable[AskedT]], characters: int, can_cut: Callable[[], bool] = lambda: True
) -> AskedT:
    """Returns what is answered within a budget; once more within a tighter one where the model's context is too short.

    `can_cut` says whether that is less than what was asked. Raises what asking does.
    """
    try:
        return await ask(characters)
    except ModelRefused as refused:
        if not says_too_long(refused.message) or not can_cut():
            raise
    return await ask(characters // TIGHTER)


async def ask_within(
    model: ChatModel,
    purpose: str,
    messages: Sequence[BaseMessage],
    tools: Sequence[dict[str, Any]],
    characters: int,
) -> tuple[AIMessage, ModelCall]:
    """Asks a model about messages within a budget, or a tighter one. Raises what `ChatModel.ask` does."""

    async def ask(most: int) -> tuple[AIMessage, ModelCall]:
        return await model.ask(purpose, prompt_messages(within(messages, most)), tools)

    def can_cut() -> bool:
        tighter, asked = within(messages, characters // TIGHTER), within(messages, characters)
        return [(each.text, _size(each)) for each in tighter] != [(each.text, _size(each)) for each in asked]

    return await once_tighter(ask, characters, can_cut)


def records_within(records: Sequence[Mapping[str, Any]], characters: int) -> list[dict[str, Any]]:
    """Returns records that take so many characters at most as JSON, the oldest cut first; each that is cut says so.

    Those that would not fit even so are left out, and the first says how many.
    """
    left, room = characters, characters + _ROOM
    kept: list[dict[str, Any]] = []
    for number, record in reversed(list(enumerate(records, start=1))):
        told = dict(record)
        if (size := _length(told)) > left:
            told = {name: _shortened(value, left // len(told)) for name, value in told.items()}
            room, left = room - _length(told) + left, 0
        else:
            left -= size
        if room < 0:
            kept.append({"left_out": number})
            break
        kept.append(told)
    return kept[::-1]


def lines_within(lines: Iterable[str], characters: int) -> list[str]:
    """Returns lines of so many characters at most; what is left out, a line says, behind which the last one stands."""
    given = list(lines)
    kept: list[str] = []
    for number, line in enumerate(given):
        if len(line) > characters:
            later = given[number + 1 :]
            left_out = f"[cut: {len(line) - characters} more characters, and {len(later)} more lines]"
            return [*kept, line[:characters], left_out, *(each[:_LINE_KEPT] for each in later[-1:])]
        kept.append(line)
        characters -= len(line)
    return kept


def summarised(text: str, characters: int, *, line: int = _LINE_KEPT, more: str = "") -> str:
    """Returns so many characters of a text, at least what says what it was; `more` is said of what is left out.

    That is of a table its columns, first and last row and the number of lines; of other texts likewise their first two
    lines and the last, of each `line` characters at most. It is never longer than the text.
    """
    if len(text) <= characters:
        return text
    lines = text.rstrip().split("\n")
    first = "\n".join(each[:line] for each in lines[:2])
    head = max(text[:characters], first, key=len)
    shown = head.count("\n") + 1
    last = lines[-1][:line] if shown < len(lines) else ""
    of_lines = f" of {len(lines)} lines" if len(lines) > 1 else ""
    cut = f"[cut: {len(text) - len(head) - len(last)} more characters{of_lines}{more}]"
    summary = "\n".join(filter(None, [head, cut, last]))
    return summary if len(summary) < len(text) else text


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


def _cut(message: BaseMessage, left: int) -> BaseMessage:
    """Returns what so many characters hold of a message, and at least its heading; of calls, their names."""
    if not isinstance(message, AIMessage):
        text = summarised(message.text, left, more="; ask again for what you need of it")
        return message.model_copy(update={"content": text})
    text = _shortened(message.text, left)
    calls = [
        {**call, "name": call["name"][:TOOL_NAME_LENGTH], "args": call["args"] if _length(call["args"]) <= 2 else _GONE}
        for call in message.tool_calls[:_CALLS_KEPT]
    ]
    broken = [{**call, "args": "[cut]"} for call in message.invalid_tool_calls[: _CALLS_KEPT - len(calls)]]
    others = {name: each for name, each in message.additional_kwargs.items() if name != "tool_calls"}
    update = {"content": text, "tool_calls": calls, "invalid_tool_calls": broken, "additional_kwargs": others}
    return message.model_copy(update=update)


_GONE: Final = {"cut": "the arguments are left out"}


def _size(message: BaseMessage) -> int:
    calls = [*message.tool_calls, *message.invalid_tool_calls] if isinstance(message, AIMessage) else []
    return len(message.text) + sum(_CALL_CHARACTERS + len(call["name"] or "") + _length(call["args"]) for call in calls)


def _shortened(value: Any, characters: int) -> Any:
    """Returns a value that takes so many characters at most, and a few that say what is left out."""
    if _length(value) <= max(characters, _CALL_CHARACTERS):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return summarised(text, characters, line=_RECORDS_LINE_KEPT)


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str) else len(json.dumps(value, ensure_ascii=False, default=str))
