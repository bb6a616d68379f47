from buf.validate import validate_pb2 as _validate_pb2
from signalbox.v1 import caller_pb2 as _caller_pb2
from signalbox.v1 import table_pb2 as _table_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Grounding(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GROUNDING_UNSPECIFIED: _ClassVar[Grounding]
    GROUNDING_ANSWERED_FROM_DATA: _ClassVar[Grounding]
    GROUNDING_REFUSED: _ClassVar[Grounding]
    GROUNDING_UNANSWERABLE: _ClassVar[Grounding]
    GROUNDING_NOT_CHECKED: _ClassVar[Grounding]

class AnswerWording(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ANSWER_WORDING_UNSPECIFIED: _ClassVar[AnswerWording]
    ANSWER_WORDING_MODEL: _ClassVar[AnswerWording]
    ANSWER_WORDING_PLAIN: _ClassVar[AnswerWording]
    ANSWER_WORDING_PLAIN_AS_UNSUPPORTED: _ClassVar[AnswerWording]
GROUNDING_UNSPECIFIED: Grounding
GROUNDING_ANSWERED_FROM_DATA: Grounding
GROUNDING_REFUSED: Grounding
GROUNDING_UNANSWERABLE: Grounding
GROUNDING_NOT_CHECKED: Grounding
ANSWER_WORDING_UNSPECIFIED: AnswerWording
ANSWER_WORDING_MODEL: AnswerWording
ANSWER_WORDING_PLAIN: AnswerWording
ANSWER_WORDING_PLAIN_AS_UNSUPPORTED: AnswerWording

class DataChatInput(_message.Message):
    __slots__ = ("question", "want_csv", "want_debug")
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    WANT_CSV_FIELD_NUMBER: _ClassVar[int]
    WANT_DEBUG_FIELD_NUMBER: _ClassVar[int]
    question: str
    want_csv: bool
    want_debug: bool
    def __init__(self, question: _Optional[str] = ..., want_csv: _Optional[bool] = ..., want_debug: _Optional[bool] = ...) -> None: ...

class QueryResult(_message.Message):
    __slots__ = ("sql_query", "rows")
    SQL_QUERY_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    sql_query: str
    rows: _table_pb2.Table
    def __init__(self, sql_query: _Optional[str] = ..., rows: _Optional[_Union[_table_pb2.Table, _Mapping]] = ...) -> None: ...

class DataChatOutput(_message.Message):
    __slots__ = ("answer", "sql_query", "rows", "csv", "token_usage", "debug", "grounding", "wording", "earlier_results")
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    SQL_QUERY_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    CSV_FIELD_NUMBER: _ClassVar[int]
    TOKEN_USAGE_FIELD_NUMBER: _ClassVar[int]
    DEBUG_FIELD_NUMBER: _ClassVar[int]
    GROUNDING_FIELD_NUMBER: _ClassVar[int]
    WORDING_FIELD_NUMBER: _ClassVar[int]
    EARLIER_RESULTS_FIELD_NUMBER: _ClassVar[int]
    answer: str
    sql_query: str
    rows: _table_pb2.Table
    csv: str
    token_usage: _caller_pb2.TokenUsage
    debug: DataChatDebug
    grounding: Grounding
    wording: AnswerWording
    earlier_results: _containers.RepeatedCompositeFieldContainer[QueryResult]
    def __init__(self, answer: _Optional[str] = ..., sql_query: _Optional[str] = ..., rows: _Optional[_Union[_table_pb2.Table, _Mapping]] = ..., csv: _Optional[str] = ..., token_usage: _Optional[_Union[_caller_pb2.TokenUsage, _Mapping]] = ..., debug: _Optional[_Union[DataChatDebug, _Mapping]] = ..., grounding: _Optional[_Union[Grounding, str]] = ..., wording: _Optional[_Union[AnswerWording, str]] = ..., earlier_results: _Optional[_Iterable[_Union[QueryResult, _Mapping]]] = ...) -> None: ...

class DataChatDebug(_message.Message):
    __slots__ = ("messages", "model_calls", "iterations")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MODEL_CALLS_FIELD_NUMBER: _ClassVar[int]
    ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[DebugMessage]
    model_calls: _containers.RepeatedCompositeFieldContainer[ModelCallRecord]
    iterations: int
    def __init__(self, messages: _Optional[_Iterable[_Union[DebugMessage, _Mapping]]] = ..., model_calls: _Optional[_Iterable[_Union[ModelCallRecord, _Mapping]]] = ..., iterations: _Optional[int] = ...) -> None: ...

class DebugMessage(_message.Message):
    __slots__ = ("role", "content", "tool_calls")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    role: str
    content: str
    tool_calls: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, role: _Optional[str] = ..., content: _Optional[str] = ..., tool_calls: _Optional[_Iterable[str]] = ...) -> None: ...

class ModelCallRecord(_message.Message):
    __slots__ = ("purpose", "model", "input_summary", "output", "token_usage", "elapsed_ms")
    PURPOSE_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    INPUT_SUMMARY_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_USAGE_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_MS_FIELD_NUMBER: _ClassVar[int]
    purpose: str
    model: str
    input_summary: str
    output: str
    token_usage: _caller_pb2.TokenUsage
    elapsed_ms: float
    def __init__(self, purpose: _Optional[str] = ..., model: _Optional[str] = ..., input_summary: _Optional[str] = ..., output: _Optional[str] = ..., token_usage: _Optional[_Union[_caller_pb2.TokenUsage, _Mapping]] = ..., elapsed_ms: _Optional[float] = ...) -> None: ...
