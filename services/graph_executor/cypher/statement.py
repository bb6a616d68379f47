"""A caller's query, written anew from its tree.

What the database is sent is this text, never the caller's. It holds none of the caller's names but those of properties,
so that no server takes one for something else. Each MATCH holds a filter for each of its nodes, by which a node with a
label that the caller may not read is not found. The text is read once more before it is sent, for its filters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from lark import Token

from services.graph_executor.cypher.bounds import check_bounds
from services.graph_executor.cypher.grammar import Node, below, has, name_of, parse, text_of, tree, trees
from services.graph_executor.cypher.reading import Reading
from services.graph_executor.cypher.scope import Scope
from services.graph_executor.cypher.writing import CLAUSES, Writing
from services.graph_executor.policy import Access, GraphPolicy
from services.kit.tools.executor import ToolRefused

# A filter nests in the conditions of the caller.
_FILTER_DEPTH: Final = 6


@dataclass(frozen=True)
class Statement:
    """What may be sent to the database, and what the caller calls its columns."""

    text: str
    columns: tuple[str, ...]


def checked_statement(
    text: str, parameters: Mapping[str, object], policy: GraphPolicy, access: Access, *, write: bool
) -> Statement:
    """Returns a caller's query as it may be sent. Raises ToolRefused."""
    query = parse(text, depth=policy.limits.depth)
    check_bounds(query, policy)
    if not write and any(below(query, *CLAUSES)):
        raise ToolRefused("write_refused", "The query would write; this call may only read.")
    if write and has(query, "UNION"):
        raise ToolRefused("unsupported", "A query that writes has no UNION; make two of it.")
    scope = Scope(policy, access, parameters)
    clauses = _Clauses(text, scope)
    written = " ".join(
        clauses.single(child) if not isinstance(child, Token) else str(child).upper()
        for child in query.children
        if child != ";"
    )
    _check_filters(parse(written, depth=policy.limits.depth + _FILTER_DEPTH), scope)
    return Statement(written, clauses.columns)


def _check_filters(query: Node, scope: Scope) -> None:
    """Checks on what is sent that each pattern that finds nodes is filtered. Raises RuntimeError: a defect of ours."""
    for clause in below(query, "match", "pattern_comprehension"):
        where = tree(clause, "where")
        held = text_of(where) if where is not None else ""
        paths = [path for patterns in trees(clause, "patterns") for path in trees(patterns)] or [clause]
        for node in (node for path in paths for chain in _chains(path) for node in trees(chain, "node")):
            name = tree(tree(node, "has_labels") or node, "name")
            if name is None or scope.filter(name_of(name)).replace(" ", "") not in held:
                raise RuntimeError("a pattern was written without the filter of its labels")


def _chains(path: Node) -> list[Node]:
    return [*trees(path, "chain"), *(chain for way in trees(path, "shortest") for chain in trees(way, "chain"))]


