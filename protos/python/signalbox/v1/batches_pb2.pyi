import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from signalbox.v1 import caller_pb2 as _caller_pb2
from signalbox.v1 import runs_pb2 as _runs_pb2
from signalbox.v1 import sast_pb2 as _sast_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class BatchState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BATCH_STATE_UNSPECIFIED: _ClassVar[BatchState]
    BATCH_STATE_UPLOADING: _ClassVar[BatchState]
    BATCH_STATE_RUNNING: _ClassVar[BatchState]
    BATCH_STATE_CANCELLING: _ClassVar[BatchState]
    BATCH_STATE_ENDED: _ClassVar[BatchState]
    BATCH_STATE_CANCELLED: _ClassVar[BatchState]

class BatchItemState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BATCH_ITEM_STATE_UNSPECIFIED: _ClassVar[BatchItemState]
    BATCH_ITEM_STATE_PENDING: _ClassVar[BatchItemState]
    BATCH_ITEM_STATE_RUNNING: _ClassVar[BatchItemState]
    BATCH_ITEM_STATE_SUCCEEDED: _ClassVar[BatchItemState]
    BATCH_ITEM_STATE_NEEDS_REVIEW: _ClassVar[BatchItemState]
    BATCH_ITEM_STATE_FAILED: _ClassVar[BatchItemState]
    BATCH_ITEM_STATE_CANCELLED: _ClassVar[BatchItemState]
    BATCH_ITEM_STATE_REFUSED: _ClassVar[BatchItemState]
    BATCH_ITEM_STATE_SETTLED: _ClassVar[BatchItemState]

class SettledBy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SETTLED_BY_UNSPECIFIED: _ClassVar[SettledBy]
    SETTLED_BY_KNOWN_FALSE_POSITIVE: _ClassVar[SettledBy]
    SETTLED_BY_PERSON: _ClassVar[SettledBy]
    SETTLED_BY_EARLIER_RUN: _ClassVar[SettledBy]
BATCH_STATE_UNSPECIFIED: BatchState
BATCH_STATE_UPLOADING: BatchState
BATCH_STATE_RUNNING: BatchState
BATCH_STATE_CANCELLING: BatchState
BATCH_STATE_ENDED: BatchState
BATCH_STATE_CANCELLED: BatchState
BATCH_ITEM_STATE_UNSPECIFIED: BatchItemState
BATCH_ITEM_STATE_PENDING: BatchItemState
BATCH_ITEM_STATE_RUNNING: BatchItemState
BATCH_ITEM_STATE_SUCCEEDED: BatchItemState
BATCH_ITEM_STATE_NEEDS_REVIEW: BatchItemState
BATCH_ITEM_STATE_FAILED: BatchItemState
BATCH_ITEM_STATE_CANCELLED: BatchItemState
BATCH_ITEM_STATE_REFUSED: BatchItemState
BATCH_ITEM_STATE_SETTLED: BatchItemState
SETTLED_BY_UNSPECIFIED: SettledBy
SETTLED_BY_KNOWN_FALSE_POSITIVE: SettledBy
SETTLED_BY_PERSON: SettledBy
SETTLED_BY_EARLIER_RUN: SettledBy

class Batch(_message.Message):
    __slots__ = ("batch_id", "name", "caller", "state", "item_count", "counts", "max_runs", "pace", "held_up_by", "create_time", "start_time", "end_time", "expire_time", "scores")
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CALLER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ITEM_COUNT_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    MAX_RUNS_FIELD_NUMBER: _ClassVar[int]
    PACE_FIELD_NUMBER: _ClassVar[int]
    HELD_UP_BY_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    batch_id: str
    name: str
    caller: _caller_pb2.Caller
    state: BatchState
    item_count: int
    counts: _containers.RepeatedCompositeFieldContainer[BatchItemCount]
    max_runs: int
    pace: int
    held_up_by: str
    create_time: _timestamp_pb2.Timestamp
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    expire_time: _timestamp_pb2.Timestamp
    scores: BatchScores
    def __init__(self, batch_id: _Optional[str] = ..., name: _Optional[str] = ..., caller: _Optional[_Union[_caller_pb2.Caller, _Mapping]] = ..., state: _Optional[_Union[BatchState, str]] = ..., item_count: _Optional[int] = ..., counts: _Optional[_Iterable[_Union[BatchItemCount, _Mapping]]] = ..., max_runs: _Optional[int] = ..., pace: _Optional[int] = ..., held_up_by: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., scores: _Optional[_Union[BatchScores, _Mapping]] = ...) -> None: ...

class BatchScores(_message.Message):
    __slots__ = ("total", "by_rule")
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    BY_RULE_FIELD_NUMBER: _ClassVar[int]
    total: VerdictScores
    by_rule: _containers.RepeatedCompositeFieldContainer[VerdictScores]
    def __init__(self, total: _Optional[_Union[VerdictScores, _Mapping]] = ..., by_rule: _Optional[_Iterable[_Union[VerdictScores, _Mapping]]] = ...) -> None: ...

