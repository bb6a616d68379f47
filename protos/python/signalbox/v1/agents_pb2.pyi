import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from signalbox.v1 import agent_outline_pb2 as _agent_outline_pb2
from signalbox.v1 import policy_pb2 as _policy_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Agent(_message.Message):
    __slots__ = ("name", "description", "input_type", "output_type", "graph_version", "routers", "tools", "policy", "input_schema", "context_schema", "output_schema", "pool", "away_since", "schemas_omitted", "outline")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    INPUT_TYPE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TYPE_FIELD_NUMBER: _ClassVar[int]
    GRAPH_VERSION_FIELD_NUMBER: _ClassVar[int]
    ROUTERS_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    INPUT_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    AWAY_SINCE_FIELD_NUMBER: _ClassVar[int]
    SCHEMAS_OMITTED_FIELD_NUMBER: _ClassVar[int]
    OUTLINE_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    input_type: str
    output_type: str
    graph_version: str
    routers: _containers.RepeatedScalarFieldContainer[str]
    tools: _containers.RepeatedScalarFieldContainer[str]
    policy: _policy_pb2.Policy
    input_schema: _struct_pb2.Struct
    context_schema: _struct_pb2.Struct
    output_schema: _struct_pb2.Struct
    pool: str
    away_since: _timestamp_pb2.Timestamp
    schemas_omitted: bool
    outline: _agent_outline_pb2.AgentOutline
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., input_type: _Optional[str] = ..., output_type: _Optional[str] = ..., graph_version: _Optional[str] = ..., routers: _Optional[_Iterable[str]] = ..., tools: _Optional[_Iterable[str]] = ..., policy: _Optional[_Union[_policy_pb2.Policy, _Mapping]] = ..., input_schema: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., context_schema: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., output_schema: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., pool: _Optional[str] = ..., away_since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., schemas_omitted: _Optional[bool] = ..., outline: _Optional[_Union[_agent_outline_pb2.AgentOutline, _Mapping]] = ...) -> None: ...

class ListAgentsRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ListAgentsResponse(_message.Message):
    __slots__ = ("agents",)
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    agents: _containers.RepeatedCompositeFieldContainer[Agent]
    def __init__(self, agents: _Optional[_Iterable[_Union[Agent, _Mapping]]] = ...) -> None: ...
