"""RunService as the runtime serves it to the gateway: protos to the engine and back, nothing else."""

# ruff: noqa: N802 - method names are the proto's

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry import propagate
from psycopg_pool import AsyncConnectionPool
from signalbox.v1 import caller_pb2, recorded_answers_pb2, runs_pb2, runs_pb2_grpc

from services.kit.errors import FieldViolation, InvalidRequest
from services.kit.identity.caller import Caller
from services.kit.outcome import Outcome
from services.runtime.agents.policies import CALLER
from services.runtime.api.agent_directory import AgentDirectory, AskedAgent
from services.runtime.api.callers import Callers, Context
from services.runtime.api.explanations import Explanations, decisions_of
from services.runtime.api.ledger_queries import LedgerQueries, refuse_filters
from services.runtime.api.page_tokens import number_place_of, page_token, run_place_of, time_token
from services.runtime.api.policy_wire import run_policy_proto
from services.runtime.api.story_wire import costs_proto
from services.runtime.api.wire import (
    answers_of,
    decision_proto,
    event_proto,
    moment_of,
    run_count_proto,
    run_proto,
    state_of,
)
from services.runtime.calls.prices import Prices
from services.runtime.engine.engine import Engine
from services.runtime.engine.pages import fitting
from services.runtime.engine.pins import Pins
from services.runtime.engine.questions import Answer
from services.runtime.engine.recorded_answers import RecordedAnswers
from services.runtime.engine.records import ActiveRunPolicy, NewRun, RunRecord, RunState
from services.runtime.engine.rights import has_rights_of, shown_to
from services.runtime.engine.run_counts import RunCounts
from services.runtime.engine.run_search import RunFilter, RunSearch
from services.runtime.engine.search import DecisionSearch
from services.runtime.engine.store import RunStore
from services.runtime.errors import AgentUnknown, QuestionNotFound, StaleAnswer
from services.runtime.hosted.definition import FIELD
from services.runtime.routing.state import Budget

RUNS_PAGE = 50
DECISIONS_PAGE = 100
_POLICIES = {
    runs_pb2.ACTIVE_RUN_POLICY_QUEUE: ActiveRunPolicy.QUEUE,
    runs_pb2.ACTIVE_RUN_POLICY_CANCEL_ACTIVE: ActiveRunPolicy.CANCEL_ACTIVE,
    runs_pb2.ACTIVE_RUN_POLICY_ROLL_BACK_ACTIVE: ActiveRunPolicy.ROLL_BACK_ACTIVE,
}


