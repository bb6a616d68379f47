"""A run as the events of its thread's stream.

Each event has an id that every replica gives it, by which clients know what they have heard, and a number that never
falls in a thread, behind which they go on: when its run was created, the step that is under way, and what of it it is.
An answer makes of a run, which is one here, another for LangGraph's clients: its part behind the question has the id
`<run_id>~1`, and so on, which is taken wherever a run is named.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from google.protobuf.timestamp_pb2 import Timestamp
from signalbox.v1 import runs_pb2

from services.http_api.event_stream import Part
from services.http_api.interrupts import INTERRUPT, interrupts_of
from services.http_api.message_events import MessageEvent, MessageEvents, calls_of, digest_of, text_of
from services.http_api.reader import LIFECYCLE, Position, position_of
from services.http_api.run_request import CHECKPOINTS, CUSTOM, TASKS, UPDATES, VALUES
from services.http_api.run_results import problem_of
from services.http_api.run_stream import ERROR, LEFT_OUT
from services.http_api.told_messages import messages_in
from services.kit.wire.event_kinds import TOKENS_RESET

# Of an update what is none.
_METADATA: Final = "__metadata__"
# Between a run's id and the number of its part.
TURN: Final = "~"
MESSAGES, TOOLS, INPUT_REQUESTED, INPUT_ANSWERED = "messages", "tools", "input.requested", "input.answered"
RUNNING, COMPLETED, FAILED, INTERRUPTED = "running", "completed", "failed", "interrupted"
# Of which there may be several by one number.
SHARED: Final = frozenset({MESSAGES, TOOLS, UPDATES, TASKS, CUSTOM})
# Numbers stay below 2**53 until 2059: for every 128 ms 16,384 steps, of 64 places each.
_BEGINNING_MS: Final = 1_735_689_600_000
_UNIT_MS: Final = 128
_OF_UNIT: Final = 1 << 20
_OF_STEP: Final = 64
# Places in a step: what is told while it is under way, what becomes of the run then, and what is told with its end.
_WORDS, _LAST_TURN, _END = 0, 36, 63
_PLACES: Final = {MESSAGES: 40, TOOLS: 41, UPDATES: 42, TASKS: 42, CHECKPOINTS: 43, VALUES: 44}
_PER_TURN: Final = 4
# 100 ns from the beginning of the Gregorian calendar, which ids of version 6 count from.
_GREGORIAN: Final = 0x01B21DD213814000
_VOID: Final = (runs_pb2.TOKENS_RESET_CAUSE_RERUN, runs_pb2.TOKENS_RESET_CAUSE_WITHDRAWN)


@dataclass(frozen=True)
class ThreadEvent:
    """An event of a thread; `time_ms` is when it happened."""

    method: str
    id: str
    number: int
    time_ms: int
    data: Any
    namespace: Sequence[str] = ()
    node: str = ""

    @property
    def channel(self) -> str:
        """The channel that it is told in."""
        return "input" if self.method in (INPUT_REQUESTED, INPUT_ANSWERED) else self.method

    def part(self) -> Part:
        """As an event of a stream."""
        params = {"namespace": list(self.namespace), "timestamp": self.time_ms, "data": self.data}
        named = {**params, "node": self.node} if self.node else params
        told = {"type": "event", "event_id": self.id, "seq": self.number, "method": self.method, "params": named}
        return Part(self.method, told, self.id)


def first_number(run: runs_pb2.Run, after: int) -> int:
    """Returns the number that a run's begin with: greater than that of the run before it."""
    units = max(0, run.create_time.ToMilliseconds() - _BEGINNING_MS) // _UNIT_MS
    return max(units * _OF_UNIT, after + _OF_UNIT)


def run_id_of(given: str) -> str:
    """Returns the run that a client names, which may name a part of it."""
    return given.partition(TURN)[0]


def status_of(run: runs_pb2.Run) -> tuple[str, str]:
    """Returns where a run is in its life as the protocol has it, and what kept it from its answer."""
    if run.HasField("input_request"):
        return INTERRUPTED, ""
    if not run.HasField("end_time"):
        return RUNNING, ""
    problem = problem_of(run)
    words = problem["message"] if problem else ""
    if run.state == runs_pb2.RUN_STATE_CANCELLED:
        return INTERRUPTED, words
    return (FAILED, words) if problem else (COMPLETED, "")


