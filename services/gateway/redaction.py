"""Answers to callers with what the operator's rules mask: every text in them, but for what names things.

What a new field of the contract holds is content until it is listed here as a name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextvars import ContextVar
from functools import cache
from typing import Any, TypeVar

from google.protobuf import any_pb2
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError, SerializeToJsonError
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.struct_pb2 import ListValue, Struct, Value
from google.rpc import error_details_pb2, status_pb2
from signalbox.v1 import evaluator_pb2, guard_pb2, recorded_answers_pb2, table_pb2, threads_pb2, tools_pb2

from services.gateway.redaction_rules import Masking, Place, RedactionRules, TooMuch, Withholding, written_json
from services.kit.errors import MOST_DETAILS_BYTES, MOST_MESSAGE_BYTES
from services.kit.text.json_text import json_text

MessageT = TypeVar("MessageT", bound=Message)
# Fields that name things: what callers ask by, join by and switch on. Their makers are the platform and its operators,
# and of subjects the issuer of tokens. By message, since a new message has content until somebody has looked at it.
NAMES: Mapping[str, frozenset[str]] = {
    message: frozenset(fields.split())
    for message, fields in {
        "Agent": "name description input_type output_type graph_version routers tools pool input_schema context_schema"
        " output_schema",
        "Alternative": "rule destination",
        "AskedQuestion": "input_request_id answered_by role",
        "Batch": "batch_id",
        "BatchItem": "run_id",
        "Breaker": "router rule",
        "Caller": "subject roles",
        "Charge": "router rule nodes",
        "Checkpoint": "checkpoint_id next_nodes",
        "CustomWrites": "node attempt",
        "Decision": "decision_id run_id router rule destination policy_version checkpoint_id trace_id span_id node",
        "DecisionCount": "router rule destination node",
        "DependencyWait": "dependency cause",
        "Destination": "node",
        "Disagreement": "run_id router policy_version rule destination other_rule other_destination",
        "Divergence": "run_id rule destination other_rule other_destination",
        "ExplainRunResponse": "next_page_token",
        "ForkedFrom": "run_id checkpoint_id changed_fields as_node",
        "GraphEditStep": "operation_id tool",
        "GraphEditorInput": "undo_run_id",
        "GraphInput": "agent",
        "GraphOutput": "agent",
        "IncidentInvestigationOutput": "investigation_phase investigation_status",
        "InputReceived": "input_request_id subject role",
        "InputRequest": "input_request_id",
        "Interrupt": "interrupt_id",
        "Limit": "name value",
        "ListBatchesResponse": "next_page_token",
        "ListDecisionsResponse": "next_page_token",
        "ListQuestionsResponse": "next_page_token",
        "ListRecordedAnswersResponse": "next_page_token",
        "ListRunStatesResponse": "next_page_token",
        "ListRunsResponse": "next_page_token",
        "ListThreadsResponse": "next_page_token",
        "ModelCallRecord": "purpose model",
        "NodeCall": "kind name outcome service prompts",
        "NodeCompleted": "node",
        "Policy": "version prompts",
        "PrunedData": "agent",
        "Question": "run_id agent subject plan_hash roles assignee escalated_from",
        "QuestionAnswer": "subject role",
        "RecordedAnswer": "source method asked",
        "RecordedFailure": "kind",
        "ReplayDecisionsResponse": "policy_version",
        "RouteStep": "node",
        "RuleExplanation": "rule",
        "RunExplanation": "agent",
        "Run": "run_id agent graph_version thread_id correlation_id stop_reason trace_id waiting_for rolled_back_by",
        "RunCount": "agent",
        "RunEvent": "run_id",
        "StateChanged": "waiting_for cause",
        "Table": "truncated_by",
        "Task": "task_id name triggers",
        "TaskWrite": "field",
        "Thread": "thread_id active_run_id agent",
        "ThreadState": "run_id next_nodes",
        "TokenChunk": "node message_id",
        "TokensReset": "node",
        "ToolEvidence": "tool",
        "TriedRule": "rule",
    }.items()
}
# Of errors: the message and what is said of fields is content.
_NAMES_OF_ERRORS = {
    "ErrorInfo": frozenset(("reason", "domain", "metadata")),
    "FieldViolation": frozenset(("field", "reason")),
}
_DETAILS: tuple[type[Message], ...] = (
    error_details_pb2.ErrorInfo, error_details_pb2.BadRequest, error_details_pb2.RetryInfo
)  # fmt: skip
# Of messages with a table the field that tells its rows once more, where their columns have no names of their own.
_TOLD_AGAIN = {"DataChatOutput": ("rows", "csv"), "ToolOutput": ("table", "text")}
_WRITTEN: Any = threads_pb2.TaskWrite.DESCRIPTOR.fields_by_name["value"]
# Errors go in headers, which take no more than a service puts into them.
MOST_ERROR_BYTES = MOST_MESSAGE_BYTES + MOST_DETAILS_BYTES
_ANSWERS_IN_JSON = frozenset(("model", "person"))
# Whether whoever called can see no runs but their own; as long as nobody says so, they can.
_sees_own_only: ContextVar[bool] = ContextVar("sees_own_only", default=False)


class Redaction:
    """Masks what goes to callers, by an operator's rules; without any, everything goes as it is.

    Marks may be longer than what they stand for. Of an answer that would have more than `most_bytes` with them, and
    so couldn't be sent, nothing but names is left.
    """

    def __init__(self, rules: RedactionRules | None = None, *, most_bytes: int = 4 * 1024 * 1024) -> None:
        self._rules = rules or RedactionRules(rules=())
        self._most_bytes = most_bytes

    def begin(self, *, sees_own_only: bool) -> None:
        """Notes for the rest of this call who hears its answer."""
        _sees_own_only.set(sees_own_only)

    @property
    def holds(self) -> bool:
        """Whether anything is masked in this call."""
        return bool(self._rules.holding(is_own=_sees_own_only.get()))

    def to_wire(self, response: Message) -> bytes:
        """Returns an answer as it goes to this call's caller."""
        return self.masked(response).SerializeToString()

    def masked(self, message: MessageT) -> MessageT:
        """Returns an answer or an error with what is masked for this call's caller; the given one is left as it is."""
        rules = self._rules.holding(is_own=_sees_own_only.get())
        if not rules:
            return message
        is_error = isinstance(message, status_pb2.Status)
        most_bytes = max(MOST_ERROR_BYTES, message.ByteSize()) if is_error else self._most_bytes
        copy = type(message)()
        copy.CopyFrom(message)
        # What a service of a later release says in them can't be read here, so it can't be masked.
        copy.DiscardUnknownFields()
        try:
            _Answer(Masking(rules, room=most_bytes)).mask(copy)
            is_too_large = copy.ByteSize() > most_bytes
        except TooMuch:
            is_too_large = True
        if is_too_large:
            copy.CopyFrom(message)
            copy.DiscardUnknownFields()
            _Answer(Withholding(rules, room=most_bytes - message.ByteSize())).mask(copy)
        return copy


