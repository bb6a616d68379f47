"""A graph's lifted tables written down, each held against the function that it was lifted from, on many states."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import io
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Final

from signalbox_routing.facts import READ, as_dict
from signalbox_routing.table import END, NoWayError, Router, Rule

from services.runtime.hosted.adoption.edge_edit import TableEdge
from services.runtime.hosted.adoption.table_source import Imports, NotAdoptedError, WrittenTable, module_source, written
from services.runtime.hosted.adoption.test_source import tests_source
from services.runtime.hosted.lifting.lifted import Graph, LiftedGraph, LiftedRouter, PathBranch, branches_of, types_of
from services.runtime.hosted.lifting.states import States
from services.runtime.hosted.lifting.tables import looking_same

NOWHERE: Final = "nowhere"
TRIED: Final = "signalbox_adopted"
# Of states, as functions raise on some.
ATTEMPTS: Final = 8
LONGEST_STATE: Final = 2000
_PLAIN: Final[Mapping[Any, Any]] = {str: str, int: int, bool: bool, float: (int, float)}


@dataclass(frozen=True)
class Adopted:
    """A graph's tables as a module of source with its tests, and the edges that they are for.

    `left` says by router why an edge stays as it is; `untested` names rules that no state was found for.
    """

    module: str
    tests: str
    edges: Sequence[TableEdge]
    left: Mapping[str, str]
    untested: Sequence[str] = ()
    states: int = 0


@dataclass
class _Held:
    """What came of holding a table against its function."""

    states: int = 0
    # A state for each, and how well it shows it.
    by_rule: dict[str, tuple[Rule, str, Any]] = field(default_factory=dict)
    worth: dict[str, tuple[int, int]] = field(default_factory=dict)


def adopted(graph: Graph, agent: str, lifted: LiftedGraph, module: str, count: int) -> Adopted:
    """Returns the tables of a graph as source that agrees with its functions on so many states each.

    A table that can't be written down, or disagrees, is left out, and said why.
    """
    limits_class = re.sub(r"(?:^|[_-])([A-Za-z0-9])", lambda each: each[1].upper(), agent) + "Limits"
    left = {each.router: each.reason for each in lifted.others}
    tables, imports = dict[str, tuple[PathBranch, WrittenTable]](), Imports()
    types = types_of(graph)
    nodes = {each.router: known for each, known in branches_of(graph, agent)}
    held, names = dict[str, _Held](), set[str]()
    for branch in lifted.branches:
        router = lifted.routers.get(branch.router)
        if router is None:
            continue
        name = _name_of(branch, names)
        try:
            one = Imports()
            table = written(router, branch, name, limits_class, one)
            alone = table_in(module_source(agent, [table], lifted.limits, limits_class, one), name)
            found = _held_against(alone, router, branch, nodes[branch.router], types, count)
        except NotAdoptedError as error:
            left[branch.router] = f"it {error}"
            continue
        written(router, branch, name, limits_class, imports)
        names.add(name)
        tables[branch.router], held[name] = (branch, table), found
    source = module_source(agent, [table for _, table in tables.values()], lifted.limits, limits_class, imports)
    rules = {
        name: {
            each.name: held[name].by_rule[each.name]
            for each in table_in(source, name).rules
            if each.name in found.by_rule
        }
        for name, found in held.items()
    }
    missing = [f"{name}.{rule}" for name, rule in _untested(source, rules)]
    edges = [
        TableEdge(branch.router, branch.node, table.name, branch.function)
        for branch, table in tables.values()
        if branch.function is not None
    ]
    return Adopted(
        source, tests_source(module, rules), edges, left, missing, sum(each.states for each in held.values())
    )


def _untested(source: str, rules: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for name, tested in rules.items():
        yield from ((name, rule.name) for rule in table_in(source, name).rules if rule.name not in tested)


def _name_of(branch: PathBranch, taken: set[str]) -> str:
    said = re.sub(r"[^a-z0-9]+", "_", branch.router.partition(".")[2].lower()).strip("_")
    name, number = re.sub(r"_+", "_", said), 2
    while name in taken:
        name, number = f"{said}_{number}", number + 1
    return name


def table_in(source: str, name: str) -> Router[Any, Any]:
    """Makes a module of tables, and returns one of them."""
    module = ModuleType(TRIED)
    # Dataclasses look their annotations up by their module's name.
    sys.modules[TRIED] = module
    try:
        exec(compile(source, "<tables>", "exec"), vars(module))  # noqa: S102 - what was written here, to try it
    finally:
        del sys.modules[TRIED]
    table: Router[Any, Any] = vars(module)[name]
    return table


def _held_against(
    table: Router[Any, Any],
    lifted: LiftedRouter,
    branch: PathBranch,
    nodes: Sequence[str],
    types: Mapping[str, Any],
    count: int,
) -> _Held:
    function, ends = branch.function, branch.branch.ends
    if function is None:
        raise NotAdoptedError("is no function")
    found = _Held()
    ends = ends if ends is not None else {name: name for name in nodes}
    states = States(lifted.table, lifted.arguments[0], lifted.router.policy)
    for _ in range(count * ATTEMPTS):
        if found.states >= count:
            break
        state = states.one()
        if not _is_of(types, state):
            continue
        by_function, by_table = outcome(function, state, ends), outcome(table, state, None)
        if by_function != by_table:
            told = f"{by_table} where the function leads to {by_function}, on {str(state)[:300]}"
            raise NotAdoptedError(f"comes to something else as a table: {told}")
        found.states += by_function != NOWHERE
        _note(found, table, state)
    if not found.states:
        raise NotAdoptedError(
            f"raises on each of {count * ATTEMPTS:,} states that were made, and could not be compared"
        )
    return found


def _is_of(types: Mapping[str, Any], state: Any) -> bool:
    """Whether plain fields of a state are of the types that the graph's state declares."""
    if not isinstance(state, dict):
        return True
    return all(isinstance(value, _PLAIN.get(types.get(name), object)) for name, value in state.items())


