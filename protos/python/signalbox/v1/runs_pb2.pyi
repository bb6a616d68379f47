import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from signalbox.v1 import agent_outline_pb2 as _agent_outline_pb2
from signalbox.v1 import caller_pb2 as _caller_pb2
from signalbox.v1 import costs_pb2 as _costs_pb2
from signalbox.v1 import data_chat_pb2 as _data_chat_pb2
from signalbox.v1 import graph_editor_pb2 as _graph_editor_pb2
from signalbox.v1 import hosted_pb2 as _hosted_pb2
from signalbox.v1 import incident_investigation_pb2 as _incident_investigation_pb2
from signalbox.v1 import outcome_pb2 as _outcome_pb2
from signalbox.v1 import policy_pb2 as _policy_pb2
from signalbox.v1 import recorded_answers_pb2 as _recorded_answers_pb2
from signalbox.v1 import sast_pb2 as _sast_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RunState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RUN_STATE_UNSPECIFIED: _ClassVar[RunState]
    RUN_STATE_PENDING: _ClassVar[RunState]
    RUN_STATE_RUNNING: _ClassVar[RunState]
    RUN_STATE_AWAITING_INPUT: _ClassVar[RunState]
    RUN_STATE_SUCCEEDED: _ClassVar[RunState]
    RUN_STATE_FAILED: _ClassVar[RunState]
    RUN_STATE_CANCELLED: _ClassVar[RunState]
    RUN_STATE_NEEDS_REVIEW: _ClassVar[RunState]

class ActiveRunPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACTIVE_RUN_POLICY_UNSPECIFIED: _ClassVar[ActiveRunPolicy]
    ACTIVE_RUN_POLICY_REFUSE: _ClassVar[ActiveRunPolicy]
    ACTIVE_RUN_POLICY_QUEUE: _ClassVar[ActiveRunPolicy]
    ACTIVE_RUN_POLICY_CANCEL_ACTIVE: _ClassVar[ActiveRunPolicy]
    ACTIVE_RUN_POLICY_ROLL_BACK_ACTIVE: _ClassVar[ActiveRunPolicy]

