"""Holds a node to what it declares: a run that leaves the model is one about which nothing has been shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from signalbox_routing.table import Router, State, StateUpdate

from services.runtime.errors import RouterFailed, UndeclaredChange
from services.runtime.routing.effects import Outcome, incompatible

Reducers = Mapping[str, Callable[[Any, Any], Any]]


class Declaration:
    """What one node of a graph may change, of the facts that the graph's tables read."""

    def __init__(
        self, node: str, outcomes: Sequence[Outcome], routers: Sequence[Router[Any, Any]], reducers: Reducers
    ) -> None:
        self._node = node
        self._outcomes = outcomes
        self._routers = routers
        self._reducers = reducers

    def check(self, before: State, update: StateUpdate, led_by: str) -> None:
        """Checks what the node has changed; what it has spent is no doing of its. Raises UndeclaredChange."""
        changed = {name: value for name, value in update.items() if name != "spend"}
        known, after = self._facts(before), self._facts(project(before, changed, self._reducers))
        if wrong := incompatible(self._outcomes, known, after, led_by):
            raise UndeclaredChange(f"the node {self._node!r} is not what it declares: {wrong}")

    def check_rule(self, before: State, rule: str, update: StateUpdate) -> None:
        """Checks that a rule changes the facts that are called as the state it changes, and no others.

        Raises UndeclaredChange.
        """
        known, after = self._facts(before), self._facts(project(before, update, self._reducers))
        expected = {**known, **{name: value for name, value in update.items() if name in known}}
        for name in expected.keys() & update.keys() & self._reducers.keys():
            expected[name] = self._reducers[name](known[name], update[name])
        if wrong := {name: value for name, value in after.items() if value != expected[name]}:
            raise UndeclaredChange(f"the rule {rule!r} makes {wrong} of facts that its update does not name so")

    def _facts(self, state: State) -> dict[str, Any]:
        known: dict[str, Any] = {}
        for router in self._routers:
            try:
                facts = router.facts(state)
            except Exception as error:
                raise RouterFailed(
                    f"the router {router.name} raised {type(error).__name__}; see the run's trace"
                ) from error
            for name in router.facts_read:
                value = getattr(facts, name)
                if known.setdefault(name, value) != value:
                    told = f"{name} is {known[name]!r} to one router and {value!r} to {router.name}"
                    raise UndeclaredChange(f"{told}: a word for two things")
        return known


def project(state: State, update: StateUpdate, reducers: Reducers) -> dict[str, Any]:
    """Returns the state as it will be once the update is applied, for the router that decides in the same superstep."""
    applied = dict(state)
    for name, value in update.items():
        reduce = reducers.get(name)
        applied[name] = reduce(state[name], value) if reduce and name in state else value
    return applied
