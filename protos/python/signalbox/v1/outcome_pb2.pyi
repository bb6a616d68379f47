from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from typing import ClassVar as _ClassVar

DESCRIPTOR: _descriptor.FileDescriptor

class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_UNSPECIFIED: _ClassVar[Outcome]
    OUTCOME_DONE: _ClassVar[Outcome]
    OUTCOME_PARTLY: _ClassVar[Outcome]
    OUTCOME_NOT_DONE: _ClassVar[Outcome]
    OUTCOME_PREVIEWED: _ClassVar[Outcome]
    OUTCOME_DECLINED: _ClassVar[Outcome]
    OUTCOME_ANSWERED: _ClassVar[Outcome]
    OUTCOME_NOT_ANSWERED: _ClassVar[Outcome]
    OUTCOME_CAUSE_FOUND: _ClassVar[Outcome]
    OUTCOME_NO_CAUSE_FOUND: _ClassVar[Outcome]
    OUTCOME_TRUE_POSITIVE: _ClassVar[Outcome]
    OUTCOME_FALSE_POSITIVE: _ClassVar[Outcome]
    OUTCOME_NO_VERDICT: _ClassVar[Outcome]
    OUTCOME_BLOCKED: _ClassVar[Outcome]
    OUTCOME_UNFINISHED: _ClassVar[Outcome]
    OUTCOME_CANCELLED: _ClassVar[Outcome]
OUTCOME_UNSPECIFIED: Outcome
OUTCOME_DONE: Outcome
OUTCOME_PARTLY: Outcome
OUTCOME_NOT_DONE: Outcome
OUTCOME_PREVIEWED: Outcome
OUTCOME_DECLINED: Outcome
OUTCOME_ANSWERED: Outcome
OUTCOME_NOT_ANSWERED: Outcome
OUTCOME_CAUSE_FOUND: Outcome
OUTCOME_NO_CAUSE_FOUND: Outcome
OUTCOME_TRUE_POSITIVE: Outcome
OUTCOME_FALSE_POSITIVE: Outcome
OUTCOME_NO_VERDICT: Outcome
OUTCOME_BLOCKED: Outcome
OUTCOME_UNFINISHED: Outcome
OUTCOME_CANCELLED: Outcome
