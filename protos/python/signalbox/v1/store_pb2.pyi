import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StoreItem(_message.Message):
    __slots__ = ("namespace", "key", "value", "create_time", "update_time")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    namespace: _containers.RepeatedScalarFieldContainer[str]
    key: str
    value: _struct_pb2.Struct
    create_time: _timestamp_pb2.Timestamp
    update_time: _timestamp_pb2.Timestamp
    def __init__(self, namespace: _Optional[_Iterable[str]] = ..., key: _Optional[str] = ..., value: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., update_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class StoreNamespace(_message.Message):
    __slots__ = ("labels",)
    LABELS_FIELD_NUMBER: _ClassVar[int]
    labels: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, labels: _Optional[_Iterable[str]] = ...) -> None: ...

class GetItemRequest(_message.Message):
    __slots__ = ("namespace", "key", "leave_ttl")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    LEAVE_TTL_FIELD_NUMBER: _ClassVar[int]
    namespace: StoreNamespace
    key: str
    leave_ttl: bool
    def __init__(self, namespace: _Optional[_Union[StoreNamespace, _Mapping]] = ..., key: _Optional[str] = ..., leave_ttl: _Optional[bool] = ...) -> None: ...

class GetItemResponse(_message.Message):
    __slots__ = ("item",)
    ITEM_FIELD_NUMBER: _ClassVar[int]
    item: StoreItem
    def __init__(self, item: _Optional[_Union[StoreItem, _Mapping]] = ...) -> None: ...

class PutItemRequest(_message.Message):
    __slots__ = ("namespace", "key", "value", "ttl_s")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    TTL_S_FIELD_NUMBER: _ClassVar[int]
    namespace: StoreNamespace
    key: str
    value: _struct_pb2.Struct
    ttl_s: float
    def __init__(self, namespace: _Optional[_Union[StoreNamespace, _Mapping]] = ..., key: _Optional[str] = ..., value: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., ttl_s: _Optional[float] = ...) -> None: ...

class PutItemResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeleteItemRequest(_message.Message):
    __slots__ = ("namespace", "key")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    namespace: StoreNamespace
    key: str
    def __init__(self, namespace: _Optional[_Union[StoreNamespace, _Mapping]] = ..., key: _Optional[str] = ...) -> None: ...

class DeleteItemResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SearchItemsRequest(_message.Message):
    __slots__ = ("prefix", "filter", "limit", "offset", "leave_ttl")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LEAVE_TTL_FIELD_NUMBER: _ClassVar[int]
    prefix: StoreNamespace
    filter: _struct_pb2.Struct
    limit: int
    offset: int
    leave_ttl: bool
    def __init__(self, prefix: _Optional[_Union[StoreNamespace, _Mapping]] = ..., filter: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., limit: _Optional[int] = ..., offset: _Optional[int] = ..., leave_ttl: _Optional[bool] = ...) -> None: ...

class SearchItemsResponse(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[StoreItem]
    def __init__(self, items: _Optional[_Iterable[_Union[StoreItem, _Mapping]]] = ...) -> None: ...

class ListNamespacesRequest(_message.Message):
    __slots__ = ("prefix", "suffix", "max_depth", "limit", "offset")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    SUFFIX_FIELD_NUMBER: _ClassVar[int]
    MAX_DEPTH_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    prefix: StoreNamespace
    suffix: StoreNamespace
    max_depth: int
    limit: int
    offset: int
    def __init__(self, prefix: _Optional[_Union[StoreNamespace, _Mapping]] = ..., suffix: _Optional[_Union[StoreNamespace, _Mapping]] = ..., max_depth: _Optional[int] = ..., limit: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class ListNamespacesResponse(_message.Message):
    __slots__ = ("namespaces",)
    NAMESPACES_FIELD_NUMBER: _ClassVar[int]
    namespaces: _containers.RepeatedCompositeFieldContainer[StoreNamespace]
    def __init__(self, namespaces: _Optional[_Iterable[_Union[StoreNamespace, _Mapping]]] = ...) -> None: ...
