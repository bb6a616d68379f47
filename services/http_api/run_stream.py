"""A run as a stream of events: the platform's events and states, told in the modes of LangGraph's streams.

What has a number, or the state of a step, can be told again by any replica: the id of an event says up to which event
of the platform's, and up to which step's state, a reader has heard. What models are saying is told from the first word
on to who comes in the middle, as far as the platform has it; the id says how much of it a reader has heard, too.

`values` is the state after each step (of the platform's own agents, the output), `updates` what a step has changed of
it, `checkpoints` that state with its place, `messages-tuple` what models say, and messages that came whole, `messages`
the same with all that was said before, and `custom` what nodes write to LangGraph's stream writer.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence, Set
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import orjson
from google.protobuf.json_format import MessageToDict
from signalbox.v1 import outcome_pb2, runs_pb2, threads_pb2

from services.http_api.assistants import Assistant
from services.http_api.errors import PASSING, ApiError, GatewayAway, Invalid, NotFound, TooLate
from services.http_api.event_stream import CutOff, Part
from services.http_api.gateway import Caller
from services.http_api.interrupts import INTERRUPT, interrupts_of
from services.http_api.json_bodies import json_of
from services.http_api.run_request import CHECKPOINTS, CUSTOM, MESSAGES, UPDATES, VALUES, WHOLE_MESSAGES
from services.kit.wire.event_kinds import DECISION, NODE_COMPLETED, RUN_ENDED, STATE_CHANGED, TOKEN_CHUNK, TOKENS_RESET
from services.kit.wire.pages import pages

METADATA, ERROR, END = "metadata", "error", "end"
CANCEL_ON_DISCONNECT: Final = "cancel_on_disconnect"
CANCELS: Final = f"{CANCEL_ON_DISCONNECT}=true"
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 2.0
# Messages under way that the id of an event speaks of, and attempts at nodes that have written.
MOST_UNDER_WAY: Final = 8
MOST_ATTEMPTS: Final = 32
# How far a reader has heard, and behind it, each with a mark, what more there is to say of it. Marks of a later
# release, as there may be in an upgrade, are passed over: what only they tell of is told once more.
_EVENT_ID: Final = re.compile(r"(\d{1,18})\.(-?\d{1,9})((?:[!-,/;-@\[-`{-~][0-9A-Za-z:.-]{1,64})*)", re.ASCII)
_COUNT: Final = re.compile(r"([+~])([0-9a-f]{8}):(\d{1,9})(?![0-9A-Za-z:.-])", re.ASCII)
# That something which a node wrote is left out.
LEFT_OUT: Final = "custom/left_out"
_BEFORE_ALL: Final = -2
INPUT_STEP: Final = -1
# Of a run, as they are read.
STATES_AT_ONCE: Final = 100
_TYPES: Final = frozenset({"human", "ai", "system", "tool", "function", "chat", "remove"})
_START: Final = "__start__"
_CHUNK: Final = "AIMessageChunk"


@dataclass
class Position:
    """How far a reader has heard: the platform's number of the last event, and the step of the last state.

    `said` has the characters that were told of messages under way, by a digest of their ids, the latest last, and
    `written` the writes of attempts at nodes.
    """

    sequence: int = 0
    step: int = _BEFORE_ALL
    said: dict[str, int] = field(default_factory=dict)
    written: dict[str, int] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """As the id of an event."""
        said = [f"+{digest}:{length}" for digest, length in list(self.said.items())[-MOST_UNDER_WAY:]]
        written = [f"~{digest}:{count}" for digest, count in list(self.written.items())[-MOST_ATTEMPTS:]]
        return f"{self.sequence}.{self.step}{''.join(said + written)}"


def _heard(counts: Mapping[str, int], name: str) -> int:
    """Returns how much was told of a message under way, or of an attempt at a node."""
    return counts.get(_digest(name), 0)


def _hears(counts: dict[str, int], name: str, count: int) -> None:
    """Notes how much has been told."""
    digest = _digest(name)
    counts.pop(digest, None)
    counts[digest] = count


def _digest(name: str) -> str:
    return f"{zlib.crc32(name.encode()):08x}"


def position_of(last_event_id: str) -> Position:
    """Returns where a stream goes on. Raises Invalid for what is no id of this server's."""
    if last_event_id in ("", "-1", "0"):
        return Position()
    if not (found := _EVENT_ID.fullmatch(last_event_id)):
        raise Invalid("Last-Event-ID: is none of this server's; leave it out to hear all")
    position = Position(int(found[1]), int(found[2]))
    for mark, digest, count in _COUNT.findall(found[3]):
        (position.said if mark == "+" else position.written)[digest] = int(count)
    return position