class RunServicer(runs_pb2_grpc.RunServiceServicer):
    """Serves runs."""

    def __init__(
        self,
        engine: Engine,
        store: RunStore,
        pool: AsyncConnectionPool[Any],
        directory: AgentDirectory,
        callers: Callers,
        pins: Pins,
        prices: Prices | None = None,
        *,
        records_all: bool = False,
    ) -> None:
        self._engine = engine
        self._store = store
        self._pool = pool
        self._agents = directory.here
        self._callers = callers
        self._pins = pins
        self._directory = directory
        self._records_all = records_all
        self._answers = RecordedAnswers(pool)
        self._runs = RunSearch(pool)
        self._counts = RunCounts(pool)
        self._prices = prices or Prices()
        self._explanations = Explanations(pool, directory, pins, self._prices)
        self._ledger = LedgerQueries(DecisionSearch(pool), directory)

    async def CreateRun(self, request: runs_pb2.CreateRunRequest, context: Context) -> runs_pb2.CreateRunResponse:
        """Creates a run and returns at once."""
        acting = self._callers.acting(context)
        caller = acting.caller
        acting.check(caller.subject, request.labels)
        # Shown as it may be by now: a repeat of a request finds the run that it made.
        run, _ = await self._engine.create(await self._new_run(request, caller))
        acting.check(run.caller.subject, run.labels)
        return runs_pb2.CreateRunResponse(run=run_proto(shown_to(caller, run)))

    async def ExecuteRun(
        self, request: runs_pb2.ExecuteRunRequest, context: Context
    ) -> AsyncIterator[runs_pb2.ExecuteRunResponse]:
        """Creates a run and streams its events from the first."""
        caller = self._callers.caller(context)
        chunks, callbacks = request.token_chunks, request.create.callback_events
        run, is_new = await self._engine.create(
            replace(await self._new_run(request.create, caller), chunks_asked=chunks)
        )
        async for event in self._events(run, caller, after=0, fresh=is_new, chunks=chunks, callback_events=callbacks):
            yield runs_pb2.ExecuteRunResponse(event=event)

    async def WatchRun(
        self, request: runs_pb2.WatchRunRequest, context: Context
    ) -> AsyncIterator[runs_pb2.WatchRunResponse]:
        """Streams a run's events after a sequence number."""
        acting = self._callers.acting(context)
        caller = acting.caller
        run = await self._store.get(request.run_id, caller)
        acting.check(run.caller.subject, run.labels)
        chunks, callbacks = request.token_chunks, request.callback_events
        async for event in self._events(
            run, caller, after=request.after_sequence, chunks=chunks, callback_events=callbacks
        ):
            yield runs_pb2.WatchRunResponse(event=event)

    async def GetRun(self, request: runs_pb2.GetRunRequest, context: Context) -> runs_pb2.GetRunResponse:
        """Returns a run."""
        acting = self._callers.acting(context)
        caller = acting.caller
        run = await self._store.get(request.run_id, caller)
        acting.check(run.caller.subject, run.labels)
        run = await self._engine.with_output(run)
        proto = run_proto(shown_to(caller, run))
        if pin := await self._pins.pin_of(run):
            known = self._agents[run.agent].definition.policy if run.agent in self._agents else None
            proto.policy.CopyFrom(run_policy_proto(run, pin, known))
        return runs_pb2.GetRunResponse(run=proto)

    async def ListRuns(self, request: runs_pb2.ListRunsRequest, context: Context) -> runs_pb2.ListRunsResponse:
        """Lists runs, newest first."""
        caller = self._callers.caller(context)
        await self._directory.check(request.agent)
        limit = request.page_size or RUNS_PAGE
        wanted = RunFilter(
            agent=request.agent or None,
            state=state_of(request.state),
            outcome=Outcome.of(request.outcome),
            thread_id=request.thread_id or None,
            since=moment_of(request.since_time) if request.HasField("since_time") else None,
            until=moment_of(request.until_time) if request.HasField("until_time") else None,
            subject=request.subject or None,
            labels=request.labels,
            words=tuple(request.text.split()),
            id_prefix=request.run_id_prefix.replace("-", ""),
        )
        found = await self._runs.page(caller, wanted, limit=limit, after=run_place_of(request.page_token))
        page = fitting(run_proto(shown_to(caller, run)) for run in found.runs)
        after = found.after
        if len(page) < len(found.runs):
            last = found.runs[len(page) - 1]
            after = (last.created_at, last.run_id)
        return runs_pb2.ListRunsResponse(runs=page, next_page_token=time_token(*after) if after else "")

    async def CancelRun(self, request: runs_pb2.CancelRunRequest, context: Context) -> runs_pb2.CancelRunResponse:
        """Asks a run to stop."""
        acting = self._callers.acting(context)
        caller = acting.caller
        if acting.batch_id:
            run = await self._store.get(request.run_id, caller)
            acting.check(run.caller.subject, run.labels)
        run = await self._engine.with_output(await self._engine.cancel(request.run_id, caller))
        return runs_pb2.CancelRunResponse(run=run_proto(shown_to(caller, run)))

    async def ResumeRun(self, request: runs_pb2.ResumeRunRequest, context: Context) -> runs_pb2.ResumeRunResponse:
        """Answers a paused run's question."""
        caller = self._callers.caller(context)
        await self._store.get(request.run_id, caller)
        given = Answer(request.run_id, request.input_request_id, request.answer, answers=answers_of(request))
        try:
            await self._engine.answer(
                caller, given, chunks=request.token_chunks, callback_events=request.callback_events
            )
        except QuestionNotFound as error:
            # The run is the caller's to see; so it is only this question that it does not ask.
            raise StaleAnswer("the run does not ask this question", metadata={"run_id": request.run_id}) from error
        run = await self._store.get(request.run_id, caller)
        return runs_pb2.ResumeRunResponse(run=run_proto(shown_to(caller, run)))

    async def ListDecisions(
        self, request: runs_pb2.ListDecisionsRequest, context: Context
    ) -> runs_pb2.ListDecisionsResponse:
        """Lists a run's decisions in order, or those of many runs."""
        caller = self._callers.caller(context)
        limit = request.page_size or DECISIONS_PAGE
        if not request.run_id:
            return await self._ledger.list(request, caller, limit=limit)
        refuse_filters(request)
        after = number_place_of(request.page_token)
        await self._store.get(request.run_id, caller)
        async with self._pool.connection() as connection:
            rows = await decisions_of(connection, request.run_id, after=after, limit=limit + 1)
        page = fitting(map(decision_proto, rows[:limit]))
        return runs_pb2.ListDecisionsResponse(decisions=page, next_page_token=_token_of(rows, len(page)))

    async def CountDecisions(
        self, request: runs_pb2.CountDecisionsRequest, context: Context
    ) -> runs_pb2.CountDecisionsResponse:
        """Counts an agent's decisions by rule."""
        return await self._ledger.count(request, self._callers.caller(context))

    async def CountRuns(self, request: runs_pb2.CountRunsRequest, context: Context) -> runs_pb2.CountRunsResponse:
        """Counts runs by time, agent, state and outcome."""
        caller = self._callers.caller(context)
        await self._directory.check(request.agent)
        interval = timedelta(minutes=request.interval_minutes)
        since, agent = moment_of(request.since_time), request.agent or None
        counted = await self._counts.count(caller, since, interval, agent)
        costs = None
        if request.with_costs:
            costs = costs_proto(await self._counts.model_tokens(caller, since, agent), self._prices)
        return runs_pb2.CountRunsResponse(
            counts=map(run_count_proto, counted.counts),
            intervals=map(run_count_proto, counted.intervals),
            run_count=sum(row["count"] for row in counted.intervals),
            is_partial=counted.is_partial,
            costs=costs,
        )

    async def ExplainRun(self, request: runs_pb2.ExplainRunRequest, context: Context) -> runs_pb2.ExplainRunResponse:
        """Explains a run and its decisions."""
        caller = self._callers.caller(context)
        limit, after = request.page_size or DECISIONS_PAGE, number_place_of(request.page_token)
        rows, page, story = await self._explanations.of(request.run_id, caller, after=after, limit=limit)
        told = filter(None, page)
        return runs_pb2.ExplainRunResponse(explanations=told, next_page_token=_token_of(rows, len(page)), run=story)

    async def ListRecordedAnswers(
        self, request: runs_pb2.ListRecordedAnswersRequest, context: Context
    ) -> runs_pb2.ListRecordedAnswersResponse:
        """Lists what a run's nodes heard."""
        caller, after = self._callers.caller(context), number_place_of(request.page_token)
        rows, more = await self._answers.page(request.run_id, caller, after)
        answers = [recorded_answers_pb2.RecordedAnswer.FromString(answer) for _, answer in rows]
        token = page_token(str(rows[-1][0])) if more else ""
        return runs_pb2.ListRecordedAnswersResponse(answers=answers, next_page_token=token)

    async def _events(
        self,
        run: RunRecord,
        caller: Caller,
        *,
        after: int,
        fresh: bool = False,
        chunks: bool = False,
        callback_events: bool = False,
    ) -> AsyncIterator[runs_pb2.RunEvent]:
        if fresh and run.event_count and run.state is RunState.RUNNING:
            # A run that was created claimed has had its first event; it is known, and need not be read.
            started = runs_pb2.StateChanged(state=runs_pb2.RUN_STATE_RUNNING)
            yield runs_pb2.RunEvent(
                sequence=run.event_count,
                run_id=run.run_id,
                event_time=run_proto(run).create_time,
                state_changed=started,
            )
            after = run.event_count
        # What models say is as much as an output of who has its roles to see.
        chunks = chunks and has_rights_of(caller, run)
        calls = chunks and callback_events
        async for event in self._engine.watch(run, after, fresh=fresh, chunks=chunks, callback_events=calls):
            if not event.is_last:
                yield event_proto(event, None, chunks=chunks, callback_events=calls)
                continue
            then = await self._engine.with_output(event.run or await self._store.get(run.run_id, caller))
            asked = event.question(then) if has_rights_of(caller, then) else None
            yield event_proto(event, shown_to(caller, then), asked, chunks=chunks, callback_events=calls)

    async def _new_run(self, request: runs_pb2.CreateRunRequest, caller: Caller) -> NewRun:
        field = request.input.WhichOneof("agent")
        name = request.input.graph.agent if field == FIELD else field or ""
        if field is None and len(UnknownFieldSet(request.input)):
            raise AgentUnknown("this replica's release knows no such agent; another may", retry_after_s=1.0)
        agent = await self._directory.asked(name)
        if agent.is_hosted != (field == FIELD):
            where = f"input.{FIELD}" if agent.is_hosted else f"input.{name}"
            raise InvalidRequest(
                f"the input of {name} is given elsewhere",
                violations=[FieldViolation("input.agent", f"give it as {where}")],
            )
        agent.check_input(request.input)
        budget, origins = _budget(request.budget, agent)
        carrier: dict[str, str] = {}
        propagate.inject(carrier)
        return NewRun(
            agent=name,
            graph_version=agent.graph_version,
            caller=caller,
            input=request.input.SerializeToString(deterministic=True),
            budget=budget,
            budget_origins=origins,
            correlation_id=request.correlation_id,
            thread_id=request.thread_id or None,
            request_id=request.request_id or None,
            active_run_policy=_POLICIES.get(request.active_run_policy, ActiveRunPolicy.REFUSE),
            traceparent=carrier.get("traceparent", ""),
            key=agent.run_key(getattr(request.input, name)) if agent.run_key else None,
            labels=request.labels,
            title=agent.title_of(request.input),
            recorded=request.record or self._records_all,
            waiting_for=agent.waiting_for,
            chunks_asked=request.token_chunks,
            callback_events=request.callback_events and agent.is_hosted,
        )


def _token_of(rows: Sequence[Mapping[str, Any]], shown: int) -> str:
    """Returns the token of the page behind the first of these decisions; empty when those are all."""
    return page_token(str(rows[shown - 1]["sequence"])) if len(rows) > shown else ""


def _budget(wanted: caller_pb2.Budget, agent: AskedAgent) -> tuple[Budget, dict[str, str]]:
    """Returns what a run may spend, and where those parts come from that are not built in."""
    default = agent.budget
    budget = Budget(
        model_calls=wanted.model_calls or default["model_calls"],
        tool_calls=wanted.tool_calls or default["tool_calls"],
        tokens=wanted.tokens or default["tokens"],
        wall_time_s=float(wanted.wall_time_s) or default["wall_time_s"],
    )
    origins = {name: CALLER if getattr(wanted, name) else agent.budget_origins.get(name, "") for name in budget}
    return budget, {name: origin for name, origin in origins.items() if origin}
