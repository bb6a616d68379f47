"""What happens in one claimed run of a hosted graph: the tasks under way, their calls, and what they may still spend.

Nodes know nothing of it. The adapter (`adapter.py`) and the handler of LangChain's callbacks find it by a context
variable, which LangChain and LangGraph carry into the tasks and threads that they start.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID, uuid4

import httpx
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, GenerationChunk, LLMResult
from langgraph.store.base import TTLConfig

from services.kit.models.streamed import CHARACTERS_A_TOKEN
from services.runtime.calls.connections import Connections
from services.runtime.calls.token_chunks import RERUN, StreamedMessage, token_chunks
from services.runtime.calls.tool_client import ToolDescription
from services.runtime.errors import DependencyAway
from services.runtime.hosted.callback_events import SILENT, CallbackEvents
from services.runtime.hosted.custom_writes import CustomWrites, Written
from services.runtime.hosted.store_index import StoreIndex
from services.runtime.routing.attempt import Attempt, cost_of
from services.runtime.routing.calls import OK, cleaned
from services.runtime.routing.recorder import CallRecord, ItemWrite, StepRecord
from services.runtime.routing.run_context import RunContext
from services.runtime.routing.state import Budget, Spend, add_spend, budget_spent, spend_of
from services.runtime.routing.stopping import AttemptLimit, RunStopped, Stop
from services.runtime.routing.waiting import RunWaits, left_of

MODEL, TOOL = "model", "tool"
IN_PROCESS = "in_process"
# What of a budget a call of a model takes.
MODEL_PARTS = ("model_calls", "tokens")
CUT = "cut"
# Answers that say nothing against the request: the same one may succeed later.
_AWAY = frozenset((408, 429, 500, 502, 503, 504, 529))
_NAMESPACE = "langgraph_checkpoint_ns"
# A chat model streams where one of its handlers has these (`_StreamingCallbackHandler` of langchain_core).
_STREAMING = ("tap_output_aiter", "tap_output_iter")


class BudgetSpentError(Exception):
    """The run's budget is used up; `part` says which part of it."""

    def __init__(self, part: str) -> None:
        super().__init__(f"the run's budget is used up: {part}")
        self.part = part


@dataclass
class Visit:
    """An attempt at a task of a node: its calls, those of attempts before included, and its record once it has ended.

    `inside_s` is time of nodes of a graph inside it, which have records of their own; `left` are such records that the
    inner graph could not keep, since a `Command` to the parent left it. `stored` is what it writes to the store, which
    is of no account unless it ends.
    """

    node: str
    task_id: str = ""
    parent: Visit | None = None
    calls: list[CallRecord] = field(default_factory=list)
    began: float = field(default_factory=time.perf_counter)
    inside_s: float = 0.0
    record: StepRecord | None = None
    left: list[StepRecord] = field(default_factory=list)
    stored: list[ItemWrite] = field(default_factory=list)
    # Items that it has read and that last anew for it, by where they are.
    refreshed: dict[tuple[str, str], ItemWrite] = field(default_factory=dict)
    away: tuple[BaseException, DependencyAway] | None = None
    has_spoken: bool = False
    written: Written = field(default_factory=Written)
    # How many of its calls the record has.
    recorded_calls: int = 0
    # How often it has made each call that has no id of its own.
    unnamed: dict[str, int] = field(default_factory=dict)
    # What ends it; a graph inside a node has none, and its nodes have their own.
    limit: AttemptLimit | None = None

    def speaks(self) -> None:
        """Notes that somebody may have heard of it, and of the nodes around it."""
        visit: Visit | None = self
        while visit is not None:
            visit.has_spoken, visit = True, visit.parent

    def drop_stored(self) -> None:
        """Forgets what it has done in the store, which is of no account."""
        self.stored, self.refreshed = [], {}

    def end(self) -> float:
        """Returns the seconds that the node took by itself, and has the node around it count them as those inside."""
        elapsed_s = time.perf_counter() - self.began
        if self.parent is not None:
            self.parent.inside_s += elapsed_s
        return max(0.0, elapsed_s - self.inside_s)


_session: ContextVar[HostedSession | None] = ContextVar("hosted_session", default=None)
_visit: ContextVar[Visit | None] = ContextVar("hosted_visit", default=None)
# The key of the effect that the caller is part of.
effect_under_way: ContextVar[str] = ContextVar("effect_under_way", default="")


