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
    # The lease has run out; or it is the one of a claim whose answer was lost, and has got old.
    expired: bool = False
    stray: bool = False

    def claimed(self, owner: str) -> Held:
        """Moves a pending run to its next owner."""
        assert self.state == PENDING, f"run {self.run_id} was claimed while {self.state}"
        self.state, self.owner = RUNNING, owner
        self.epoch += 1
        self.events += 1
        self.expired = self.stray = False
        return Held(self.run_id, owner, self.epoch)

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
        """Whether an answer to the last question is taken, or has been by a run that is still under way."""
        return self.state == AWAITING_INPUT or (self.answered and self.state in (PENDING, RUNNING))

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

    def orphans(self, looking: str) -> set[str]:
        """The runs that an owner who looks must find without one."""
        return {
            run.run_id
            for run in self.runs.values()
            if run.state == RUNNING
            and (run.expired or run.owner not in self.alive or (run.stray and run.owner == looking))
        }
