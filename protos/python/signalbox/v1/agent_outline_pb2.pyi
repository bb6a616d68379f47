from google.protobuf import struct_pb2 as _struct_pb2
from signalbox.v1 import hosted_pb2 as _hosted_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AgentOutline(_message.Message):
    __slots__ = ("graph_version", "entry", "nodes", "limits")
    GRAPH_VERSION_FIELD_NUMBER: _ClassVar[int]
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    graph_version: str
    entry: str
    nodes: _containers.RepeatedCompositeFieldContainer[NodeOutline]
    limits: _containers.RepeatedCompositeFieldContainer[LimitOutline]
    def __init__(self, graph_version: _Optional[str] = ..., entry: _Optional[str] = ..., nodes: _Optional[_Iterable[_Union[NodeOutline, _Mapping]]] = ..., limits: _Optional[_Iterable[_Union[LimitOutline, _Mapping]]] = ...) -> None: ...

class NodeOutline(_message.Message):
    __slots__ = ("node", "router", "then", "rules", "destinations", "decided_by", "reads")
    NODE_FIELD_NUMBER: _ClassVar[int]
    ROUTER_FIELD_NUMBER: _ClassVar[int]
    THEN_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    DESTINATIONS_FIELD_NUMBER: _ClassVar[int]
    DECIDED_BY_FIELD_NUMBER: _ClassVar[int]
    READS_FIELD_NUMBER: _ClassVar[int]
    node: str
    router: str
    then: str
    rules: _containers.RepeatedCompositeFieldContainer[RuleOutline]
    destinations: _containers.RepeatedScalarFieldContainer[str]
    decided_by: _hosted_pb2.DecidedBy
    reads: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, node: _Optional[str] = ..., router: _Optional[str] = ..., then: _Optional[str] = ..., rules: _Optional[_Iterable[_Union[RuleOutline, _Mapping]]] = ..., destinations: _Optional[_Iterable[str]] = ..., decided_by: _Optional[_Union[_hosted_pb2.DecidedBy, str]] = ..., reads: _Optional[_Iterable[str]] = ...) -> None: ...

class RuleOutline(_message.Message):
    __slots__ = ("rule", "when", "ways", "is_breaker")
    RULE_FIELD_NUMBER: _ClassVar[int]
    WHEN_FIELD_NUMBER: _ClassVar[int]
    WAYS_FIELD_NUMBER: _ClassVar[int]
    IS_BREAKER_FIELD_NUMBER: _ClassVar[int]
    rule: str
    when: Condition
    ways: _containers.RepeatedCompositeFieldContainer[WayOutline]
    is_breaker: bool
    def __init__(self, rule: _Optional[str] = ..., when: _Optional[_Union[Condition, _Mapping]] = ..., ways: _Optional[_Iterable[_Union[WayOutline, _Mapping]]] = ..., is_breaker: _Optional[bool] = ...) -> None: ...

class WayOutline(_message.Message):
    __slots__ = ("when", "destination")
    WHEN_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_FIELD_NUMBER: _ClassVar[int]
    when: Condition
    destination: str
    def __init__(self, when: _Optional[_Union[Condition, _Mapping]] = ..., destination: _Optional[str] = ...) -> None: ...

class LimitOutline(_message.Message):
    __slots__ = ("name", "value", "is_whole", "least", "most")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    IS_WHOLE_FIELD_NUMBER: _ClassVar[int]
    LEAST_FIELD_NUMBER: _ClassVar[int]
    MOST_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: _struct_pb2.Value
    is_whole: bool
    least: float
    most: float
    def __init__(self, name: _Optional[str] = ..., value: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ..., is_whole: _Optional[bool] = ..., least: _Optional[float] = ..., most: _Optional[float] = ...) -> None: ...

class Condition(_message.Message):
    __slots__ = ("always", "flag", "comparison", "one_of", "all_of", "any_of")
    ALWAYS_FIELD_NUMBER: _ClassVar[int]
    FLAG_FIELD_NUMBER: _ClassVar[int]
    COMPARISON_FIELD_NUMBER: _ClassVar[int]
    ONE_OF_FIELD_NUMBER: _ClassVar[int]
    NOT_FIELD_NUMBER: _ClassVar[int]
    ALL_OF_FIELD_NUMBER: _ClassVar[int]
    ANY_OF_FIELD_NUMBER: _ClassVar[int]
    always: bool
    flag: Term
    comparison: Comparison
    one_of: Membership
    all_of: ConditionList
    any_of: ConditionList
    def __init__(self, always: _Optional[bool] = ..., flag: _Optional[_Union[Term, _Mapping]] = ..., comparison: _Optional[_Union[Comparison, _Mapping]] = ..., one_of: _Optional[_Union[Membership, _Mapping]] = ..., all_of: _Optional[_Union[ConditionList, _Mapping]] = ..., any_of: _Optional[_Union[ConditionList, _Mapping]] = ..., **kwargs) -> None: ...

class ConditionList(_message.Message):
    __slots__ = ("conditions",)
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    conditions: _containers.RepeatedCompositeFieldContainer[Condition]
    def __init__(self, conditions: _Optional[_Iterable[_Union[Condition, _Mapping]]] = ...) -> None: ...

class Term(_message.Message):
    __slots__ = ("name", "is_limit")
    NAME_FIELD_NUMBER: _ClassVar[int]
    IS_LIMIT_FIELD_NUMBER: _ClassVar[int]
    name: str
    is_limit: bool
    def __init__(self, name: _Optional[str] = ..., is_limit: _Optional[bool] = ...) -> None: ...

class Comparison(_message.Message):
    __slots__ = ("term", "operator", "other_term", "value")
    TERM_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    OTHER_TERM_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    term: Term
    operator: str
    other_term: Term
    value: _struct_pb2.Value
    def __init__(self, term: _Optional[_Union[Term, _Mapping]] = ..., operator: _Optional[str] = ..., other_term: _Optional[_Union[Term, _Mapping]] = ..., value: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ...) -> None: ...

class Membership(_message.Message):
    __slots__ = ("term", "values")
    TERM_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    term: Term
    values: _containers.RepeatedCompositeFieldContainer[_struct_pb2.Value]
    def __init__(self, term: _Optional[_Union[Term, _Mapping]] = ..., values: _Optional[_Iterable[_Union[_struct_pb2.Value, _Mapping]]] = ...) -> None: ...