class HostedSession:
    """A claimed run of a hosted graph."""

    def __init__(
        self,
        spend: Spend,
        budget: Budget,
        attempts: Sequence[CallRecord],
        *,
        node_timeout_s: float,
        limits: Any = None,
        run_id: str,
        max_steps: int,
        store_ttl: TTLConfig | None = None,
        store_index: StoreIndex | None = None,
        connections: Connections | None = None,
        catalogs: Mapping[str, Mapping[str, ToolDescription]] | None = None,
    ) -> None:
        self.run_id = run_id
        # Of each graph inside a node, however many this one has left.
        self.max_steps = max_steps
        self.loop = asyncio.get_running_loop()
        # What calls of the platform's own need, where it is there.
        self.run: RunContext | None = None
        self.connections = connections
        self.catalogs: Mapping[str, Mapping[str, ToolDescription]] = catalogs or {}
        self.journal: Journal | None = None
        self.stop = Stop()
        self.node_timeout_s = node_timeout_s
        # What the run is pinned to: the policy that tables in the code of its graph decide by.
        self.limits = limits
        # How long items of its store last where its nodes do not say so.
        self.store_ttl = store_ttl
        # By what they are found by meaning.
        self.store_index = store_index
        self.budget = budget
        # What attempts before this claim cost: the first record takes it over, and it stays until that is committed.
        self.attempts = list(attempts)
        self._taken, self._takers = 0, set[str]()
        # The step that ended the run, and why; the first that failed is the cause of others.
        self.failed: StepRecord | None = None
        self.failure: BaseException | None = None
        self.refused = ""
        # Records of nodes whose failure another node handles, which go with the record of the next node that ends.
        self.handled: list[StepRecord] = []
        # In a replay of a recorded run: what its nodes returned.
        self.replayed: Callable[[str, str, str], Any] | None = None
        self.token_chunks = token_chunks()
        self._custom_writes = CustomWrites(self.token_chunks.write if self.token_chunks else lambda _: None)
        # Of a run that was asked for them.
        self.callback_events: CallbackEvents | None = None
        self._row = spend
        self._spent = add_spend(spend, cost_of(self.attempts))
        self._began = time.perf_counter()
        self._visits: dict[str, Visit] = {}
        # Calls under way, which count before they end.
        self._open: dict[UUID, CallUnderWay] = {}
        # Handlers are called in the threads of nodes that are no coroutines.
        self._lock = threading.RLock()

    @property
    def spent(self) -> Spend:
        """What the run has spent, calls of nodes included that go on; of wall time this claim's as it passes."""
        with self._lock:
            passed = time.perf_counter() - self._began
            spent: Spend = {**self._spent, "wall_time_s": self._spent["wall_time_s"] + passed}
            under_way = [begun.call for begun in self._open.values()]
            return add_spend(spent, spend_of(under_way, 0.0)) if under_way else spent

    @property
    def left_s(self) -> float:
        """Seconds of wall time that the run's budget leaves; infinite where it sets no limit."""
        return left_of(self.spent, self.budget)

    def check_time(self) -> None:
        """Raises BudgetSpentError before a node for which no time is left, or after a call that was refused."""
        if self.refused:
            raise BudgetSpentError(self.refused)
        self.check_budget(())

    def check_stop(self) -> None:
        """Raises RunStopped where the run is to stop: threads of nodes that were broken off go on.

        What an effect calls that is under way is part of it, and comes to its end with it.
        """
        if self.stop.requested and not effect_under_way.get():
            raise RunStopped

    def check_budget(self, kinds: Sequence[str]) -> None:
        """Raises BudgetSpentError when the time, or what a call of these kinds takes, is used up."""
        counted = {part: limit if part in kinds else 0 for part, limit in self.budget.items()}
        if part := budget_spent(self.spent, {**counted, "wall_time_s": self.budget["wall_time_s"]}):
            self.refused = part
            raise BudgetSpentError(part)

    def visit(self, task_id: str, node: str) -> Visit:
        """Returns a task that begins, or is tried again."""
        earlier = self._visits.get(task_id)
        if earlier is not None and earlier.has_spoken and self.token_chunks:
            self.token_chunks.reset(node, RERUN)
        # What threads of an attempt before still do is that one's, and of no account; what they pay for is this task's.
        visit = Visit(node, task_id, _visit.get(), calls=earlier.calls if earlier else [])
        self._visits[task_id] = visit
        if self.failed is not None and self.failed.get("task") == task_id:
            self.failed = self.failure = None  # LangGraph tries it again.
        return visit

    def tell_callbacks(self) -> None:
        """Has what LangChain's callbacks tell be told, and kept."""
        if self.token_chunks is not None:
            self.callback_events = CallbackEvents(self.token_chunks.call)

    def take_called(self) -> list[dict[str, Any]]:
        """Returns what callbacks have told and no event has, once."""
        return self.callback_events.take() if self.callback_events else []

    def visit_of(self, task_id: str) -> Visit | None:
        """Returns a task that has begun."""
        return self._visits.get(task_id)

    def write(self, visit: Visit, node: str, value: Any) -> None:
        """Takes what an attempt at a task writes to its stream writer, until it ends or another one begins."""
        if visit.record is None and self._visits.get(visit.task_id) is visit:
            visit.speaks()
            self._custom_writes.write(visit.written, node, value)

    @property
    def written(self) -> list[dict[str, Any]]:
        """What tasks have written and no step has committed."""
        return list(itertools.chain.from_iterable(visit.written.parts for visit in list(self._visits.values())))

    def recorded(self, visit: Visit, record: StepRecord) -> StepRecord:
        """Notes the record of a task that has ended."""
        visit.record, visit.recorded_calls = record, len(visit.calls)
        return record

    def forget(self, steps: Sequence[StepRecord]) -> None:
        """Forgets the tasks whose records are committed."""
        tasks = {step.get("task", "") for step in steps}
        for task_id in tasks:
            self._visits.pop(task_id, None)
        if tasks & self._takers:
            self._row = add_spend(self._row, cost_of(self.attempts[: self._taken]))
            del self.attempts[: self._taken]
            self._taken, self._takers = 0, set()

    def take_attempts(self, task_id: str) -> list[CallRecord]:
        """Returns what attempts before this claim cost, once, for the record of a task."""
        taken, self._taken = self.attempts[self._taken :], len(self.attempts)
        if taken:
            self._takers.add(task_id)
        return taken

    @property
    def stored(self) -> list[ItemWrite]:
        """What tasks have written to the store and no step has committed, of those that failed or ask excepted."""
        return list(itertools.chain.from_iterable(visit.stored for visit in list(self._visits.values())))

    @property
    def open_calls(self) -> list[CallRecord]:
        """The calls of tasks that have not come to their end, or whose records are nowhere but here."""
        records = [*self.handled, self.failed]
        visits = [
            visit
            for visit in self._visits.values()
            if visit.record is None or any(visit.record is record for record in records)
        ]
        return list(itertools.chain.from_iterable(visit.calls for visit in visits))

    @property
    def unrecorded(self) -> list[CallRecord]:
        """All calls that no record has, which attempts to come are charged with."""
        return [*self.attempts, *self.open_calls]

    def wait(self, visit: Visit, away: DependencyAway) -> RunWaits | None:
        """Returns how the run waits for what a task's call was in vain for; None when its wall time is spent."""
        passed = visit.began - self._began
        state = {
            "spend": {**self.spent, "wall_time_s": self._row["wall_time_s"] + passed},
            "budget": self.budget,
        }
        return Attempt(state, self.attempts, self.open_calls, started=visit.began).wait(away)

    @property
    def nodes_applying(self) -> list[str]:
        """The nodes that have ended, and whose step is not committed."""
        return [visit.node for visit in self._visits.values() if visit.record is not None]

    def last_steps(self) -> list[StepRecord]:
        """Returns the records of a step that is never applied: of the tasks that ended, and of the one that failed.

        A decision is in the ledger when its effect is in a checkpoint, so that only that of the failure is one.
        """
        self._charge_open_calls()
        ended = [visit.record for visit in self._visits.values() if visit.record is not None]
        others = [record for record in ended if record is not self.failed]
        steps = [StepRecord(**{**each, "decision": None}) for each in others]
        if self.failed is not None:
            # Also those that have ended, or were given up, since their node failed.
            calls = [
                call
                for visit in self._visits.values()
                if visit.record is None or visit.record is self.failed
                for call in visit.calls[visit.recorded_calls :]
            ]
            steps.append(StepRecord(**{**self.failed, "calls": [*self.failed["calls"], *calls]}))
        return steps

    def begin(self, run_id: UUID, begun: CallUnderWay, kinds: Sequence[str]) -> None:
        """Notes a call that begins. Raises BudgetSpentError when what it takes is used up, those under way included.

        Raises RunStopped.
        """
        self.check_stop()
        with self._lock:
            self.check_budget(kinds)
            self._open[run_id] = begun

    def told(self, run_id: UUID, *, service: str, at_least_once: bool) -> None:
        """Notes where a call under way goes, and whether it may take effect again."""
        if begun := self._open.get(run_id):
            begun.call["service"] = service
            if at_least_once:
                begun.call["at_least_once"] = True

    def under_way(self, run_id: UUID) -> CallUnderWay | None:
        """Returns a call that is under way."""
        return self._open.get(run_id)

    def ended(self, run_id: UUID) -> CallUnderWay | None:
        """Returns a call that was under way."""
        with self._lock:
            return self._open.pop(run_id, None)

    def _charge_open_calls(self) -> None:
        """Notes calls that nobody waits for any more, since whoever made them has failed."""
        for run_id in [*self._open]:
            if begun := self.ended(run_id):
                begun.call["outcome"] = CUT
                begun.estimate()
                self.note(cleaned(begun.call), begun.visit)

    def note(self, call: CallRecord, visit: Visit | None) -> None:
        """Notes a call, of a task if it is known."""
        with self._lock:
            self._spent = add_spend(self._spent, spend_of([call], 0.0))
        (visit.calls if visit else self.attempts).append(call)

    @contextmanager
    def embedding(self, name: str, texts: Sequence[str]) -> Iterator[None]:
        """Notes a call, made inside the context, of a model that embeds texts. Raises BudgetSpentError before it."""
        call = CallRecord(kind=MODEL, name=name, outcome=OK, elapsed_ms=0.0, input_tokens=0, output_tokens=0)
        call["service"], call["estimated"] = MODEL, True
        run_id, begun = uuid4(), CallUnderWay(call, time.perf_counter(), _visit.get())
        self.begin(run_id, begun, MODEL_PARTS)
        try:
            yield
        except BaseException as error:
            self.finish(run_id, type(error).__name__, away=error)
            raise
        call["input_tokens"] = count_tokens_approximately([HumanMessage(each) for each in texts])
        self.finish(run_id, OK)

    def finish(self, run_id: UUID, outcome: str, *, away: BaseException | None = None) -> None:
        """Notes what a call under way came to, once; a run waits for a model that is `away`, if it failed by that."""
        if begun := self.ended(run_id):
            if away is not None and begun.visit and (cause := _cause_of_absence(away)):
                begun.visit.away = away, DependencyAway(f"model {begun.call['name']}", cause)
            call = begun.call
            call["outcome"] = outcome
            call["elapsed_ms"] = round((time.perf_counter() - begun.began) * 1000, 3)
            call["ended_at"] = round(time.time(), 6)
            self.note(cleaned(call), begun.visit)

    @contextmanager
    def open(self) -> Iterator[CallbackHandler]:
        """Makes it the one of all that is called inside the context."""
        token = _session.set(self)
        try:
            yield CallbackHandler(self)
        finally:
            _session.reset(token)

    @contextmanager
    def inside(self, visit: Visit) -> Iterator[None]:
        """Makes a task the one whose calls those inside the context are."""
        token = _visit.set(visit)
        try:
            yield
        finally:
            _visit.reset(token)

    def visit_in(self, namespace: str) -> Visit | None:
        """Returns the task of a checkpoint namespace, `node:task`, those of graphs around it before it."""
        return self._visits.get(namespace.rpartition("|")[2].rpartition(":")[2])


