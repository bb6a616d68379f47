from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LimitOrigin(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LIMIT_ORIGIN_UNSPECIFIED: _ClassVar[LimitOrigin]
    LIMIT_ORIGIN_DEFAULT: _ClassVar[LimitOrigin]
    LIMIT_ORIGIN_FILE: _ClassVar[LimitOrigin]
    LIMIT_ORIGIN_CALLER: _ClassVar[LimitOrigin]
    LIMIT_ORIGIN_ADDED: _ClassVar[LimitOrigin]
    LIMIT_ORIGIN_UNKNOWN: _ClassVar[LimitOrigin]
LIMIT_ORIGIN_UNSPECIFIED: LimitOrigin
LIMIT_ORIGIN_DEFAULT: LimitOrigin
LIMIT_ORIGIN_FILE: LimitOrigin
LIMIT_ORIGIN_CALLER: LimitOrigin
LIMIT_ORIGIN_ADDED: LimitOrigin
LIMIT_ORIGIN_UNKNOWN: LimitOrigin

class Limit(_message.Message):
    __slots__ = ("name", "value", "origin")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: _struct_pb2.Value
    origin: LimitOrigin
    def __init__(self, name: _Optional[str] = ..., value: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ..., origin: _Optional[_Union[LimitOrigin, str]] = ...) -> None: ...

class Policy(_message.Message):
    __slots__ = ("version", "limits", "budget", "prompts")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    PROMPTS_FIELD_NUMBER: _ClassVar[int]
    version: str
    limits: _containers.RepeatedCompositeFieldContainer[Limit]
    budget: _containers.RepeatedCompositeFieldContainer[Limit]
    prompts: str
    def __init__(self, version: _Optional[str] = ..., limits: _Optional[_Iterable[_Union[Limit, _Mapping]]] = ..., budget: _Optional[_Iterable[_Union[Limit, _Mapping]]] = ..., prompts: _Optional[str] = ...) -> None: ...