@dataclass(frozen=True)
class Wanted:
    """What a stream is to tell: modes, and whether words and writes in graphs inside nodes are among them."""

    modes: Sequence[str]
    inside: bool = False

    @property
    def listens(self) -> bool:
        """Whether what is told before a step ends is wanted."""
        return not {MESSAGES, WHOLE_MESSAGES, CUSTOM}.isdisjoint(self.modes)

    def query(self, *, cancels: bool) -> str:
        """Returns it as a query, for who goes on with the stream elsewhere."""
        asked = [f"stream_mode={mode}" for mode in self.modes]
        asked += ["stream_subgraphs=true"] * self.inside + [CANCELS] * cancels
        return "&".join(asked)


@dataclass
class _Said:
    """A message that came in chunks: of which node, how much of it, whether they still stand for it, and the last."""

    node: str
    length: int = 0
    stands: bool = True
    text: str = ""


@dataclass
class _Told:
    """What has been told of messages in chunks. One whose chunks stand no more is told whole when its step ends.

    Where `whole` is wanted, a message that is not known from its first word on is told then.
    """

    position: Position
    whole: bool = False
    said: dict[str, _Said] = field(default_factory=dict)

    def chunk(self, chunk: runs_pb2.TokenChunk) -> str:
        """Returns what of a chunk is new, or the message with it; nothing of one with gaps, taken back or over."""
        heard = _heard(self.position.said, chunk.message_id)
        if (said := self.said.get(chunk.message_id)) is None:
            said = self.said[chunk.message_id] = _Said(chunk.node, 0 if self.whole else heard)
        told = said.length
        said.length = max(told, chunk.offset + len(chunk.text))
        said.stands = said.stands and chunk.offset <= told
        if not said.stands:
            return ""
        new = chunk.text[told - chunk.offset :]
        said.text += new
        if said.length <= heard:
            return ""
        _hears(self.position.said, chunk.message_id, said.length)
        return said.text if self.whole else new

    def ends(self, message_id: str) -> None:
        """Notes that a message is told whole: what comes of its chunks comes late."""
        self.said[message_id] = _Said("", stands=False)

    def reset(self, node: str) -> None:
        """Takes back what a node, with the graph inside it, has said; without a node, what any has."""
        for said in self.said.values():
            if not node or said.node == node or said.node.startswith(f"{node}/"):
                said.stands = False

    def rest(self, message: Mapping[str, Any]) -> str | None:
        """Returns what chunks have not told of a message that came whole; None where what they told does not stand.

        The last chunks may come behind it, or not at all.
        """
        said, content = self.said.get(message["id"]), message["content"]
        if said is None or not said.stands:
            return None
        goes_on = isinstance(content, str) and content[: said.length].endswith(said.text)
        return content[said.length :] if goes_on else ""


