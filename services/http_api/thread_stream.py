"""A thread as one stream: its runs one after another, whoever creates them, for as long as somebody listens.

Nothing is kept here: whoever comes hears the runs that have not ended, and the latest, from their beginning, and knows
by its id what they have heard. Whoever says behind which number they go on hears all runs since then.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from functools import partial
from typing import Annotated, Final, TypeVar

from pydantic import Field
from signalbox.v1 import runs_pb2
from starlette.requests import Request
from starlette.responses import Response

from services.http_api.assistants import find_assistant
from services.http_api.errors import PASSING, ApiError, Busy, Invalid, NotFound, TokenRefused
from services.http_api.event_stream import CutOff, Part, Streams, event_stream
from services.http_api.gateway import Caller, Gateway
from services.http_api.json_bodies import BodyReader
from services.http_api.metrics import EVENTS_SENT, STREAMS_RESUMED
from services.http_api.reader import LIFECYCLE, Wanted
from services.http_api.run_request import CHECKPOINTS, CUSTOM, MESSAGES, TASKS, UPDATES, VALUES, Body, read_body
from services.http_api.run_stream import RunStream
from services.http_api.thread_events import SHARED, RunEvents, ThreadEvent, first_number
from services.http_api.thread_states import ThreadStates
from services.http_api.threads import thread_id_of

# What of a run's stream a channel is made of.
_MODES: Final[dict[str, tuple[str, ...]]] = {
    "values": (CHECKPOINTS, VALUES),
    "updates": (CHECKPOINTS, UPDATES),
    "messages": (CHECKPOINTS, UPDATES, MESSAGES),
    "tools": (CHECKPOINTS,),
    "checkpoints": (CHECKPOINTS,),
    "custom": (CUSTOM,),
    "tasks": (CHECKPOINTS, TASKS),
    "lifecycle": (),
    "input": (),
}
# By what steps are counted, of hosted graphs and of the platform's own agents.
_COUNTED: Final = frozenset({CHECKPOINTS, UPDATES})
_NAMED: Final = "custom:"
# Runs that were created so shortly before the latest may have ended before who has created them comes to listen.
_TOGETHER_MS: Final = 2000
# Between two looks for a new run, or for an answer, while nothing happens.
FIRST_LOOK_S, LAST_LOOK_S = 0.2, 2.0
# Of its runs, the latest; all are read where these are not as they were.
LOOKED_AT: Final = 5
MOST_CHANNELS: Final = 32
MOST_NAMESPACES: Final = 100
AnswerT = TypeVar("AnswerT")
Name = Annotated[str, Field(max_length=256)]
Namespace = Annotated[list[Name], Field(max_length=32)]


class StreamBody(Body):
    """What of a thread is to be told: channels, and of which graphs inside nodes."""

    channels: Annotated[list[Name], Field(min_length=1, max_length=MOST_CHANNELS)]
    namespaces: Annotated[list[Namespace], Field(max_length=MOST_NAMESPACES)] = Field(default_factory=list)
    depth: Annotated[int, Field(ge=0, le=32)] | None = None
    since: Annotated[int, Field(ge=0, lt=1 << 53)] | None = None

    def check(self) -> None:
        """Raises Invalid for a channel that there is not."""
        for channel in self.channels:
            if channel not in _MODES and not (channel.startswith(_NAMED) and channel != _NAMED):
                raise Invalid(f"channels: there is no {channel[:40]!r}; there are {', '.join(_MODES)}")

    def wanted(self) -> Wanted:
        """Returns what of a run's stream that takes."""
        modes = {mode for channel in self.channels for mode in _MODES.get(channel, ())}
        if self.since is not None:  # it may come from a stream of other channels: steps are counted as there
            modes |= _COUNTED
        return Wanted((LIFECYCLE, *sorted(modes)), inside=True)

    def has(self, event: ThreadEvent) -> bool:
        """Whether an event is among what is to be told."""
        if event.channel not in self.channels or not self._is_new(event):
            return False
        return not self.namespaces or any(self._is_in(event.namespace, each) for each in self.namespaces)

    def _is_new(self, event: ThreadEvent) -> bool:
        # Of those that share a number some may have been heard, which clients know by their ids.
        since = -1 if self.since is None else self.since
        return event.number > since or (event.number == since and event.method in SHARED)

    def _is_in(self, namespace: Sequence[str], prefix: Sequence[str]) -> bool:
        depth = len(namespace) - len(prefix)
        is_below = depth >= 0 and all(
            each in (name, name.partition(":")[0]) for each, name in zip(prefix, namespace, strict=False)
        )
        return is_below and (self.depth is None or depth <= self.depth)


