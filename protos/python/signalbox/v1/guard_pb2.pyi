from buf.validate import validate_pb2 as _validate_pb2
from signalbox.v1 import caller_pb2 as _caller_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
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

class TextKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TEXT_KIND_UNSPECIFIED: _ClassVar[TextKind]
    TEXT_KIND_QUESTION: _ClassVar[TextKind]
    TEXT_KIND_GOAL: _ClassVar[TextKind]
    TEXT_KIND_ANSWER: _ClassVar[TextKind]
    TEXT_KIND_INCIDENT: _ClassVar[TextKind]
SCREEN_VERDICT_UNSPECIFIED: ScreenVerdict
SCREEN_VERDICT_ALLOW: ScreenVerdict
SCREEN_VERDICT_BLOCK: ScreenVerdict
SCREEN_STAGE_UNSPECIFIED: ScreenStage
SCREEN_STAGE_DETERMINISTIC: ScreenStage
SCREEN_STAGE_MODEL: ScreenStage
TEXT_KIND_UNSPECIFIED: TextKind
TEXT_KIND_QUESTION: TextKind
TEXT_KIND_GOAL: TextKind
TEXT_KIND_ANSWER: TextKind
TEXT_KIND_INCIDENT: TextKind

class ScreenedTurn(_message.Message):
    __slots__ = ("question", "answer")
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    question: str
    answer: str
    def __init__(self, question: _Optional[str] = ..., answer: _Optional[str] = ...) -> None: ...

class ScreenRequest(_message.Message):
    __slots__ = ("question", "turns", "kind")
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    TURNS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    question: str
    turns: _containers.RepeatedCompositeFieldContainer[ScreenedTurn]
    kind: TextKind
    def __init__(self, question: _Optional[str] = ..., turns: _Optional[_Iterable[_Union[ScreenedTurn, _Mapping]]] = ..., kind: _Optional[_Union[TextKind, str]] = ...) -> None: ...

class ScreenResponse(_message.Message):
    __slots__ = ("verdict", "reason", "stage", "token_usage", "model", "model_elapsed_ms", "kind", "offline_rules", "prompts", "cached_tokens")
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_USAGE_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    MODEL_ELAPSED_MS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    OFFLINE_RULES_FIELD_NUMBER: _ClassVar[int]
    PROMPTS_FIELD_NUMBER: _ClassVar[int]
    CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    verdict: ScreenVerdict
    reason: str
    stage: ScreenStage
    token_usage: _caller_pb2.TokenUsage
    model: str
    model_elapsed_ms: float
    kind: TextKind
    offline_rules: bool
    prompts: str
    cached_tokens: int
    def __init__(self, verdict: _Optional[_Union[ScreenVerdict, str]] = ..., reason: _Optional[str] = ..., stage: _Optional[_Union[ScreenStage, str]] = ..., token_usage: _Optional[_Union[_caller_pb2.TokenUsage, _Mapping]] = ..., model: _Optional[str] = ..., model_elapsed_ms: _Optional[float] = ..., kind: _Optional[_Union[TextKind, str]] = ..., offline_rules: _Optional[bool] = ..., prompts: _Optional[str] = ..., cached_tokens: _Optional[int] = ...) -> None: ...
