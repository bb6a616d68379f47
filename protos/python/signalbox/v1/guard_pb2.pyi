from buf.validate import validate_pb2 as _validate_pb2
from signalbox.v1 import caller_pb2 as _caller_pb2
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ScreenVerdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SCREEN_VERDICT_UNSPECIFIED: _ClassVar[ScreenVerdict]
    SCREEN_VERDICT_ALLOW: _ClassVar[ScreenVerdict]
    SCREEN_VERDICT_BLOCK: _ClassVar[ScreenVerdict]

class ScreenStage(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SCREEN_STAGE_UNSPECIFIED: _ClassVar[ScreenStage]
    SCREEN_STAGE_DETERMINISTIC: _ClassVar[ScreenStage]
    SCREEN_STAGE_MODEL: _ClassVar[ScreenStage]
SCREEN_VERDICT_UNSPECIFIED: ScreenVerdict
SCREEN_VERDICT_ALLOW: ScreenVerdict
SCREEN_VERDICT_BLOCK: ScreenVerdict
SCREEN_STAGE_UNSPECIFIED: ScreenStage
SCREEN_STAGE_DETERMINISTIC: ScreenStage
SCREEN_STAGE_MODEL: ScreenStage

class ScreenRequest(_message.Message):
    __slots__ = ("question",)
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    question: str
    def __init__(self, question: _Optional[str] = ...) -> None: ...

class ScreenResponse(_message.Message):
    __slots__ = ("verdict", "reason", "stage", "token_usage", "model", "model_elapsed_ms")
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_USAGE_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    MODEL_ELAPSED_MS_FIELD_NUMBER: _ClassVar[int]
    verdict: ScreenVerdict
    reason: str
    stage: ScreenStage
    token_usage: _caller_pb2.TokenUsage
    model: str
    model_elapsed_ms: float
    def __init__(self, verdict: _Optional[_Union[ScreenVerdict, str]] = ..., reason: _Optional[str] = ..., stage: _Optional[_Union[ScreenStage, str]] = ..., token_usage: _Optional[_Union[_caller_pb2.TokenUsage, _Mapping]] = ..., model: _Optional[str] = ..., model_elapsed_ms: _Optional[float] = ...) -> None: ...