class ThreadBells:
    """Tells those who listen to a thread here that something happens in it, so that they look at once."""

    def __init__(self) -> None:
        self._listeners: dict[str, set[asyncio.Event]] = {}

    def ring(self, thread_id: str) -> None:
        """Tells them."""
        for listener in self._listeners.get(thread_id, ()):
            listener.set()

    @contextmanager
    def heard(self, thread_id: str) -> Iterator[asyncio.Event]:
        """Yields what is set when something happens."""
        listener = asyncio.Event()
        self._listeners.setdefault(thread_id, set()).add(listener)
        try:
            yield listener
        finally:
            self._listeners[thread_id].discard(listener)
            if not self._listeners[thread_id]:
                del self._listeners[thread_id]


class ThreadStreams:
    """Handles who listens to threads: each caller to so many at once on this replica."""

    def __init__(
        self, gateway: Gateway, bodies: BodyReader, streams: Streams, *, recovery_s: float, most_of_caller: int
    ) -> None:
        self._gateway = gateway
        self._bodies = bodies
        self._streams = streams
        self._recovery_s = recovery_s
        self._most_of_caller = most_of_caller
        self._of_caller: Counter[str] = Counter()
        self.bells = ThreadBells()

    async def stream(self, request: Request) -> Response:
        """Streams a thread: what happens from now on, or from a number on, without end."""
        caller, thread_id = self._gateway.caller(request), thread_id_of(request)
        self._streams.check()
        body = read_body(StreamBody, await self._bodies.read(request))
        body.check()
        # By their answer the gateway has said that the caller is who the token says.
        runs = await ThreadStates(caller, thread_id).runs()
        if self._of_caller[caller.subject] >= self._most_of_caller:
            raise Busy(f"you have {self._most_of_caller} streams of threads open on this replica; close one")
        if body.since:
            STREAMS_RESUMED.inc()

        async def parts() -> AsyncGenerator[Part, None]:
            with self._counted(caller.subject), self.bells.heard(thread_id) as bell:
                stream = ThreadStream(caller, thread_id, body, runs, bell, recovery_s=self._recovery_s)
                async with aclosing(stream.events()) as events:
                    async for event in events:
                        EVENTS_SENT.inc()
                        yield event.part()

        return event_stream(self._streams, parts(), headers={})

    @contextmanager
    def _counted(self, subject: str) -> Iterator[None]:
        self._of_caller[subject] += 1
        try:
            yield
        finally:
            self._of_caller[subject] -= 1
            if not self._of_caller[subject]:
                del self._of_caller[subject]


