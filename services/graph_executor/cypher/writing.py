"""Clauses that write: what they make has labels, ends and properties as the policy has them."""

from __future__ import annotations

from collections.abc import Mapping, Set
from itertools import pairwise
from typing import Final

from services.graph_executor.cypher.grammar import Node, has, name_of, tree, trees
from services.graph_executor.cypher.reading import Reading, arrows, parts_of, types_of
from services.graph_executor.cypher.scope import Found, Properties, Scope, written_name
from services.graph_executor.cypher.values import COMPUTED, check_written
from services.graph_executor.elements import KEY
from services.kit.tools.executor import ToolRefused

CLAUSES: Final = frozenset({"create", "merge", "set", "remove", "delete", "foreach"})
_REFUSED: Final[Mapping[str, str]] = {
    "set_labels": "Labels stay as they are; make another node.",
    "remove_labels": "Labels stay as they are; make another node.",
    "set_all": "Set properties one by one, or some with +=; with = all the others would go.",
}


class Writing:
    """Writes the clauses of one query that write."""

    def __init__(self, scope: Scope, reading: Reading) -> None:
        self._scope = scope
        self._reading = reading

    def clause(self, clause: Node) -> str:
        """Returns a clause. Raises ToolRefused."""
        if clause.data == "create":
            [patterns] = trees(clause, "patterns")
            return "CREATE " + ", ".join(self._path(path) for path in trees(patterns, "path"))
        if clause.data == "delete":
            found = [(name_of(each), self._scope.find(name_of(each))) for each in trees(clause)]
            for name, each in found:
                self._scope.properties(each, name)
            return f"{'DETACH ' if has(clause, 'DETACH') else ''}DELETE {', '.join(each.sent for _, each in found)}"
        if clause.data in ("set", "remove"):
            return f"{clause.data.upper()} " + ", ".join(self._assignment(each) for each in trees(clause))
        return self._merge(clause) if clause.data == "merge" else self._foreach(clause)

    def _path(self, path: Node) -> str:
        named, chain = tree(path, "name"), trees(path)[-1]
        if chain.data != "chain":
            raise ToolRefused("unsupported", "A shortest path is found, not made.")
        ends = [self._end(node) for node in trees(chain, "node")]
        text = ends[0][0]
        for edge, ((_, start), (written, end)) in zip(trees(chain, "edge"), pairwise(ends), strict=True):
            text += self._edge(edge, start, end) + written
        return text if named is None else f"{self._scope.bind(name_of(named)).sent} = {text}"

    def _end(self, node: Node) -> tuple[str, Found]:
        """Returns a node of what is made: one that was found before, or a new one."""
        name, labels, props = parts_of(node)
        known = self._scope.names.get(name) if name is not None else None
        if known is not None:
            if labels or props is not None or not known.labels:
                raise ToolRefused("node_without_label", f"{name} was found before, or is no node: name it alone.")
            return f"({known.sent})", known
        if not labels:
            raise ToolRefused("node_without_label", "A node that is created needs a label, such as (t:Ticket).")
        given = self._map(props, self._scope.properties_of(labels))
        found = self._scope.bind(name, labels=labels)
        return f"({found.sent}{''.join(f':{written_name(label)}' for label in labels)} {given})", found

    def _edge(self, edge: Node, start: Found, end: Found) -> str:
        types, (left, right) = types_of(edge), arrows(edge)
        if len(types) != 1 or bool(left) == bool(right) or tree(edge, "range") is not None:
            raise ToolRefused("edge_refused", "An edge that is made has one type and one direction, as in -[:TYPE]->.")
        rule = self._scope.edge_rule(types[0])
        start, end = (end, start) if left else (start, end)
        if start.labels.isdisjoint(rule.start) or end.labels.isdisjoint(rule.end):
            leads = f"from {' or '.join(rule.start)} to {' or '.join(rule.end)}"
            raise ToolRefused("edge_refused", f"An edge {types[0]} leads {leads}.")
        named, props = tree(edge, "name"), tree(edge, "props")
        shown = self._scope.bind(name_of(named), types=types).sent if named is not None else ""
        given = f" {self._map(props, Properties(types[0], rule.properties, frozenset()))}" if props is not None else ""
        return f"{left}-[{shown}:{written_name(types[0])}{given}]-{right}"

    def _merge(self, clause: Node) -> str:
        [path] = trees(clause, "path")
        nodes = [node for chain in trees(path, "chain") for node in trees(chain, "node")]
        alone = len(nodes) == 1
        before = [name for node in nodes if (name := parts_of(node)[0]) in self._scope.names]
        if alone == bool(before) or len(before) not in (0, len(nodes)):
            raise ToolRefused("unsupported", "MERGE one node, or an edge between nodes that were found before.")
        text = f"MERGE {self._path(path)}"
        for each in trees(clause, "merged"):
            if alone and has(each, "MATCH"):
                raise ToolRefused("unsupported", "Write SET after the MERGE: it holds for what was found, too.")
            text += f" ON {'MATCH' if has(each, 'MATCH') else 'CREATE'} {self.clause(trees(each, 'set')[0])}"
        if not alone or parts_of(nodes[0])[0] is None:
            return text
        # What was there already may have labels beside those that were asked for.
        merged = self._scope.find(str(parts_of(nodes[0])[0])).sent
        through = ", ".join(dict.fromkeys(found.sent for found in self._scope.names.values()))
        return f"{text} WITH {through} WHERE {self._scope.filter(merged)}"

    def _foreach(self, clause: Node) -> str:
        name, listed, *written = trees(clause)
        through, before = self._reading.expression(listed), dict(self._scope.names)
        sent = self._scope.bind(name_of(name)).sent
        if any(each.data == "merge" for each in written):
            raise ToolRefused("unsupported", "MERGE does not go inside FOREACH; use UNWIND.")
        inner = " ".join(self.clause(each) for each in written)
        self._scope.names = before
        return f"FOREACH ({sent} IN {through} | {inner})"

    def _assignment(self, each: Node) -> str:
        if each.data in _REFUSED:
            raise ToolRefused("unsupported", _REFUSED[each.data])
        if each.data == "set_some":
            name, given = trees(each)
            found = self._scope.find(name_of(name))
            return f"{found.sent} += {self._entries(given, self._scope.properties(found, name_of(name)))}"
        owner, named = (name_of(part) for part in trees(trees(each)[0]))
        found = self._scope.find(owner)
        properties = self._scope.properties(found, owner)
        target = f"{found.sent}.{written_name(named)}"
        if each.data == "remove_property":
            if named not in {KEY, *properties.rules}:
                raise ToolRefused("invalid_properties", f"{properties.what} has no property {named[:60]!r} to remove.")
            self._check_required({named}, properties)
            return target
        return f"{target} = {self._value(named, trees(each)[1], properties)}"

    def _map(self, props: Node | None, properties: Properties) -> str:
        """Returns the properties of what is made, which hold all that must be there."""
        given = trees(props)[0] if props is not None else None
        stated = [name_of(trees(entry)[0]) for entry in trees(given, "entry")] if given is not None else []
        self._check_required(properties.required.difference(stated), properties)
        return self._entries(given, properties) if given is not None else ""

    def _entries(self, given: Node, properties: Properties) -> str:
        if given.data != "map":
            raise ToolRefused("value_undecided", "Write the properties out, as in {key: $key}.")
        entries = [trees(entry) for entry in trees(given, "entry")]
        written = [
            f"{written_name(name_of(key))}: {self._value(name_of(key), value, properties)}" for key, value in entries
        ]
        return f"{{{', '.join(written)}}}"

    def _value(self, name: str, value: Node, properties: Properties) -> str:
        given, text = check_written(properties, name, value, self._scope.parameters), self._reading.expression(value)
        if given is None:
            self._check_required({name}, properties)
        return f"toInteger({text})" if given is COMPUTED else text

    @staticmethod
    def _check_required(missing: Set[str], properties: Properties) -> None:
        for name in sorted(missing & properties.required):
            reason = "key_refused" if name == KEY else "invalid_properties"
            raise ToolRefused(reason, f"{properties.what} needs the property {name!r}.")
