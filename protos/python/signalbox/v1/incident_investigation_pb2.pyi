import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from signalbox.v1 import caller_pb2 as _caller_pb2
from signalbox.v1 import sast_pb2 as _sast_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class IncidentSeverity(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    INCIDENT_SEVERITY_UNSPECIFIED: _ClassVar[IncidentSeverity]
    INCIDENT_SEVERITY_LOW: _ClassVar[IncidentSeverity]
    INCIDENT_SEVERITY_MEDIUM: _ClassVar[IncidentSeverity]
    INCIDENT_SEVERITY_HIGH: _ClassVar[IncidentSeverity]
    INCIDENT_SEVERITY_CRITICAL: _ClassVar[IncidentSeverity]
INCIDENT_SEVERITY_UNSPECIFIED: IncidentSeverity
INCIDENT_SEVERITY_LOW: IncidentSeverity
INCIDENT_SEVERITY_MEDIUM: IncidentSeverity
INCIDENT_SEVERITY_HIGH: IncidentSeverity
INCIDENT_SEVERITY_CRITICAL: IncidentSeverity

class IncidentInvestigationInput(_message.Message):
    __slots__ = ("incident_id", "title", "service", "started_at", "severity", "text", "source", "again")
    INCIDENT_ID_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    SEVERITY_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    AGAIN_FIELD_NUMBER: _ClassVar[int]
    incident_id: str
    title: str
    service: str
    started_at: _timestamp_pb2.Timestamp
    severity: IncidentSeverity
    text: str
    source: _sast_pb2.CodeSource
    again: bool
    def __init__(self, incident_id: _Optional[str] = ..., title: _Optional[str] = ..., service: _Optional[str] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., severity: _Optional[_Union[IncidentSeverity, str]] = ..., text: _Optional[str] = ..., source: _Optional[_Union[_sast_pb2.CodeSource, _Mapping]] = ..., again: _Optional[bool] = ...) -> None: ...

class IncidentInvestigationOutput(_message.Message):
    __slots__ = ("root_cause", "confidence", "evidence", "recommendations", "timeline", "explanation", "validated", "token_usage", "offline_model_calls", "investigation_phase", "investigation_status", "problems")
    ROOT_CAUSE_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    RECOMMENDATIONS_FIELD_NUMBER: _ClassVar[int]
    TIMELINE_FIELD_NUMBER: _ClassVar[int]
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    VALIDATED_FIELD_NUMBER: _ClassVar[int]
    TOKEN_USAGE_FIELD_NUMBER: _ClassVar[int]
    OFFLINE_MODEL_CALLS_FIELD_NUMBER: _ClassVar[int]
    INVESTIGATION_PHASE_FIELD_NUMBER: _ClassVar[int]
    INVESTIGATION_STATUS_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    root_cause: str
    confidence: float
    evidence: _containers.RepeatedCompositeFieldContainer[IncidentEvidence]
    recommendations: _containers.RepeatedScalarFieldContainer[str]
    timeline: _containers.RepeatedCompositeFieldContainer[IncidentMoment]
    explanation: str
    validated: bool
    token_usage: _caller_pb2.TokenUsage
    offline_model_calls: int
    investigation_phase: str
    investigation_status: str
    problems: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, root_cause: _Optional[str] = ..., confidence: _Optional[float] = ..., evidence: _Optional[_Iterable[_Union[IncidentEvidence, _Mapping]]] = ..., recommendations: _Optional[_Iterable[str]] = ..., timeline: _Optional[_Iterable[_Union[IncidentMoment, _Mapping]]] = ..., explanation: _Optional[str] = ..., validated: _Optional[bool] = ..., token_usage: _Optional[_Union[_caller_pb2.TokenUsage, _Mapping]] = ..., offline_model_calls: _Optional[int] = ..., investigation_phase: _Optional[str] = ..., investigation_status: _Optional[str] = ..., problems: _Optional[_Iterable[str]] = ...) -> None: ...

class IncidentEvidence(_message.Message):
    __slots__ = ("claim", "query", "graph_path", "code", "tool", "holds", "found", "problem")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    GRAPH_PATH_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    HOLDS_FIELD_NUMBER: _ClassVar[int]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    claim: str
    query: QueryEvidence
    graph_path: GraphPathEvidence
    code: CodeEvidence
    tool: ToolEvidence
    holds: bool
    found: str
    problem: str
    def __init__(self, claim: _Optional[str] = ..., query: _Optional[_Union[QueryEvidence, _Mapping]] = ..., graph_path: _Optional[_Union[GraphPathEvidence, _Mapping]] = ..., code: _Optional[_Union[CodeEvidence, _Mapping]] = ..., tool: _Optional[_Union[ToolEvidence, _Mapping]] = ..., holds: _Optional[bool] = ..., found: _Optional[str] = ..., problem: _Optional[str] = ...) -> None: ...

class QueryEvidence(_message.Message):
    __slots__ = ("query", "row")
    class RowEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    QUERY_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    query: str
    row: _containers.ScalarMap[str, str]
    def __init__(self, query: _Optional[str] = ..., row: _Optional[_Mapping[str, str]] = ...) -> None: ...

class GraphPathEvidence(_message.Message):
    __slots__ = ("nodes", "edges")
    NODES_FIELD_NUMBER: _ClassVar[int]
    EDGES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[GraphPathNode]
    edges: _containers.RepeatedCompositeFieldContainer[GraphPathEdge]
    def __init__(self, nodes: _Optional[_Iterable[_Union[GraphPathNode, _Mapping]]] = ..., edges: _Optional[_Iterable[_Union[GraphPathEdge, _Mapping]]] = ...) -> None: ...

class GraphPathNode(_message.Message):
    __slots__ = ("label", "key")
    LABEL_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    label: str
    key: str
    def __init__(self, label: _Optional[str] = ..., key: _Optional[str] = ...) -> None: ...

class GraphPathEdge(_message.Message):
    __slots__ = ("type", "backwards")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    BACKWARDS_FIELD_NUMBER: _ClassVar[int]
    type: str
    backwards: bool
    def __init__(self, type: _Optional[str] = ..., backwards: _Optional[bool] = ...) -> None: ...

class CodeEvidence(_message.Message):
    __slots__ = ("file", "first_line", "last_line", "commit", "quote")
    FILE_FIELD_NUMBER: _ClassVar[int]
    FIRST_LINE_FIELD_NUMBER: _ClassVar[int]
    LAST_LINE_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    QUOTE_FIELD_NUMBER: _ClassVar[int]
    file: str
    first_line: int
    last_line: int
    commit: str
    quote: str
    def __init__(self, file: _Optional[str] = ..., first_line: _Optional[int] = ..., last_line: _Optional[int] = ..., commit: _Optional[str] = ..., quote: _Optional[str] = ...) -> None: ...

class ToolEvidence(_message.Message):
    __slots__ = ("tool", "arguments")
    TOOL_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    tool: str
    arguments: _struct_pb2.Struct
    def __init__(self, tool: _Optional[str] = ..., arguments: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class IncidentMoment(_message.Message):
    __slots__ = ("time", "event")
    TIME_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    time: _timestamp_pb2.Timestamp
    event: str
    def __init__(self, time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., event: _Optional[str] = ...) -> None: ...