class _Answer:
    """One answer, masked in place."""

    def __init__(self, masking: Masking) -> None:
        self._masking = masking

    def mask(self, message: Message, path: Place = ()) -> None:
        """Masks a message and all in it."""
        if isinstance(message, Struct | Value | ListValue):
            self._json(message, path)
            return
        if isinstance(message, threads_pb2.TaskWrite):
            # A field of the state, which is named here as its own.
            self._field(message, _WRITTEN, message.value, (*path, message.field))
            return
        if isinstance(message, recorded_answers_pb2.RecordedAnswer):
            message.answer = self._recorded(message)
        elif isinstance(message, recorded_answers_pb2.RecordedFailure) and message.status:
            message.status = self._status(message.status)
        elif isinstance(message, status_pb2.Status):
            details = [packed for each in message.details if (packed := self._detail(each))]
            del message.details[:]
            message.details.extend(details)
        elif isinstance(message, table_pb2.Table):
            self._table(message, path)
        names = _names(message)
        for field, value in message.ListFields():
            if field.name not in names:
                self._field(message, field, value, (*path, field.name))
        if again := _TOLD_AGAIN.get(message.DESCRIPTOR.name):
            self._told_again(message, *again, path)

    def _field(self, message: Message, field: FieldDescriptor, value: Any, path: Place) -> None:
        if (mark := self._masking.mark_of(path)) is not None:
            _put(message, field, mark)
        elif field.message_type and field.message_type.GetOptions().map_entry:
            self._map(field.message_type.fields_by_name["value"], value, path)
        elif field.message_type:
            for each in value if field.is_repeated else (value,):
                self.mask(each, path)
        elif field.type == FieldDescriptor.TYPE_BYTES and field.full_name not in _READ_BYTES:
            message.ClearField(field.name)
        elif field.type == FieldDescriptor.TYPE_STRING and field.is_repeated:
            value[:] = [self._masking.text(each, path) for each in value]
        elif field.type == FieldDescriptor.TYPE_STRING:
            setattr(message, field.name, self._masking.text(value, path))

    def _map(self, kind: FieldDescriptor, held: Any, path: Place) -> None:
        """Masks the values of a map, whose keys name them."""
        for key in list(held):
            inner = (*path, str(key))
            if kind.message_type:
                self.mask(held[key], inner)
            elif kind.type == FieldDescriptor.TYPE_STRING:
                held[key] = self._masking.mark_of(inner) or self._masking.text(held[key], inner)

    def _json(self, message: Struct | Value | ListValue, path: Place) -> None:
        try:
            masked = self._masking.value(MessageToDict(message), path)
            message.Clear()
            ParseDict(masked, message)
        except (RecursionError, ParseError, SerializeToJsonError):
            message.Clear()

    def _table(self, table: table_pb2.Table, path: Place) -> None:
        for number, column in enumerate(table.columns):
            cells = [row.values[number] for row in table.rows if number < len(row.values)]
            given = [MessageToDict(cell, preserving_proto_field_name=True) for cell in cells]
            plain = [next(iter(each.values()), None) for each in given]
            inner = (*path, column.name)
            masked = [None if value is None else self._masking.value(value, inner) for value in plain]
            if masked != plain:
                # A number that is masked is no number: the column has texts then.
                column.type = table_pb2.COLUMN_TYPE_TEXT
                for cell, value in zip(cells, masked, strict=True):
                    cell.Clear()
                    if value is not None:
                        cell.text_value = value if isinstance(value, str) else json_text(value)

    def _told_again(self, message: Message, rows: str, text: str, path: Place) -> None:
        columns = getattr(message, rows).columns
        marks = [self._masking.mark_of((*path, rows, column.name)) for column in columns]
        if getattr(message, text) and (mark := next(filter(None, marks), None)):
            setattr(message, text, mark)

    def _recorded(self, answer: recorded_answers_pb2.RecordedAnswer) -> bytes:
        """Returns what was answered, masked; empty where the gateway can't read it."""
        response_type = _response_type(answer.method.partition(" ")[0])
        try:
            if answer.source in _ANSWERS_IN_JSON:
                return written_json(self._masking.value(json.loads(answer.answer))).encode()
            if response_type is not None:
                response = response_type.FromString(answer.answer)
                self.mask(response)
                return response.SerializeToString()
        except (ValueError, DecodeError, RecursionError):
            pass  # of another release, or of none
        return b""

    def _status(self, wire: bytes) -> bytes:
        try:
            status = status_pb2.Status.FromString(wire)
        except DecodeError:
            return b""
        self.mask(status)
        return bytes(status.SerializeToString())

    def _detail(self, packed: Any) -> Any:
        """Returns a detail of an error masked; None for one of a kind that nobody here knows."""
        for kind in _DETAILS:
            if packed.Is(kind.DESCRIPTOR):
                detail = kind()
                packed.Unpack(detail)
                self.mask(detail)
                repacked = any_pb2.Any()
                repacked.Pack(detail)
                return repacked
        return None