class RunStream:
    """A run, told to one reader from a position on.

    `after_question` is a question that has just been answered: what came before that is not told again.
    """

    def __init__(
        self,
        caller: Caller,
        run_id: str,
        assistant: Assistant,
        wanted: Wanted,
        position: Position,
        *,
        recovery_s: float,
        thread_id: str = "",
        after_question: str = "",
    ) -> None:
        self._caller = caller
        self._run_id = run_id
        self._thread_id = thread_id
        self._assistant = assistant
        self._wanted = wanted
        self._position = position
        self._recovery_s = recovery_s
        self._skipping = after_question
        # As on LangGraph's server, the words go before the whole where both are asked for.
        self._told = _Told(position, whole=MESSAGES not in wanted.modes)
        self._before: threads_pb2.ThreadState | None = None
        # The last event of whose step the state has been asked for.
        self._asked_until = 0
        self._asked: runs_pb2.InputRequest | None = None
        self._failing_since: float | None = None
        self.ended: runs_pb2.Run | None = None

    async def parts(self) -> AsyncGenerator[Part, None]:
        """Yields what there is to tell, to the end of the run or its next question.

        Raises CutOff when no gateway answers for long.
        """
        if self._position.sequence == 0:
            yield Part(METADATA, {"run_id": self._run_id, "attempt": 1}, self._position.id)
        pause_s = FIRST_PAUSE_S
        while True:
            tried_at = asyncio.get_running_loop().time()
            try:
                async with aclosing(self._watch()) as events:
                    async for event in events:
                        async for part in self._of(event):
                            yield part
                        self._failing_since, pause_s = None, FIRST_PAUSE_S
                async for part in self._left_off():
                    yield part
            except PASSING as error:
                self._wait_out(error, tried_at)
            except ApiError as error:
                yield self._part(ERROR, {"error": error.told_reason, "message": error.detail})
                return
            else:
                return
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    def _wait_out(self, error: ApiError, tried_at: float) -> None:
        now = asyncio.get_running_loop().time()
        # A watch that has stood for long was no failure, though a quiet run told nothing meanwhile.
        if self._failing_since is None or now - tried_at > self._recovery_s:
            self._failing_since = now
        if now - self._failing_since > self._recovery_s:
            raise CutOff(error.detail) from error

    def _watch(self) -> AsyncGenerator[runs_pb2.RunEvent, None]:
        return self._caller.watch(
            runs_pb2.WatchRunRequest(
                run_id=self._run_id, after_sequence=self._position.sequence, token_chunks=self._wanted.listens
            )
        )

    def _has(self, mode: str) -> bool:
        return mode in self._wanted.modes

    def _part(self, event: str, data: Any) -> Part:
        return Part(event, data, self._position.id)

    def _group(self, parts: Sequence[Part]) -> list[Part]:
        """Returns what is told together. Only behind the last of it a reader goes on: it has then heard all."""
        return [*parts[:-1], *(self._part(last.event, last.data) for last in parts[-1:])]

    async def _of(self, event: runs_pb2.RunEvent) -> AsyncIterator[Part]:
        for written in self._written(event):
            if not self._skipping:
                yield written
        if self._skipping:
            if event.state_changed.input_request.input_request_id == self._skipping:
                self._skipping = ""
            self._position.sequence = event.sequence or self._position.sequence
        elif event.sequence:
            async for part in self._of_numbered(event):
                yield part
        elif event.HasField(TOKENS_RESET):
            self._told.reset(event.tokens_reset.node)
        elif event.HasField(TOKEN_CHUNK):
            for said in self._chunk(event.token_chunk):
                yield said

    async def _of_numbered(self, event: runs_pb2.RunEvent) -> AsyncIterator[Part]:
        kind, self._asked = event.WhichOneof("event"), None
        if kind in (DECISION, NODE_COMPLETED, RUN_ENDED) or event.state_changed.HasField("input_request"):
            # All that is known by now is told before the reader is said to have heard of the event.
            async for part in self._of_steps(event):
                yield part
        self._position.sequence = event.sequence
        if kind == STATE_CHANGED and event.state_changed.HasField("input_request"):
            # In a replay another event may follow: then it has been answered.
            self._asked = event.state_changed.input_request
        if kind == RUN_ENDED:
            self.ended = event.run_ended.run
            for part in self._ending(event.run_ended.run):
                yield part

    async def _left_off(self) -> AsyncIterator[Part]:
        """Tells what the run asks, where it does."""
        if self._asked is None and self.ended is None:
            # A watch from behind the last event ends with nothing.
            request = runs_pb2.GetRunRequest(run_id=self._run_id)
            run = (await self._caller.call(self._caller.stubs.runs.GetRun, request)).run
            if run.HasField("input_request"):
                self._asked = run.input_request
            elif run.HasField("end_time"):
                self.ended = run
                # How it ended may not have been heard, and is no news otherwise.
                for part in self._group(_problem_part(run)):
                    yield part
            else:
                raise GatewayAway("the run goes on")
        if self._asked is not None:
            asked = interrupts_of(self._asked)
            found = []
            if self._has(UPDATES):
                found.append(Part(UPDATES, {INTERRUPT: asked}))
            if self._has(VALUES):
                found.append(Part(VALUES, {**await self._values_now(), INTERRUPT: asked}))
            for part in self._group(found):
                yield part
        yield self._part(END, None)

    async def _of_steps(self, event: runs_pb2.RunEvent) -> AsyncIterator[Part]:
        if not self._assistant.is_hosted:
            node = event.decision.node or event.node_completed.node
            if node and self._has(UPDATES):
                self._position.sequence = event.sequence  # it is all that there is to tell of the event
                yield self._part(UPDATES, {node: None})
            return
        if set(self._wanted.modes) <= {CUSTOM} or event.sequence <= self._asked_until:
            return
        async for state in self._new_states():
            before, self._before = self._before, state
            # Whoever goes on behind one of these hears no more of this step: the last of them is all of it.
            parts = list(self._of_step(before, state))
            for part in parts[:-1]:
                yield part
            self._position.step = state.checkpoint.step
            self._position.said.clear()
            for part in self._group(parts[-1:]):
                yield part

    def _of_step(self, before: threads_pb2.ThreadState | None, state: threads_pb2.ThreadState) -> list[Part]:
        values = json_of(state.values)
        nodes = [node for node in (before.next_nodes if before else ()) if node != _START]
        found: list[Part] = []
        changes = values
        if nodes and before is not None:
            changes = changed(json_of(before.values), values)
            by = ",".join(nodes)
            for message in messages_in(changes):
                rest, metadata = self._told.rest(message), self._metadata(by, state.checkpoint.step)
                if rest and self._has(MESSAGES):
                    message = _words(message["id"], rest)
                if rest != "":
                    found += self._message(message, metadata, is_begun=rest is not None)
            if self._has(UPDATES):
                found.append(Part(UPDATES, {by: changes or None}))
        for message in messages_in(changes):
            self._told.ends(message["id"])
        if self._has(CHECKPOINTS):
            found.append(Part(CHECKPOINTS, self._checkpoint(before, state)))
        if self._has(VALUES) and list(state.next_nodes) != [_START]:
            found.append(Part(VALUES, self._shown(values)))
        return found

    async def _new_states(self) -> AsyncIterator[threads_pb2.ThreadState]:
        """Yields the states of steps that the reader has not heard of, oldest first, as far as they are still there."""
        heard = self._position.step
        request = threads_pb2.ListRunStatesRequest(run_id=self._run_id, as_output=True)
        # Whoever comes, or comes back, needs the state that they have heard, too, for what the next step changed.
        after = heard - 1 if self._before is None else heard
        if after >= INPUT_STEP:
            request.after_step = after
        call = partial(self._caller.call, self._caller.stubs.threads.ListRunStates)
        with suppress(NotFound):
            async for page in pages(call, request, "states", size=STATES_AT_ONCE):
                for state in page.states:
                    if state.checkpoint.step > heard:
                        yield state
                    else:
                        self._before = state
                if not page.next_page_token:
                    self._asked_until = page.last_sequence

    async def _values_now(self) -> dict[str, Any]:
        if not self._assistant.is_hosted:
            return {}
        if self._before is None or self._before.checkpoint.step != self._position.step:
            request = threads_pb2.GetRunStateRequest(run_id=self._run_id, as_output=True, without_checkpoints=True)
            self._before = (await self._caller.call(self._caller.stubs.threads.GetRunState, request)).state
        return self._shown(json_of(self._before.values))

    def _shown(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the fields that the graph gives back, as LangGraph streams them."""
        fields = self._assistant.output_fields
        return {name: value for name, value in values.items() if not fields or name in fields}

    def _written(self, event: runs_pb2.RunEvent) -> Iterator[Part]:
        """Yields what nodes wrote and the reader has not heard; what is missing comes with the node's end."""
        for part in event.custom_writes if self._has(CUSTOM) else ():
            told = _heard(self._position.written, part.attempt)
            outer = part.node.rpartition("/")[0]
            for count, write in enumerate(part.writes[told - part.offset :] if part.offset <= told else (), told + 1):
                _hears(self._position.written, part.attempt, count)
                if outer and not self._wanted.inside:
                    continue
                if write.left_out:
                    reason = runs_pb2.CustomWriteLeftOut.Name(write.left_out).removeprefix("CUSTOM_WRITE_LEFT_OUT_")
                    yield self._part(LEFT_OUT, {"node": part.node, "reason": reason})
                else:
                    yield self._part(_of_graph(CUSTOM, outer), orjson.loads(write.json))

    def _chunk(self, chunk: runs_pb2.TokenChunk) -> list[Part]:
        outer, _, inner = chunk.node.rpartition("/")
        if outer and not self._wanted.inside and self._assistant.is_hosted:
            return []
        if chunk.provisional:  # the words may be withdrawn, and what was sent can't be
            return []
        is_begun = _heard(self._position.said, chunk.message_id) > 0
        if not (text := self._told.chunk(chunk)):
            return []
        message = _words(chunk.message_id, text)
        return self._group(self._message(message, self._metadata(inner, None), outer, is_begun=is_begun))

    def _message(
        self, message: dict[str, Any], metadata: dict[str, Any], outer: str = "", *, is_begun: bool = False
    ) -> list[Part]:
        """Returns a message, or what is known of it so far, in the form that is asked for."""
        if self._has(MESSAGES):
            return [Part(_of_graph("messages", outer), [message, metadata])]
        if not self._has(WHOLE_MESSAGES):
            return []
        found = [] if is_begun else [Part("messages/metadata", {message["id"]: {"metadata": metadata}})]
        if message["type"] != _CHUNK:
            return [*found, Part("messages/complete", [message])]
        so_far = {name: value for name, value in message.items() if name != "tool_call_chunks"}
        return [*found, Part("messages/partial", [{**so_far, "type": "ai"}])]

    def _checkpoint(self, before: threads_pb2.ThreadState | None, state: threads_pb2.ThreadState) -> dict[str, Any]:
        following = list(state.next_nodes)
        source = "input" if state.checkpoint.step < 0 else "loop"
        return {
            "config": self._config(state),
            "parent_config": self._config(before) if before else None,
            "values": json_of(state.values),
            "metadata": {"source": source, "step": state.checkpoint.step, "run_id": self._run_id},
            "next": following,
            # Numbered as in the thread's history.
            "tasks": [
                {"id": f"{number}", "name": name, "interrupts": [], "state": None}
                for number, name in enumerate(following)
            ],
        }

    def _config(self, state: threads_pb2.ThreadState) -> dict[str, Any]:
        place = f"{self._run_id}:{state.checkpoint.checkpoint_id}"
        return {"configurable": {"thread_id": self._thread_id, "checkpoint_ns": "", "checkpoint_id": place}}

    def _metadata(self, node: str, step: int | None) -> dict[str, Any]:
        return {
            "run_id": self._run_id,
            "graph_id": self._assistant.name,
            "langgraph_node": node,
            **({} if step is None else {"langgraph_step": step}),
        }

    def _ending(self, run: runs_pb2.Run) -> list[Part]:
        found: list[Part] = []
        output = output_of(run)
        # A hosted graph's last state has been told, unless retention was faster.
        if self._has(VALUES) and output and not (self._assistant.is_hosted and self._before is not None):
            found.append(Part(VALUES, output))
        return self._group([*found, *_problem_part(run)])


async def ended(caller: Caller, run_id: str) -> runs_pb2.Run:
    """Returns a run that is soon over, once it is, whichever gateway says so.

    Raises TooLate where it is not within the time of a call.
    """
    pause_s = FIRST_PAUSE_S
    try:
        async with asyncio.timeout(caller.stubs.call_timeout_s):
            while True:
                # The run goes on meanwhile: who is told that it failed would ask for it once more.
                with suppress(*PASSING):
                    async with aclosing(caller.watch(runs_pb2.WatchRunRequest(run_id=run_id))) as events:
                        async for event in events:
                            if event.HasField(RUN_ENDED):
                                return event.run_ended.run
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
    except TimeoutError as error:
        raise TooLate(f"run {run_id} takes its time; it goes on by itself") from error


def _words(message_id: str, text: str) -> dict[str, Any]:
    """Returns words of a message as the protocol has them."""
    return {
        "type": _CHUNK,
        "id": message_id,
        "content": text,
        "name": None,
        "additional_kwargs": {},
        "response_metadata": {},
        "tool_calls": [],
        "invalid_tool_calls": [],
        "tool_call_chunks": [],
    }


def _of_graph(event: str, outer: str) -> str:
    """Returns the name of an event, which says of which graph inside a node it is."""
    return "|".join((event, *filter(None, outer.split("/"))))


def _problem_part(run: runs_pb2.Run) -> list[Part]:
    problem = problem_of(run)
    return [] if problem is None else [Part(ERROR, problem)]


def output_of(run: runs_pb2.Run) -> dict[str, Any]:
    """Returns what a run has brought, as JSON."""
    if run.output.HasField("graph"):
        return json_of(run.output.graph.output)
    found = MessageToDict(run.output, preserving_proto_field_name=True)
    return dict(found.get(run.agent) or {})


def problem_of(run: runs_pb2.Run) -> dict[str, Any] | None:
    """Returns what kept a run from its answer; None where nothing did, or where it has not ended."""
    if run.state == runs_pb2.RUN_STATE_FAILED:
        return {"error": run.stop_reason, "message": run.error}
    if run.state == runs_pb2.RUN_STATE_NEEDS_REVIEW:
        return {"error": run.stop_reason, "message": f"the run was ended by {run.stop_reason} before its answer"}
    if run.state == runs_pb2.RUN_STATE_CANCELLED:
        ended = f"rolled back by {run.rolled_back_by}" if run.rolled_back_by else "cancelled"
        return {"error": run.stop_reason, "message": f"the run was {ended}"}
    if run.outcome == outcome_pb2.OUTCOME_BLOCKED and not output_of(run):
        return {"error": run.stop_reason, "message": run.error or "the guard blocked what the run came with"}
    return None


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what is other in a state than before: of a list that was added to or changed in places, those items."""
    found = {}
    for name, value in after.items():
        if name in before and before[name] == value:
            continue
        found[name] = _new_items(before[name], value) if isinstance(before.get(name), list) else value
    return found


def _new_items(before: list[Any], after: Any) -> Any:
    if not isinstance(after, list) or len(after) < len(before):
        return after
    if after[: len(before)] == before:
        return after[len(before) :]
    ids: Set[str | None] = {_id_of(each) for each in before}
    if None in ids:
        return after
    return [each for each in after if each not in before]


def _id_of(item: Any) -> str | None:
    return item.get("id") if isinstance(item, dict) else None


def messages_in(changes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the messages that a step has brought, which have ids."""
    lists = (value if isinstance(value, list) else [value] for value in changes.values())
    return [
        each
        for items in lists
        for each in items
        if isinstance(each, dict)
        and each.get("type") in _TYPES
        and isinstance(each.get("id"), str)
        and "content" in each
    ]