class ThreadStream:
    """A thread, told to one reader; `runs` are its latest, newest first, as they were when the reader came."""

    def __init__(
        self,
        caller: Caller,
        thread_id: str,
        body: StreamBody,
        runs: Sequence[runs_pb2.Run],
        bell: asyncio.Event,
        *,
        recovery_s: float,
    ) -> None:
        self._caller = caller
        self._thread_id = thread_id
        self._body = body
        self._bell = bell
        self._recovery_s = recovery_s
        self._states = ThreadStates(caller, thread_id)
        self._runs = runs
        # The runs of the last look, their states and questions.
        self._seen: list[tuple[str, int, str]] = []
        self._told: dict[str, RunEvents] = {}
        # The numbers that runs begin with, also those that are passed over: whoever tells the next gives it the same.
        self._first: dict[str, int] = {}
        self._last = 0
        self._number()
        self._passed_over = {run.run_id for run in runs if not self._is_heard(run, runs)}

    async def events(self) -> AsyncGenerator[ThreadEvent, None]:
        """Yields what happens in the thread.

        Raises CutOff when no gateway answers for long, or takes the token no more.
        """
        while True:
            for run in reversed(self._runs):
                if run.run_id in self._passed_over:
                    continue
                async with aclosing(self._of_run(run)) as events:
                    async for event in events:
                        if self._body.has(event):
                            yield event
                if self._told[run.run_id].is_asking:
                    break  # what is queued behind it waits for the answer, too
            await self._news()

    def _is_heard(self, run: runs_pb2.Run, runs: Sequence[runs_pb2.Run]) -> bool:
        """Whether a reader who comes now is told of a run that was there before."""
        latest_ms = runs[0].create_time.ToMilliseconds()
        if not run.HasField("end_time") or latest_ms - run.create_time.ToMilliseconds() <= _TOGETHER_MS:
            return True
        later = next((after for after, each in itertools.pairwise(runs) if each.run_id == run.run_id), runs[0])
        return bool(self._body.since) and self._first[later.run_id] > (self._body.since or 0)

    def _number(self) -> None:
        before, self._first = self._first, {}
        for run in reversed(self._runs):
            first = self._first[run.run_id] = before.get(run.run_id) or first_number(run, self._last)
            self._last = max(self._last, first)

    async def _of_run(self, run: runs_pb2.Run) -> AsyncGenerator[ThreadEvent, None]:
        """Yields what is to be told of a run, until it ends or asks."""
        if run.run_id not in self._told:
            self._told[run.run_id] = RunEvents(run, self._first[run.run_id])
            yield self._told[run.run_id].began()
        told = self._told[run.run_id]
        if told.is_over:
            return
        try:
            assistant = await self._answer(partial(find_assistant, self._caller, run.agent))
        except NotFound as error:  # its agent is not there any more
            for event in told.over(None, error.detail):
                yield event
            return
        stream = RunStream(
            self._caller,
            run.run_id,
            assistant,
            self._body.wanted(),
            told.position,
            recovery_s=self._recovery_s,
            thread_id=self._thread_id,
        )
        async with aclosing(stream.parts()) as parts:
            async for part in parts:
                for event in told.of(part, is_hosted=assistant.is_hosted):
                    yield event
        if isinstance(stream.refusal, TokenRefused):  # it says nothing of the run, which goes on
            raise CutOff(stream.refusal.detail)
        for event in told.over(stream.ended):
            yield event

    async def _news(self) -> None:
        """Waits until there is another run, or one of those there were is in another state."""
        pause_s = FIRST_LOOK_S
        while True:
            if await self._answer(self._is_other):
                self._runs = await self._answer(self._states.runs)
                self._number()
                self._told = {run.run_id: self._told[run.run_id] for run in self._runs if run.run_id in self._told}
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._bell.wait()
            self._bell.clear()
            pause_s = min(pause_s * 1.5, LAST_LOOK_S)

    async def _is_other(self) -> bool:
        """Whether the latest runs are others, or in other states, than at the last look."""
        if any(run.run_id in self._told and self._told[run.run_id].is_asking for run in self._runs[LOOKED_AT:]):
            found: Sequence[runs_pb2.Run] = await self._states.runs()
        else:
            request = runs_pb2.ListRunsRequest(
                thread_id=self._thread_id, subject=self._caller.subject, page_size=LOOKED_AT
            )
            found = (await self._caller.call(self._caller.stubs.runs.ListRuns, request)).runs
        before, self._seen = self._seen, [(run.run_id, run.state, run.input_request.input_request_id) for run in found]
        return self._seen != before

    async def _answer(self, call: Callable[[], Awaitable[AnswerT]]) -> AnswerT:
        """Returns what the gateway answers, which may be away for a while."""
        began = asyncio.get_running_loop().time()
        while True:
            try:
                return await call()
            except PASSING as error:
                if asyncio.get_running_loop().time() - began > self._recovery_s:
                    raise CutOff(error.detail) from error
            except NotFound:
                raise
            except ApiError as error:
                raise CutOff(error.detail) from error
            await asyncio.sleep(LAST_LOOK_S)
