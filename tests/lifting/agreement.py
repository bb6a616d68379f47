"""How a table and the function that it was lifted from come out on many states."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from signalbox_routing.table import END, Router

from services.runtime.hosted.adoption.adopted import NOWHERE, outcome
from services.runtime.hosted.lifting.lifted import facts_reader
from services.runtime.hosted.lifting.looking import NotLookedAtError
from services.runtime.hosted.lifting.states import States
from services.runtime.hosted.lifting.tables import LiftedLimits, Table, table_of
from services.runtime.hosted.lifting.unfolding import Unfolded, unfolded

STATES = 10_000


@dataclass
class Agreement:
    """What came of it: states, each another, on which both decided; on which the function raised; that were refused.

    `repeated` are those that had been made before.
    """

    decided: int = 0
    repeated: int = 0
    raised: int = 0
    refused: int = 0
    rules: dict[str, int] = field(default_factory=dict)
    disagreements: list[tuple[Any, str, str]] = field(default_factory=list)

    @property
    def is_exhausted(self) -> bool:
        """Whether nearly all that is made has been made before: no more states differ in what is asked."""
        return self.repeated > self.decided * 5


@dataclass
class Lifted:
    """A path function's table with its limits."""

    unfolded: Unfolded
    table: Table
    router: Router[Any, Any]


def lift(function: Callable[..., Any], ends: Mapping[Any, str] | None = None, nodes: Sequence[str] = ()) -> Lifted:
    """Returns the table of a function by itself. Raises NotLiftedError."""
    limits, expression = LiftedLimits("alone"), unfolded(function)
    table = table_of(expression, ends, nodes, limits)
    router: Router[Any, Any] = Router(
        "alone.route", facts=facts_reader(table, expression), policy=limits.finished(), rules=table.rules
    )
    return Lifted(expression, table, router)


def agreement(
    lifted: Lifted,
    function: Callable[..., Any],
    ends: Mapping[Any, str] | None = None,
    nodes: Sequence[str] = (),
    count: int = STATES,
    attempts: int = 4,
) -> Agreement:
    """Decides on so many different states by both; makes so many times that, as functions raise on some."""
    found = Agreement()
    if ends is None and nodes:
        # A result that is no node leads nowhere.
        ends = {name: name for name in (*nodes, END)}
    states = States(lifted.table, lifted.unfolded.arguments[0], lifted.router.policy)
    seen = set[str]()
    for _ in range(count * attempts):
        if found.decided >= count:
            break
        state = states.one()
        if (told := repr(state)) in seen:
            found.repeated += 1
            continue
        seen.add(told)
        if (place := outcome(function, state, ends)) == NOWHERE:
            found.raised += 1
            continue
        try:
            decision = lifted.router.decide(state)
        except NotLookedAtError:
            found.refused += 1
            continue
        found.decided += 1
        found.rules[decision.rule] = found.rules.get(decision.rule, 0) + 1
        if decision.destination != place:
            found.disagreements.append((state, place, decision.destination))
    return found