def outcome(route: Callable[[Any], Any], state: Any, ends: Mapping[Any, str] | None) -> str:
    """Returns where a function or a table leads from a state; NOWHERE for one on which it raises."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            result = route(state)
            result = asyncio.run(result) if inspect.iscoroutine(result) else result
        return _place_of(result, ends)
    except Exception:  # noqa: BLE001 - whatever it raises, nothing is decided
        return NOWHERE


def _place_of(result: Any, ends: Mapping[Any, str] | None) -> str:
    """Returns where LangGraph goes by a result. Raises KeyError."""
    places = []
    for each in result if isinstance(result, list | tuple) else [result]:
        if each is None:
            raise KeyError(each)
        if ends is None:
            places.append(str(getattr(each, "value", each)) if not isinstance(each, str) else str.__str__(each))
        else:
            known = [to for label, to in ends.items() if looking_same(label, each)]
            places.append(known[0] if known else ends[each])
    return ", ".join(dict.fromkeys(places)) or END


def _note(found: _Held, table: Router[Any, Any], state: Any) -> None:
    """Keeps for each rule the state that shows it best: of values as they are meant, and short."""
    try:
        facts = table.facts(state)
        rule, destination = table.destination_of(facts)
        if table.decide(state).rule != rule.name:
            return
    except NoWayError:
        if not rule.raises:
            return
    except Exception:  # noqa: BLE001 - it is no state for a test
        return
    strange = sum(not _is_as_kept(table, name, kept, state) for name, kept in as_dict(facts).items())
    worth = strange, len(str(state))
    if worth[1] < LONGEST_STATE and worth < found.worth.get(rule.name, (sys.maxsize, 0)):
        found.worth[rule.name], found.by_rule[rule.name] = worth, (rule, destination, state)


def _is_as_kept(table: Router[Any, Any], name: str, kept: Any, state: Any) -> bool:
    try:
        read = table.facts_type.__dataclass_fields__[name].metadata[READ](state)
    except Exception:  # noqa: BLE001 - the state has no such thing
        return False
    return isinstance(kept, bool) or (type(read) is type(kept) and bool(read == kept))
