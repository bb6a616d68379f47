from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from signalbox.v1 import caller_pb2 as _caller_pb2
from signalbox.v1 import outcome_pb2 as _outcome_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ChangeKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CHANGE_KIND_UNSPECIFIED: _ClassVar[ChangeKind]
    CHANGE_KIND_CREATED: _ClassVar[ChangeKind]
    CHANGE_KIND_UPDATED: _ClassVar[ChangeKind]
    CHANGE_KIND_DELETED: _ClassVar[ChangeKind]
CHANGE_KIND_UNSPECIFIED: ChangeKind
CHANGE_KIND_CREATED: ChangeKind
CHANGE_KIND_UPDATED: ChangeKind
CHANGE_KIND_DELETED: ChangeKind

class GraphEditorInput(_message.Message):
    __slots__ = ("goal", "preview", "undo_run_id")
    GOAL_FIELD_NUMBER: _ClassVar[int]
    PREVIEW_FIELD_NUMBER: _ClassVar[int]
    UNDO_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    goal: str
    preview: bool
    undo_run_id: str
    def __init__(self, goal: _Optional[str] = ..., preview: _Optional[bool] = ..., undo_run_id: _Optional[str] = ...) -> None: ...

class GraphEditorOutput(_message.Message):
    __slots__ = ("answer", "outcome", "steps", "change_set", "token_usage")
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    CHANGE_SET_FIELD_NUMBER: _ClassVar[int]
    TOKEN_USAGE_FIELD_NUMBER: _ClassVar[int]
    answer: str
    outcome: _outcome_pb2.Outcome
    steps: _containers.RepeatedCompositeFieldContainer[GraphEditStep]
    change_set: GraphChangeSet
    token_usage: _caller_pb2.TokenUsage
    def __init__(self, answer: _Optional[str] = ..., outcome: _Optional[_Union[_outcome_pb2.Outcome, str]] = ..., steps: _Optional[_Iterable[_Union[GraphEditStep, _Mapping]]] = ..., change_set: _Optional[_Union[GraphChangeSet, _Mapping]] = ..., token_usage: _Optional[_Union[_caller_pb2.TokenUsage, _Mapping]] = ...) -> None: ...

class GraphEditStep(_message.Message):
    __slots__ = ("operation_id", "tool", "arguments", "result", "text")
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    operation_id: str
    tool: str
    arguments: _struct_pb2.Struct
    result: str
    text: str
    def __init__(self, operation_id: _Optional[str] = ..., tool: _Optional[str] = ..., arguments: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., result: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class GraphChangeSet(_message.Message):
    __slots__ = ("nodes", "edges")
    NODES_FIELD_NUMBER: _ClassVar[int]
    EDGES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[NodeChange]
    edges: _containers.RepeatedCompositeFieldContainer[EdgeChange]
    def __init__(self, nodes: _Optional[_Iterable[_Union[NodeChange, _Mapping]]] = ..., edges: _Optional[_Iterable[_Union[EdgeChange, _Mapping]]] = ...) -> None: ...

class NodeReference(_message.Message):
    __slots__ = ("label", "key")
    LABEL_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    label: str
    key: str
    def __init__(self, label: _Optional[str] = ..., key: _Optional[str] = ...) -> None: ...

class NodeChange(_message.Message):
    __slots__ = ("node", "kind", "before", "after")
    NODE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    node: NodeReference
    kind: ChangeKind
    before: _struct_pb2.Struct
    after: _struct_pb2.Struct
    def __init__(self, node: _Optional[_Union[NodeReference, _Mapping]] = ..., kind: _Optional[_Union[ChangeKind, str]] = ..., before: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., after: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class EdgeChange(_message.Message):
    __slots__ = ("type", "start", "end", "kind", "before", "after")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    type: str
    start: NodeReference
    end: NodeReference
    kind: ChangeKind
    before: _struct_pb2.Struct
    after: _struct_pb2.Struct
    def __init__(self, type: _Optional[str] = ..., start: _Optional[_Union[NodeReference, _Mapping]] = ..., end: _Optional[_Union[NodeReference, _Mapping]] = ..., kind: _Optional[_Union[ChangeKind, str]] = ..., before: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., after: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...