# Bytes that are masked as what they hold; all others are left out.
_READ_BYTES = {"signalbox.v1.RecordedAnswer.answer", "signalbox.v1.RecordedFailure.status", "google.protobuf.Any.value"}


def _names(message: Message) -> frozenset[str]:
    name = message.DESCRIPTOR.name
    if message.DESCRIPTOR.file.package == "google.rpc":
        return _NAMES_OF_ERRORS.get(name, frozenset())
    if isinstance(message, any_pb2.Any):
        return frozenset(("type_url", "value"))
    return NAMES.get(name, frozenset())


def _put(message: Any, field: FieldDescriptor, mark: str) -> None:
    """Puts a mark in the place of a field; what holds no text is left out."""
    is_map = field.message_type and field.message_type.GetOptions().map_entry
    message.ClearField(field.name)
    if field.type == FieldDescriptor.TYPE_STRING and field.is_repeated:
        getattr(message, field.name).append(mark)
    elif field.type == FieldDescriptor.TYPE_STRING:
        setattr(message, field.name, mark)
    elif (
        field.message_type
        and field.message_type.full_name == Value.DESCRIPTOR.full_name
        and not (is_map or field.is_repeated)
    ):
        getattr(message, field.name).string_value = mark


@cache
def _response_type(method: str) -> type[Message] | None:
    for module in (tools_pb2, guard_pb2, evaluator_pb2):
        for service in module.DESCRIPTOR.services_by_name.values():
            if found := service.methods_by_name.get(method):
                return GetMessageClass(found.output_type)
    return None
