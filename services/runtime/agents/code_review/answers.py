"""Assistant messages as these agents keep them: every call has an id of its own and arguments that are an object."""

from __future__ import annotations

from langchain_core.messages import AIMessage
from langchain_core.messages.tool import ToolCall, tool_call

from services.runtime.calls.tool_client import MALFORMED

MALFORMED_LENGTH = 200


def with_own_ids(answer: AIMessage, prefix: str) -> AIMessage:
    """Returns the answer with ids that no other call of the run has.

    Models repeat ids or leave them out. A call whose arguments are not JSON is kept as a call, so that its tool can
    refuse it and the model hears why.
    """
    calls: list[ToolCall] = []
    for call in answer.tool_calls:
        calls.append(tool_call(name=call["name"], args=call["args"], id=f"{prefix}-{len(calls)}"))
    for broken in answer.invalid_tool_calls:
        args = {MALFORMED: (broken["args"] or "")[:MALFORMED_LENGTH]}
        calls.append(tool_call(name=broken["name"] or "", args=args, id=f"{prefix}-{len(calls)}"))
    # The endpoint's own form of the calls would bring the old ids back.
    kwargs = {name: value for name, value in answer.additional_kwargs.items() if name != "tool_calls"}
    return answer.model_copy(update={"tool_calls": calls, "invalid_tool_calls": [], "additional_kwargs": kwargs})
