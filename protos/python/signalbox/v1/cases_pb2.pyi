from signalbox.v1 import recorded_answers_pb2 as _recorded_answers_pb2
from signalbox.v1 import runs_pb2 as _runs_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Case(_message.Message):
    __slots__ = ("form", "run", "answers", "decisions")
    FORM_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    DECISIONS_FIELD_NUMBER: _ClassVar[int]
    form: int
    run: _runs_pb2.Run
    answers: _containers.RepeatedCompositeFieldContainer[_recorded_answers_pb2.RecordedAnswer]
    decisions: _containers.RepeatedCompositeFieldContainer[_runs_pb2.Decision]
    def __init__(self, form: _Optional[int] = ..., run: _Optional[_Union[_runs_pb2.Run, _Mapping]] = ..., answers: _Optional[_Iterable[_Union[_recorded_answers_pb2.RecordedAnswer, _Mapping]]] = ..., decisions: _Optional[_Iterable[_Union[_runs_pb2.Decision, _Mapping]]] = ...) -> None: ...