class _Clauses:
    """Writes the clauses of one query, in order."""

    def __init__(self, text: str, scope: Scope) -> None:
        self.columns: tuple[str, ...] = ()
        self._text = text
        self._scope = scope
        self._reading = Reading(scope)
        self._writing = Writing(scope, self._reading)
        self._writes: Mapping[str, Callable[[Node], str]] = {
            "match": self._match, "unwind": self._unwind, "with": self._with, "return": self._return,
            "call": self._call, **dict.fromkeys(CLAUSES, self._writing.clause),
        }  # fmt: skip

    def single(self, query: Node) -> str:
        """Returns a query, or one side of a UNION. Raises ToolRefused."""
        self._scope.names = {}
        return " ".join(self._writes[clause.data](clause) for clause in trees(query))

    def _match(self, clause: Node) -> str:
        [patterns] = trees(clause, "patterns")
        found = [self._reading.path(path) for path in trees(patterns, "path")]
        conditions = dict.fromkeys(condition for _, needed in found for condition in needed)
        text = f"{'OPTIONAL ' if has(clause, 'OPTIONAL') else ''}MATCH {', '.join(path for path, _ in found)}"
        where = tree(clause, "where")
        own = [f"({self._reading.expression(trees(where)[0])})"] if where is not None else []
        return f"{text} WHERE {' AND '.join([*conditions, *own])}"

    def _unwind(self, clause: Node) -> str:
        listed, name = trees(clause)
        text = self._reading.expression(listed)
        return f"UNWIND {text} AS {self._scope.bind(name_of(name)).sent}"

    def _call(self, clause: Node) -> str:
        procedure, *arguments = trees(clause)
        policy, name = self._scope.policy, ".".join(name_of(part) for part in trees(procedure))
        # What a procedure gives is not filtered.
        if name not in policy.procedures or not self._scope.access.reads_all:
            known = ", ".join(policy.procedures) or "none"
            raise ToolRefused("procedure_refused", f"{name[:60]!r} may not be called; these may: {known}.")
        given = ", ".join(self._reading.expression(each) for each in arguments if each.data != "yielded")
        yielded = [[name_of(part) for part in trees(each)] for each in trees(clause, "yielded")]
        shown = ", ".join(f"{names[0]} AS {self._scope.bind(names[-1]).sent}" for names in yielded)
        return f"CALL {name}({given})" + (f" YIELD {shown}" if shown else "")

    def _with(self, clause: Node) -> str:
        [projection] = trees(clause, "projection")
        before, columns = dict(self._scope.names), self._everything(projection)
        kept = dict(before) if columns else {}
        for column in trees(projection, "column"):
            value, *alias = trees(column)
            alone = name_of(trees(value)[0]) if value.data == "variable" else None
            if not alias and alone is None:
                raise ToolRefused("unparsable", f"WITH needs a name for {self._source(value)[:40]!r}: … AS name.")
            text = self._reading.expression(value)
            if not alias:
                kept[str(alone)] = before[str(alone)]
                columns.append(text)
                continue
            name = name_of(alias[0])
            kept[name] = self._scope.rebind(name, before[alone]) if alone else self._scope.bind(name)
            self._scope.names = dict(before)
            columns.append(f"{text} AS {kept[name].sent}")
        if not columns:
            raise ToolRefused("unparsable", "WITH * needs something that was found before.")
        # What orders the rows may name what was there before as well.
        self._scope.names = before | kept
        text = f"WITH {self._distinct(projection)}{', '.join(columns)}{self._ordered(projection, {})}"
        self._scope.names = kept
        where = tree(clause, "where")
        return text + (f" WHERE {self._reading.expression(trees(where)[0])}" if where is not None else "")

    def _return(self, clause: Node) -> str:
        [projection] = trees(clause, "projection")
        names: dict[str, str] = {}
        columns, before = [], dict(self._scope.names)
        if tree(projection, "everything") is not None:
            for at, (name, found) in enumerate(before.items()):
                names[name] = f"c{at}"
                columns.append(f"{found.sent} AS c{at}")
        aliases = []
        for column in trees(projection, "column"):
            value, *alias = trees(column)
            sent = f"c{len(columns)}"
            source = self._source(value)
            columns.append(f"{self._reading.expression(value)} AS {sent}")
            names[name_of(alias[0]) if alias else source] = names[source] = sent
            aliases.append(name_of(alias[0]) if alias else source)
        if not columns:
            raise ToolRefused("unparsable", "RETURN * needs something that was found before.")
        self.columns = (*(before if tree(projection, "everything") is not None else ()), *aliases)
        return f"RETURN {self._distinct(projection)}{', '.join(columns)}{self._ordered(projection, names)}"

    def _everything(self, projection: Node) -> list[str]:
        return [found.sent for found in self._scope.names.values()] if tree(projection, "everything") else []

    @staticmethod
    def _distinct(projection: Node) -> str:
        return "DISTINCT " if has(projection, "DISTINCT") else ""

    def _ordered(self, projection: Node, columns: Mapping[str, str]) -> str:
        """Returns what orders and cuts the rows; what orders by a column's name or expression names the column."""
        text = ""
        for order in trees(projection, "order"):
            keys = []
            for each in trees(order, "sorted"):
                [value] = trees(each)
                direction = "".join(f" {str(token).upper()}" for token in each.children if isinstance(token, Token))
                keys.append((columns.get(self._source(value)) or self._reading.expression(value)) + direction)
            text += f" ORDER BY {', '.join(keys)}"
        for cut in trees(projection, "skip", "limit"):
            text += f" {cut.data.upper()} {self._reading.expression(trees(cut)[0])}"
        return text

    def _source(self, node: Node) -> str:
        return " ".join(self._text[node.meta.start_pos : node.meta.end_pos].split())
