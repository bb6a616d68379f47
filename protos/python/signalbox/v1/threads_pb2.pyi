import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from signalbox.v1 import runs_pb2 as _runs_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Thread(_message.Message):
    __slots__ = ("thread_id", "create_time", "latest_run_time", "run_count", "active_run_id", "metadata", "agent", "labels", "state")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    LATEST_RUN_TIME_FIELD_NUMBER: _ClassVar[int]
    RUN_COUNT_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    thread_id: str
    create_time: _timestamp_pb2.Timestamp
    latest_run_time: _timestamp_pb2.Timestamp
    run_count: int
    active_run_id: str
    metadata: _struct_pb2.Struct
    agent: str
    labels: _containers.ScalarMap[str, str]
    state: _runs_pb2.RunState
    def __init__(self, thread_id: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., latest_run_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., run_count: _Optional[int] = ..., active_run_id: _Optional[str] = ..., metadata: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., agent: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., state: _Optional[_Union[_runs_pb2.RunState, str]] = ...) -> None: ...

class Checkpoint(_message.Message):
    __slots__ = ("checkpoint_id", "step", "create_time", "next_nodes")
    CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    NEXT_NODES_FIELD_NUMBER: _ClassVar[int]
    checkpoint_id: str
    step: int
    create_time: _timestamp_pb2.Timestamp
    next_nodes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, checkpoint_id: _Optional[str] = ..., step: _Optional[int] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., next_nodes: _Optional[_Iterable[str]] = ...) -> None: ...

class ThreadState(_message.Message):
    __slots__ = ("run_id", "checkpoint", "next_nodes", "values", "tasks", "ended_tasks")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    NEXT_NODES_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    ENDED_TASKS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    checkpoint: Checkpoint
    next_nodes: _containers.RepeatedScalarFieldContainer[str]
    values: _struct_pb2.Struct
    tasks: _containers.RepeatedCompositeFieldContainer[Task]
    ended_tasks: _containers.RepeatedCompositeFieldContainer[Task]
    def __init__(self, run_id: _Optional[str] = ..., checkpoint: _Optional[_Union[Checkpoint, _Mapping]] = ..., next_nodes: _Optional[_Iterable[str]] = ..., values: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., tasks: _Optional[_Iterable[_Union[Task, _Mapping]]] = ..., ended_tasks: _Optional[_Iterable[_Union[Task, _Mapping]]] = ...) -> None: ...

class Task(_message.Message):
    __slots__ = ("task_id", "name", "triggers", "sent", "writes", "interrupts", "error", "has_ended", "is_cached", "handles_failure")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TRIGGERS_FIELD_NUMBER: _ClassVar[int]
    SENT_FIELD_NUMBER: _ClassVar[int]
    WRITES_FIELD_NUMBER: _ClassVar[int]
    INTERRUPTS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    HAS_ENDED_FIELD_NUMBER: _ClassVar[int]
    IS_CACHED_FIELD_NUMBER: _ClassVar[int]
    HANDLES_FAILURE_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    name: str
    triggers: _containers.RepeatedScalarFieldContainer[str]
    sent: _struct_pb2.Value
    writes: _containers.RepeatedCompositeFieldContainer[TaskWrite]
    interrupts: _containers.RepeatedCompositeFieldContainer[_runs_pb2.Interrupt]
    error: str
    has_ended: bool
    is_cached: bool
    handles_failure: bool
    def __init__(self, task_id: _Optional[str] = ..., name: _Optional[str] = ..., triggers: _Optional[_Iterable[str]] = ..., sent: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ..., writes: _Optional[_Iterable[_Union[TaskWrite, _Mapping]]] = ..., interrupts: _Optional[_Iterable[_Union[_runs_pb2.Interrupt, _Mapping]]] = ..., error: _Optional[str] = ..., has_ended: _Optional[bool] = ..., is_cached: _Optional[bool] = ..., handles_failure: _Optional[bool] = ...) -> None: ...

class TaskWrite(_message.Message):
    __slots__ = ("field", "value")
    FIELD_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    field: str
    value: _struct_pb2.Value
    def __init__(self, field: _Optional[str] = ..., value: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ...) -> None: ...

class ListThreadsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "metadata")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    metadata: _struct_pb2.Struct
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., metadata: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class ListThreadsResponse(_message.Message):
    __slots__ = ("threads", "next_page_token")
    THREADS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    threads: _containers.RepeatedCompositeFieldContainer[Thread]
    next_page_token: str
    def __init__(self, threads: _Optional[_Iterable[_Union[Thread, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class UpdateThreadRequest(_message.Message):
    __slots__ = ("thread_id", "metadata", "only_new")
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    ONLY_NEW_FIELD_NUMBER: _ClassVar[int]
    thread_id: str
    metadata: _struct_pb2.Struct
    only_new: bool
    def __init__(self, thread_id: _Optional[str] = ..., metadata: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., only_new: _Optional[bool] = ...) -> None: ...

class UpdateThreadResponse(_message.Message):
    __slots__ = ("thread",)
    THREAD_FIELD_NUMBER: _ClassVar[int]
    thread: Thread
    def __init__(self, thread: _Optional[_Union[Thread, _Mapping]] = ...) -> None: ...

class GetThreadRequest(_message.Message):
    __slots__ = ("thread_id",)
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    thread_id: str
    def __init__(self, thread_id: _Optional[str] = ...) -> None: ...

class GetThreadResponse(_message.Message):
    __slots__ = ("thread", "runs")
    THREAD_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    thread: Thread
    runs: _containers.RepeatedCompositeFieldContainer[_runs_pb2.Run]
    def __init__(self, thread: _Optional[_Union[Thread, _Mapping]] = ..., runs: _Optional[_Iterable[_Union[_runs_pb2.Run, _Mapping]]] = ...) -> None: ...

class GetThreadStateRequest(_message.Message):
    __slots__ = ("thread_id", "run_id", "checkpoint_id")
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    thread_id: str
    run_id: str
    checkpoint_id: str
    def __init__(self, thread_id: _Optional[str] = ..., run_id: _Optional[str] = ..., checkpoint_id: _Optional[str] = ...) -> None: ...

class GetThreadStateResponse(_message.Message):
    __slots__ = ("state", "checkpoints")
    STATE_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINTS_FIELD_NUMBER: _ClassVar[int]
    state: ThreadState
    checkpoints: _containers.RepeatedCompositeFieldContainer[Checkpoint]
    def __init__(self, state: _Optional[_Union[ThreadState, _Mapping]] = ..., checkpoints: _Optional[_Iterable[_Union[Checkpoint, _Mapping]]] = ...) -> None: ...

class ForkThreadRequest(_message.Message):
    __slots__ = ("thread_id", "run_id", "checkpoint_id", "new_thread_id")
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    NEW_THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    thread_id: str
    run_id: str
    checkpoint_id: str
    new_thread_id: str
    def __init__(self, thread_id: _Optional[str] = ..., run_id: _Optional[str] = ..., checkpoint_id: _Optional[str] = ..., new_thread_id: _Optional[str] = ...) -> None: ...

class ForkThreadResponse(_message.Message):
    __slots__ = ("thread", "run")
    THREAD_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    thread: Thread
    run: _runs_pb2.Run
    def __init__(self, thread: _Optional[_Union[Thread, _Mapping]] = ..., run: _Optional[_Union[_runs_pb2.Run, _Mapping]] = ...) -> None: ...

class GetRunStateRequest(_message.Message):
    __slots__ = ("run_id", "step", "as_output", "without_checkpoints", "with_tasks")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    AS_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_CHECKPOINTS_FIELD_NUMBER: _ClassVar[int]
    WITH_TASKS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    step: int
    as_output: bool
    without_checkpoints: bool
    with_tasks: bool
    def __init__(self, run_id: _Optional[str] = ..., step: _Optional[int] = ..., as_output: _Optional[bool] = ..., without_checkpoints: _Optional[bool] = ..., with_tasks: _Optional[bool] = ...) -> None: ...

class GetRunStateResponse(_message.Message):
    __slots__ = ("state", "checkpoints")
    STATE_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINTS_FIELD_NUMBER: _ClassVar[int]
    state: ThreadState
    checkpoints: _containers.RepeatedCompositeFieldContainer[Checkpoint]
    def __init__(self, state: _Optional[_Union[ThreadState, _Mapping]] = ..., checkpoints: _Optional[_Iterable[_Union[Checkpoint, _Mapping]]] = ...) -> None: ...

class ListRunStatesRequest(_message.Message):
    __slots__ = ("run_id", "page_size", "page_token", "after_step", "before_step", "newest_first", "as_output", "with_tasks")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    AFTER_STEP_FIELD_NUMBER: _ClassVar[int]
    BEFORE_STEP_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIRST_FIELD_NUMBER: _ClassVar[int]
    AS_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    WITH_TASKS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    page_size: int
    page_token: str
    after_step: int
    before_step: int
    newest_first: bool
    as_output: bool
    with_tasks: bool
    def __init__(self, run_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., after_step: _Optional[int] = ..., before_step: _Optional[int] = ..., newest_first: _Optional[bool] = ..., as_output: _Optional[bool] = ..., with_tasks: _Optional[bool] = ...) -> None: ...

class ListRunStatesResponse(_message.Message):
    __slots__ = ("states", "next_page_token", "last_sequence")
    STATES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    states: _containers.RepeatedCompositeFieldContainer[ThreadState]
    next_page_token: str
    last_sequence: int
    def __init__(self, states: _Optional[_Iterable[_Union[ThreadState, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., last_sequence: _Optional[int] = ...) -> None: ...

class ForkRunRequest(_message.Message):
    __slots__ = ("run_id", "step", "update", "as_node", "request_id", "in_thread", "input", "only_state", "token_chunks", "callback_events")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    AS_NODE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    IN_THREAD_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    ONLY_STATE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_CHUNKS_FIELD_NUMBER: _ClassVar[int]
    CALLBACK_EVENTS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    step: int
    update: _struct_pb2.Struct
    as_node: str
    request_id: str
    in_thread: bool
    input: _struct_pb2.Struct
    only_state: bool
    token_chunks: bool
    callback_events: bool
    def __init__(self, run_id: _Optional[str] = ..., step: _Optional[int] = ..., update: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., as_node: _Optional[str] = ..., request_id: _Optional[str] = ..., in_thread: _Optional[bool] = ..., input: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., only_state: _Optional[bool] = ..., token_chunks: _Optional[bool] = ..., callback_events: _Optional[bool] = ...) -> None: ...

class ForkRunResponse(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: _runs_pb2.Run
    def __init__(self, run: _Optional[_Union[_runs_pb2.Run, _Mapping]] = ...) -> None: ...

class DeleteThreadRequest(_message.Message):
    __slots__ = ("thread_id",)
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    thread_id: str
    def __init__(self, thread_id: _Optional[str] = ...) -> None: ...

class DeleteThreadResponse(_message.Message):
    __slots__ = ("run_count", "decision_count")
    RUN_COUNT_FIELD_NUMBER: _ClassVar[int]
    DECISION_COUNT_FIELD_NUMBER: _ClassVar[int]
    run_count: int
    decision_count: int
    def __init__(self, run_count: _Optional[int] = ..., decision_count: _Optional[int] = ...) -> None: ...
