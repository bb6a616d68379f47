from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DecidedBy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DECIDED_BY_UNSPECIFIED: _ClassVar[DecidedBy]
    DECIDED_BY_TABLE: _ClassVar[DecidedBy]
    DECIDED_BY_CODE: _ClassVar[DecidedBy]
    DECIDED_BY_COMMAND: _ClassVar[DecidedBy]
    DECIDED_BY_FAN_OUT: _ClassVar[DecidedBy]
    DECIDED_BY_LIFTED: _ClassVar[DecidedBy]
DECIDED_BY_UNSPECIFIED: DecidedBy
DECIDED_BY_TABLE: DecidedBy
DECIDED_BY_CODE: DecidedBy
DECIDED_BY_COMMAND: DecidedBy
DECIDED_BY_FAN_OUT: DecidedBy
DECIDED_BY_LIFTED: DecidedBy

class GraphInput(_message.Message):
    __slots__ = ("agent", "input", "context", "configurable")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CONFIGURABLE_FIELD_NUMBER: _ClassVar[int]
    agent: str
    input: _struct_pb2.Struct
    context: _struct_pb2.Struct
    configurable: _struct_pb2.Struct
    def __init__(self, agent: _Optional[str] = ..., input: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., context: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., configurable: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class GraphOutput(_message.Message):
    __slots__ = ("agent", "output")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    agent: str
    output: _struct_pb2.Struct
    def __init__(self, agent: _Optional[str] = ..., output: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class Destination(_message.Message):
    __slots__ = ("node", "count")
    NODE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    node: str
    count: int
    def __init__(self, node: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class PassedTest(_message.Message):
    __slots__ = ("test", "line", "held")
    TEST_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    test: str
    line: int
    held: bool
    def __init__(self, test: _Optional[str] = ..., line: _Optional[int] = ..., held: _Optional[bool] = ...) -> None: ...

class CodeDecision(_message.Message):
    __slots__ = ("source", "tests", "returned_at", "returned", "remark")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TESTS_FIELD_NUMBER: _ClassVar[int]
    RETURNED_AT_FIELD_NUMBER: _ClassVar[int]
    RETURNED_FIELD_NUMBER: _ClassVar[int]
    REMARK_FIELD_NUMBER: _ClassVar[int]
    source: str
    tests: _containers.RepeatedCompositeFieldContainer[PassedTest]
    returned_at: int
    returned: str
    remark: str
    def __init__(self, source: _Optional[str] = ..., tests: _Optional[_Iterable[_Union[PassedTest, _Mapping]]] = ..., returned_at: _Optional[int] = ..., returned: _Optional[str] = ..., remark: _Optional[str] = ...) -> None: ...
