"""What the lease protocol promises, as a model in memory: the states of runs, and whose claim on each is effective."""

from __future__ import annotations

from dataclasses import dataclass, field

PENDING, RUNNING, AWAITING_INPUT = "PENDING", "RUNNING", "AWAITING_INPUT"
SUCCEEDED, CANCELLED, NEEDS_REVIEW = "SUCCEEDED", "CANCELLED", "NEEDS_REVIEW"
ACTIVE = (RUNNING, AWAITING_INPUT)


@dataclass(frozen=True)
class Held:
    """A claim as its owner knows it; it may long have ceased to be effective."""

    run_id: str
    owner: str
    epoch: int
    claim_id: str | None = None


@dataclass
class ModelRun:
    """A run: its state, its records, and who executes it."""

    run_id: str
    thread: str | None
    state: str
    epoch: int = 0
    owner: str | None = None
    events: int = 0
    decisions: int = 0
    question: str = ""
    answered: bool = False
    cancel_requested: bool = False
    # Its owner's lease has run out; or its owner never got the answer to its claim.
    expired: bool = False
    stray: bool = False

    def claimed(self, owner: str, claim_id: str | None) -> Held:
        """Moves a pending run to its next owner."""
        assert self.state == PENDING, f"run {self.run_id} was claimed while {self.state}"
        self.state, self.owner = RUNNING, owner
        self.epoch += 1
        self.events += 1
        self.expired = self.stray = False
        return Held(self.run_id, owner, self.epoch, claim_id)

    def freed(self) -> None:
        """Makes the run pending again."""
        self.state, self.owner, self.expired, self.stray = PENDING, None, False, False

    def given_up(self) -> None:
        """Takes the run from an owner who is gone or lets go: pending again, unless it is to be cancelled."""
        if self.cancel_requested:
            self.left(CANCELLED)
        else:
            self.freed()

    def answer_is_taken(self) -> bool:
        """Whether an answer to the last question is taken, or has been, in the same words by the same caller."""
        return self.state == AWAITING_INPUT or self.answered

    def left(self, state: str) -> None:
        """Moves the run out of its owner's hands, with an event that says so."""
        self.state, self.owner = state, None
        self.events += 1

    def honours(self, held: Held) -> bool:
        """Whether a claim is effective: only then may its owner write."""
        return self.state == RUNNING and self.epoch == held.epoch


@dataclass
class Model:
    """All runs, and which owners are alive."""

    runs: dict[str, ModelRun] = field(default_factory=dict)
    alive: set[str] = field(default_factory=set)
    # Owners whose own lease has run out.
    lapsed: set[str] = field(default_factory=set)

    def claimed(self, run_id: str, owner: str, claim_id: str | None) -> Held:
        """Moves a pending run to its next owner."""
        held = self.runs[run_id].claimed(owner, claim_id)
        self.runs[run_id].expired = owner in self.lapsed
        return held

    def claimable(self) -> list[str]:
        """The pending runs that an owner may claim: of a thread the oldest, and only when none is active."""
        found: list[str] = []
        busy = {run.thread for run in self.runs.values() if run.thread and run.state in ACTIVE}
        for run in self.runs.values():  # in the order of their creation
            if run.state != PENDING or run.thread in busy:
                continue
            found.append(run.run_id)
            if run.thread:
                busy.add(run.thread)
        return found

    def orphans(self, *lookers: str) -> set[str]:
        """The runs that at least one of those who look must find without an owner; none takes its own for one."""
        return {
            run.run_id
            for run in self.runs.values()
            if run.state == RUNNING
            and (run.expired or run.owner not in self.alive)
            and any(run.owner != looker for looker in lookers)
        }

    def strays(self, owner: str) -> set[str]:
        """The runs of an owner that it does not know of."""
        return {run.run_id for run in self.runs.values() if run.state == RUNNING and run.stray and run.owner == owner}
