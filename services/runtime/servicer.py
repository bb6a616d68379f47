"""RunService as the runtime serves it to the gateway: protos to the engine and back, nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import grpc
from opentelemetry import propagate
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool
from signalbox.v1 import caller_pb2, runs_pb2, runs_pb2_grpc

from services.kit.errors import FieldViolation, InvalidRequest
from services.kit.identity import Caller, GatewayTokenVerifier, bearer_token
from services.runtime.agents.agent import Agent
from services.runtime.engine.clock import ClockWatch
from services.runtime.engine.engine import Engine
from services.runtime.engine.queries import query
from services.runtime.engine.records import ActiveRunPolicy, NewRun, RunRecord
from services.runtime.engine.store import RunStore
from services.runtime.page_tokens import number_place_of, page_token, time_place_of, time_token
from services.runtime.routing.state import Budget
from services.runtime.wire import decision_proto, event_proto, run_proto, state_of

Context = grpc.aio.ServicerContext[Any, Any]
RUNS_PAGE = 50
DECISIONS_PAGE = 100
_POLICIES = {
    runs_pb2.ACTIVE_RUN_POLICY_QUEUE: ActiveRunPolicy.QUEUE,
    runs_pb2.ACTIVE_RUN_POLICY_CANCEL_ACTIVE: ActiveRunPolicy.CANCEL_ACTIVE,
}


class RunServicer(runs_pb2_grpc.RunServiceServicer):
    """Serves runs."""

    def __init__(
        self,
        engine: Engine,
        store: RunStore,
        pool: AsyncConnectionPool[Any],
        agents: Mapping[str, Agent],
        callers: GatewayTokenVerifier,
        clock: ClockWatch,
    ) -> None:
        self._engine = engine
        self._store = store
        self._pool = pool
        self._agents = agents
        self._callers = callers
        self._clock = clock

    async def CreateRun(self, request: runs_pb2.CreateRunRequest, context: Context) -> runs_pb2.CreateRunResponse:
        """Creates a run and returns at once."""
        run, _ = await self._engine.create(self._new_run(request, self._caller(context)))
        return runs_pb2.CreateRunResponse(run=run_proto(run))

    async def ExecuteRun(
        self, request: runs_pb2.ExecuteRunRequest, context: Context
    ) -> AsyncIterator[runs_pb2.ExecuteRunResponse]:
        """Creates a run and streams its events from the first."""
        caller = self._caller(context)
        run, is_new = await self._engine.create(self._new_run(request.create, caller))
        async for event in self._events(run, caller, after=0, fresh=is_new):
            yield runs_pb2.ExecuteRunResponse(event=event)

    async def WatchRun(
        self, request: runs_pb2.WatchRunRequest, context: Context
    ) -> AsyncIterator[runs_pb2.WatchRunResponse]:
        """Streams a run's events after a sequence number."""
        caller = self._caller(context)
        run = await self._store.get(request.run_id, caller)
        async for event in self._events(run, caller, after=request.after_sequence):
            yield runs_pb2.WatchRunResponse(event=event)

    async def GetRun(self, request: runs_pb2.GetRunRequest, context: Context) -> runs_pb2.GetRunResponse:
        """Returns a run."""
        return runs_pb2.GetRunResponse(run=run_proto(await self._store.get(request.run_id, self._caller(context))))

    async def ListRuns(self, request: runs_pb2.ListRunsRequest, context: Context) -> runs_pb2.ListRunsResponse:
        """Lists runs, newest first."""
        limit = request.page_size or RUNS_PAGE
        runs = await self._store.select(
            self._caller(context),
            limit=limit + 1,
            agent=request.agent or None,
            state=state_of(request.state),
            thread_id=request.thread_id or None,
            before=time_place_of(request.page_token),
        )
        token = time_token(runs[limit - 1].created_at, runs[limit - 1].run_id) if len(runs) > limit else ""
        return runs_pb2.ListRunsResponse(runs=[run_proto(run) for run in runs[:limit]], next_page_token=token)

    async def CancelRun(self, request: runs_pb2.CancelRunRequest, context: Context) -> runs_pb2.CancelRunResponse:
        """Asks a run to stop."""
        run = await self._engine.cancel(request.run_id, self._caller(context))
        return runs_pb2.CancelRunResponse(run=run_proto(run))

    async def ResumeRun(self, request: runs_pb2.ResumeRunRequest, context: Context) -> runs_pb2.ResumeRunResponse:
        """Answers a paused run's question."""
        caller = self._caller(context)
        run = await self._engine.answer(request.run_id, caller, request.input_request_id, request.answer)
        return runs_pb2.ResumeRunResponse(run=run_proto(run))

    async def ListDecisions(
        self, request: runs_pb2.ListDecisionsRequest, context: Context
    ) -> runs_pb2.ListDecisionsResponse:
        """Lists a run's decisions in order."""
        await self._store.get(request.run_id, self._caller(context))
        limit = request.page_size or DECISIONS_PAGE
        after = number_place_of(request.page_token)
        async with self._pool.connection() as connection:
            cursor = connection.cursor(row_factory=dict_row)
            await cursor.execute(
                query("list_decisions"), {"run_id": request.run_id, "after": after, "limit": limit + 1}
            )
            rows = await cursor.fetchall()
        token = page_token(str(rows[limit - 1]["sequence"])) if len(rows) > limit else ""
        decisions = [decision_proto(row) for row in rows[:limit]]
        return runs_pb2.ListDecisionsResponse(decisions=decisions, next_page_token=token)

    async def _events(
        self, run: RunRecord, caller: Caller, *, after: int, fresh: bool = False
    ) -> AsyncIterator[runs_pb2.RunEvent]:
        if fresh and run.event_count:
            # A run that was created claimed has had its first event; it is known, and need not be read.
            started = runs_pb2.StateChanged(state=runs_pb2.RUN_STATE_RUNNING)
            yield runs_pb2.RunEvent(
                sequence=run.event_count,
                run_id=run.run_id,
                event_time=run_proto(run).create_time,
                state_changed=started,
            )
            after = run.event_count
        async for event in self._engine.watch(run, after, fresh=fresh):
            ended = event.run or await self._store.get(run.run_id, caller) if event.is_last else None
            yield event_proto(event, ended)

    def _caller(self, context: Context) -> Caller:
        self._clock.check()
        return self._callers.verify(bearer_token(context.invocation_metadata()))

    def _new_run(self, request: runs_pb2.CreateRunRequest, caller: Caller) -> NewRun:
        name = request.input.WhichOneof("agent")
        if name is None or name not in self._agents:
            raise InvalidRequest(
                "the input names no agent that runs here",
                violations=[FieldViolation("input.agent", f"one of: {', '.join(sorted(self._agents))}")],
            )
        agent = self._agents[name]
        carrier: dict[str, str] = {}
        propagate.inject(carrier)
        return NewRun(
            agent=name,
            graph_version=agent.graph.version,
            caller=caller,
            input=request.input.SerializeToString(deterministic=True),
            budget=_budget(request.budget, agent.budget),
            correlation_id=request.correlation_id,
            thread_id=request.thread_id or None,
            request_id=request.request_id or None,
            active_run_policy=_POLICIES.get(request.active_run_policy, ActiveRunPolicy.REFUSE),
            traceparent=carrier.get("traceparent", ""),
        )


def _budget(asked: caller_pb2.Budget, default: Budget) -> Budget:
    return Budget(
        model_calls=asked.model_calls or default["model_calls"],
        tool_calls=asked.tool_calls or default["tool_calls"],
        tokens=asked.tokens or default["tokens"],
        wall_time_s=float(asked.wall_time_s) or default["wall_time_s"],
    )