class VerdictScores(_message.Message):
    __slots__ = ("rule_id", "true_positives", "false_positives", "true_negatives", "false_negatives", "review_vulnerable", "review_harmless", "precision", "recall", "f1")
    RULE_ID_FIELD_NUMBER: _ClassVar[int]
    TRUE_POSITIVES_FIELD_NUMBER: _ClassVar[int]
    FALSE_POSITIVES_FIELD_NUMBER: _ClassVar[int]
    TRUE_NEGATIVES_FIELD_NUMBER: _ClassVar[int]
    FALSE_NEGATIVES_FIELD_NUMBER: _ClassVar[int]
    REVIEW_VULNERABLE_FIELD_NUMBER: _ClassVar[int]
    REVIEW_HARMLESS_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    RECALL_FIELD_NUMBER: _ClassVar[int]
    F1_FIELD_NUMBER: _ClassVar[int]
    rule_id: str
    true_positives: int
    false_positives: int
    true_negatives: int
    false_negatives: int
    review_vulnerable: int
    review_harmless: int
    precision: float
    recall: float
    f1: float
    def __init__(self, rule_id: _Optional[str] = ..., true_positives: _Optional[int] = ..., false_positives: _Optional[int] = ..., true_negatives: _Optional[int] = ..., false_negatives: _Optional[int] = ..., review_vulnerable: _Optional[int] = ..., review_harmless: _Optional[int] = ..., precision: _Optional[float] = ..., recall: _Optional[float] = ..., f1: _Optional[float] = ...) -> None: ...

class BatchItemCount(_message.Message):
    __slots__ = ("state", "count")
    STATE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    state: BatchItemState
    count: int
    def __init__(self, state: _Optional[_Union[BatchItemState, str]] = ..., count: _Optional[int] = ...) -> None: ...

class NewBatchItem(_message.Message):
    __slots__ = ("key", "input", "truth", "settled", "labels")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    KEY_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    TRUTH_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    key: str
    input: _runs_pb2.RunInput
    truth: _sast_pb2.Verdict
    settled: Settled
    labels: _containers.ScalarMap[str, str]
    def __init__(self, key: _Optional[str] = ..., input: _Optional[_Union[_runs_pb2.RunInput, _Mapping]] = ..., truth: _Optional[_Union[_sast_pb2.Verdict, str]] = ..., settled: _Optional[_Union[Settled, _Mapping]] = ..., labels: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Settled(_message.Message):
    __slots__ = ("by", "output", "run_id", "graph_version")
    BY_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    GRAPH_VERSION_FIELD_NUMBER: _ClassVar[int]
    by: SettledBy
    output: _runs_pb2.RunOutput
    run_id: str
    graph_version: str
    def __init__(self, by: _Optional[_Union[SettledBy, str]] = ..., output: _Optional[_Union[_runs_pb2.RunOutput, _Mapping]] = ..., run_id: _Optional[str] = ..., graph_version: _Optional[str] = ...) -> None: ...

class BatchItem(_message.Message):
    __slots__ = ("number", "key", "state", "run_id", "error", "retry_count", "run", "settled_by", "truth", "input")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    RETRY_COUNT_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    SETTLED_BY_FIELD_NUMBER: _ClassVar[int]
    TRUTH_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    number: int
    key: str
    state: BatchItemState
    run_id: str
    error: str
    retry_count: int
    run: _runs_pb2.Run
    settled_by: SettledBy
    truth: _sast_pb2.Verdict
    input: _runs_pb2.RunInput
    def __init__(self, number: _Optional[int] = ..., key: _Optional[str] = ..., state: _Optional[_Union[BatchItemState, str]] = ..., run_id: _Optional[str] = ..., error: _Optional[str] = ..., retry_count: _Optional[int] = ..., run: _Optional[_Union[_runs_pb2.Run, _Mapping]] = ..., settled_by: _Optional[_Union[SettledBy, str]] = ..., truth: _Optional[_Union[_sast_pb2.Verdict, str]] = ..., input: _Optional[_Union[_runs_pb2.RunInput, _Mapping]] = ...) -> None: ...

class CreateBatchRequest(_message.Message):
    __slots__ = ("request_id", "name", "max_runs", "item_count")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    MAX_RUNS_FIELD_NUMBER: _ClassVar[int]
    ITEM_COUNT_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    name: str
    max_runs: int
    item_count: int
    def __init__(self, request_id: _Optional[str] = ..., name: _Optional[str] = ..., max_runs: _Optional[int] = ..., item_count: _Optional[int] = ...) -> None: ...

class CreateBatchResponse(_message.Message):
    __slots__ = ("batch",)
    BATCH_FIELD_NUMBER: _ClassVar[int]
    batch: Batch
    def __init__(self, batch: _Optional[_Union[Batch, _Mapping]] = ...) -> None: ...

class AddBatchItemsRequest(_message.Message):
    __slots__ = ("batch_id", "first_number", "items")
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_NUMBER_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    batch_id: str
    first_number: int
    items: _containers.RepeatedCompositeFieldContainer[NewBatchItem]
    def __init__(self, batch_id: _Optional[str] = ..., first_number: _Optional[int] = ..., items: _Optional[_Iterable[_Union[NewBatchItem, _Mapping]]] = ...) -> None: ...

class AddBatchItemsResponse(_message.Message):
    __slots__ = ("item_count",)
    ITEM_COUNT_FIELD_NUMBER: _ClassVar[int]
    item_count: int
    def __init__(self, item_count: _Optional[int] = ...) -> None: ...

class StartBatchRequest(_message.Message):
    __slots__ = ("batch_id", "item_count")
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    ITEM_COUNT_FIELD_NUMBER: _ClassVar[int]
    batch_id: str
    item_count: int
    def __init__(self, batch_id: _Optional[str] = ..., item_count: _Optional[int] = ...) -> None: ...

class StartBatchResponse(_message.Message):
    __slots__ = ("batch",)
    BATCH_FIELD_NUMBER: _ClassVar[int]
    batch: Batch
    def __init__(self, batch: _Optional[_Union[Batch, _Mapping]] = ...) -> None: ...

class GetBatchRequest(_message.Message):
    __slots__ = ("batch_id",)
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    batch_id: str
    def __init__(self, batch_id: _Optional[str] = ...) -> None: ...

class GetBatchResponse(_message.Message):
    __slots__ = ("batch",)
    BATCH_FIELD_NUMBER: _ClassVar[int]
    batch: Batch
    def __init__(self, batch: _Optional[_Union[Batch, _Mapping]] = ...) -> None: ...

class ListBatchesRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "subject")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    subject: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., subject: _Optional[str] = ...) -> None: ...

