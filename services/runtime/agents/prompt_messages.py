"""The message sequence that a model gets to see: valid, and without what it has no use for."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

INTERNAL = "internal"


def is_internal(message: BaseMessage) -> bool:
    """True for a tool message that is kept in history but never sent to a model."""
    return bool(message.additional_kwargs.get(INTERNAL))


def prompt_messages(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Returns the messages to send: each tool message follows the assistant message that asked for it.

    Orphans and internal tool messages are left out, and so are the tool calls that no message answers. The history
    itself is not touched.
    """
    kept: list[BaseMessage] = []
    position = 0
    while position < len(messages):
        message = messages[position]
        position += 1
        if isinstance(message, ToolMessage):
            continue
        if not isinstance(message, AIMessage) or not _call_ids(message):
            kept.append(message)
            continue
        answers = []
        while position < len(messages) and isinstance(answer := messages[position], ToolMessage):
            answers.append(answer)
            position += 1
        kept += _exchange(message, [answer for answer in answers if not is_internal(answer)])
    return kept


def _call_ids(message: AIMessage) -> set[str]:
    return {call["id"] or "" for call in (*message.tool_calls, *message.invalid_tool_calls)}


def _exchange(message: AIMessage, answers: Sequence[ToolMessage]) -> list[BaseMessage]:
    call_ids = _call_ids(message)
    given: dict[str, ToolMessage] = {}
    for answer in answers:
        if answer.tool_call_id in call_ids:
            given.setdefault(answer.tool_call_id, answer)
    if set(given) != call_ids:
        answered = {
            "tool_calls": [call for call in message.tool_calls if call["id"] in given],
            "invalid_tool_calls": [call for call in message.invalid_tool_calls if call["id"] in given],
            # The endpoint's own form of the calls would bring the unanswered ones back.
            "additional_kwargs": {k: v for k, v in message.additional_kwargs.items() if k != "tool_calls"},
        }
        message = message.model_copy(update=answered)
    return [message, *given.values()] if given or message.text else []
