"""What one transaction does for a call: its turn, the change if all is as it was read, and the record."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from services.graph_executor.bolt import BoltTransaction
from services.graph_executor.elements import Change, EdgeChange, EdgeName, EdgeState, NodeState
from services.graph_executor.policy import GraphPolicy
from services.graph_executor.records import (
    LOOK_UP,
    RESULT_LABEL,
    RUN_LABEL,
    TURN_LABEL,
    call_key,
    kept_properties,
    look_up_parameters,
    read_look_up,
    run_key,
    turned,
)
from services.graph_executor.store import Record
from services.graph_executor.stored_elements import StoredElements
from services.kit.tools.effects import Overtaken

_TAKE_TURN: Final = (
    f"MERGE (turn:{TURN_LABEL} {{key: 'turn'}}) SET turn.taken = coalesce(turn.taken, 0) + 1 RETURN turn.taken"
)
_COUNT_CALL: Final = (
    f"MERGE (run:{RUN_LABEL} {{key: $run}}) "
    "SET run.epoch = $epoch, run.calls = coalesce(run.calls, 0) + 1 RETURN run.calls"
)
_KEEP: Final = f"CREATE (kept:{RESULT_LABEL} {{key: $key}}) SET kept += $record"
_UNDONE: Final = f"MATCH (kept:{RESULT_LABEL} {{key: $key}}) RETURN kept.undone"
_TURN: Final = (
    f"UNWIND $rows AS row MATCH (kept:{RESULT_LABEL} {{key: row.key}}) SET kept.undone = row.undone RETURN count(kept)"
)


async def take_turn(transaction: BoltTransaction, record: Record | None = None) -> None:
    """Makes others that write to the graph wait. Raises Overtaken if a record's call must not take effect."""
    await transaction.rows(_TAKE_TURN, {})
    if record is not None:
        seen, _ = read_look_up(await transaction.rows(LOOK_UP, look_up_parameters(record.call)))
        if seen.kept is not None or seen.epoch > record.call.epoch:
            raise Overtaken


async def keep(transaction: BoltTransaction, record: Record) -> None:
    """Keeps a record."""
    call = record.call
    [[number]] = await transaction.rows(_COUNT_CALL, {"run": run_key(call), "epoch": call.epoch})
    kept = {**kept_properties(record), "number": number}
    await transaction.rows(_KEEP, {"key": call_key(call), "record": kept})


async def make(transaction: BoltTransaction, policy: GraphPolicy, record: Record) -> None:
    """Makes a record's change. Raises Overtaken where something is not as it was read."""
    for first in record.turns[:1]:
        if await transaction.rows(_UNDONE, {"key": first}) != [[False]]:
            raise Overtaken
    change = record.change
    await _check(StoredElements(policy, transaction.rows), policy, change)
    if record.turns:
        await transaction.rows(_TURN, {"rows": turned(record.turns)})
    for text, parameters in _statements(change):
        await transaction.rows(text, parameters)


async def _check(stored: StoredElements, policy: GraphPolicy, change: Change) -> None:
    for node in change.nodes:
        _same(await stored.node(node.name), node.before)
    checked: set[EdgeName] = set()
    for node in change.nodes:
        if node.before and not node.after:
            # Those of the change, and no others.
            held = dict(await stored.edges_of(node.name, policy.limits.node_edges + len(change.edges)))
            wanted = {each.name: each.before for each in change.edges if node.name in (each.name.start, each.name.end)}
            if set(held) != {name for name, before in wanted.items() if before}:
                raise Overtaken
            for name, state in held.items():
                _same(state, wanted[name])
            checked |= set(wanted)
    for edge in change.edges:
        if edge.name not in checked:
            _same(await stored.edge(edge.name), edge.before)
    made = {end for each in change.edges if each.after and not each.before for end in (each.name.start, each.name.end)}
    for end in sorted(made - {each.name for each in change.nodes}):
        if await stored.node(end) is None:
            raise Overtaken


def _same(found: NodeState | EdgeState | None, read: NodeState | EdgeState | None) -> None:
    if (found and found.revision) != (read and read.revision):
        raise Overtaken


def _statements(change: Change) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """Yields what makes a change, edges being ended first and made last; names are the policy's, values parameters."""
    for pattern, rows in _edges(each for each in change.edges if each.before and not each.after):
        yield f"UNWIND $rows AS row MATCH {pattern} DELETE e", {"rows": rows}
    for node in change.nodes:
        key = {"key": node.name.key}
        if node.after is None:
            yield f"MATCH (n:{node.name.label} {{key: $key}}) DELETE n", key
        elif node.before is None:
            labels = ":".join(node.after.labels)
            held = {**key, "properties": dict(node.after.properties)}
            yield f"CREATE (n:{labels} {{key: $key}}) SET n += $properties", held
        else:
            held = {**key, "properties": dict(node.after.properties)}
            yield f"MATCH (n:{node.name.label} {{key: $key}}) SET n = $properties", held
    for (kind, start, end), group in _grouped(each for each in change.edges if each.after and not each.before):
        ends = f"(a:{start} {{key: row.start}}), (b:{end} {{key: row.end}})"
        text = f"UNWIND $rows AS row MATCH {ends} CREATE (a)-[e:{kind}]->(b) SET e += row.properties"
        yield text, {"rows": [_row(each) for each in group]}
    for pattern, rows in _edges(each for each in change.edges if each.after and each.before):
        yield f"UNWIND $rows AS row MATCH {pattern} SET e = row.properties", {"rows": rows}


def _edges(edges: Iterable[EdgeChange]) -> Iterable[tuple[str, list[dict[str, Any]]]]:
    for (kind, start, end), group in _grouped(edges):
        pattern = f"(:{start} {{key: row.start}})-[e:{kind}]->(:{end} {{key: row.end}})"
        yield pattern, [_row(each) for each in group]


def _row(edge: EdgeChange) -> dict[str, Any]:
    properties = dict(edge.after.properties) if edge.after else {}
    return {"start": edge.name.start.key, "end": edge.name.end.key, "properties": properties}


def _grouped(edges: Iterable[EdgeChange]) -> Iterable[tuple[tuple[str, str, str], list[EdgeChange]]]:
    groups: dict[tuple[str, str, str], list[EdgeChange]] = defaultdict(list)
    for each in edges:
        groups[each.name.type, each.name.start.label, each.name.end.label].append(each)
    return groups.items()
