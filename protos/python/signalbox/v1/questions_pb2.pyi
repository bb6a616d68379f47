import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from signalbox.v1 import graph_editor_pb2 as _graph_editor_pb2
from signalbox.v1 import runs_pb2 as _runs_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class QuestionState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    QUESTION_STATE_UNSPECIFIED: _ClassVar[QuestionState]
    QUESTION_STATE_OPEN: _ClassVar[QuestionState]
    QUESTION_STATE_ANSWERED: _ClassVar[QuestionState]
    QUESTION_STATE_EXPIRED: _ClassVar[QuestionState]
    QUESTION_STATE_WITHDRAWN: _ClassVar[QuestionState]
QUESTION_STATE_UNSPECIFIED: QuestionState
QUESTION_STATE_OPEN: QuestionState
QUESTION_STATE_ANSWERED: QuestionState
QUESTION_STATE_EXPIRED: QuestionState
QUESTION_STATE_WITHDRAWN: QuestionState

class Question(_message.Message):
    __slots__ = ("run_id", "input_request", "agent", "subject", "plan_hash", "graph_change_set", "state", "for_caller", "roles", "assignee", "ask_time", "escalated_from", "right", "answer")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    INPUT_REQUEST_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    PLAN_HASH_FIELD_NUMBER: _ClassVar[int]
    GRAPH_CHANGE_SET_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    FOR_CALLER_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    ASSIGNEE_FIELD_NUMBER: _ClassVar[int]
    ASK_TIME_FIELD_NUMBER: _ClassVar[int]
    ESCALATED_FROM_FIELD_NUMBER: _ClassVar[int]
    RIGHT_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    input_request: _runs_pb2.InputRequest
    agent: str
    subject: str
    plan_hash: str
    graph_change_set: _graph_editor_pb2.GraphChangeSet
    state: QuestionState
    for_caller: bool
    roles: _containers.RepeatedScalarFieldContainer[str]
    assignee: str
    ask_time: _timestamp_pb2.Timestamp
    escalated_from: str
    right: _runs_pb2.AnswerRight
    answer: QuestionAnswer
    def __init__(self, run_id: _Optional[str] = ..., input_request: _Optional[_Union[_runs_pb2.InputRequest, _Mapping]] = ..., agent: _Optional[str] = ..., subject: _Optional[str] = ..., plan_hash: _Optional[str] = ..., graph_change_set: _Optional[_Union[_graph_editor_pb2.GraphChangeSet, _Mapping]] = ..., state: _Optional[_Union[QuestionState, str]] = ..., for_caller: _Optional[bool] = ..., roles: _Optional[_Iterable[str]] = ..., assignee: _Optional[str] = ..., ask_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., escalated_from: _Optional[str] = ..., right: _Optional[_Union[_runs_pb2.AnswerRight, str]] = ..., answer: _Optional[_Union[QuestionAnswer, _Mapping]] = ...) -> None: ...

class QuestionAnswer(_message.Message):
    __slots__ = ("answer", "subject", "right", "role", "answer_time")
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    RIGHT_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    ANSWER_TIME_FIELD_NUMBER: _ClassVar[int]
    answer: str
    subject: str
    right: _runs_pb2.AnswerRight
    role: str
    answer_time: _timestamp_pb2.Timestamp
    def __init__(self, answer: _Optional[str] = ..., subject: _Optional[str] = ..., right: _Optional[_Union[_runs_pb2.AnswerRight, str]] = ..., role: _Optional[str] = ..., answer_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ListQuestionsRequest(_message.Message):
    __slots__ = ("answerable", "agent", "page_size", "page_token")
    ANSWERABLE_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    answerable: bool
    agent: str
    page_size: int
    page_token: str
    def __init__(self, answerable: _Optional[bool] = ..., agent: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListQuestionsResponse(_message.Message):
    __slots__ = ("questions", "next_page_token")
    QUESTIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    questions: _containers.RepeatedCompositeFieldContainer[Question]
    next_page_token: str
    def __init__(self, questions: _Optional[_Iterable[_Union[Question, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class GetQuestionRequest(_message.Message):
    __slots__ = ("run_id", "input_request_id")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    INPUT_REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    input_request_id: str
    def __init__(self, run_id: _Optional[str] = ..., input_request_id: _Optional[str] = ...) -> None: ...

class GetQuestionResponse(_message.Message):
    __slots__ = ("question",)
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    question: Question
    def __init__(self, question: _Optional[_Union[Question, _Mapping]] = ...) -> None: ...

class AnswerQuestionRequest(_message.Message):
    __slots__ = ("run_id", "input_request_id", "plan_hash", "answer", "answers")
    class AnswersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _struct_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ...) -> None: ...
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    INPUT_REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    PLAN_HASH_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    input_request_id: str
    plan_hash: str
    answer: str
    answers: _containers.MessageMap[str, _struct_pb2.Value]
    def __init__(self, run_id: _Optional[str] = ..., input_request_id: _Optional[str] = ..., plan_hash: _Optional[str] = ..., answer: _Optional[str] = ..., answers: _Optional[_Mapping[str, _struct_pb2.Value]] = ...) -> None: ...

class AnswerQuestionResponse(_message.Message):
    __slots__ = ("question",)
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    question: Question
    def __init__(self, question: _Optional[_Union[Question, _Mapping]] = ...) -> None: ...

class AssignQuestionRequest(_message.Message):
    __slots__ = ("run_id", "input_request_id", "assignee")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    INPUT_REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ASSIGNEE_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    input_request_id: str
    assignee: str
    def __init__(self, run_id: _Optional[str] = ..., input_request_id: _Optional[str] = ..., assignee: _Optional[str] = ...) -> None: ...

class AssignQuestionResponse(_message.Message):
    __slots__ = ("question",)
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    question: Question
    def __init__(self, question: _Optional[_Union[Question, _Mapping]] = ...) -> None: ...
