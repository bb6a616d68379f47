"""Execution of one claimed run, from its last checkpoint to wherever it gets."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.errors import GraphDrained, GraphRecursionError
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import RunControl
from langgraph.types import Command
from opentelemetry import context, propagate
from psycopg_pool import AsyncConnectionPool

from services.kit.identity import RunClaims, RunTokenMinter, renewed
from services.kit.logs import get_logger
from services.kit.names import (
    AGENT,
    ATTRIBUTE_PREFIX,
    CORRELATION_ID,
    EPOCH,
    GEN_AI_INVOKE_AGENT,
    GEN_AI_OPERATION,
    RUN_ID,
)
from services.kit.telemetry import carrying, tracer
from services.runtime.agents.agent import Agent, Assignment
from services.runtime.engine.claim import Claim, StepWritten
from services.runtime.engine.events import Event, EventStream, events_of_step
from services.runtime.engine.records import Ending, InputRequest, RunRecord, RunState
from services.runtime.engine.saver import RunSaver
from services.runtime.engine.store import RunStore
from services.runtime.errors import ClaimLost, DatabaseAway
from services.runtime.metrics import CLAIMS_LOST, RUNS_GIVEN_BACK
from services.runtime.routing.state import COMPLETED, FAILED, IN_PROGRESS
from services.runtime.run_context import RunContext

log = get_logger()
CANCELLED = "cancelled"
HANDED_OVER = "handed_over"
QUESTION_LIFETIME = timedelta(days=7)
_STATE_OF = {COMPLETED: RunState.SUCCEEDED, FAILED: RunState.FAILED}


@dataclass(frozen=True)
class Dependencies:
    """What every execution shares."""

    pool: AsyncConnectionPool[Any]
    serde: SerializerProtocol
    store: RunStore
    events: EventStream
    tokens: RunTokenMinter
    agents: Mapping[str, Agent]
    graphs: Mapping[str, CompiledStateGraph[Any, RunContext, Any, Any]]


@dataclass
class Execution:
    """One claimed run being executed."""

    shared: Dependencies
    run: RunRecord
    control: RunControl = field(default_factory=RunControl)

    def stop(self, reason: str) -> None:
        """Asks the graph to stop at its next step boundary."""
        self.control.request_drain(reason)

    async def go(self) -> None:
        """Executes the run and writes down how it ended, in the trace it was created in."""
        run = self.run
        parent = propagate.extract({"traceparent": run.traceparent}, context.Context())
        ids = {RUN_ID: run.run_id, CORRELATION_ID: run.correlation_id, AGENT: run.agent}
        token = context.attach(carrying(ids, parent))
        attributes: dict[str, str | int] = {
            GEN_AI_OPERATION: GEN_AI_INVOKE_AGENT,
            "gen_ai.agent.name": run.agent,
            **{ATTRIBUTE_PREFIX + name: value for name, value in ids.items()},
            ATTRIBUTE_PREFIX + EPOCH: run.epoch,
        }
        try:
            with tracer().start_as_current_span(
                f"{GEN_AI_INVOKE_AGENT} {run.agent}", attributes=attributes, record_exception=False
            ):
                await self._settle()
        finally:
            context.detach(token)

    async def _settle(self) -> None:
        try:
            await self._execute()
        except ClaimLost:
            CLAIMS_LOST.inc()
            log.warning("claim lost; another replica goes on", epoch=self.run.epoch)
        except GraphDrained as drained:
            await self._drained(str(drained))
        except asyncio.CancelledError:
            await self._give_back("interrupted")
            raise
        except DatabaseAway as error:
            log.warning("database away; giving the run back", error=str(error))
            await self._give_back("database_away")
        except GraphRecursionError:
            await self._end(Ending(RunState.FAILED, None, "recursion_limit", "the run took too many steps"))
        except Exception as error:  # the run boundary: whatever else happens is this run's failure only
            log.exception("run failed", error=type(error).__name__)
            await self._end(Ending(RunState.FAILED, None, "internal_error", "an internal error; see the run's trace"))

    async def _execute(self) -> None:
        run, shared = self.run, self.shared
        claim = Claim(run.run_id, run.epoch, run.epoch == 1, self._publish_step, lambda: self.stop(CANCELLED))
        saver = RunSaver(shared.pool, shared.serde, claim=claim)
        # A copy of one attribute: the graph's own `copy` checks all of it again.
        graph = copy(shared.graphs[run.agent])
        graph.checkpointer = saver
        config: RunnableConfig = {
            "configurable": {"thread_id": run.run_id},
            "recursion_limit": shared.agents[run.agent].graph.max_steps,
            "metadata": {"run_id": run.run_id},
        }
        given = await self._input(graph, config)
        state = await graph.ainvoke(given, config, context=self._run_context(), durability="sync", control=self.control)
        if interrupts := state.get("__interrupt__"):
            await self._pause(interrupts[0])
            return
        await self._end(self._ending(state))

    async def _input(self, graph: CompiledStateGraph[Any, RunContext, Any, Any], config: RunnableConfig) -> Any:
        """Returns what the graph starts with: its input, nothing when it goes on, or the answer it waits for."""
        if self.run.epoch > 1:
            snapshot = await graph.aget_state(config)
            waiting = {interrupt.id for interrupt in snapshot.interrupts}
            asked = self.run.input_request
            if asked and self.run.answer is not None and asked.input_request_id in waiting:
                return Command(resume={asked.input_request_id: self.run.answer})
            if snapshot.config["configurable"].get("checkpoint_id"):
                return None
        return await self._initial_state()

    async def _initial_state(self) -> dict[str, Any]:
        run = self.run
        agent = self.shared.agents[run.agent]
        turns = await self.shared.store.thread_turns(run, agent.turns_remembered) if run.thread_id else []
        assignment = Assignment(run.run_id, run.correlation_id, run.caller, run.input, turns)
        return {
            "run_id": run.run_id,
            "correlation_id": run.correlation_id,
            "status": IN_PROGRESS,
            "iteration_count": 0,
            "started_at": (run.started_at or run.created_at).isoformat(),
            "budget": run.budget,
            "spend": run.spend,
            "messages": [],
            **agent.initial_state(assignment),
        }

    def _run_context(self) -> RunContext:
        run = self.run
        claims = RunClaims(run.caller, run.run_id, run.agent, self.shared.agents[run.agent].graph.tools, run.epoch)
        token = renewed(lambda: self.shared.tokens.mint(claims))
        return RunContext(run.run_id, run.correlation_id, run.caller, run.epoch, token)

    def _ending(self, state: Mapping[str, Any]) -> Ending:
        return Ending(
            _STATE_OF.get(state["status"], RunState.NEEDS_REVIEW),
            self.shared.agents[self.run.agent].output(state, self.run.input),
            state.get("stop_reason") or "",
            state.get("error") or "",
        )

    async def _end(self, ending: Ending) -> None:
        try:
            ended = await self.shared.store.end(self.run, ending)
        except ClaimLost:
            CLAIMS_LOST.inc()
            log.warning("claim lost at the end; another replica goes on", epoch=self.run.epoch)
            return
        except DatabaseAway as error:
            log.warning("database away at the end; giving the run back", error=str(error))
            await self._give_back("database_away")
            return
        self._publish(ended, "run_ended", None)

    async def _pause(self, interrupt: Any) -> None:
        value: Mapping[str, Any] = (
            interrupt.value if isinstance(interrupt.value, Mapping) else {"question": str(interrupt.value)}
        )
        lifetime = timedelta(seconds=value["expires_in_s"]) if "expires_in_s" in value else QUESTION_LIFETIME
        asked = InputRequest(
            interrupt.id, str(value["question"]), tuple(value.get("options", ())), datetime.now(UTC) + lifetime
        )
        paused = await self.shared.store.await_input(self.run, asked)
        if paused.state.ended:
            self._publish(paused, "run_ended", None)
            return
        payload = {"state": paused.state, "input_request": {"input_request_id": asked.input_request_id}}
        self._publish(paused, "state_changed", payload)

    async def _drained(self, reason: str) -> None:
        if CANCELLED in reason:
            await self._end(Ending(RunState.CANCELLED, stop_reason=CANCELLED))
            return
        await self._give_back(HANDED_OVER)

    async def _give_back(self, reason: str) -> None:
        """Lets go of the run; if even that fails, the sweep finds a run that nobody executes."""
        RUNS_GIVEN_BACK.labels(reason).inc()
        try:
            await self.shared.store.release(self.run)
        except DatabaseAway:
            log.warning("could not give the run back; the sweep will", trace=traceback.format_exc(limit=1))

    def _publish_step(self, step: StepWritten) -> None:
        if self.shared.events.has_watchers(self.run.run_id):
            self.shared.events.publish(events_of_step(self.run.run_id, self.run.agent, step))

    def _publish(self, run: RunRecord, kind: str, payload: dict[str, Any] | None) -> None:
        self.run = replace(run, epoch=self.run.epoch)
        event = Event(run.run_id, run.event_count, kind, payload, None, run.ended_at or datetime.now(UTC), run)
        self.shared.events.publish([event])
