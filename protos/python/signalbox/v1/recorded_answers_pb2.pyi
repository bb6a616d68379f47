from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RecordedAnswer(_message.Message):
    __slots__ = ("source", "method", "asked", "answer", "failure", "request", "request_bytes")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    ASKED_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    REQUEST_BYTES_FIELD_NUMBER: _ClassVar[int]
    source: str
    method: str
    asked: str
    answer: bytes
    failure: RecordedFailure
    request: _struct_pb2.Struct
    request_bytes: int
    def __init__(self, source: _Optional[str] = ..., method: _Optional[str] = ..., asked: _Optional[str] = ..., answer: _Optional[bytes] = ..., failure: _Optional[_Union[RecordedFailure, _Mapping]] = ..., request: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., request_bytes: _Optional[int] = ...) -> None: ...

class RecordedFailure(_message.Message):
    __slots__ = ("code", "kind", "message", "retryable", "said", "status")
    CODE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    SAID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    code: int
    kind: str
    message: str
    retryable: bool
    said: str
    status: bytes
    def __init__(self, code: _Optional[int] = ..., kind: _Optional[str] = ..., message: _Optional[str] = ..., retryable: _Optional[bool] = ..., said: _Optional[str] = ..., status: _Optional[bytes] = ...) -> None: ...