class AnswerRight(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ANSWER_RIGHT_UNSPECIFIED: _ClassVar[AnswerRight]
    ANSWER_RIGHT_CALLER: _ClassVar[AnswerRight]
    ANSWER_RIGHT_ROLE: _ClassVar[AnswerRight]
    ANSWER_RIGHT_ASSIGNEE: _ClassVar[AnswerRight]

class CustomWriteLeftOut(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CUSTOM_WRITE_LEFT_OUT_UNSPECIFIED: _ClassVar[CustomWriteLeftOut]
    CUSTOM_WRITE_LEFT_OUT_TOO_LONG: _ClassVar[CustomWriteLeftOut]
    CUSTOM_WRITE_LEFT_OUT_NOT_JSON: _ClassVar[CustomWriteLeftOut]
    CUSTOM_WRITE_LEFT_OUT_TOO_MUCH: _ClassVar[CustomWriteLeftOut]

class TokensResetCause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TOKENS_RESET_CAUSE_UNSPECIFIED: _ClassVar[TokensResetCause]
    TOKENS_RESET_CAUSE_RERUN: _ClassVar[TokensResetCause]
    TOKENS_RESET_CAUSE_WITHDRAWN: _ClassVar[TokensResetCause]
    TOKENS_RESET_CAUSE_DROPPED: _ClassVar[TokensResetCause]

class ClaimCause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CLAIM_CAUSE_UNSPECIFIED: _ClassVar[ClaimCause]
    CLAIM_CAUSE_BEGIN: _ClassVar[ClaimCause]
    CLAIM_CAUSE_ANSWER: _ClassVar[ClaimCause]
    CLAIM_CAUSE_WAIT: _ClassVar[ClaimCause]
    CLAIM_CAUSE_TAKEOVER: _ClassVar[ClaimCause]
RUN_STATE_UNSPECIFIED: RunState
RUN_STATE_PENDING: RunState
RUN_STATE_RUNNING: RunState
RUN_STATE_AWAITING_INPUT: RunState
RUN_STATE_SUCCEEDED: RunState
RUN_STATE_FAILED: RunState
RUN_STATE_CANCELLED: RunState
RUN_STATE_NEEDS_REVIEW: RunState
ACTIVE_RUN_POLICY_UNSPECIFIED: ActiveRunPolicy
ACTIVE_RUN_POLICY_REFUSE: ActiveRunPolicy
ACTIVE_RUN_POLICY_QUEUE: ActiveRunPolicy
ACTIVE_RUN_POLICY_CANCEL_ACTIVE: ActiveRunPolicy
ACTIVE_RUN_POLICY_ROLL_BACK_ACTIVE: ActiveRunPolicy
ANSWER_RIGHT_UNSPECIFIED: AnswerRight
ANSWER_RIGHT_CALLER: AnswerRight
ANSWER_RIGHT_ROLE: AnswerRight
ANSWER_RIGHT_ASSIGNEE: AnswerRight
CUSTOM_WRITE_LEFT_OUT_UNSPECIFIED: CustomWriteLeftOut
CUSTOM_WRITE_LEFT_OUT_TOO_LONG: CustomWriteLeftOut
CUSTOM_WRITE_LEFT_OUT_NOT_JSON: CustomWriteLeftOut
CUSTOM_WRITE_LEFT_OUT_TOO_MUCH: CustomWriteLeftOut
TOKENS_RESET_CAUSE_UNSPECIFIED: TokensResetCause
TOKENS_RESET_CAUSE_RERUN: TokensResetCause
TOKENS_RESET_CAUSE_WITHDRAWN: TokensResetCause
TOKENS_RESET_CAUSE_DROPPED: TokensResetCause
CLAIM_CAUSE_UNSPECIFIED: ClaimCause
CLAIM_CAUSE_BEGIN: ClaimCause
CLAIM_CAUSE_ANSWER: ClaimCause
CLAIM_CAUSE_WAIT: ClaimCause
CLAIM_CAUSE_TAKEOVER: ClaimCause

class RunInput(_message.Message):
    __slots__ = ("data_chat", "sast_triage", "sast_investigation", "graph_editor", "incident_investigation", "graph")
    DATA_CHAT_FIELD_NUMBER: _ClassVar[int]
    SAST_TRIAGE_FIELD_NUMBER: _ClassVar[int]
    SAST_INVESTIGATION_FIELD_NUMBER: _ClassVar[int]
    GRAPH_EDITOR_FIELD_NUMBER: _ClassVar[int]
    INCIDENT_INVESTIGATION_FIELD_NUMBER: _ClassVar[int]
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    data_chat: _data_chat_pb2.DataChatInput
    sast_triage: _sast_pb2.SastTriageInput
    sast_investigation: _sast_pb2.SastInvestigationInput
    graph_editor: _graph_editor_pb2.GraphEditorInput
    incident_investigation: _incident_investigation_pb2.IncidentInvestigationInput
    graph: _hosted_pb2.GraphInput
    def __init__(self, data_chat: _Optional[_Union[_data_chat_pb2.DataChatInput, _Mapping]] = ..., sast_triage: _Optional[_Union[_sast_pb2.SastTriageInput, _Mapping]] = ..., sast_investigation: _Optional[_Union[_sast_pb2.SastInvestigationInput, _Mapping]] = ..., graph_editor: _Optional[_Union[_graph_editor_pb2.GraphEditorInput, _Mapping]] = ..., incident_investigation: _Optional[_Union[_incident_investigation_pb2.IncidentInvestigationInput, _Mapping]] = ..., graph: _Optional[_Union[_hosted_pb2.GraphInput, _Mapping]] = ...) -> None: ...

class RunOutput(_message.Message):
    __slots__ = ("data_chat", "sast_triage", "sast_investigation", "graph_editor", "incident_investigation", "graph")
    DATA_CHAT_FIELD_NUMBER: _ClassVar[int]
    SAST_TRIAGE_FIELD_NUMBER: _ClassVar[int]
    SAST_INVESTIGATION_FIELD_NUMBER: _ClassVar[int]
    GRAPH_EDITOR_FIELD_NUMBER: _ClassVar[int]
    INCIDENT_INVESTIGATION_FIELD_NUMBER: _ClassVar[int]
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    data_chat: _data_chat_pb2.DataChatOutput
    sast_triage: _sast_pb2.SastTriageOutput
    sast_investigation: _sast_pb2.SastInvestigationOutput
    graph_editor: _graph_editor_pb2.GraphEditorOutput
    incident_investigation: _incident_investigation_pb2.IncidentInvestigationOutput
    graph: _hosted_pb2.GraphOutput
    def __init__(self, data_chat: _Optional[_Union[_data_chat_pb2.DataChatOutput, _Mapping]] = ..., sast_triage: _Optional[_Union[_sast_pb2.SastTriageOutput, _Mapping]] = ..., sast_investigation: _Optional[_Union[_sast_pb2.SastInvestigationOutput, _Mapping]] = ..., graph_editor: _Optional[_Union[_graph_editor_pb2.GraphEditorOutput, _Mapping]] = ..., incident_investigation: _Optional[_Union[_incident_investigation_pb2.IncidentInvestigationOutput, _Mapping]] = ..., graph: _Optional[_Union[_hosted_pb2.GraphOutput, _Mapping]] = ...) -> None: ...

class Run(_message.Message):
    __slots__ = ("run_id", "agent", "graph_version", "thread_id", "caller", "correlation_id", "state", "input", "output", "stop_reason", "error", "input_request", "budget", "spend", "epoch", "create_time", "start_time", "end_time", "trace_id", "waiting_for", "retry_time", "policy", "retryable", "labels", "recorded", "outcome", "title", "forked_from", "rolled_back_by")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    GRAPH_VERSION_FIELD_NUMBER: _ClassVar[int]
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    CALLER_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    STOP_REASON_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    INPUT_REQUEST_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    SPEND_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    WAITING_FOR_FIELD_NUMBER: _ClassVar[int]
    RETRY_TIME_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    RECORDED_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    FORKED_FROM_FIELD_NUMBER: _ClassVar[int]
    ROLLED_BACK_BY_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    agent: str
    graph_version: str
    thread_id: str
    caller: _caller_pb2.Caller
    correlation_id: str
    state: RunState
    input: RunInput
    output: RunOutput
    stop_reason: str
    error: str
    input_request: InputRequest
    budget: _caller_pb2.Budget
    spend: Spend
    epoch: int
    create_time: _timestamp_pb2.Timestamp
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    trace_id: str
    waiting_for: str
    retry_time: _timestamp_pb2.Timestamp
    policy: _policy_pb2.Policy
    retryable: bool
    labels: _containers.ScalarMap[str, str]
    recorded: bool
    outcome: _outcome_pb2.Outcome
    title: str
    forked_from: ForkedFrom
    rolled_back_by: str
    def __init__(self, run_id: _Optional[str] = ..., agent: _Optional[str] = ..., graph_version: _Optional[str] = ..., thread_id: _Optional[str] = ..., caller: _Optional[_Union[_caller_pb2.Caller, _Mapping]] = ..., correlation_id: _Optional[str] = ..., state: _Optional[_Union[RunState, str]] = ..., input: _Optional[_Union[RunInput, _Mapping]] = ..., output: _Optional[_Union[RunOutput, _Mapping]] = ..., stop_reason: _Optional[str] = ..., error: _Optional[str] = ..., input_request: _Optional[_Union[InputRequest, _Mapping]] = ..., budget: _Optional[_Union[_caller_pb2.Budget, _Mapping]] = ..., spend: _Optional[_Union[Spend, _Mapping]] = ..., epoch: _Optional[int] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., trace_id: _Optional[str] = ..., waiting_for: _Optional[str] = ..., retry_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., policy: _Optional[_Union[_policy_pb2.Policy, _Mapping]] = ..., retryable: _Optional[bool] = ..., labels: _Optional[_Mapping[str, str]] = ..., recorded: _Optional[bool] = ..., outcome: _Optional[_Union[_outcome_pb2.Outcome, str]] = ..., title: _Optional[str] = ..., forked_from: _Optional[_Union[ForkedFrom, _Mapping]] = ..., rolled_back_by: _Optional[str] = ...) -> None: ...

class ForkedFrom(_message.Message):
    __slots__ = ("run_id", "step", "checkpoint_id", "changed_fields", "as_node")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELDS_FIELD_NUMBER: _ClassVar[int]
    AS_NODE_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    step: int
    checkpoint_id: str
    changed_fields: _containers.RepeatedScalarFieldContainer[str]
    as_node: str
    def __init__(self, run_id: _Optional[str] = ..., step: _Optional[int] = ..., checkpoint_id: _Optional[str] = ..., changed_fields: _Optional[_Iterable[str]] = ..., as_node: _Optional[str] = ...) -> None: ...

class Spend(_message.Message):
    __slots__ = ("model_calls", "token_usage", "tool_calls", "wall_time_s")
    MODEL_CALLS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_USAGE_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    WALL_TIME_S_FIELD_NUMBER: _ClassVar[int]
    model_calls: int
    token_usage: _caller_pb2.TokenUsage
    tool_calls: int
    wall_time_s: float
    def __init__(self, model_calls: _Optional[int] = ..., token_usage: _Optional[_Union[_caller_pb2.TokenUsage, _Mapping]] = ..., tool_calls: _Optional[int] = ..., wall_time_s: _Optional[float] = ...) -> None: ...

class InputRequest(_message.Message):
    __slots__ = ("input_request_id", "question", "options", "expire_time", "any_text", "interrupts")
    INPUT_REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    ANY_TEXT_FIELD_NUMBER: _ClassVar[int]
    INTERRUPTS_FIELD_NUMBER: _ClassVar[int]
    input_request_id: str
    question: str
    options: _containers.RepeatedScalarFieldContainer[str]
    expire_time: _timestamp_pb2.Timestamp
    any_text: bool
    interrupts: _containers.RepeatedCompositeFieldContainer[Interrupt]
    def __init__(self, input_request_id: _Optional[str] = ..., question: _Optional[str] = ..., options: _Optional[_Iterable[str]] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., any_text: _Optional[bool] = ..., interrupts: _Optional[_Iterable[_Union[Interrupt, _Mapping]]] = ...) -> None: ...

class Interrupt(_message.Message):
    __slots__ = ("interrupt_id", "payload", "answer_schema")
    INTERRUPT_ID_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    ANSWER_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    interrupt_id: str
    payload: _struct_pb2.Value
    answer_schema: _struct_pb2.Struct
    def __init__(self, interrupt_id: _Optional[str] = ..., payload: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ..., answer_schema: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class InputReceived(_message.Message):
    __slots__ = ("input_request_id", "expired", "subject", "right", "role")
    INPUT_REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    RIGHT_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    input_request_id: str
    expired: bool
    subject: str
    right: AnswerRight
    role: str
    def __init__(self, input_request_id: _Optional[str] = ..., expired: _Optional[bool] = ..., subject: _Optional[str] = ..., right: _Optional[_Union[AnswerRight, str]] = ..., role: _Optional[str] = ...) -> None: ...

class Decision(_message.Message):
    __slots__ = ("decision_id", "run_id", "sequence", "router", "rule", "destination", "rejected_rules", "grounds", "facts", "policy_version", "checkpoint_id", "trace_id", "span_id", "node", "node_elapsed_ms", "calls", "decide_time", "decided_by", "destinations", "code")
    DECISION_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ROUTER_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_FIELD_NUMBER: _ClassVar[int]
    REJECTED_RULES_FIELD_NUMBER: _ClassVar[int]
    GROUNDS_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    SPAN_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    NODE_ELAPSED_MS_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    DECIDE_TIME_FIELD_NUMBER: _ClassVar[int]
    DECIDED_BY_FIELD_NUMBER: _ClassVar[int]
    DESTINATIONS_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    decision_id: str
    run_id: str
    sequence: int
    router: str
    rule: str
    destination: str
    rejected_rules: _containers.RepeatedCompositeFieldContainer[TriedRule]
    grounds: _struct_pb2.Struct
    facts: _struct_pb2.Struct
    policy_version: str
    checkpoint_id: str
    trace_id: str
    span_id: str
    node: str
    node_elapsed_ms: float
    calls: _containers.RepeatedCompositeFieldContainer[NodeCall]
    decide_time: _timestamp_pb2.Timestamp
    decided_by: _hosted_pb2.DecidedBy
    destinations: _containers.RepeatedCompositeFieldContainer[_hosted_pb2.Destination]
    code: _hosted_pb2.CodeDecision
    def __init__(self, decision_id: _Optional[str] = ..., run_id: _Optional[str] = ..., sequence: _Optional[int] = ..., router: _Optional[str] = ..., rule: _Optional[str] = ..., destination: _Optional[str] = ..., rejected_rules: _Optional[_Iterable[_Union[TriedRule, _Mapping]]] = ..., grounds: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., facts: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., policy_version: _Optional[str] = ..., checkpoint_id: _Optional[str] = ..., trace_id: _Optional[str] = ..., span_id: _Optional[str] = ..., node: _Optional[str] = ..., node_elapsed_ms: _Optional[float] = ..., calls: _Optional[_Iterable[_Union[NodeCall, _Mapping]]] = ..., decide_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., decided_by: _Optional[_Union[_hosted_pb2.DecidedBy, str]] = ..., destinations: _Optional[_Iterable[_Union[_hosted_pb2.Destination, _Mapping]]] = ..., code: _Optional[_Union[_hosted_pb2.CodeDecision, _Mapping]] = ...) -> None: ...

class TriedRule(_message.Message):
    __slots__ = ("rule", "grounds")
    RULE_FIELD_NUMBER: _ClassVar[int]
    GROUNDS_FIELD_NUMBER: _ClassVar[int]
    rule: str
    grounds: _struct_pb2.Struct
    def __init__(self, rule: _Optional[str] = ..., grounds: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class NodeCall(_message.Message):
    __slots__ = ("kind", "name", "outcome", "elapsed_ms", "token_usage", "service", "end_time", "offline_rules", "prompts", "estimated_tokens", "at_least_once")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_MS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_USAGE_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    OFFLINE_RULES_FIELD_NUMBER: _ClassVar[int]
    PROMPTS_FIELD_NUMBER: _ClassVar[int]
    ESTIMATED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_ONCE_FIELD_NUMBER: _ClassVar[int]
    kind: str
    name: str
    outcome: str
    elapsed_ms: float
    token_usage: _caller_pb2.TokenUsage
    service: str
    end_time: _timestamp_pb2.Timestamp
    offline_rules: bool
    prompts: str
    estimated_tokens: bool
    at_least_once: bool
    def __init__(self, kind: _Optional[str] = ..., name: _Optional[str] = ..., outcome: _Optional[str] = ..., elapsed_ms: _Optional[float] = ..., token_usage: _Optional[_Union[_caller_pb2.TokenUsage, _Mapping]] = ..., service: _Optional[str] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., offline_rules: _Optional[bool] = ..., prompts: _Optional[str] = ..., estimated_tokens: _Optional[bool] = ..., at_least_once: _Optional[bool] = ...) -> None: ...

class RunEvent(_message.Message):
    __slots__ = ("sequence", "run_id", "event_time", "state_changed", "node_completed", "decision", "run_ended", "token_chunk", "tokens_reset", "custom_writes", "callback_events")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    STATE_CHANGED_FIELD_NUMBER: _ClassVar[int]
    NODE_COMPLETED_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    RUN_ENDED_FIELD_NUMBER: _ClassVar[int]
    TOKEN_CHUNK_FIELD_NUMBER: _ClassVar[int]
    TOKENS_RESET_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_WRITES_FIELD_NUMBER: _ClassVar[int]
    CALLBACK_EVENTS_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    run_id: str
    event_time: _timestamp_pb2.Timestamp
    state_changed: StateChanged
    node_completed: NodeCompleted
    decision: Decision
    run_ended: RunEnded
    token_chunk: TokenChunk
    tokens_reset: TokensReset
    custom_writes: _containers.RepeatedCompositeFieldContainer[CustomWrites]
    callback_events: _containers.RepeatedCompositeFieldContainer[CallbackEvents]
    def __init__(self, sequence: _Optional[int] = ..., run_id: _Optional[str] = ..., event_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., state_changed: _Optional[_Union[StateChanged, _Mapping]] = ..., node_completed: _Optional[_Union[NodeCompleted, _Mapping]] = ..., decision: _Optional[_Union[Decision, _Mapping]] = ..., run_ended: _Optional[_Union[RunEnded, _Mapping]] = ..., token_chunk: _Optional[_Union[TokenChunk, _Mapping]] = ..., tokens_reset: _Optional[_Union[TokensReset, _Mapping]] = ..., custom_writes: _Optional[_Iterable[_Union[CustomWrites, _Mapping]]] = ..., callback_events: _Optional[_Iterable[_Union[CallbackEvents, _Mapping]]] = ...) -> None: ...

class CallbackEvents(_message.Message):
    __slots__ = ("claim", "offset", "about", "data")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    claim: str
    offset: int
    about: str
    data: _containers.RepeatedCompositeFieldContainer[CustomWrite]
    def __init__(self, claim: _Optional[str] = ..., offset: _Optional[int] = ..., about: _Optional[str] = ..., data: _Optional[_Iterable[_Union[CustomWrite, _Mapping]]] = ...) -> None: ...

class CustomWrites(_message.Message):
    __slots__ = ("node", "attempt", "offset", "writes")
    NODE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    WRITES_FIELD_NUMBER: _ClassVar[int]
    node: str
    attempt: str
    offset: int
    writes: _containers.RepeatedCompositeFieldContainer[CustomWrite]
    def __init__(self, node: _Optional[str] = ..., attempt: _Optional[str] = ..., offset: _Optional[int] = ..., writes: _Optional[_Iterable[_Union[CustomWrite, _Mapping]]] = ...) -> None: ...

class CustomWrite(_message.Message):
    __slots__ = ("json", "left_out")
    JSON_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    json: str
    left_out: CustomWriteLeftOut
    def __init__(self, json: _Optional[str] = ..., left_out: _Optional[_Union[CustomWriteLeftOut, str]] = ...) -> None: ...

class TokenChunk(_message.Message):
    __slots__ = ("node", "message_id", "offset", "text", "provisional")
    NODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    PROVISIONAL_FIELD_NUMBER: _ClassVar[int]
    node: str
    message_id: str
    offset: int
    text: str
    provisional: bool
    def __init__(self, node: _Optional[str] = ..., message_id: _Optional[str] = ..., offset: _Optional[int] = ..., text: _Optional[str] = ..., provisional: _Optional[bool] = ...) -> None: ...

class TokensReset(_message.Message):
    __slots__ = ("node", "cause")
    NODE_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    node: str
    cause: TokensResetCause
    def __init__(self, node: _Optional[str] = ..., cause: _Optional[_Union[TokensResetCause, str]] = ...) -> None: ...

class StateChanged(_message.Message):
    __slots__ = ("state", "input_request", "waiting_for", "cause", "retry_time", "input_received")
    STATE_FIELD_NUMBER: _ClassVar[int]
    INPUT_REQUEST_FIELD_NUMBER: _ClassVar[int]
    WAITING_FOR_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    RETRY_TIME_FIELD_NUMBER: _ClassVar[int]
    INPUT_RECEIVED_FIELD_NUMBER: _ClassVar[int]
    state: RunState
    input_request: InputRequest
    waiting_for: str
    cause: str
    retry_time: _timestamp_pb2.Timestamp
    input_received: InputReceived
    def __init__(self, state: _Optional[_Union[RunState, str]] = ..., input_request: _Optional[_Union[InputRequest, _Mapping]] = ..., waiting_for: _Optional[str] = ..., cause: _Optional[str] = ..., retry_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., input_received: _Optional[_Union[InputReceived, _Mapping]] = ...) -> None: ...

class NodeCompleted(_message.Message):
    __slots__ = ("node", "elapsed_ms", "calls")
    NODE_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_MS_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    node: str
    elapsed_ms: float
    calls: _containers.RepeatedCompositeFieldContainer[NodeCall]
    def __init__(self, node: _Optional[str] = ..., elapsed_ms: _Optional[float] = ..., calls: _Optional[_Iterable[_Union[NodeCall, _Mapping]]] = ...) -> None: ...

class RunEnded(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: Run
    def __init__(self, run: _Optional[_Union[Run, _Mapping]] = ...) -> None: ...

class CreateRunRequest(_message.Message):
    __slots__ = ("input", "request_id", "thread_id", "correlation_id", "budget", "active_run_policy", "labels", "record", "token_chunks", "callback_events")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    INPUT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_RUN_POLICY_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    TOKEN_CHUNKS_FIELD_NUMBER: _ClassVar[int]
    CALLBACK_EVENTS_FIELD_NUMBER: _ClassVar[int]
    input: RunInput
    request_id: str
    thread_id: str
    correlation_id: str
    budget: _caller_pb2.Budget
    active_run_policy: ActiveRunPolicy
    labels: _containers.ScalarMap[str, str]
    record: bool
    token_chunks: bool
    callback_events: bool
    def __init__(self, input: _Optional[_Union[RunInput, _Mapping]] = ..., request_id: _Optional[str] = ..., thread_id: _Optional[str] = ..., correlation_id: _Optional[str] = ..., budget: _Optional[_Union[_caller_pb2.Budget, _Mapping]] = ..., active_run_policy: _Optional[_Union[ActiveRunPolicy, str]] = ..., labels: _Optional[_Mapping[str, str]] = ..., record: _Optional[bool] = ..., token_chunks: _Optional[bool] = ..., callback_events: _Optional[bool] = ...) -> None: ...

class CreateRunResponse(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: Run
    def __init__(self, run: _Optional[_Union[Run, _Mapping]] = ...) -> None: ...

class ExecuteRunRequest(_message.Message):
    __slots__ = ("create", "token_chunks")
    CREATE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_CHUNKS_FIELD_NUMBER: _ClassVar[int]
    create: CreateRunRequest
    token_chunks: bool
    def __init__(self, create: _Optional[_Union[CreateRunRequest, _Mapping]] = ..., token_chunks: _Optional[bool] = ...) -> None: ...

class ExecuteRunResponse(_message.Message):
    __slots__ = ("event",)
    EVENT_FIELD_NUMBER: _ClassVar[int]
    event: RunEvent
    def __init__(self, event: _Optional[_Union[RunEvent, _Mapping]] = ...) -> None: ...

class WatchRunRequest(_message.Message):
    __slots__ = ("run_id", "after_sequence", "token_chunks", "callback_events")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    AFTER_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_CHUNKS_FIELD_NUMBER: _ClassVar[int]
    CALLBACK_EVENTS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    after_sequence: int
    token_chunks: bool
    callback_events: bool
    def __init__(self, run_id: _Optional[str] = ..., after_sequence: _Optional[int] = ..., token_chunks: _Optional[bool] = ..., callback_events: _Optional[bool] = ...) -> None: ...

class WatchRunResponse(_message.Message):
    __slots__ = ("event",)
    EVENT_FIELD_NUMBER: _ClassVar[int]
    event: RunEvent
    def __init__(self, event: _Optional[_Union[RunEvent, _Mapping]] = ...) -> None: ...

class GetRunRequest(_message.Message):
    __slots__ = ("run_id",)
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    def __init__(self, run_id: _Optional[str] = ...) -> None: ...

class GetRunResponse(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: Run
    def __init__(self, run: _Optional[_Union[Run, _Mapping]] = ...) -> None: ...

class ListRunsRequest(_message.Message):
    __slots__ = ("agent", "state", "thread_id", "page_size", "page_token", "since_time", "until_time", "subject", "labels", "outcome", "text", "run_id_prefix")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    AGENT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SINCE_TIME_FIELD_NUMBER: _ClassVar[int]
    UNTIL_TIME_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_PREFIX_FIELD_NUMBER: _ClassVar[int]
    agent: str
    state: RunState
    thread_id: str
    page_size: int
    page_token: str
    since_time: _timestamp_pb2.Timestamp
    until_time: _timestamp_pb2.Timestamp
    subject: str
    labels: _containers.ScalarMap[str, str]
    outcome: _outcome_pb2.Outcome
    text: str
    run_id_prefix: str
    def __init__(self, agent: _Optional[str] = ..., state: _Optional[_Union[RunState, str]] = ..., thread_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., since_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., until_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., subject: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., outcome: _Optional[_Union[_outcome_pb2.Outcome, str]] = ..., text: _Optional[str] = ..., run_id_prefix: _Optional[str] = ...) -> None: ...

class ListRunsResponse(_message.Message):
    __slots__ = ("runs", "next_page_token")
    RUNS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[Run]
    next_page_token: str
    def __init__(self, runs: _Optional[_Iterable[_Union[Run, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class CancelRunRequest(_message.Message):
    __slots__ = ("run_id",)
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    def __init__(self, run_id: _Optional[str] = ...) -> None: ...

class CancelRunResponse(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: Run
    def __init__(self, run: _Optional[_Union[Run, _Mapping]] = ...) -> None: ...

class ResumeRunRequest(_message.Message):
    __slots__ = ("run_id", "input_request_id", "answer", "answers", "token_chunks", "callback_events")
    class AnswersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _struct_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ...) -> None: ...
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    INPUT_REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_CHUNKS_FIELD_NUMBER: _ClassVar[int]
    CALLBACK_EVENTS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    input_request_id: str
    answer: str
    answers: _containers.MessageMap[str, _struct_pb2.Value]
    token_chunks: bool
    callback_events: bool
    def __init__(self, run_id: _Optional[str] = ..., input_request_id: _Optional[str] = ..., answer: _Optional[str] = ..., answers: _Optional[_Mapping[str, _struct_pb2.Value]] = ..., token_chunks: _Optional[bool] = ..., callback_events: _Optional[bool] = ...) -> None: ...

class ResumeRunResponse(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: Run
    def __init__(self, run: _Optional[_Union[Run, _Mapping]] = ...) -> None: ...

class ListDecisionsRequest(_message.Message):
    __slots__ = ("run_id", "page_size", "page_token", "agent", "router", "rule", "destination", "since_time", "until_time", "subject", "correlation_id")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    ROUTER_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_FIELD_NUMBER: _ClassVar[int]
    SINCE_TIME_FIELD_NUMBER: _ClassVar[int]
    UNTIL_TIME_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    page_size: int
    page_token: str
    agent: str
    router: str
    rule: str
    destination: str
    since_time: _timestamp_pb2.Timestamp
    until_time: _timestamp_pb2.Timestamp
    subject: str
    correlation_id: str
    def __init__(self, run_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., agent: _Optional[str] = ..., router: _Optional[str] = ..., rule: _Optional[str] = ..., destination: _Optional[str] = ..., since_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., until_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., subject: _Optional[str] = ..., correlation_id: _Optional[str] = ...) -> None: ...

class ListDecisionsResponse(_message.Message):
    __slots__ = ("decisions", "next_page_token")
    DECISIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    decisions: _containers.RepeatedCompositeFieldContainer[Decision]
    next_page_token: str
    def __init__(self, decisions: _Optional[_Iterable[_Union[Decision, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class CountDecisionsRequest(_message.Message):
    __slots__ = ("agent", "since_time", "interval_hours")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SINCE_TIME_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_HOURS_FIELD_NUMBER: _ClassVar[int]
    agent: str
    since_time: _timestamp_pb2.Timestamp
    interval_hours: int
    def __init__(self, agent: _Optional[str] = ..., since_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., interval_hours: _Optional[int] = ...) -> None: ...

class CountDecisionsResponse(_message.Message):
    __slots__ = ("counts", "decision_count", "is_partial")
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    DECISION_COUNT_FIELD_NUMBER: _ClassVar[int]
    IS_PARTIAL_FIELD_NUMBER: _ClassVar[int]
    counts: _containers.RepeatedCompositeFieldContainer[DecisionCount]
    decision_count: int
    is_partial: bool
    def __init__(self, counts: _Optional[_Iterable[_Union[DecisionCount, _Mapping]]] = ..., decision_count: _Optional[int] = ..., is_partial: _Optional[bool] = ...) -> None: ...

class DecisionCount(_message.Message):
    __slots__ = ("router", "rule", "destination", "node", "count", "begin_time", "last_time")
    ROUTER_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    BEGIN_TIME_FIELD_NUMBER: _ClassVar[int]
    LAST_TIME_FIELD_NUMBER: _ClassVar[int]
    router: str
    rule: str
    destination: str
    node: str
    count: int
    begin_time: _timestamp_pb2.Timestamp
    last_time: _timestamp_pb2.Timestamp
    def __init__(self, router: _Optional[str] = ..., rule: _Optional[str] = ..., destination: _Optional[str] = ..., node: _Optional[str] = ..., count: _Optional[int] = ..., begin_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CountRunsRequest(_message.Message):
    __slots__ = ("since_time", "interval_minutes", "agent", "with_costs")
    SINCE_TIME_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_MINUTES_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    WITH_COSTS_FIELD_NUMBER: _ClassVar[int]
    since_time: _timestamp_pb2.Timestamp
    interval_minutes: int
    agent: str
    with_costs: bool
    def __init__(self, since_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., interval_minutes: _Optional[int] = ..., agent: _Optional[str] = ..., with_costs: _Optional[bool] = ...) -> None: ...

class CountRunsResponse(_message.Message):
    __slots__ = ("counts", "intervals", "run_count", "is_partial", "costs")
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    INTERVALS_FIELD_NUMBER: _ClassVar[int]
    RUN_COUNT_FIELD_NUMBER: _ClassVar[int]
    IS_PARTIAL_FIELD_NUMBER: _ClassVar[int]
    COSTS_FIELD_NUMBER: _ClassVar[int]
    counts: _containers.RepeatedCompositeFieldContainer[RunCount]
    intervals: _containers.RepeatedCompositeFieldContainer[RunCount]
    run_count: int
    is_partial: bool
    costs: _costs_pb2.Costs
    def __init__(self, counts: _Optional[_Iterable[_Union[RunCount, _Mapping]]] = ..., intervals: _Optional[_Iterable[_Union[RunCount, _Mapping]]] = ..., run_count: _Optional[int] = ..., is_partial: _Optional[bool] = ..., costs: _Optional[_Union[_costs_pb2.Costs, _Mapping]] = ...) -> None: ...

class RunCount(_message.Message):
    __slots__ = ("begin_time", "agent", "state", "outcome", "count", "duration", "wait", "model_calls", "token_usage", "tool_calls")
    BEGIN_TIME_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    MODEL_CALLS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_USAGE_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    begin_time: _timestamp_pb2.Timestamp
    agent: str
    state: RunState
    outcome: _outcome_pb2.Outcome
    count: int
    duration: Quantiles
    wait: Quantiles
    model_calls: int
    token_usage: _caller_pb2.TokenUsage
    tool_calls: int
    def __init__(self, begin_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., agent: _Optional[str] = ..., state: _Optional[_Union[RunState, str]] = ..., outcome: _Optional[_Union[_outcome_pb2.Outcome, str]] = ..., count: _Optional[int] = ..., duration: _Optional[_Union[Quantiles, _Mapping]] = ..., wait: _Optional[_Union[Quantiles, _Mapping]] = ..., model_calls: _Optional[int] = ..., token_usage: _Optional[_Union[_caller_pb2.TokenUsage, _Mapping]] = ..., tool_calls: _Optional[int] = ...) -> None: ...

class Quantiles(_message.Message):
    __slots__ = ("median_s", "p95_s")
    MEDIAN_S_FIELD_NUMBER: _ClassVar[int]
    P95_S_FIELD_NUMBER: _ClassVar[int]
    median_s: float
    p95_s: float
    def __init__(self, median_s: _Optional[float] = ..., p95_s: _Optional[float] = ...) -> None: ...

class ExplainRunRequest(_message.Message):
    __slots__ = ("run_id", "page_size", "page_token")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    page_size: int
    page_token: str
    def __init__(self, run_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListRecordedAnswersRequest(_message.Message):
    __slots__ = ("run_id", "page_token")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    page_token: str
    def __init__(self, run_id: _Optional[str] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListRecordedAnswersResponse(_message.Message):
    __slots__ = ("answers", "next_page_token")
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    answers: _containers.RepeatedCompositeFieldContainer[_recorded_answers_pb2.RecordedAnswer]
    next_page_token: str
    def __init__(self, answers: _Optional[_Iterable[_Union[_recorded_answers_pb2.RecordedAnswer, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ExplainRunResponse(_message.Message):
    __slots__ = ("explanations", "next_page_token", "run")
    EXPLANATIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    explanations: _containers.RepeatedCompositeFieldContainer[DecisionExplanation]
    next_page_token: str
    run: RunExplanation
    def __init__(self, explanations: _Optional[_Iterable[_Union[DecisionExplanation, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., run: _Optional[_Union[RunExplanation, _Mapping]] = ...) -> None: ...

class DecisionExplanation(_message.Message):
    __slots__ = ("sequence", "rules", "alternatives", "later_rules")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    ALTERNATIVES_FIELD_NUMBER: _ClassVar[int]
    LATER_RULES_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    rules: _containers.RepeatedCompositeFieldContainer[RuleExplanation]
    alternatives: _containers.RepeatedCompositeFieldContainer[Alternative]
    later_rules: _containers.RepeatedCompositeFieldContainer[RuleExplanation]
    def __init__(self, sequence: _Optional[int] = ..., rules: _Optional[_Iterable[_Union[RuleExplanation, _Mapping]]] = ..., alternatives: _Optional[_Iterable[_Union[Alternative, _Mapping]]] = ..., later_rules: _Optional[_Iterable[_Union[RuleExplanation, _Mapping]]] = ...) -> None: ...

class RuleExplanation(_message.Message):
    __slots__ = ("rule", "condition", "missed_by")
    RULE_FIELD_NUMBER: _ClassVar[int]
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    MISSED_BY_FIELD_NUMBER: _ClassVar[int]
    rule: str
    condition: str
    missed_by: str
    def __init__(self, rule: _Optional[str] = ..., condition: _Optional[str] = ..., missed_by: _Optional[str] = ...) -> None: ...

class Alternative(_message.Message):
    __slots__ = ("change", "is_limit", "rule", "destination")
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    IS_LIMIT_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_FIELD_NUMBER: _ClassVar[int]
    change: str
    is_limit: bool
    rule: str
    destination: str
    def __init__(self, change: _Optional[str] = ..., is_limit: _Optional[bool] = ..., rule: _Optional[str] = ..., destination: _Optional[str] = ...) -> None: ...

class RunExplanation(_message.Message):
    __slots__ = ("route", "charges", "spend", "uncharged", "elapsed_ms", "breakers", "questions", "waits", "claims", "agent", "read_time", "costs")
    ROUTE_FIELD_NUMBER: _ClassVar[int]
    CHARGES_FIELD_NUMBER: _ClassVar[int]
    SPEND_FIELD_NUMBER: _ClassVar[int]
    UNCHARGED_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_MS_FIELD_NUMBER: _ClassVar[int]
    BREAKERS_FIELD_NUMBER: _ClassVar[int]
    QUESTIONS_FIELD_NUMBER: _ClassVar[int]
    WAITS_FIELD_NUMBER: _ClassVar[int]
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    READ_TIME_FIELD_NUMBER: _ClassVar[int]
    COSTS_FIELD_NUMBER: _ClassVar[int]
    route: _containers.RepeatedCompositeFieldContainer[RouteStep]
    charges: _containers.RepeatedCompositeFieldContainer[Charge]
    spend: Spend
    uncharged: Spend
    elapsed_ms: float
    breakers: _containers.RepeatedCompositeFieldContainer[Breaker]
    questions: _containers.RepeatedCompositeFieldContainer[AskedQuestion]
    waits: _containers.RepeatedCompositeFieldContainer[DependencyWait]
    claims: _containers.RepeatedCompositeFieldContainer[RunClaim]
    agent: _agent_outline_pb2.AgentOutline
    read_time: _timestamp_pb2.Timestamp
    costs: _costs_pb2.Costs
    def __init__(self, route: _Optional[_Iterable[_Union[RouteStep, _Mapping]]] = ..., charges: _Optional[_Iterable[_Union[Charge, _Mapping]]] = ..., spend: _Optional[_Union[Spend, _Mapping]] = ..., uncharged: _Optional[_Union[Spend, _Mapping]] = ..., elapsed_ms: _Optional[float] = ..., breakers: _Optional[_Iterable[_Union[Breaker, _Mapping]]] = ..., questions: _Optional[_Iterable[_Union[AskedQuestion, _Mapping]]] = ..., waits: _Optional[_Iterable[_Union[DependencyWait, _Mapping]]] = ..., claims: _Optional[_Iterable[_Union[RunClaim, _Mapping]]] = ..., agent: _Optional[_Union[_agent_outline_pb2.AgentOutline, _Mapping]] = ..., read_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., costs: _Optional[_Union[_costs_pb2.Costs, _Mapping]] = ...) -> None: ...

class RouteStep(_message.Message):
    __slots__ = ("node", "end_time", "elapsed_ms", "calls", "sequence", "led_by")
    NODE_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_MS_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    LED_BY_FIELD_NUMBER: _ClassVar[int]
    node: str
    end_time: _timestamp_pb2.Timestamp
    elapsed_ms: float
    calls: _containers.RepeatedCompositeFieldContainer[NodeCall]
    sequence: int
    led_by: int
    def __init__(self, node: _Optional[str] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., elapsed_ms: _Optional[float] = ..., calls: _Optional[_Iterable[_Union[NodeCall, _Mapping]]] = ..., sequence: _Optional[int] = ..., led_by: _Optional[int] = ...) -> None: ...

class Charge(_message.Message):
    __slots__ = ("sequence", "router", "rule", "nodes", "spend", "elapsed_ms", "waited_ms", "asked_ms")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ROUTER_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    SPEND_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_MS_FIELD_NUMBER: _ClassVar[int]
    WAITED_MS_FIELD_NUMBER: _ClassVar[int]
    ASKED_MS_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    router: str
    rule: str
    nodes: _containers.RepeatedScalarFieldContainer[str]
    spend: Spend
    elapsed_ms: float
    waited_ms: float
    asked_ms: float
    def __init__(self, sequence: _Optional[int] = ..., router: _Optional[str] = ..., rule: _Optional[str] = ..., nodes: _Optional[_Iterable[str]] = ..., spend: _Optional[_Union[Spend, _Mapping]] = ..., elapsed_ms: _Optional[float] = ..., waited_ms: _Optional[float] = ..., asked_ms: _Optional[float] = ...) -> None: ...

class Breaker(_message.Message):
    __slots__ = ("router", "rule", "sequence", "missed_by", "used", "fired")
    ROUTER_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    MISSED_BY_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    FIRED_FIELD_NUMBER: _ClassVar[int]
    router: str
    rule: str
    sequence: int
    missed_by: str
    used: float
    fired: bool
    def __init__(self, router: _Optional[str] = ..., rule: _Optional[str] = ..., sequence: _Optional[int] = ..., missed_by: _Optional[str] = ..., used: _Optional[float] = ..., fired: _Optional[bool] = ...) -> None: ...

class AskedQuestion(_message.Message):
    __slots__ = ("input_request_id", "question", "ask_time", "answer_time", "answered_by", "answer", "asked_ms", "led_by", "right", "role")
    INPUT_REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    ASK_TIME_FIELD_NUMBER: _ClassVar[int]
    ANSWER_TIME_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_BY_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    ASKED_MS_FIELD_NUMBER: _ClassVar[int]
    LED_BY_FIELD_NUMBER: _ClassVar[int]
    RIGHT_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    input_request_id: str
    question: str
    ask_time: _timestamp_pb2.Timestamp
    answer_time: _timestamp_pb2.Timestamp
    answered_by: str
    answer: str
    asked_ms: float
    led_by: int
    right: AnswerRight
    role: str
    def __init__(self, input_request_id: _Optional[str] = ..., question: _Optional[str] = ..., ask_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., answer_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., answered_by: _Optional[str] = ..., answer: _Optional[str] = ..., asked_ms: _Optional[float] = ..., led_by: _Optional[int] = ..., right: _Optional[_Union[AnswerRight, str]] = ..., role: _Optional[str] = ...) -> None: ...

class DependencyWait(_message.Message):
    __slots__ = ("dependency", "cause", "begin_time", "end_time", "led_by")
    DEPENDENCY_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    BEGIN_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    LED_BY_FIELD_NUMBER: _ClassVar[int]
    dependency: str
    cause: str
    begin_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    led_by: int
    def __init__(self, dependency: _Optional[str] = ..., cause: _Optional[str] = ..., begin_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., led_by: _Optional[int] = ...) -> None: ...

class RunClaim(_message.Message):
    __slots__ = ("claim_time", "cause", "after_sequence")
    CLAIM_TIME_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    AFTER_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    claim_time: _timestamp_pb2.Timestamp
    cause: ClaimCause
    after_sequence: int
    def __init__(self, claim_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., cause: _Optional[_Union[ClaimCause, str]] = ..., after_sequence: _Optional[int] = ...) -> None: ...
