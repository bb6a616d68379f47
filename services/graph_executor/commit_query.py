"""The one query that makes a change: it checks that all is as it was read, changes it, and keeps the record.

A query of FalkorDB is atomic, and nothing larger is. So the checks, the effect and the record are clauses of one query:
where a check fails, no row is left, and the clauses after it do nothing. Names of labels and types are those of the
policy; everything else is a parameter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from services.graph_executor.elements import Change, EdgeChange, NodeChange
from services.graph_executor.records import RESULT_LABEL, RUN_LABEL, turned

# Where the key is free and no later claim has been seen, one row goes on.
FENCE: Final = (
    f"OPTIONAL MATCH (kept:{RESULT_LABEL} {{key: $signalbox_key}}) WITH collect(kept) AS kept "
    f"OPTIONAL MATCH (run:{RUN_LABEL} {{key: $signalbox_run}}) WITH kept, collect(run.epoch) AS epochs "
    "WHERE kept = [] AND all(epoch IN epochs WHERE epoch <= $signalbox_epoch) WITH 1 AS signalbox_ok"
)
# The same for a query that is not ours: it might make a row of none, so where one does not go on it ends in an error.
STRICT_FENCE: Final = (
    f"OPTIONAL MATCH (kept:{RESULT_LABEL} {{key: $signalbox_key}}) WITH collect(kept) AS kept "
    f"OPTIONAL MATCH (run:{RUN_LABEL} {{key: $signalbox_run}}) WITH kept, collect(run.epoch) AS epochs "
    "WITH 1 / toInteger(kept = [] AND all(epoch IN epochs WHERE epoch <= $signalbox_epoch)) AS signalbox_ok"
)
RECORD: Final = (
    f"MERGE (run:{RUN_LABEL} {{key: $signalbox_run}}) "
    "SET run.epoch = $signalbox_epoch, run.calls = coalesce(run.calls, 0) + 1 "
    f"CREATE (kept:{RESULT_LABEL} {{key: $signalbox_key}}) SET kept += $signalbox_record, kept.number = run.calls "
    "WITH 1 AS signalbox_ok"
)
_GO_ON: Final = "WITH DISTINCT signalbox_ok"


class CommitQuery:
    """A change as a query and its parameters."""

    def __init__(self, change: Change, record: dict[str, Any], turns: Sequence[str] = ()) -> None:
        self.parameters: dict[str, Any] = dict(record)
        clauses = [
            FENCE,
            *self._check_turns(turns),
            *self._check_nodes(change.nodes),
            *self._check_degrees(change),
            *self._check_edges(change.edges),
            *self._check_ends(change),
            RECORD,
            *self._turn(turns),
            *self._delete_edges(change.edges),
            *self._delete_nodes(change.nodes),
            *self._create_nodes(change.nodes),
            *self._set_nodes(change.nodes),
            *self._create_edges(change.edges),
            *self._set_edges(change.edges),
        ]
        self.text = " ".join([*clauses, "RETURN signalbox_ok"])

    def _parameter(self, value: Any) -> str:
        name = f"p{len(self.parameters)}"
        self.parameters[name] = value
        return f"${name}"

    def _check_turns(self, turns: Sequence[str]) -> Iterable[str]:
        for key in turns[:1]:
            yield (
                f"MATCH (undone:{RESULT_LABEL} {{key: {self._parameter(key)}}}) WHERE undone.undone = false {_GO_ON}"
            )

    def _turn(self, turns: Sequence[str]) -> Iterable[str]:
        """What the first of them did is taken back, what that had taken back is there again, and so on."""
        if turns:
            yield (
                f"UNWIND {self._parameter(turned(turns))} AS row MATCH (undone:{RESULT_LABEL} {{key: row.key}}) "
                f"SET undone.undone = row.undone {_GO_ON}"
            )

    def _check_nodes(self, nodes: Iterable[NodeChange]) -> Iterable[str]:
        for each in nodes:
            labels = list(each.before.labels) if each.before else []
            found = [dict(each.before.properties)] if each.before else []
            yield (
                f"OPTIONAL MATCH (n:{each.name.label} {{key: {self._parameter(each.name.key)}}}) "
                "WITH signalbox_ok, collect(CASE WHEN n IS NULL THEN NULL "
                # The order of labels is the server's.
                f"WHEN hasLabels(n, {self._parameter(labels)}) AND size(labels(n)) = {self._parameter(len(labels))} "
                f"THEN properties(n) ELSE false END) AS found WHERE found = {self._parameter(found)} {_GO_ON}"
            )

    def _check_degrees(self, change: Change) -> Iterable[str]:
        for each in change.nodes:
            if each.before and not each.after:
                degree = sum(each.name in (edge.name.start, edge.name.end) for edge in change.edges)
                yield (
                    f"MATCH (n:{each.name.label} {{key: {self._parameter(each.name.key)}}}) "
                    "OPTIONAL MATCH (n)-[e]-() WITH signalbox_ok, count(DISTINCT e) AS degree "
                    f"WHERE degree = {self._parameter(degree)} {_GO_ON}"
                )

    def _check_edges(self, edges: Iterable[EdgeChange]) -> Iterable[str]:
        for pattern, group in _by_pattern(edges):
            rows = [{**_ends(each), "found": [dict(each.before.properties)] if each.before else []} for each in group]
            yield (
                f"UNWIND {self._parameter(rows)} AS row OPTIONAL MATCH {pattern} "
                "WITH signalbox_ok, row, collect(properties(e)) AS found "
                "WITH signalbox_ok, sum(CASE WHEN found = row.found THEN 0 ELSE 1 END) AS wrong "
                f"WHERE wrong = 0 {_GO_ON}"
            )

    def _check_ends(self, change: Change) -> Iterable[str]:
        created = [each.name for each in change.edges if each.after and not each.before]
        ends = {end for name in created for end in (name.start, name.end)} - {each.name for each in change.nodes}
        for label in sorted({end.label for end in ends}):
            keys = sorted(end.key for end in ends if end.label == label)
            yield (
                f"UNWIND {self._parameter(keys)} AS wanted OPTIONAL MATCH (n:{label} {{key: wanted}}) "
                "WITH signalbox_ok, wanted, count(n) AS found "
                "WITH signalbox_ok, sum(CASE WHEN found = 1 THEN 0 ELSE 1 END) AS wrong "
                f"WHERE wrong = 0 {_GO_ON}"
            )

    def _delete_edges(self, edges: Iterable[EdgeChange]) -> Iterable[str]:
        for pattern, group in _by_pattern(each for each in edges if each.before and not each.after):
            rows = self._parameter([_ends(each) for each in group])
            yield f"UNWIND {rows} AS row MATCH {pattern} DELETE e {_GO_ON}"

    def _delete_nodes(self, nodes: Iterable[NodeChange]) -> Iterable[str]:
        for each in nodes:
            if each.before and not each.after:
                key = self._parameter(each.name.key)
                yield f"MATCH (n:{each.name.label} {{key: {key}}}) DELETE n {_GO_ON}"

    def _create_nodes(self, nodes: Iterable[NodeChange]) -> Iterable[str]:
        for each in nodes:
            if each.after and not each.before:
                labels = ":".join(each.after.labels)
                key, properties = self._parameter(each.name.key), self._parameter(dict(each.after.properties))
                yield f"CREATE (n:{labels} {{key: {key}}}) SET n = {properties} {_GO_ON}"

    def _set_nodes(self, nodes: Iterable[NodeChange]) -> Iterable[str]:
        for each in nodes:
            if each.after and each.before:
                key, properties = self._parameter(each.name.key), self._parameter(dict(each.after.properties))
                yield f"MATCH (n:{each.name.label} {{key: {key}}}) SET n = {properties} {_GO_ON}"

    def _create_edges(self, edges: Iterable[EdgeChange]) -> Iterable[str]:
        for (kind, start, end), group in _grouped(each for each in edges if each.after and not each.before):
            rows = [{**_ends(each), "properties": dict(each.after.properties)} for each in group if each.after]
            yield (
                f"UNWIND {self._parameter(rows)} AS row "
                f"MATCH (a:{start} {{key: row.start}}), (b:{end} {{key: row.end}}) "
                f"CREATE (a)-[e:{kind}]->(b) SET e = row.properties {_GO_ON}"
            )

    def _set_edges(self, edges: Iterable[EdgeChange]) -> Iterable[str]:
        for pattern, group in _by_pattern(each for each in edges if each.after and each.before):
            rows = [{**_ends(each), "properties": dict(each.after.properties)} for each in group if each.after]
            yield f"UNWIND {self._parameter(rows)} AS row MATCH {pattern} SET e = row.properties {_GO_ON}"


def _ends(edge: EdgeChange) -> dict[str, Any]:
    return {"start": edge.name.start.key, "end": edge.name.end.key}


def _by_pattern(edges: Iterable[EdgeChange]) -> Iterable[tuple[str, list[EdgeChange]]]:
    for (kind, start, end), group in _grouped(edges):
        yield f"(a:{start} {{key: row.start}})-[e:{kind}]->(b:{end} {{key: row.end}})", group


def _grouped(edges: Iterable[EdgeChange]) -> Iterable[tuple[tuple[str, str, str], list[EdgeChange]]]:
    groups: dict[tuple[str, str, str], list[EdgeChange]] = defaultdict(list)
    for each in edges:
        groups[each.name.type, each.name.start.label, each.name.end.label].append(each)
    return groups.items()
