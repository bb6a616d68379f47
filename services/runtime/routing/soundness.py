"""What would only show when a run comes to it, found when a graph is built, and said in words."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from langgraph.channels.base import BaseChannel
from signalbox_routing.table import END, Router

from services.runtime.errors import InvalidGraphError
from services.runtime.routing.state import REPLACED, STATUS, AgentState, MessageState

_GROWING = (list, set)


def reducers_of(state: type) -> dict[str, Callable[[Any, Any], Any]]:
    """Returns the reducer of each state field that has one."""
    found = {}
    for name, hint in get_type_hints(state, include_extras=True).items():
        metadata = getattr(hint, "__metadata__", ())
        if metadata and callable(metadata[-1]) and not isinstance(metadata[-1], type):
            found[name] = metadata[-1]
    return found


def check_state_type(agent: str, state: type) -> None:
    """Raises InvalidGraphError for a field that loses what was in it before, and does not say that it means to."""
    hints, reducers = get_type_hints(state, include_extras=True), reducers_of(state)
    of_messages = get_type_hints(MessageState, include_extras=True)
    for name, shared in get_type_hints(AgentState, include_extras=True).items():
        if hints.get(name) not in (shared, of_messages[name]):
            raise InvalidGraphError(
                f"{agent}: {state.__name__}.{name} is not what every agent's state has: leave it out, "
                "AgentState declares it with its reducer"
            )
    for name, hint in hints.items():
        said = getattr(hint, "__metadata__", ())
        is_channel = any(isinstance(each, BaseChannel) for each in said)
        if _grows(hint) and name not in reducers and REPLACED not in said and not is_channel:
            raise InvalidGraphError(
                f"{agent}: {state.__name__}.{name} is a list or a set without a reducer, so what a node adds takes "
                "the place of all that was there: make it Annotated[…, append], or Annotated[…, REPLACED] to mean it"
            )


def check_destinations(agent: str, entry: str, destinations: Mapping[str, Mapping[str, str]]) -> None:
    """Raises InvalidGraphError for a way that leads nowhere; `destinations` are by node."""
    for place, leads_to in [("the entry", [entry]), *destinations.items()]:
        for destination in leads_to:
            if destination not in destinations and destination != END:
                known = ", ".join(destinations)
                raise InvalidGraphError(f"{agent}: {place} leads to {destination!r}, and there are only {known}")


def check_status(agent: str, node: str, router: Router[Any, Any] | None, then: str) -> None:
    """Raises InvalidGraphError for a node that may be a run's last, where nothing says how the run has ended."""
    for how in _ends_without_status(router, then):
        raise InvalidGraphError(
            f"{agent}: after the node {node!r} a run may end {how}, and nothing sets its status: "
            f"let the node set `{STATUS}` and say so with concludes=True, or let the rule set it"
        )


def check_asking(agent: str, node: str, *, asks: bool, more: bool) -> None:
    """Raises InvalidGraphError for a node that asks a person and does more than that."""
    if asks and more:
        raise InvalidGraphError(
            f"{agent}: the node {node!r} asks a person, and so runs again from its start with the answer: "
            "let other nodes call, act and run graphs"
        )


def _ends_without_status(router: Router[Any, Any] | None, then: str) -> Iterator[str]:
    if router is None:
        if then == END:
            yield "as it always leads to the end"
        return
    for rule in router.rules:
        if END in rule.destinations and STATUS not in rule.update:
            yield f"by the rule {rule.name!r}"


def _grows(hint: Any) -> bool:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _grows(arguments[0])
    if origin in (Union, types.UnionType):
        return any(_grows(each) for each in arguments)
    return (origin or hint) in _GROWING