def current_session() -> HostedSession | None:
    """Returns the run that the caller works for; None outside of any."""
    return _session.get()


def current_visit() -> Visit | None:
    """Returns the task that the caller works for; None outside of any."""
    return _visit.get()


class Earlier(Protocol):
    """What is known of an effect that began before."""

    @property
    def ended(self) -> bool:
        """Whether its result is known."""

    @property
    def result(self) -> Any:
        """Its result."""


class Journal(Protocol):
    """What is kept of effects of a run's own functions."""

    async def kept(self, operation: str) -> Any:
        """Returns the result that is kept of an effect; None where there is none."""

    async def begin(self, operation: str, name: str) -> Earlier | None:
        """Writes down that an effect begins; returns what is known of it from before. Raises ClaimLost."""

    async def end(self, operation: str, result: Any) -> None:
        """Keeps the result of an effect. Raises ClaimLost."""


@dataclass
class CallUnderWay:
    """A call that has begun and not ended, which counts against the budget already."""

    call: CallRecord
    began: float
    visit: Visit | None
    # What it says while it is made; None where nobody is to hear.
    message: StreamedMessage | None = None
    # Whether its graph says that nobody is to.
    silent: bool = False
    # What a model was asked.
    asked: Sequence[Any] = ()
    # Whether it may answer in a stream that does not say what that took.
    streams: bool = False
    # What has come of a stream: its characters, and the tokens that its endpoint has told by then.
    said_length: int = 0
    told_tokens: tuple[int, int] = (0, 0)

    def heard(self, text: str, usage: Mapping[str, Any] | None) -> None:
        """Notes what comes of a stream."""
        self.said_length += len(text)
        if usage:
            given, made = self.told_tokens
            self.told_tokens = given + (usage.get("input_tokens") or 0), made + (usage.get("output_tokens") or 0)

    def estimate(self) -> None:
        """Counts about what a model took that was broken off: what it was asked, and what has come of its answer."""
        if self.call["kind"] != MODEL or not self.asked:
            return
        given, made = self.told_tokens
        self.call["input_tokens"] = given or count_tokens_approximately(_messages(self.asked))
        self.call["output_tokens"] = max(made, math.ceil(self.said_length / CHARACTERS_A_TOKEN))
        self.call["estimated"] = True


