from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from signalbox.v1 import code_reading_pb2 as _code_reading_pb2
from signalbox.v1 import table_pb2 as _table_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Tool(_message.Message):
    __slots__ = ("name", "description", "input_schema", "read_only", "for_platform", "at_least_once")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    INPUT_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    READ_ONLY_FIELD_NUMBER: _ClassVar[int]
    FOR_PLATFORM_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_ONCE_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    input_schema: _struct_pb2.Struct
    read_only: bool
    for_platform: bool
    at_least_once: bool
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., input_schema: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., read_only: _Optional[bool] = ..., for_platform: _Optional[bool] = ..., at_least_once: _Optional[bool] = ...) -> None: ...

class ListToolsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListToolsResponse(_message.Message):
    __slots__ = ("tools",)
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    tools: _containers.RepeatedCompositeFieldContainer[Tool]
    def __init__(self, tools: _Optional[_Iterable[_Union[Tool, _Mapping]]] = ...) -> None: ...

class IdempotencyKey(_message.Message):
    __slots__ = ("run_id", "checkpoint_id", "tool_call_id")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    checkpoint_id: str
    tool_call_id: str
    def __init__(self, run_id: _Optional[str] = ..., checkpoint_id: _Optional[str] = ..., tool_call_id: _Optional[str] = ...) -> None: ...

class CallToolRequest(_message.Message):
    __slots__ = ("tool", "arguments", "idempotency_key", "epoch")
    TOOL_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    tool: str
    arguments: _struct_pb2.Struct
    idempotency_key: IdempotencyKey
    epoch: int
    def __init__(self, tool: _Optional[str] = ..., arguments: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., idempotency_key: _Optional[_Union[IdempotencyKey, _Mapping]] = ..., epoch: _Optional[int] = ...) -> None: ...

class LookUpCallRequest(_message.Message):
    __slots__ = ("idempotency_key", "epoch")
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    idempotency_key: IdempotencyKey
    epoch: int
    def __init__(self, idempotency_key: _Optional[_Union[IdempotencyKey, _Mapping]] = ..., epoch: _Optional[int] = ...) -> None: ...

class LookUpCallResponse(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: CallToolResponse
    def __init__(self, result: _Optional[_Union[CallToolResponse, _Mapping]] = ...) -> None: ...

class CallToolResponse(_message.Message):
    __slots__ = ("output", "error")
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    output: ToolOutput
    error: ToolError
    def __init__(self, output: _Optional[_Union[ToolOutput, _Mapping]] = ..., error: _Optional[_Union[ToolError, _Mapping]] = ...) -> None: ...

class ToolOutput(_message.Message):
    __slots__ = ("text", "sql_query", "table", "data", "truncated", "reads_tables", "stated_columns", "code_readings")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    SQL_QUERY_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    READS_TABLES_FIELD_NUMBER: _ClassVar[int]
    STATED_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    CODE_READINGS_FIELD_NUMBER: _ClassVar[int]
    text: str
    sql_query: str
    table: _table_pb2.Table
    data: _struct_pb2.Struct
    truncated: bool
    reads_tables: bool
    stated_columns: _containers.RepeatedScalarFieldContainer[str]
    code_readings: _containers.RepeatedCompositeFieldContainer[_code_reading_pb2.CodeReading]
    def __init__(self, text: _Optional[str] = ..., sql_query: _Optional[str] = ..., table: _Optional[_Union[_table_pb2.Table, _Mapping]] = ..., data: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., truncated: _Optional[bool] = ..., reads_tables: _Optional[bool] = ..., stated_columns: _Optional[_Iterable[str]] = ..., code_readings: _Optional[_Iterable[_Union[_code_reading_pb2.CodeReading, _Mapping]]] = ...) -> None: ...

class ToolError(_message.Message):
    __slots__ = ("reason", "message", "retryable")
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    reason: str
    message: str
    retryable: bool
    def __init__(self, reason: _Optional[str] = ..., message: _Optional[str] = ..., retryable: _Optional[bool] = ...) -> None: ...
