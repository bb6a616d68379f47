from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ColumnType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COLUMN_TYPE_UNSPECIFIED: _ClassVar[ColumnType]
    COLUMN_TYPE_BOOL: _ClassVar[ColumnType]
    COLUMN_TYPE_INT: _ClassVar[ColumnType]
    COLUMN_TYPE_DOUBLE: _ClassVar[ColumnType]
    COLUMN_TYPE_NUMERIC: _ClassVar[ColumnType]
    COLUMN_TYPE_TEXT: _ClassVar[ColumnType]
    COLUMN_TYPE_TIMESTAMP: _ClassVar[ColumnType]
    COLUMN_TYPE_DATE: _ClassVar[ColumnType]
    COLUMN_TYPE_OTHER: _ClassVar[ColumnType]
COLUMN_TYPE_UNSPECIFIED: ColumnType
COLUMN_TYPE_BOOL: ColumnType
COLUMN_TYPE_INT: ColumnType
COLUMN_TYPE_DOUBLE: ColumnType
COLUMN_TYPE_NUMERIC: ColumnType
COLUMN_TYPE_TEXT: ColumnType
COLUMN_TYPE_TIMESTAMP: ColumnType
COLUMN_TYPE_DATE: ColumnType
COLUMN_TYPE_OTHER: ColumnType

class Table(_message.Message):
    __slots__ = ("columns", "rows", "truncated", "truncated_by")
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_BY_FIELD_NUMBER: _ClassVar[int]
    columns: _containers.RepeatedCompositeFieldContainer[Column]
    rows: _containers.RepeatedCompositeFieldContainer[Row]
    truncated: bool
    truncated_by: str
    def __init__(self, columns: _Optional[_Iterable[_Union[Column, _Mapping]]] = ..., rows: _Optional[_Iterable[_Union[Row, _Mapping]]] = ..., truncated: _Optional[bool] = ..., truncated_by: _Optional[str] = ...) -> None: ...

class Column(_message.Message):
    __slots__ = ("name", "type")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: ColumnType
    def __init__(self, name: _Optional[str] = ..., type: _Optional[_Union[ColumnType, str]] = ...) -> None: ...

class Row(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedCompositeFieldContainer[Cell]
    def __init__(self, values: _Optional[_Iterable[_Union[Cell, _Mapping]]] = ...) -> None: ...

class Cell(_message.Message):
    __slots__ = ("bool_value", "int_value", "double_value", "text_value")
    BOOL_VALUE_FIELD_NUMBER: _ClassVar[int]
    INT_VALUE_FIELD_NUMBER: _ClassVar[int]
    DOUBLE_VALUE_FIELD_NUMBER: _ClassVar[int]
    TEXT_VALUE_FIELD_NUMBER: _ClassVar[int]
    bool_value: bool
    int_value: int
    double_value: float
    text_value: str
    def __init__(self, bool_value: _Optional[bool] = ..., int_value: _Optional[int] = ..., double_value: _Optional[float] = ..., text_value: _Optional[str] = ...) -> None: ...