class CallbackHandler(BaseCallbackHandler):
    """Notes the calls of models and tools wherever they are made, and stops them when the budget is used up."""

    raise_error = True
    # In the thread and the context of the call.
    run_inline = True
    ignore_chain = True
    ignore_retriever = True
    ignore_custom_event = True

    def __init__(self, session: HostedSession) -> None:
        self._session = session

    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[BaseMessage]], *, run_id: UUID, **kwargs: Any
    ) -> None:
        """Begins a call of a chat model. Raises BudgetSpentError."""
        self._begin_model(serialized, run_id, kwargs, messages)

    def on_llm_start(self, serialized: dict[str, Any], prompts: list[str], *, run_id: UUID, **kwargs: Any) -> None:
        """Begins a call of a model. Raises BudgetSpentError."""
        self._begin_model(serialized, run_id, kwargs, prompts)

    def on_llm_new_token(
        self,
        token: str | list[str | dict[str, Any]],
        *,
        chunk: GenerationChunk | ChatGenerationChunk | None = None,
        run_id: UUID,
        **kwargs: Any,
    ) -> None:
        """Tells what a model says, to those who asked for it."""
        del kwargs
        begun, chunks = self._session.under_way(run_id), self._session.token_chunks
        if begun is None:
            return
        said = chunk.message if isinstance(chunk, ChatGenerationChunk) else None
        # What a provider streams as blocks has its text among others.
        text = said.text if said is not None else token if isinstance(token, str) else ""
        begun.heard(text, getattr(said, "usage_metadata", None))
        if begun.silent or chunks is None or not text:
            return
        if begun.message is None:
            if not chunks.wanted:
                return
            node = begun.visit.node if begun.visit else ""
            begun.message = chunks.message(node, (said and said.id) or str(run_id))
            if begun.visit:
                begun.visit.speaks()
        begun.message.say(text)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """Ends a call of a model, with its tokens."""
        del kwargs
        if begun := self._session.under_way(run_id):
            given, made, cached = _tokens(response)
            if begun.streams and not given and not made:
                given, made = _estimated_tokens(begun.asked, response)
                begun.call["estimated"] = True
            begun.call["input_tokens"], begun.call["output_tokens"] = given, made
            if cached:
                begun.call["cached_tokens"] = cached
            self._session.finish(run_id, OK)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Ends a call of a model that failed; one whose endpoint is away can be waited for."""
        del kwargs
        if isinstance(error, asyncio.CancelledError) and (begun := self._session.under_way(run_id)):
            begun.estimate()
        self._session.finish(run_id, type(error).__name__, away=error)

    def on_tool_start(self, serialized: dict[str, Any], input_str: str, *, run_id: UUID, **kwargs: Any) -> None:
        """Begins a call of a tool. Raises BudgetSpentError."""
        del input_str
        self._begin(TOOL, str((serialized or {}).get("name") or kwargs.get("name") or "tool"), run_id, kwargs)

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Ends a call of a tool."""
        del kwargs
        self._session.finish(run_id, "error" if getattr(output, "status", "") == "error" else OK)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Ends a call of a tool that raised."""
        del kwargs
        self._session.finish(run_id, type(error).__name__)

    def _begin_model(
        self, serialized: dict[str, Any] | None, run_id: UUID, kwargs: Mapping[str, Any], asked: Sequence[Any]
    ) -> None:
        parameters, metadata = kwargs.get("invocation_params") or {}, kwargs.get("metadata") or {}
        named = (parameters.get("model"), parameters.get("model_name"), metadata.get("ls_model_name"))
        name = next(filter(None, named), None) or (serialized or {}).get("name") or kwargs.get("name") or "model"
        begun = self._begin(MODEL, str(name), run_id, kwargs)
        begun.silent = any(tag in SILENT for tag in kwargs.get("tags") or ())
        begun.asked, begun.streams = asked, self._ask_to_stream()

    def _ask_to_stream(self) -> bool:
        """Has the models that are asked from now on stream if anybody wants to hear them, and else not."""
        is_heard = self._session.token_chunks is not None and self._session.token_chunks.wanted
        wanted = is_heard or self._session.callback_events is not None
        for method in _STREAMING:
            if wanted:
                setattr(self, method, _as_it_comes)
            else:
                vars(self).pop(method, None)
        return wanted

    def _begin(self, kind: str, name: str, run_id: UUID, kwargs: Mapping[str, Any]) -> CallUnderWay:
        # A thread that somebody has started by themselves has no context, but is told of the namespace.
        namespace = (kwargs.get("metadata") or {}).get(_NAMESPACE, "")
        visit = _visit.get() or self._session.visit_in(str(namespace))
        call = CallRecord(kind=kind, name=name, outcome=OK, elapsed_ms=0.0, input_tokens=0, output_tokens=0)
        call["service"] = IN_PROCESS if kind == TOOL else MODEL
        kinds = ("tool_calls",) if kind == TOOL else MODEL_PARTS
        begun = CallUnderWay(call, time.perf_counter(), visit)
        self._session.begin(run_id, begun, kinds)
        return begun


def _tokens(response: LLMResult) -> tuple[int, int, int]:
    """Returns tokens given and made, and how many of those given the endpoint had cached."""
    given = made = cached = 0
    for generation in itertools.chain.from_iterable(response.generations):
        if isinstance(generation, ChatGeneration):
            usage = getattr(generation.message, "usage_metadata", None) or {}
            given, made = given + (usage.get("input_tokens") or 0), made + (usage.get("output_tokens") or 0)
            cached += (usage.get("input_token_details") or {}).get("cache_read") or 0
    return given, made, min(cached, given)


def _estimated_tokens(asked: Sequence[Any], response: LLMResult) -> tuple[int, int]:
    """Returns about how many tokens a call took: few endpoints say it in a stream that are not asked to."""
    answers = [generation for generations in response.generations for generation in generations]
    said = [each.message if isinstance(each, ChatGeneration) else HumanMessage(each.text) for each in answers]
    return count_tokens_approximately(_messages(asked)), count_tokens_approximately(said)


def _messages(asked: Sequence[Any]) -> list[Any]:
    return [HumanMessage(each) if isinstance(each, str) else each for each in _flat(asked)]


def _flat(asked: Sequence[Any]) -> Iterator[Any]:
    for each in asked:
        yield from each if isinstance(each, list) else (each,)


def _as_it_comes(_run_id: UUID, output: Any) -> Any:
    return output


def _cause_of_absence(error: BaseException) -> str:
    """Returns why a model's endpoint is away, by what went wrong below; empty where it is not."""
    seen: BaseException | None = error
    while seen is not None:
        status = getattr(seen, "status_code", None) or getattr(getattr(seen, "response", None), "status_code", None)
        if isinstance(status, int):
            return f"http_{status}" if status in _AWAY else ""
        if isinstance(seen, httpx.TransportError | ConnectionError):
            return type(seen).__name__
        seen = seen.__cause__ or seen.__context__
    return ""
