"""Execution of one claimed run, from its last checkpoint to wherever it gets."""

from __future__ import annotations

import asyncio
import functools
import itertools
import traceback
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.errors import GraphDrained, GraphRecursionError, InvalidUpdateError, is_invalid_resume
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import RunControl
from langgraph.types import Command, Interrupt, StateSnapshot
from opentelemetry import context, propagate, trace
from psycopg_pool import AsyncConnectionPool
from signalbox_routing.facts import Record

from services.kit.errors import InvalidRequest
from services.kit.identity.caller import RunClaims
from services.kit.identity.run_tokens import RunTokenMinter
from services.kit.outcome import Outcome
from services.kit.telemetry.logs import get_logger
from services.kit.telemetry.names import (
    AGENT,
    ATTRIBUTE_PREFIX,
    CONVERSATION_ID,
    CORRELATION_ID,
    EPOCH,
    GEN_AI_CONVERSATION_ID,
    GEN_AI_INVOKE_AGENT,
    GEN_AI_OPERATION,
    OUTCOME,
    RUN_ID,
    THREAD,
)
from services.kit.telemetry.tracing import carrying, link_to, tracer
from services.kit.wire.event_kinds import RUN_ENDED, STATE_CHANGED
from services.runtime.agents.assignment import Assignment
from services.runtime.agents.offered import Offered, Pinned
from services.runtime.agents.policies import UnknownLimitTypeError
from services.runtime.agents.screening import may_be_asked_again
from services.runtime.calls.prices import Prices
from services.runtime.calls.recording import AnswerRecording, answer_of_person, answer_of_thread, recording_into
from services.runtime.calls.token_chunks import CALLBACK_EVENTS, CUSTOM_WRITES, WITHDRAWN, TokenChunks, speaking_to
from services.runtime.engine.carrier import Carrier
from services.runtime.engine.claim import Claim, StepWritten
from services.runtime.engine.effect_journal import EffectJournal
from services.runtime.engine.events import Event, EventStream, events_of_step, reset_event
from services.runtime.engine.forks import AWAITS_INPUT, ENDS_CHANGED, UNCHANGED
from services.runtime.engine.offers import Offers
from services.runtime.engine.pins import Pins
from services.runtime.engine.questions import Questions
from services.runtime.engine.quota import TokensSpent
from services.runtime.engine.recorded_answers import recorded_bytes
from services.runtime.engine.records import Ending, ForkedFrom, InputRequest, RunRecord, RunState
from services.runtime.engine.run_tokens import RunTokens
from services.runtime.engine.saver import RunSaver, led_by_of, stop_of
from services.runtime.engine.serde import mark_of
from services.runtime.engine.store import RunStore, noted
from services.runtime.engine.store_policy import StorePolicies
from services.runtime.engine.stored_items import StoreScope
from services.runtime.engine.thread_state import left_state
from services.runtime.errors import ClaimLost, ConfigTooLate, DatabaseAway, ForkRefused, ThreadStateLost
from services.runtime.hosted.adapter import reason_of
from services.runtime.hosted.endings import BUDGET_EXHAUSTED, failure_of
from services.runtime.hosted.graph import check_update
from services.runtime.hosted.interrupts import TooMuchAskedError, question_of, resumption_of
from services.runtime.hosted.node_results import answer_of_failure, answer_of_state
from services.runtime.hosted.screening import InputNotAdmitted, admission_router
from services.runtime.hosted.session import HostedSession
from services.runtime.hosted.store import NodeStore
from services.runtime.metrics import CLAIMS_LOST, QUESTIONS_ESCALATED, RUNS_GIVEN_BACK, WAITS
from services.runtime.routing.asking import expired
from services.runtime.routing.graph import NODE_FAILED
from services.runtime.routing.recorder import LeadingDecision, StepRecord
from services.runtime.routing.run_context import RunContext
from services.runtime.routing.shadow import Shadow
from services.runtime.routing.state import COMPLETED, FAILED, IN_PROGRESS
from services.runtime.routing.stopping import CANCELLED, AttemptLimit, RunStopped, Stop
from services.runtime.routing.storable import presentable, presentable_parts
from services.runtime.routing.waiting import RunWaits, Wait

