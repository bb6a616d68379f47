from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LinePartKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LINE_PART_KIND_UNSPECIFIED: _ClassVar[LinePartKind]
    LINE_PART_KIND_CODE: _ClassVar[LinePartKind]
    LINE_PART_KIND_STRING: _ClassVar[LinePartKind]
    LINE_PART_KIND_COMMENT: _ClassVar[LinePartKind]
    LINE_PART_KIND_BLANK: _ClassVar[LinePartKind]
    LINE_PART_KIND_UNSURE: _ClassVar[LinePartKind]
LINE_PART_KIND_UNSPECIFIED: LinePartKind
LINE_PART_KIND_CODE: LinePartKind
LINE_PART_KIND_STRING: LinePartKind
LINE_PART_KIND_COMMENT: LinePartKind
LINE_PART_KIND_BLANK: LinePartKind
LINE_PART_KIND_UNSURE: LinePartKind

class CodeReading(_message.Message):
    __slots__ = ("unread", "lines", "definitions")
    UNREAD_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    DEFINITIONS_FIELD_NUMBER: _ClassVar[int]
    unread: str
    lines: _containers.RepeatedCompositeFieldContainer[LineReading]
    definitions: _containers.RepeatedCompositeFieldContainer[CodeDefinition]
    def __init__(self, unread: _Optional[str] = ..., lines: _Optional[_Iterable[_Union[LineReading, _Mapping]]] = ..., definitions: _Optional[_Iterable[_Union[CodeDefinition, _Mapping]]] = ...) -> None: ...

class LineReading(_message.Message):
    __slots__ = ("parts", "names", "sets", "never_runs")
    PARTS_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    SETS_FIELD_NUMBER: _ClassVar[int]
    NEVER_RUNS_FIELD_NUMBER: _ClassVar[int]
    parts: _containers.RepeatedCompositeFieldContainer[LinePart]
    names: _containers.RepeatedScalarFieldContainer[str]
    sets: _containers.RepeatedScalarFieldContainer[str]
    never_runs: bool
    def __init__(self, parts: _Optional[_Iterable[_Union[LinePart, _Mapping]]] = ..., names: _Optional[_Iterable[str]] = ..., sets: _Optional[_Iterable[str]] = ..., never_runs: _Optional[bool] = ...) -> None: ...

class LinePart(_message.Message):
    __slots__ = ("kind", "characters")
    KIND_FIELD_NUMBER: _ClassVar[int]
    CHARACTERS_FIELD_NUMBER: _ClassVar[int]
    kind: LinePartKind
    characters: int
    def __init__(self, kind: _Optional[_Union[LinePartKind, str]] = ..., characters: _Optional[int] = ...) -> None: ...

class CodeDefinition(_message.Message):
    __slots__ = ("name", "first_line", "last_line")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FIRST_LINE_FIELD_NUMBER: _ClassVar[int]
    LAST_LINE_FIELD_NUMBER: _ClassVar[int]
    name: str
    first_line: int
    last_line: int
    def __init__(self, name: _Optional[str] = ..., first_line: _Optional[int] = ..., last_line: _Optional[int] = ...) -> None: ...
