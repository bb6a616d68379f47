"""A structured search as Cypher: names are the policy's, values are parameters, paths as long as their steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from services.graph_executor.elements import KEY, EdgeState, NodeState
from services.graph_executor.store import Condition, FoundEdge, FoundNode, FoundPath, Search

OPERATORS: Final = {
    "eq": "{property} = {value}",
    "ne": "{property} <> {value}",
    "lt": "{property} < {value}",
    "le": "{property} <= {value}",
    "gt": "{property} > {value}",
    "ge": "{property} >= {value}",
    "contains": "{property} CONTAINS {value}",
    "starts_with": "{property} STARTS WITH {value}",
    "in": "{property} IN {value}",
    "exists": "({property} IS NOT NULL) = {value}",
}
_ARROWS: Final = {"out": ("-", "->"), "in": ("<-", "-"), "any": ("-", "-")}


class SearchQuery:
    """A search as a query and its parameters, and its rows as paths."""

    def __init__(self, search: Search, *, same: str = "id({0}) = id({1})") -> None:
        """`same` is how a database is asked whether two nodes are one."""
        self.parameters: dict[str, Any] = {"readable": sorted(search.readable)}
        self._search = search
        pattern, wheres = f"(n0:{search.label})", list(self._wheres("n0", search.conditions))
        for number, step in enumerate(search.steps, 1):
            left, right = _ARROWS[step.direction]
            pattern += f"{left}[e{number}:{step.type}]{right}(n{number}:{step.label})"
            wheres += self._wheres(f"n{number}", step.conditions)
        # Before anything is counted or cut: what is not found leaves no gap.
        nodes = range(len(search.steps) + 1)
        wheres += [f"all(label IN labels(n{number}) WHERE label IN $readable)" for number in nodes]
        columns = ["labels(n0)", "properties(n0)"]
        for number in range(1, len(search.steps) + 1):
            columns += [
                f"labels(n{number})", f"properties(n{number})", f"properties(e{number})",
                same.format(f"startNode(e{number})", f"n{number - 1}"),
            ]  # fmt: skip
        order = ", ".join(f"n{number}.{KEY}" for number in nodes)
        matched = f"MATCH {pattern} WHERE {' AND '.join(wheres)}"
        self.text = f"{matched} RETURN {', '.join(columns)} ORDER BY {order} LIMIT {search.rows + 1}"

    def path(self, row: Sequence[Any]) -> FoundPath:
        """Returns a row as the path that it is."""
        nodes = [_node(self._search.label, row[0], row[1])]
        edges = []
        for number, step in enumerate(self._search.steps, 1):
            labels, properties, held, along = row[4 * number - 2 : 4 * number + 2]
            nodes.append(_node(step.label, labels, properties))
            start, end = (number - 1, number) if along else (number, number - 1)
            edges.append(FoundEdge(step.type, start, end, EdgeState(held)))
        return FoundPath(tuple(nodes), tuple(edges))

    def _wheres(self, node: str, conditions: Iterable[Condition]) -> Iterable[str]:
        for condition in conditions:
            name = f"p{len(self.parameters)}"
            self.parameters[name] = condition.value
            template = OPERATORS[condition.operator]
            yield template.format(property=f"{node}.{condition.property}", value=f"${name}")


def _node(label: str, labels: list[str], properties: dict[str, Any]) -> FoundNode:
    return FoundNode(label, properties.get(KEY), NodeState(tuple(sorted(labels)), properties))