class ListBatchesResponse(_message.Message):
    __slots__ = ("batches", "next_page_token")
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    batches: _containers.RepeatedCompositeFieldContainer[Batch]
    next_page_token: str
    def __init__(self, batches: _Optional[_Iterable[_Union[Batch, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class WatchBatchRequest(_message.Message):
    __slots__ = ("batch_id", "after_sequence", "with_runs")
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    AFTER_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    WITH_RUNS_FIELD_NUMBER: _ClassVar[int]
    batch_id: str
    after_sequence: int
    with_runs: bool
    def __init__(self, batch_id: _Optional[str] = ..., after_sequence: _Optional[int] = ..., with_runs: _Optional[bool] = ...) -> None: ...

class WatchBatchResponse(_message.Message):
    __slots__ = ("batch", "item_ended")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    ITEM_ENDED_FIELD_NUMBER: _ClassVar[int]
    batch: Batch
    item_ended: BatchItemEnded
    def __init__(self, batch: _Optional[_Union[Batch, _Mapping]] = ..., item_ended: _Optional[_Union[BatchItemEnded, _Mapping]] = ...) -> None: ...

class BatchItemEnded(_message.Message):
    __slots__ = ("sequence", "item")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ITEM_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    item: BatchItem
    def __init__(self, sequence: _Optional[int] = ..., item: _Optional[_Union[BatchItem, _Mapping]] = ...) -> None: ...

class CancelBatchRequest(_message.Message):
    __slots__ = ("batch_id",)
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    batch_id: str
    def __init__(self, batch_id: _Optional[str] = ...) -> None: ...

class CancelBatchResponse(_message.Message):
    __slots__ = ("batch",)
    BATCH_FIELD_NUMBER: _ClassVar[int]
    batch: Batch
    def __init__(self, batch: _Optional[_Union[Batch, _Mapping]] = ...) -> None: ...

class RetryBatchRequest(_message.Message):
    __slots__ = ("batch_id",)
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    batch_id: str
    def __init__(self, batch_id: _Optional[str] = ...) -> None: ...

class RetryBatchResponse(_message.Message):
    __slots__ = ("batch", "retried_count")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    RETRIED_COUNT_FIELD_NUMBER: _ClassVar[int]
    batch: Batch
    retried_count: int
    def __init__(self, batch: _Optional[_Union[Batch, _Mapping]] = ..., retried_count: _Optional[int] = ...) -> None: ...

class ExportBatchRequest(_message.Message):
    __slots__ = ("batch_id", "after_number", "with_inputs")
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    AFTER_NUMBER_FIELD_NUMBER: _ClassVar[int]
    WITH_INPUTS_FIELD_NUMBER: _ClassVar[int]
    batch_id: str
    after_number: int
    with_inputs: bool
    def __init__(self, batch_id: _Optional[str] = ..., after_number: _Optional[int] = ..., with_inputs: _Optional[bool] = ...) -> None: ...

class ExportBatchResponse(_message.Message):
    __slots__ = ("item",)
    ITEM_FIELD_NUMBER: _ClassVar[int]
    item: BatchItem
    def __init__(self, item: _Optional[_Union[BatchItem, _Mapping]] = ...) -> None: ...

class DeleteBatchRequest(_message.Message):
    __slots__ = ("batch_id",)
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    batch_id: str
    def __init__(self, batch_id: _Optional[str] = ...) -> None: ...

class DeleteBatchResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