@dataclass
class RunEvents:
    """What becomes of a run, told to one reader.

    `first` is the number that its own begin with.
    """

    run: runs_pb2.Run
    first: int
    position: Position = field(default_factory=Position)
    is_asking: bool = False
    is_over: bool = False

    def __post_init__(self) -> None:
        self._turn = 0
        self._under_way = 0
        self._last = self.first
        self._time_ms = self.run.create_time.ToMilliseconds()
        self._messages = MessageEvents()
        self._asked: list[str] = []
        # Of a step whose checkpoint comes next: nodes that have ended, the state, and updates by what they say.
        self._ended_nodes: set[str] = set()
        self._values: Mapping[str, Any] | None = None
        self._updates: Counter[str] = Counter()
        # Calls of tools by id, and whether they have ended; unset before the first state.
        self._calls: dict[str, bool] | None = None
        self._problem = ""

    def began(self) -> ThreadEvent:
        """Returns that the run has begun, or goes on behind a question."""
        return self._lifecycle(RUNNING, self._in_turn(4))

    def of(self, part: Part, *, is_hosted: bool) -> Iterator[ThreadEvent]:
        """Yields what a part of the run's stream says, which is of a hosted graph or of an agent of the platform."""
        mode, *namespace = part.event.split("|")
        if mode == LIFECYCLE:
            yield from self._changed(part.data)
        elif mode == MESSAGES:
            yield from self._said(namespace, *part.data)
        elif mode in (CUSTOM, LEFT_OUT):
            yield self._written(mode, namespace, part)
        elif mode == UPDATES and INTERRUPT not in part.data:
            yield from self._updated(part, is_hosted=is_hosted)
        elif mode == TASKS:
            yield self._task(part.data)
        elif mode == CHECKPOINTS:
            yield from self._stepped(part.data)
        elif mode == VALUES and INTERRUPT not in part.data:
            self._values = part.data
        elif mode == ERROR:
            self._problem = part.data["message"]

    def over(self, run: runs_pb2.Run | None, problem: str = "") -> Iterator[ThreadEvent]:
        """Yields how the run has ended, or why no more is told of it; nothing while it asks."""
        problem = problem or self._problem
        if self.is_asking and run is None and not problem:
            return
        self.is_over, self.is_asking = True, False
        yield from self._ends({}, None)
        yield from self._whole()
        status = FAILED if problem else COMPLETED
        if run is not None:
            self._at(run.end_time)
            status, problem = status_of(run)
        yield self._lifecycle(status, self._under_way * _OF_STEP + _END, problem)

    def _changed(self, event: runs_pb2.RunEvent) -> Iterator[ThreadEvent]:
        if event.HasField(TOKENS_RESET):
            if event.tokens_reset.cause in _VOID:
                for each in self._messages.take_back(event.tokens_reset.node):
                    yield self._message(each, _WORDS)
            return
        self._at(event.event_time)
        change = event.state_changed
        if change.HasField("input_received") and self.is_asking:
            yield self._happened(INPUT_ANSWERED, "answered", 3, {"interrupt_ids": self._asked})
            self._turn, self.is_asking = self._turn + 1, False
            yield self.began()
        if change.HasField("input_request"):
            self.is_asking = True
            self._messages.forget()
            asked = interrupts_of(change.input_request)
            self._asked = [each["id"] for each in asked]
            for interrupt in asked:
                data = {"interrupt_id": interrupt["id"], "payload": interrupt["value"], "value": interrupt["value"]}
                yield self._happened(INPUT_REQUESTED, f"asked:{digest_of(interrupt['id'])}", 1, data)
            yield self._lifecycle(INTERRUPTED, self._in_turn(2))

    def _said(
        self, namespace: Sequence[str], message: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> Iterator[ThreadEvent]:
        node, is_under_way = str(metadata.get("langgraph_node", "")), message["type"] == "AIMessageChunk"
        if is_under_way:
            found = self._messages.words(namespace, node, message["id"], message["content"])
            self._time_ms = max(self._time_ms, int(time.time() * 1000))
        else:
            found = self._messages.whole(namespace, node, message)
        for each in found:
            yield self._message(each, _WORDS if is_under_way else _PLACES[MESSAGES])

    def _message(self, event: MessageEvent, place: int) -> ThreadEvent:
        return self._told(MESSAGES, f"m.{event.id}", place, event.data, event.namespace)

    def _written(self, mode: str, namespace: Sequence[str], part: Part) -> ThreadEvent:
        # What an attempt at a node has written is counted, by which it is known.
        attempt, count = list(position_of(part.id).written.items())[-1]
        payload = part.data if mode == CUSTOM else {"left_out": part.data}
        return self._told(CUSTOM, f"w.{attempt}.{count}", _WORDS, {"payload": payload}, namespace)

    def _updated(self, part: Part, *, is_hosted: bool) -> Iterator[ThreadEvent]:
        if not is_hosted:  # the ends of its nodes are all its steps
            self._under_way = position_of(part.id).sequence
        for node, values in part.data.items():
            if node == _METADATA:
                continue
            self._ended_nodes.update(node.split(","))
            data = {"node": node, "values": values if isinstance(values, dict) else {"value": values} if values else {}}
            # In messages of the platform's an object has its fields in whatever order, another in each process.
            said = digest_of(orjson.dumps(data, option=orjson.OPT_SORT_KEYS).decode())
            self._updates[said] += 1
            name = f"u{self._under_way}.{said}.{self._updates[said]}"
            yield self._told(UPDATES, name, _PLACES[UPDATES], data, node=node)

    def _stepped(self, checkpoint: Mapping[str, Any]) -> Iterator[ThreadEvent]:
        step, place = checkpoint["metadata"]["step"], _place(checkpoint["config"])
        self._under_way = step + 1
        self._time_ms = max(self._time_ms, _time_of(place))
        messages = {each["id"]: each for each in messages_in(checkpoint["values"])}
        yield from self._ends(messages, self._ended_nodes)
        self._ended_nodes.clear()
        yield from self._results(messages.values())
        data = {"id": place, "source": checkpoint["metadata"]["source"]}
        if before := checkpoint["parent_config"]:
            data["parent_id"] = _place(before)
        if not self.run.HasField("forked_from"):  # by it clients take an earlier step for one that is told late
            data["step"] = step
        # Clients take a state for that of the checkpoint before it.
        yield self._single(CHECKPOINTS, f"c{self._under_way}", data)
        yield from self._whole()
        self._under_way += 1
        self._updates.clear()

    def _whole(self) -> Iterator[ThreadEvent]:
        if self._values is not None:
            yield self._single(VALUES, f"v{self._under_way}", self._values)
            self._values = None

    def _task(self, task: Mapping[str, Any]) -> ThreadEvent:
        if "result" not in task:
            return self._told(TASKS, f"k.{digest_of(task['id'])}.begun", _WORDS, task)
        how = f"asked{self._turn}" if task["interrupts"] else "ended"
        return self._told(TASKS, f"k.{digest_of(task['id'])}.{how}", _PLACES[TASKS], task)

    def _ends(self, messages: Mapping[str, Mapping[str, Any]], nodes: Set[str] | None) -> Iterator[ThreadEvent]:
        for each in self._messages.end(messages, nodes):
            yield self._message(each, _PLACES[MESSAGES])

    def _results(self, messages: Any) -> Iterator[ThreadEvent]:
        """Yields calls of tools that a step has brought, and their ends."""
        is_first, self._calls = self._calls is None, self._calls or {}
        found = list(messages)
        for call in (call for message in found if message["type"] == "ai" for call in calls_of(message)):
            if call["id"] not in self._calls:
                self._calls[call["id"]] = is_first
                data = {"event": "tool-started", "tool_name": call.get("name") or "tool", "input": call.get("args")}
                if not is_first:
                    yield self._tool(call["id"], data)
        for message in found:
            call_id = message.get("tool_call_id")
            if message["type"] != "tool" or self._calls.get(str(call_id), True):
                continue
            self._calls[str(call_id)] = True
            output = message["content"]
            ended = {"event": "tool-finished", "output": output}
            if message.get("status") == "error":
                ended = {"event": "tool-error", "message": text_of(message)}
            yield self._tool(str(call_id), ended)

    def _tool(self, call_id: str, data: Mapping[str, Any]) -> ThreadEvent:
        named = {**data, "tool_call_id": call_id}
        return self._told(TOOLS, f"t.{digest_of(call_id)}.{data['event']}", _PLACES[TOOLS], named)

    def _told(
        self, method: str, name: str, place: int, data: Any, namespace: Sequence[str] = (), *, node: str = ""
    ) -> ThreadEvent:
        self._last = max(self._last, self._number(place))
        return ThreadEvent(method, f"{self.run.run_id}.{name}", self._last, self._time_ms, data, namespace, node)

    def _single(self, method: str, name: str, data: Any) -> ThreadEvent:
        self._last = max(self._last + 1, self._number(_PLACES[method]))
        return ThreadEvent(method, f"{self.run.run_id}.{name}", self._last, self._time_ms, data)

    def _number(self, place: int) -> int:
        return self.first + self._under_way * _OF_STEP + place

    def _in_turn(self, place: int) -> int:
        return self._under_way * _OF_STEP + min(self._turn * _PER_TURN + place, _LAST_TURN)

    def _lifecycle(self, status: str, place: int, problem: str = "") -> ThreadEvent:
        data = {"event": status, "graph_name": self.run.agent, **({"error": problem} if problem else {})}
        self._last = max(self._last + 1, self.first + place)
        return ThreadEvent("lifecycle", self._id(status), self._last, self._time_ms, data)

    def _happened(self, method: str, name: str, place: int, data: Any) -> ThreadEvent:
        self._last = max(self._last + 1, self.first + self._in_turn(place))
        return ThreadEvent(method, self._id(name), self._last, self._time_ms, data)

    def _id(self, name: str) -> str:
        # In this form clients find the run in it.
        part = f"{TURN}{self._turn}" if self._turn else ""
        return f"synth:{self.run.run_id}{part}:{name}"

    def _at(self, moment: Timestamp) -> None:
        self._time_ms = max(self._time_ms, moment.ToMilliseconds())


def _place(config: Mapping[str, Any]) -> str:
    return str(config["configurable"]["checkpoint_id"])


def _time_of(place: str) -> int:
    """Returns when a checkpoint was written, which its id says; 0 where it does not."""
    try:
        found = uuid.UUID(place.rpartition(":")[2])
    except ValueError:
        return 0
    if found.version != 6:
        return 0
    ticks = (found.int >> 80 << 12) | (found.int >> 64 & 0xFFF)
    return (ticks - _GREGORIAN) // 10_000