log = get_logger()
HANDED_OVER = "handed_over"
GRAPH_STOPPED = "graph_stopped"
QUESTION_LIFETIME = timedelta(days=7)
LONGEST_QUESTION = 10_000
STOPPED = Ending(RunState.CANCELLED, stop_reason=CANCELLED, outcome=Outcome.CANCELLED)
INTERNAL_ERROR = Ending(RunState.FAILED, None, "internal_error", "an internal error; see the run's trace")
_STATE_OF = {COMPLETED: RunState.SUCCEEDED, FAILED: RunState.FAILED}


@dataclass(frozen=True)
class Dependencies:
    """What every execution shares."""

    pool: AsyncConnectionPool[Any]
    serde: SerializerProtocol
    store: RunStore
    questions: Questions
    events: EventStream
    tokens: RunTokenMinter | None
    agents: Mapping[str, Offered]
    pins: Pins
    carrier: Carrier
    offers: Offers
    tokens_spent: TokensSpent = field(default_factory=TokensSpent)
    prices: Prices = field(default_factory=Prices)
    shadow: Shadow = field(default_factory=lambda: Shadow((), {}))
    stores: StorePolicies = field(default_factory=StorePolicies)


@dataclass
class Execution:
    """One claimed run being executed; `waits_s` is set when it has left off for so long."""

    shared: Dependencies
    run: RunRecord
    control: RunControl = field(default_factory=RunControl)
    stopping: Stop = field(default_factory=Stop)
    waits_s: float | None = None
    stepped: bool = False
    saver: RunSaver | None = None
    claim: Claim | None = None
    # Of a graph that was brought.
    session: HostedSession | None = None

    def stop(self, reason: str) -> None:
        """Asks the graph to stop at its next step boundary; one that is cancelled is broken off."""
        self.control.request_drain(reason)
        if reason == CANCELLED:
            self.stopping.request()

    async def execute(self) -> None:
        """Executes the run and writes down how it ended, in the trace it was created in."""
        run = self.run
        parent = propagate.extract({"traceparent": run.traceparent}, context.Context())
        ids = {RUN_ID: run.run_id, CORRELATION_ID: run.correlation_id, AGENT: run.agent}
        # Model calls say it, in whichever service they are made.
        conversation_id = run.thread_id or run.run_id
        token = context.attach(carrying({**ids, CONVERSATION_ID: conversation_id}, parent))
        attributes: dict[str, str | int] = {
            GEN_AI_OPERATION: GEN_AI_INVOKE_AGENT,
            GEN_AI_CONVERSATION_ID: conversation_id,
            "gen_ai.agent.name": run.agent,
            **{ATTRIBUTE_PREFIX + name: value for name, value in ids.items()},
            ATTRIBUTE_PREFIX + EPOCH: run.epoch,
        }
        try:
            with tracer().start_as_current_span(
                f"{GEN_AI_INVOKE_AGENT} {run.agent}", attributes=attributes, record_exception=False
            ):
                await self._execute_and_record()
        finally:
            context.detach(token)

    async def _execute_and_record(self) -> None:
        try:
            await self._execute_and_record_outcome()
        except Exception as error:  # else every claim would come to it again, models and all
            log.exception("the outcome of a run can't be recorded", error=type(error).__name__)
            await self._end(INTERNAL_ERROR)

    async def _execute_and_record_outcome(self) -> None:
        try:
            with speaking_to(self._token_chunks()):
                await self._invoke_graph()
        except ClaimLost:
            CLAIMS_LOST.inc()
            log.warning("claim lost; another replica goes on", epoch=self.run.epoch)
        except (GraphDrained, RunStopped) as left:
            await self._left(left)
        except RunWaits as waits:
            await self._wait(waits.wait)
        except asyncio.CancelledError:
            await self._give_back("interrupted")
            raise
        except DatabaseAway as error:
            log.warning("database away; giving the run back", error=str(error))
            await self._give_back("database_away")
        except GraphRecursionError:
            await self._end(Ending(RunState.FAILED, None, "recursion_limit", "the run took too many steps"))
        except UnknownLimitTypeError as error:
            await self._end(Ending(RunState.FAILED, None, "policy_unreadable", str(error)))
        except (ThreadStateLost, ForkRefused, ConfigTooLate) as error:
            await self._end(Ending(RunState.FAILED, None, error.reason.lower(), presentable(str(error))))
        except Exception as error:  # noqa: BLE001 - the run boundary: whatever else happens is this run's failure only
            await self._fail(error)

    def _token_chunks(self) -> TokenChunks:
        run_id, epoch, events = self.run.run_id, self.run.epoch, self.shared.events
        return TokenChunks(
            lambda: events.wants_chunks(run_id),
            lambda kind, payload: events.tell(epoch, Event.unnumbered(run_id, kind, payload)),
        )

    async def _fail(self, error: Exception) -> None:
        try:
            if await self._asks_again(error):
                return
            log.error("run failed", error=type(error).__name__, exc_info=error)
            ending = INTERNAL_ERROR if self.session is None else await self._failure(self.session, error)
        except ClaimLost:
            CLAIMS_LOST.inc()
            log.warning("claim lost when the run failed; another replica goes on", epoch=self.run.epoch)
        except DatabaseAway as away:
            # Nobody can say yet how it ends: whoever goes on comes to the same failure.
            log.warning("database away when the run failed; giving it back", error=str(away))
            await self._give_back("database_away")
        else:
            await self._end(ending)

    async def _asks_again(self, error: Exception) -> bool:
        """Asks anew what was answered with what the graph's own types refuse, though it fits their schema."""
        if self.session is None or not is_invalid_resume(self.session.failure or error):
            return False
        agent = self.shared.agents[self.run.agent].under(await self._policy())
        graph = copy(agent.compiled)
        graph.checkpointer = self.saver
        snapshot = await graph.aget_state({"configurable": {"thread_id": self.run.run_id}})
        if snapshot.interrupts:
            log.warning("an answer was refused by the graph; asking again", error=type(error).__name__)
            await self._pause(snapshot.interrupts)
        return bool(snapshot.interrupts)

    async def _failure(self, session: HostedSession, error: Exception) -> Ending:
        """Returns how a run ends whose graph raised; what it brought by then, when its budget is used up."""
        if self.saver and self.saver.recording and session.failed and session.failure:
            # It goes with the run's end.
            failed = answer_of_failure(session.failed["node"], session.failure, reason_of(session.failure))
            self.saver.recording.add(failed)
        if not session.refused:
            return failure_of(session, error)
        agent = self.shared.agents[self.run.agent].under(await self._policy())
        graph = copy(agent.compiled)
        graph.checkpointer = self.saver
        snapshot = await graph.aget_state({"configurable": {"thread_id": self.run.run_id}})
        output = agent.output(snapshot.values, self.run.input)
        return Ending(RunState.NEEDS_REVIEW, output, BUDGET_EXHAUSTED)

    async def _recording(self) -> AnswerRecording:
        run = self.run
        return AnswerRecording(await recorded_bytes(self.shared.pool, run.run_id) if run.epoch > 1 else 0)

    async def _policy(self) -> Record:
        definition = self.shared.agents[self.run.agent].definition
        return await self.shared.pins.policy_of(self.run, definition)

    async def _invoke_graph(self) -> None:
        run, shared = self.run, self.shared
        self.claim = Claim(
            run.run_id, run.epoch, run.claim_id, run.epoch == 1, self._publish_step, lambda: self.stop(CANCELLED)
        )
        recording = await self._recording() if run.recorded else None
        agent = shared.agents[run.agent].under(await self._policy())
        # A copy of one attribute: the graph's own `copy` checks all of it again.
        graph = copy(agent.compiled)
        config: RunnableConfig = {
            "configurable": {"thread_id": run.thread_id or run.run_id},
            "recursion_limit": agent.graph.max_steps,
            "metadata": {"run_id": run.run_id},
        }
        worked = agent.working(config, run.input, budget=run.budget, spend=run.spend, attempts=run.attempts)
        with worked as (own_config, self.session):
            spent = run.spend if self.session else None
            store = StoreScope.of(run, shared.stores.of(run.agent)) if self.session else None
            if self.session and store:
                graph.store = NodeStore(shared.pool, store, self.session)
            self.saver = graph.checkpointer = RunSaver(
                shared.pool,
                shared.serde,
                claim=self.claim,
                recording=recording,
                steps_channel=agent.steps_channel,
                spent=spent,
                max_step_bytes=agent.max_step_bytes,
                store=store,
                mark=mark_of if self.session else None,
                take_called=self.session.take_called if self.session else None,
            )
            if self.session is not None:
                if run.callback_events:
                    self.session.tell_callbacks()
                self.session.stop = self.stopping
                self.session.journal = EffectJournal(
                    shared.pool, shared.serde, self.claim, max_step_bytes=agent.max_step_bytes
                )
            try:
                state = await self._invoked(agent, graph, own_config, recording)
            except InputNotAdmitted as refused:
                await self._end(refused.ending)
                return
        if isinstance(state, Mapping) and (interrupts := state.get("__interrupt__")):
            await self._pause(interrupts)
            return
        await self._end(self._ending(agent, state))

    async def _invoked(
        self,
        agent: Pinned,
        graph: CompiledStateGraph[Any, Any, Any, Any],
        config: RunnableConfig,
        recording: AnswerRecording | None,
    ) -> Any:
        """Returns the state in which the graph leaves off."""
        run = self.run
        begun = await self._begun(graph, config)
        # Before the first, as LangGraph counts them.
        step = (begun.metadata or {})["step"] if begun else -2
        if begun is None or (begun.metadata or {}).get(AWAITS_INPUT):
            given: Any = await self._first_state(agent, recording)
        else:
            given = self._resumption(agent, begun, recording)
        if not begun and self.session is not None and self.saver is not None and run.thread_id:
            left = await left_state(self.shared.pool, self.shared.serde, run, agent.graph)
            if left is not None:
                step = left.last.metadata["step"]
                if recording:
                    recording.add(answer_of_state(self.shared.serde, [left.last, *left.inside]))
                await self.saver.begin_from(left.last, left.inside)
        tokens = self._tokens(agent)
        run_context = RunContext(
            run.run_id, run.correlation_id, run.caller, run.epoch, tokens.reading, list(run.attempts), tokens.acting,
            await self._led_by(begun) if begun else [],
            list(given.resume) if isinstance(given, Command) and isinstance(given.resume, dict) else [],
            self.stopping,
        )  # fmt: skip
        try:
            with recording_into(recording):
                own_context = agent.context(run_context, run.input)
                if self.session is not None and not await self._admitted():
                    changes = (run.forked_from and run.forked_from.update) or {}
                    async with AttemptLimit(self.stopping):
                        verdict = await agent.admit(run_context, run.input, changes)
                    await self._keep(verdict)
                if begun and (begun.metadata or {}).get(UNCHANGED) and run.forked_from:
                    await self._change(agent, graph, config, run.forked_from, {**(begun.metadata or {})})
                    step += 1
                if begun and (begun.metadata or {}).get(ENDS_CHANGED) == run.run_id:
                    return (await graph.aget_state(config)).values
                # Who answers it begins to count anew, as with LangGraph.
                stop = stop_of(begun.metadata) if begun and not isinstance(given, Command) else None
                config = self._counting_on(config, step + 1, stop)
                callbacks = self.session.callback_events if self.session else None
                invoke = functools.partial(callbacks.invoke, graph) if callbacks else graph.ainvoke
                return await invoke(given, config, context=own_context, durability="sync", control=self.control)
        finally:
            tokens.end()

    def _counting_on(self, config: RunnableConfig, step: int, stop: int | None) -> RunnableConfig:
        """Has a graph that was brought, and goes on at a step, end at `stop`, where it would have ended."""
        if self.session is None or self.saver is None:
            return config
        self.saver.stop = step + config["recursion_limit"] + 1 if stop is None else stop
        return {**config, "recursion_limit": max(1, self.saver.stop - step - 1)}

    async def _admitted(self) -> bool:
        """Whether a claim before this one has let the input in."""
        return self.run.epoch > 1 and await self.shared.store.has_decided(self.run, admission_router(self.run.agent))

    async def _keep(self, verdict: StepRecord | None) -> None:
        """Commits the verdict that let an input in: whoever goes on with the run does not ask for it again."""
        if verdict is not None and self.saver is not None and self.claim is not None:
            self._tell_of(await self.saver.decide(self.claim, [verdict]))

    async def _begun(
        self, graph: CompiledStateGraph[Any, Any, Any, Any], config: RunnableConfig
    ) -> StateSnapshot | None:
        """Returns where the run is, when a claim before this one has come anywhere."""
        if self.run.epoch == 1:
            return None
        snapshot = await graph.aget_state(config)
        return snapshot if snapshot.config["configurable"].get("checkpoint_id") else None

    async def _change(
        self,
        agent: Pinned,
        graph: CompiledStateGraph[Any, Any, Any, Any],
        config: RunnableConfig,
        made_of: ForkedFrom,
        marks: Mapping[str, Any],
    ) -> None:
        """Changes the state of a fork as asked, in a step of its own that keeps what marks it. Raises ForkRefused."""
        kept = {ENDS_CHANGED: marks[ENDS_CHANGED]} if marks.get(ENDS_CHANGED) else {}
        marked: RunnableConfig = {**config, "metadata": {**config.get("metadata", {}), **kept}}
        try:
            check_update(agent.graph, made_of.update, made_of.as_node)
            await graph.aupdate_state(marked, made_of.update, made_of.as_node or None)
        except (InvalidRequest, InvalidUpdateError) as error:
            raise ForkRefused(f"the state can't be changed as asked: {error}") from error

    async def _led_by(self, begun: StateSnapshot) -> list[LeadingDecision]:
        """Returns the decision that led to where the run is; an older release kept it in the ledger alone."""
        return led_by_of(begun.metadata) or await self.shared.store.leading_decision(self.run, begun.next)

    def _resumption(
        self, agent: Pinned, begun: StateSnapshot, recording: AnswerRecording | None
    ) -> Command[Any] | None:
        """Returns what the graph goes on with: the answer it waits for, or nothing."""
        waiting = {interrupt.id for interrupt in begun.interrupts}
        asked = self.run.input_request
        if asked is None or self.run.answer is None:
            return None
        if asked.interrupts:
            by_interrupt = resumption_of(asked.interrupts, self.run.answer, waiting, by_id=asked.by_id)
            if by_interrupt and recording:
                values = list(by_interrupt.values())
                recording.add(answer_of_person(values[0] if len(asked.interrupts) == 1 else by_interrupt))
            return Command(resume=by_interrupt) if by_interrupt else None
        if asked.input_request_id not in waiting:
            return None
        given = expired(asked.input_request_id) if asked.expired else agent.answer(self.run.answer)
        if recording:
            recording.add(answer_of_person(given))
        return Command(resume={asked.input_request_id: given})

    async def _first_state(self, agent: Pinned, recording: AnswerRecording | None) -> dict[str, Any]:
        run = self.run
        earlier = await self.shared.store.thread_turns(run, agent.turns_remembered) if run.thread_id else []
        if earlier:
            link_to(earlier[-1].traceparent, THREAD)
        turns = [(turn.input, turn.output) for turn in earlier]
        if recording and turns:
            recording.add(answer_of_thread(turns))
        assignment = Assignment(run.run_id, run.correlation_id, run.caller, run.input, turns)
        return agent.first_state(
            assignment, started_at=run.started_at or run.created_at, budget=run.budget, spend=run.spend
        )

    def _tokens(self, agent: Pinned) -> RunTokens:
        run, minter = self.run, self.shared.tokens

        def mint(audience: str, writes: bool) -> str:
            if minter is None:
                raise LookupError("a pool of hosted graphs mints no run tokens")
            claims = RunClaims(run.caller, run.run_id, run.agent, agent.graph.tools, run.epoch, writes)
            return minter.mint(claims, audience)

        return RunTokens(mint)

    def _ending(self, agent: Pinned, state: Mapping[str, Any]) -> Ending:
        if self.session is not None:
            # A graph that was brought says nothing of how it went: it came to its end, and no node raised.
            return Ending(RunState.SUCCEEDED, agent.output(state, self.run.input), outcome=agent.outcome(state))
        if state["status"] == IN_PROGRESS:
            # LangGraph goes no farther, without a word, when what is to run next is not in this graph.
            log.error("the graph stopped in progress", graph_version=self.run.graph_version)
            error = "the graph stopped while the run was in progress; no node of it goes on from there"
            return Ending(RunState.FAILED, None, GRAPH_STOPPED, error)
        return Ending(
            _STATE_OF.get(state["status"], RunState.NEEDS_REVIEW),
            agent.output(state, self.run.input),
            presentable(state.get("stop_reason") or ""),
            presentable(state.get("error") or ""),
            agent.outcome(state),
            retryable=may_be_asked_again(state),
        )

    async def _end(self, ending: Ending, stopped: RunStopped | None = None) -> None:
        trace.get_current_span().set_attribute(ATTRIBUTE_PREFIX + OUTCOME, ending.outcome)
        try:
            with_step = await self._end_with_step(ending, stopped)
            called = self._called()
            ended = noted(with_step) if with_step else await self.shared.store.end(self.run, ending, called)
        except ClaimLost:
            CLAIMS_LOST.inc()
            log.warning("claim lost at the end; another replica goes on", epoch=self.run.epoch)
            return
        except DatabaseAway as error:
            log.warning("database away at the end; giving the run back", error=str(error))
            await self._give_back("database_away")
            return
        self._publish(ended, RUN_ENDED, None if with_step else called)

    def _called(self) -> dict[str, Any]:
        """Returns what the next event of the run says of what callbacks have told."""
        called = self.session.take_called() if self.session else []
        return {CALLBACK_EVENTS: called} if called else {}

    async def _end_with_step(self, ending: Ending, stopped: RunStopped | None) -> RunRecord | None:
        """Ends the run together with its last step, where that is not written yet. Raises ClaimLost."""
        if self.saver is None or self.claim is None:
            return None
        if self.session is not None:
            # Of a step that comes to no end: what its other tasks brought is told all the same.
            await self._keep_ended_tasks()
        if stopped is not None and stopped.step is not None:
            return await self.saver.end_unfinished(self.claim, ending, [stopped.step], stopped.spend)
        if self.session is not None and (steps := self.session.last_steps()):
            return await self.saver.end_unfinished(self.claim, ending, steps)
        return await self.saver.end(ending)

    async def _pause(self, interrupts: Sequence[Interrupt]) -> None:
        value: Mapping[str, Any]
        if self.session is None:
            input_request_id, value = interrupts[0].id, interrupts[0].value
        else:
            try:
                input_request_id, value = question_of(interrupts)
            except TooMuchAskedError as error:
                await self._end(Ending(RunState.FAILED, None, NODE_FAILED, presentable(str(error))))
                return
        lifetime = timedelta(seconds=value["expires_in_s"]) if "expires_in_s" in value else QUESTION_LIFETIME
        said = presentable_parts({name: part for name, part in value.items() if part is not None}, LONGEST_QUESTION)
        asked = InputRequest(
            input_request_id,
            str(said["question"]),
            tuple(str(option) for option in said.get("options", ())),
            datetime.now(UTC) + lifetime,
            any_text=bool(said.get("any_text")),
            expires_to_graph=bool(said.get("expires_to_graph")),
            for_caller=bool(said.get("for_caller", True)),
            roles=tuple(said.get("roles", ())),
            escalated_from=said.get("escalated_from", ""),
            plan_hash=said.get("plan_hash", ""),
            detail=said.get("detail"),
            screened=self.shared.agents[self.run.agent].definition.words is not None,
        )
        unrecorded = self.session.unrecorded if self.session else None
        await self._keep_ended_tasks()
        written = {CUSTOM_WRITES: self.session.written} if self.session and self.session.written else {}
        written |= self._called()
        paused = await self.shared.store.await_input(self.run, asked, unrecorded, written)
        if paused.state.ended:
            self._publish(paused, RUN_ENDED, None)
            return
        if asked.escalated_from:
            QUESTIONS_ESCALATED.labels(self.run.agent).inc()
        payload = {"state": paused.state, "input_request": {"input_request_id": asked.input_request_id}, **written}
        self._publish(paused, STATE_CHANGED, payload)

    async def _keep_ended_tasks(self) -> None:
        """Keeps what tasks brought that ended beside one that asks, waits or fails: they do not run again with it."""
        if self.saver is not None:
            await self.saver.write_waiting()

    async def _wait(self, wait: Wait) -> None:
        """Leaves off until what the run waits for may be back: it holds no slot meanwhile, and anybody goes on."""
        try:
            await self._keep_ended_tasks()
            waiting = await self.shared.store.wait(self.run, wait)
        except ClaimLost:
            CLAIMS_LOST.inc()
            log.warning("claim lost when about to wait; another replica goes on", epoch=self.run.epoch)
            return
        except DatabaseAway as error:
            log.warning("database away when about to wait; giving the run back", error=str(error))
            await self._give_back("database_away")
            return
        if waiting.state.ended:
            self._publish(waiting, RUN_ENDED, None)
            return
        WAITS.labels(wait.dependency, wait.cause).inc()
        log.warning("waiting", dependency=wait.dependency, cause=wait.cause, delay_s=round(wait.delay_s, 3))
        self.waits_s = wait.delay_s
        not_before = waiting.not_before.isoformat() if waiting.not_before else None
        payload = {
            "state": waiting.state,
            "waiting_for": wait.dependency,
            "cause": wait.cause,
            "not_before": not_before,
        }
        self._publish(waiting, STATE_CHANGED, payload)

    async def _left(self, left: GraphDrained | RunStopped) -> None:
        if isinstance(left, RunStopped):
            # What its nodes were saying is no part of it.
            self.shared.events.tell(self.run.epoch, reset_event(self.run.run_id, WITHDRAWN))
            await self._end(STOPPED, left)
        elif not self.control.drain_requested:
            # A node has drained a graph of its own: whoever took the run over would come to it again.
            await self._fail(left)
        elif CANCELLED in str(left):
            await self._end(STOPPED)
        else:
            await self._give_back(HANDED_OVER)

    async def _give_back(self, reason: str) -> None:
        """Lets go of the run; if even that fails, the sweep finds a run that nobody executes."""
        RUNS_GIVEN_BACK.labels(reason).inc()
        try:
            await self.shared.store.release(self.run)
        except DatabaseAway:
            log.warning("could not give the run back; the sweep will", trace=traceback.format_exc(limit=1))

    def _publish_step(self, step: StepWritten) -> None:
        self.stepped = True
        self._tell_of(step)

    def _tell_of(self, step: StepWritten) -> None:
        if self.session is not None:
            self.session.forget(step.steps)
        calls = list(itertools.chain.from_iterable(record["calls"] for record in step.steps))
        tokens = sum(call["input_tokens"] + call["output_tokens"] for call in calls)
        self.shared.tokens_spent.add(self.run.caller.subject, tokens)
        self.shared.prices.count(self.run.agent, calls)
        decisions = (record["decision"] for record in step.steps)
        self.shared.shadow.count(self.run.agent, (decision for decision in decisions if decision))
        events = self.shared.events
        events.nodes_ended(self.run.run_id, (record["node"] for record in step.steps))
        events.called_kept(self.run.run_id, (part for record in step.steps for part in record.get("called", ())))
        if events.has_watchers(self.run.run_id):
            events.publish(events_of_step(self.run.run_id, self.run.agent, step))

    def _publish(self, run: RunRecord, kind: str, payload: dict[str, Any] | None) -> None:
        self.run = replace(run, epoch=self.run.epoch)
        event = Event(run.run_id, run.event_count, kind, payload, None, run.ended_at or datetime.now(UTC), run)
        self.shared.events.publish([event])
