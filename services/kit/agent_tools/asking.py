"""What a run asks, as a form that a client of MCP has its person fill in."""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.json_format import MessageToDict
from mcp.types import ElicitRequestFormParams, ElicitResult, InputResponse
from signalbox.v1 import runs_pb2

from services.kit.agent_tools.callers import Context

# The field of a form with one answer.
ANSWER_FIELD: Final = "answer"
# What a form of MCP may say of a field of one value.
_KINDS: Final = frozenset(("string", "number", "integer", "boolean"))
_SAID: Final = frozenset(
    ("type", "title", "description", "enum", "default", "minimum", "maximum", "minLength", "maxLength")
)


def takes_forms(context: Context) -> bool:
    """Whether a client has somebody who fills in forms."""
    capabilities = context.session.client_capabilities
    offered = capabilities.elicitation if capabilities else None
    return offered is not None and (offered.form is not None or offered.url is None)


def form_of(asked: runs_pb2.InputRequest) -> ElicitRequestFormParams | None:
    """Returns a question as a form; None where an answer is more than text, a number, or a choice."""
    fields: dict[str, dict[str, Any]] = {}
    for each in asked.interrupts:
        payload = MessageToDict(each.payload)
        schema = MessageToDict(each.answer_schema)
        # Whoever asks by more than words, and does not say what answers it, expects more than words.
        if not schema and not isinstance(payload, str):
            return None
        field = schema or {"type": "string"}
        if field.get("type") not in _KINDS or field.keys() - _SAID:
            return None
        fields[each.interrupt_id] = {"title": payload, **field} if isinstance(payload, str) else field
    if len(fields) <= 1:
        choice = {"enum": list(asked.options)} if asked.options and not asked.any_text else {}
        fields = {ANSWER_FIELD: {**next(iter(fields.values()), {"type": "string"}), **choice}}
    schema = {"type": "object", "properties": fields, "required": list(fields)}
    return ElicitRequestFormParams(message=asked.question, requested_schema=schema)


def filled_in(said: InputResponse | None) -> Any:
    """Returns what somebody answered; None where they did not."""
    if not isinstance(said, ElicitResult) or said.action != "accept" or not said.content:
        return None
    return said.content.get(ANSWER_FIELD, said.content)
