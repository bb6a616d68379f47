"""A run as the engine knows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple, Self

from services.kit.identity.caller import Caller
from services.kit.outcome import Outcome
from services.runtime.agents.run_key import RunKey
from services.runtime.routing.recorder import CallRecord
from services.runtime.routing.state import Budget, Spend

# Beside the parts of a stored budget: where those come from that are not the agent's own.
ORIGINS = "origins"


class RunState(StrEnum):
    """Where a run is in its life."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    AWAITING_INPUT = "AWAITING_INPUT"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    NEEDS_REVIEW = "NEEDS_REVIEW"

    @property
    def ended(self) -> bool:
        """True when nothing more can happen to the run."""
        return self in ENDED


ENDED = frozenset({RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED, RunState.NEEDS_REVIEW})


class ActiveRunPolicy(StrEnum):
    """What to do with a new run when its thread has an active one."""

    REFUSE = "refuse"
    QUEUE = "queue"
    CANCEL_ACTIVE = "cancel_active"
    ROLL_BACK_ACTIVE = "roll_back_active"


@dataclass(frozen=True)
class InputRequest:
    """A question that a run asks a person.

    With `any_text`, any text will do besides the options. `expires_to_graph` says that the graph decides what it means
    when nobody answers in time; `expired`, that nobody has. Who may answer, and what it is about, is as in
    `routing/asking.py`. `screened` says that what is answered in words of somebody's own is screened first.
    """

    input_request_id: str
    question: str
    options: tuple[str, ...]
    expires_at: datetime
    any_text: bool = False
    expires_to_graph: bool = False
    expired: bool = False
    for_caller: bool = True
    roles: tuple[str, ...] = ()
    escalated_from: str = ""
    plan_hash: str = ""
    detail: Mapping[str, Any] | None = None
    screened: bool = False
    # Of interrupts of a hosted graph: they were answered by their ids, and not with a text.
    by_id: bool = False

    @property
    def interrupts(self) -> Sequence[Mapping[str, Any]]:
        """The interrupts that a hosted graph asks with, as `hosted/interrupts.py` has them; none for other agents."""
        return (self.detail or {}).get("interrupts") or ()

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Self:
        """Reads what its caller is told of it from JSON."""
        # Questions of an earlier release say nothing of these.
        flags = {name: data.get(name, False) for name in ("any_text", "expires_to_graph", "expired", "by_id")}
        return cls(
            data["input_request_id"],
            data["question"],
            tuple(data["options"]),
            datetime.fromisoformat(data["expires_at"]),
            detail=data.get("detail"),
            **flags,
        )

    def to_data(self) -> dict[str, Any]:
        """Returns it as JSON."""
        return {
            "input_request_id": self.input_request_id,
            "question": self.question,
            "options": list(self.options),
            "expires_at": self.expires_at.astimezone(UTC).isoformat(),
            "any_text": self.any_text,
            "expires_to_graph": self.expires_to_graph,
            "for_caller": self.for_caller,
            "roles": list(self.roles),
            "escalated_from": self.escalated_from,
            "plan_hash": self.plan_hash,
            "detail": self.detail,
            "screened": self.screened,
        }


@dataclass(frozen=True)
class NewRun:
    """What it takes to create a run."""

    agent: str
    graph_version: str
    caller: Caller
    input: bytes
    budget: Budget
    correlation_id: str
    budget_origins: Mapping[str, str] = field(default_factory=dict)
    thread_id: str | None = None
    request_id: str | None = None
    active_run_policy: ActiveRunPolicy = ActiveRunPolicy.REFUSE
    traceparent: str = ""
    key: RunKey | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    title: str = ""
    recorded: bool = False
    # What it waits for from the beginning, since nobody who has its agent is seen.
    waiting_for: str = ""
    # Whoever creates it is about to watch it with its chunks.
    chunks_asked: bool = False
    # What LangChain's callbacks tell is kept.
    callback_events: bool = False


