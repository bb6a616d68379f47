"""What a node knows of the run it works for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Self

from services.kit.identity.caller import Caller
from services.runtime.routing.recorder import CallRecord, LeadingDecision
from services.runtime.routing.stopping import Stop


@dataclass(frozen=True)
class RunContext:
    """A claimed run: its caller, its epoch, and what gives its calls the token for the service they go to.

    `acting_token` gives those for tools that write; only nodes that act are handed it. `attempts` is what attempts at
    the next node cost before this claim; the node's step takes it over. `led_by` is the decision that led to the next
    node, where it was made before this claim; `answered` holds the question that this claim brings it the answer to.
    `stop` breaks its nodes off.
    """

    run_id: str
    correlation_id: str
    caller: Caller
    epoch: int
    token: Callable[[str], str]
    attempts: list[CallRecord] = field(default_factory=list)
    acting_token: Callable[[str], str] | None = None
    led_by: list[LeadingDecision] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)
    stop: Stop = field(default_factory=Stop)

    def end_beginning(self) -> None:
        """Forgets what came before this claim: a node has taken it over."""
        self.attempts.clear()
        self.led_by.clear()
        self.answered.clear()

    def of_node(self, *, acts: bool) -> Self:
        """Returns the run as a node gets it: its one kind of token, and no way to the other."""
        return replace(self, token=(acts and self.acting_token) or self.token, acting_token=None)


@dataclass(frozen=True)
class NodeContext:
    """The run, the checkpoint that a node started from, and the rule that led to it: none where no router did."""

    run: RunContext
    checkpoint_id: str
    led_by: str = ""
