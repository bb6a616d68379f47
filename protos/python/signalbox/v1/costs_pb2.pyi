from signalbox.v1 import caller_pb2 as _caller_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Costs(_message.Message):
    __slots__ = ("models", "currency")
    MODELS_FIELD_NUMBER: _ClassVar[int]
    CURRENCY_FIELD_NUMBER: _ClassVar[int]
    models: _containers.RepeatedCompositeFieldContainer[ModelCost]
    currency: str
    def __init__(self, models: _Optional[_Iterable[_Union[ModelCost, _Mapping]]] = ..., currency: _Optional[str] = ...) -> None: ...

class ModelCost(_message.Message):
    __slots__ = ("model", "model_calls", "token_usage", "cached_tokens", "cost")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    MODEL_CALLS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_USAGE_FIELD_NUMBER: _ClassVar[int]
    CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    model: str
    model_calls: int
    token_usage: _caller_pb2.TokenUsage
    cached_tokens: int
    cost: float
    def __init__(self, model: _Optional[str] = ..., model_calls: _Optional[int] = ..., token_usage: _Optional[_Union[_caller_pb2.TokenUsage, _Mapping]] = ..., cached_tokens: _Optional[int] = ..., cost: _Optional[float] = ...) -> None: ...
