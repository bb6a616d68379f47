"""A run as a stream of events: the platform's events and states, told in the modes of LangGraph's streams.

What has a number, or the state of a step, can be told again by any replica: the id of an event says up to which event
of the platform's, and up to which step's state, a reader has heard. What models are saying is told from the first word
on to who comes in the middle, as far as the platform has it; the id says how much of it a reader has heard, too.

`values` is the state after each step (of the platform's own agents, the output), `updates` what a step has changed of
it, `checkpoints` that state with its place, `messages-tuple` what models say, and messages that came whole, `messages`
the same with all that was said before, `custom` what nodes write to LangGraph's stream writer, and `events` what
callbacks of LangChain tell in the graph.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from typing import Any, Final

import orjson
from signalbox.v1 import runs_pb2

from services.http_api.assistants import Assistant
from services.http_api.errors import PASSING, ApiError, GatewayAway
from services.http_api.event_stream import CutOff, Part
from services.http_api.gateway import Caller
from services.http_api.interrupts import INTERRUPT, interrupts_of
from services.http_api.reader import LIFECYCLE, Position, Wanted, heard, hears
from services.http_api.run_request import CUSTOM, EVENTS, UPDATES, VALUES
from services.http_api.run_results import FIRST_PAUSE_S, LONGEST_PAUSE_S, output_of, problem_of
from services.http_api.run_steps import RunSteps
from services.http_api.told_events import ToldEvents
from services.http_api.told_messages import ToldMessages, of_graph
from services.kit.wire.event_kinds import DECISION, NODE_COMPLETED, RUN_ENDED, STATE_CHANGED, TOKEN_CHUNK, TOKENS_RESET

METADATA, ERROR, END = "metadata", "error", "end"
# That something which a node wrote is left out.
LEFT_OUT: Final = "custom/left_out"
_LIFECYCLE: Final = (STATE_CHANGED, TOKENS_RESET)


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
        self._assistant = assistant
        self._wanted = wanted
        self._position = position
        self._recovery_s = recovery_s
        self._skipping = after_question
        self._messages = ToldMessages(wanted, position, {"run_id": run_id, "graph_id": assistant.name})
        self._steps = RunSteps(caller, run_id, thread_id, assistant, wanted, position, self._messages)
        self._events = ToldEvents(position)
        self._asked: runs_pb2.InputRequest | None = None
        self._failing_since: float | None = None
        self.ended: runs_pb2.Run | None = None
        # Why it can't be told to its end.
        self.refusal: ApiError | None = None

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
                async for part in self._steps.go_on():
                    yield part
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
                self.refusal = error
                yield self._position.part(ERROR, {"error": error.told_reason, "message": error.detail})
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
                run_id=self._run_id,
                after_sequence=self._position.sequence,
                token_chunks=self._wanted.listens,
                callback_events=self._wanted.has(EVENTS),
            )
        )

    async def _of(self, event: runs_pb2.RunEvent) -> AsyncIterator[Part]:
        if self._skipping:
            if not event.sequence:
                return  # of behind the question, though it comes first: it is told once more with an event behind that
            if event.state_changed.input_request.input_request_id == self._skipping:
                self._skipping = ""
            self._position.sequence = event.sequence
            for _ in self._written(event):
                pass  # it has been heard
            return
        told = self._of_numbered(event) if event.sequence else self._of_words(event)
        async for part in told:
            yield part
        if self._wanted.has(LIFECYCLE) and event.WhichOneof("event") in _LIFECYCLE:
            yield self._position.part(LIFECYCLE, event)

    async def _of_words(self, event: runs_pb2.RunEvent) -> AsyncIterator[Part]:
        if self._assistant.is_hosted:
            async for part in self._steps.begin():
                yield part
        for part in self._written(event):
            yield part
        if event.HasField(TOKENS_RESET):
            self._messages.reset(event.tokens_reset.node)
        elif event.HasField(TOKEN_CHUNK):
            for part in self._chunk(event.token_chunk):
                yield part

    async def _of_numbered(self, event: runs_pb2.RunEvent) -> AsyncIterator[Part]:
        for part in self._written(event):
            yield part
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
            for part in await self._ending(event.run_ended.run):
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
                for part in self._position.group(_problem_part(run)):
                    yield part
            else:
                raise GatewayAway("the run goes on")
        if self._asked is not None:
            for part in self._position.group(await self._asking(interrupts_of(self._asked))):
                yield part
        yield self._position.part(END, None)

    async def _of_steps(self, event: runs_pb2.RunEvent) -> AsyncIterator[Part]:
        if not self._assistant.is_hosted:
            node = event.decision.node or event.node_completed.node
            if node and self._wanted.has(UPDATES):
                self._position.sequence = event.sequence  # it is all that there is to tell of the event
                yield self._position.part(UPDATES, {node: None})
            return
        async for part in self._steps.until(event):
            yield part

    async def _asking(self, asked: list[dict[str, Any]]) -> list[Part]:
        if self._assistant.is_hosted:
            return await self._steps.leave_open(asked)
        return [Part(mode, {INTERRUPT: asked}) for mode in (UPDATES, VALUES) if self._wanted.has(mode)]

    def _written(self, event: runs_pb2.RunEvent) -> Iterator[Part]:
        """Yields what nodes wrote, or callbacks tell, and the reader has not heard.

        What is missing of it comes with the node's end.
        """
        for part in event.custom_writes if self._wanted.has(CUSTOM) else ():
            told = heard(self._position.written, part.attempt)
            outer = part.node.rpartition("/")[0]
            for count, write in enumerate(part.writes[told - part.offset :] if part.offset <= told else (), told + 1):
                hears(self._position.written, part.attempt, count)
                if outer and not self._wanted.inside:
                    continue
                if write.left_out:
                    reason = runs_pb2.CustomWriteLeftOut.Name(write.left_out).removeprefix("CUSTOM_WRITE_LEFT_OUT_")
                    yield self._position.part(LEFT_OUT, {"node": part.node, "reason": reason})
                else:
                    yield self._position.part(of_graph(CUSTOM, outer), orjson.loads(write.json))
        yield from self._events.of(event)

    def _chunk(self, chunk: runs_pb2.TokenChunk) -> list[Part]:
        is_inside = "/" in chunk.node and self._assistant.is_hosted
        return [] if is_inside and not self._wanted.inside else self._messages.chunk(chunk)

    async def _ending(self, run: runs_pb2.Run) -> list[Part]:
        found: list[Part] = []
        problem = problem_of(run)
        if problem is not None and self._assistant.is_hosted:
            found += await self._steps.leave_open(problem=problem["message"])
        output = output_of(run)
        # A hosted graph's last state has been told, unless retention was faster.
        if self._wanted.has(VALUES) and output and not (self._assistant.is_hosted and self._steps.has_told):
            found.append(Part(VALUES, output))
        return self._position.group([*found, *_problem_part(run)])


def _problem_part(run: runs_pb2.Run) -> list[Part]:
    problem = problem_of(run)
    return [] if problem is None else [Part(ERROR, problem)]