@dataclass(frozen=True)
class ForkedFrom:
    """What a run goes on from: a step of another, and what its state was changed by, as if by the node `as_node`.

    With `only_state` it ends with the change.
    """

    run_id: str
    checkpoint_id: str
    step: int
    update: dict[str, Any] | None = None
    as_node: str = ""
    only_state: bool = False

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Self:
        """Returns it as it is stored, without what only a later release knows."""
        known = {each.name for each in fields(cls)}
        return cls(**{name: value for name, value in stored.items() if name in known})

    @property
    def stored(self) -> dict[str, Any]:
        """As it is stored: without what is as by default, so that a release that lacks the field reads the rest."""
        return {each.name: value for each in fields(self) if (value := getattr(self, each.name)) != each.default}

    @property
    def changes(self) -> bool:
        """Whether the state, or what is to run next, is another than after that step."""
        return self.update is not None or bool(self.as_node)


class ThreadTurn(NamedTuple):
    """An earlier run of a thread: its input and output as serialized protos, and the trace that it is in."""

    input: bytes
    output: bytes
    traceparent: str


@dataclass(frozen=True)
class RunRecord:
    """A row of the table `runs`. Input and output are serialized protos.

    `outcome` is a word of `Outcome`, or of a later release; empty of a run that has not ended. `retryable` is None of
    one that an earlier release ended. `title` is what it was asked, in a line.
    """

    run_id: str
    agent: str
    graph_version: str
    caller: Caller
    thread_id: str | None
    correlation_id: str
    state: RunState
    input: bytes
    output: bytes | None
    outcome: str
    stop_reason: str
    retryable: bool | None
    error: str
    input_request: InputRequest | None
    answer: str | None
    budget: Budget
    budget_origins: Mapping[str, str]
    spend: Spend
    epoch: int
    claim_id: str | None
    idle_claims: int
    not_before: datetime | None
    waiting_for: str
    attempts: list[CallRecord]
    event_count: int
    traceparent: str
    policy_id: str | None
    labels: Mapping[str, str]
    recorded: bool
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    title: str = ""
    forked_from: ForkedFrom | None = None
    # The run that took its steps out of the thread's state.
    rolled_back_by: str | None = None
    # Whether what LangChain's callbacks tell is kept.
    callback_events: bool = False
    # Whether anybody at another replica asked for its chunks when it was claimed.
    chunks_asked: bool = False

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """Reads a row."""
        request = row["input_request"]
        same = ("agent", "graph_version", "thread_id", "correlation_id", "output", "outcome", "stop_reason")
        also = ("epoch", "idle_claims", "waiting_for", "attempts", "event_count", "traceparent", "input")
        kept = ("retryable", "error", "answer", "policy_id", "labels", "title", "recorded")
        times = ("not_before", "created_at", "started_at", "ended_at")
        return cls(
            run_id=str(row["run_id"]),
            claim_id=str(row["claim_id"]) if row["claim_id"] else None,
            caller=Caller(row["subject"], frozenset(row["roles"]), row["claims"]),
            state=RunState(row["state"]),
            input_request=InputRequest.of(request) if request else None,
            budget=Budget(**{name: value for name, value in row["budget"].items() if name != ORIGINS}),  # type: ignore[typeddict-item]
            budget_origins=row["budget"].get(ORIGINS, {}),
            spend=Spend(
                model_calls=row["model_calls"],
                tool_calls=row["tool_calls"],
                input_tokens=row["input_tokens"],
                output_tokens=row["output_tokens"],
                wall_time_s=row["wall_time_s"],
            ),
            forked_from=ForkedFrom.of(row["forked_from"]) if row["forked_from"] else None,
            rolled_back_by=str(row["rolled_back_by"]) if row["rolled_back_by"] else None,
            callback_events=row["callback_events"],
            chunks_asked=row.get("chunks_asked", False),
            **{name: row[name] for name in (*same, *also, *kept, *times)},
        )


@dataclass(frozen=True)
class Ending:
    """How a run ended."""

    state: RunState
    output: bytes | None = None
    stop_reason: str = ""
    error: str = ""
    outcome: Outcome = Outcome.UNFINISHED
    retryable: bool = False


class Due(NamedTuple):
    """What there are any of: pending runs, among them suspect ones, running runs, and questions that are overdue."""

    pending: bool
    suspects: bool
    running: bool
    overdue: bool


@dataclass(frozen=True)
class Orphans:
    """Runs without a live owner: how many there were, and which of them have none now: they go on, or are cancelled."""

    found: int
    freed: list[RunRecord]


@dataclass(frozen=True)
class OwnedRun:
    """A run that the database says a replica holds, and by which claim."""

    run_id: str
    epoch: int
    claim_id: str | None
    cancel_requested: bool
