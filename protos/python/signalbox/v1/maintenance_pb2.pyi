import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from signalbox.v1 import runs_pb2 as _runs_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RetainedKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RETAINED_KIND_UNSPECIFIED: _ClassVar[RetainedKind]
    RETAINED_KIND_HISTORY: _ClassVar[RetainedKind]
    RETAINED_KIND_CHECKPOINTS: _ClassVar[RetainedKind]
    RETAINED_KIND_EVENTS: _ClassVar[RetainedKind]
    RETAINED_KIND_RUNS: _ClassVar[RetainedKind]
    RETAINED_KIND_DECISIONS: _ClassVar[RetainedKind]
    RETAINED_KIND_QUESTIONS: _ClassVar[RetainedKind]
    RETAINED_KIND_STORE: _ClassVar[RetainedKind]
    RETAINED_KIND_LIMIT_CHANGES: _ClassVar[RetainedKind]

class LimitSource(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LIMIT_SOURCE_UNSPECIFIED: _ClassVar[LimitSource]
    LIMIT_SOURCE_RELEASE: _ClassVar[LimitSource]
    LIMIT_SOURCE_FILE: _ClassVar[LimitSource]
    LIMIT_SOURCE_SETTING: _ClassVar[LimitSource]
    LIMIT_SOURCE_TABLE: _ClassVar[LimitSource]
    LIMIT_SOURCE_CODE: _ClassVar[LimitSource]
RETAINED_KIND_UNSPECIFIED: RetainedKind
RETAINED_KIND_HISTORY: RetainedKind
RETAINED_KIND_CHECKPOINTS: RetainedKind
RETAINED_KIND_EVENTS: RetainedKind
RETAINED_KIND_RUNS: RetainedKind
RETAINED_KIND_DECISIONS: RetainedKind
RETAINED_KIND_QUESTIONS: RetainedKind
RETAINED_KIND_STORE: RetainedKind
RETAINED_KIND_LIMIT_CHANGES: RetainedKind
LIMIT_SOURCE_UNSPECIFIED: LimitSource
LIMIT_SOURCE_RELEASE: LimitSource
LIMIT_SOURCE_FILE: LimitSource
LIMIT_SOURCE_SETTING: LimitSource
LIMIT_SOURCE_TABLE: LimitSource
LIMIT_SOURCE_CODE: LimitSource

class PrunedData(_message.Message):
    __slots__ = ("kind", "agent", "row_count", "size_bytes")
    KIND_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    ROW_COUNT_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    kind: RetainedKind
    agent: str
    row_count: int
    size_bytes: int
    def __init__(self, kind: _Optional[_Union[RetainedKind, str]] = ..., agent: _Optional[str] = ..., row_count: _Optional[int] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class PruneRequest(_message.Message):
    __slots__ = ("dry_run",)
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    dry_run: bool
    def __init__(self, dry_run: _Optional[bool] = ...) -> None: ...

class PruneResponse(_message.Message):
    __slots__ = ("pruned", "more")
    PRUNED_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    pruned: _containers.RepeatedCompositeFieldContainer[PrunedData]
    more: bool
    def __init__(self, pruned: _Optional[_Iterable[_Union[PrunedData, _Mapping]]] = ..., more: _Optional[bool] = ...) -> None: ...

class EraseStoreRequest(_message.Message):
    __slots__ = ("subject",)
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    subject: str
    def __init__(self, subject: _Optional[str] = ...) -> None: ...

class EraseStoreResponse(_message.Message):
    __slots__ = ("item_count",)
    ITEM_COUNT_FIELD_NUMBER: _ClassVar[int]
    item_count: int
    def __init__(self, item_count: _Optional[int] = ...) -> None: ...

class ReplayDecisionsRequest(_message.Message):
    __slots__ = ("router", "limits", "since_time", "max_divergences")
    class LimitsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ROUTER_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    SINCE_TIME_FIELD_NUMBER: _ClassVar[int]
    MAX_DIVERGENCES_FIELD_NUMBER: _ClassVar[int]
    router: str
    limits: _containers.ScalarMap[str, str]
    since_time: _timestamp_pb2.Timestamp
    max_divergences: int
    def __init__(self, router: _Optional[str] = ..., limits: _Optional[_Mapping[str, str]] = ..., since_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., max_divergences: _Optional[int] = ...) -> None: ...

class Divergence(_message.Message):
    __slots__ = ("run_id", "sequence", "decide_time", "rule", "destination", "other_rule", "other_destination", "spent_after")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    DECIDE_TIME_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_FIELD_NUMBER: _ClassVar[int]
    OTHER_RULE_FIELD_NUMBER: _ClassVar[int]
    OTHER_DESTINATION_FIELD_NUMBER: _ClassVar[int]
    SPENT_AFTER_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    sequence: int
    decide_time: _timestamp_pb2.Timestamp
    rule: str
    destination: str
    other_rule: str
    other_destination: str
    spent_after: _runs_pb2.Spend
    def __init__(self, run_id: _Optional[str] = ..., sequence: _Optional[int] = ..., decide_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., rule: _Optional[str] = ..., destination: _Optional[str] = ..., other_rule: _Optional[str] = ..., other_destination: _Optional[str] = ..., spent_after: _Optional[_Union[_runs_pb2.Spend, _Mapping]] = ...) -> None: ...

class ReplayDecisionsResponse(_message.Message):
    __slots__ = ("policy_version", "run_count", "decision_count", "skipped_count", "diverged_count", "divergences", "spent_after")
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    RUN_COUNT_FIELD_NUMBER: _ClassVar[int]
    DECISION_COUNT_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_COUNT_FIELD_NUMBER: _ClassVar[int]
    DIVERGED_COUNT_FIELD_NUMBER: _ClassVar[int]
    DIVERGENCES_FIELD_NUMBER: _ClassVar[int]
    SPENT_AFTER_FIELD_NUMBER: _ClassVar[int]
    policy_version: str
    run_count: int
    decision_count: int
    skipped_count: int
    diverged_count: int
    divergences: _containers.RepeatedCompositeFieldContainer[Divergence]
    spent_after: _runs_pb2.Spend
    def __init__(self, policy_version: _Optional[str] = ..., run_count: _Optional[int] = ..., decision_count: _Optional[int] = ..., skipped_count: _Optional[int] = ..., diverged_count: _Optional[int] = ..., divergences: _Optional[_Iterable[_Union[Divergence, _Mapping]]] = ..., spent_after: _Optional[_Union[_runs_pb2.Spend, _Mapping]] = ...) -> None: ...

class VerifyDecisionsRequest(_message.Message):
    __slots__ = ("since_time", "max_disagreements")
    SINCE_TIME_FIELD_NUMBER: _ClassVar[int]
    MAX_DISAGREEMENTS_FIELD_NUMBER: _ClassVar[int]
    since_time: _timestamp_pb2.Timestamp
    max_disagreements: int
    def __init__(self, since_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., max_disagreements: _Optional[int] = ...) -> None: ...

class Disagreement(_message.Message):
    __slots__ = ("run_id", "sequence", "decide_time", "router", "policy_version", "facts", "rule", "destination", "other_rule", "other_destination")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    DECIDE_TIME_FIELD_NUMBER: _ClassVar[int]
    ROUTER_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_FIELD_NUMBER: _ClassVar[int]
    OTHER_RULE_FIELD_NUMBER: _ClassVar[int]
    OTHER_DESTINATION_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    sequence: int
    decide_time: _timestamp_pb2.Timestamp
    router: str
    policy_version: str
    facts: _struct_pb2.Struct
    rule: str
    destination: str
    other_rule: str
    other_destination: str
    def __init__(self, run_id: _Optional[str] = ..., sequence: _Optional[int] = ..., decide_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., router: _Optional[str] = ..., policy_version: _Optional[str] = ..., facts: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., rule: _Optional[str] = ..., destination: _Optional[str] = ..., other_rule: _Optional[str] = ..., other_destination: _Optional[str] = ...) -> None: ...

class VerifyDecisionsResponse(_message.Message):
    __slots__ = ("decision_count", "skipped_count", "disagreement_count", "disagreements")
    DECISION_COUNT_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_COUNT_FIELD_NUMBER: _ClassVar[int]
    DISAGREEMENT_COUNT_FIELD_NUMBER: _ClassVar[int]
    DISAGREEMENTS_FIELD_NUMBER: _ClassVar[int]
    decision_count: int
    skipped_count: int
    disagreement_count: int
    disagreements: _containers.RepeatedCompositeFieldContainer[Disagreement]
    def __init__(self, decision_count: _Optional[int] = ..., skipped_count: _Optional[int] = ..., disagreement_count: _Optional[int] = ..., disagreements: _Optional[_Iterable[_Union[Disagreement, _Mapping]]] = ...) -> None: ...

class ChangedLimit(_message.Message):
    __slots__ = ("name", "old_value", "new_value", "source", "routers")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OLD_VALUE_FIELD_NUMBER: _ClassVar[int]
    NEW_VALUE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    ROUTERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    old_value: _struct_pb2.Value
    new_value: _struct_pb2.Value
    source: LimitSource
    routers: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., old_value: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ..., new_value: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ..., source: _Optional[_Union[LimitSource, str]] = ..., routers: _Optional[_Iterable[str]] = ...) -> None: ...

class LimitChange(_message.Message):
    __slots__ = ("agent", "change_time", "limits", "policy_version", "graph_version", "release", "revision", "changed_by", "reason")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    CHANGE_TIME_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    GRAPH_VERSION_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CHANGED_BY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    agent: str
    change_time: _timestamp_pb2.Timestamp
    limits: _containers.RepeatedCompositeFieldContainer[ChangedLimit]
    policy_version: str
    graph_version: str
    release: str
    revision: int
    changed_by: str
    reason: str
    def __init__(self, agent: _Optional[str] = ..., change_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., limits: _Optional[_Iterable[_Union[ChangedLimit, _Mapping]]] = ..., policy_version: _Optional[str] = ..., graph_version: _Optional[str] = ..., release: _Optional[str] = ..., revision: _Optional[int] = ..., changed_by: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ListLimitChangesRequest(_message.Message):
    __slots__ = ("agent", "page_size", "page_token")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    agent: str
    page_size: int
    page_token: str
    def __init__(self, agent: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListLimitChangesResponse(_message.Message):
    __slots__ = ("changes", "next_page_token")
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    changes: _containers.RepeatedCompositeFieldContainer[LimitChange]
    next_page_token: str
    def __init__(self, changes: _Optional[_Iterable[_Union[LimitChange, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...
