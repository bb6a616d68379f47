"""Expressions, and patterns that find something: each node with a label, and filtered by its labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lark import Token, Tree

from services.graph_executor.cypher.grammar import Node, below, has, name_of, text_of, tree, trees
from services.graph_executor.cypher.scope import Scope, check_own, written_name
from services.kit.tools.executor import ToolRefused


def parts_of(node: Node) -> tuple[str | None, list[str], Node | None]:
    """Returns a node's name, its labels and its properties, each where it has any."""
    held = tree(node, "has_labels") or node
    name, labels = tree(held, "name"), tree(held, "labels")
    names = [name_of(each) for each in trees(labels)] if labels is not None else []
    return name_of(name) if name is not None else None, names, tree(node, "props")


def types_of(edge: Node) -> list[str]:
    """Returns the types that an edge may have; none where it says none."""
    return [name_of(each) for part in trees(edge, "types") for each in trees(part)]


def arrows(edge: Node) -> tuple[str, str]:
    """Returns how an edge is drawn to its left and to its right: "<" and "", or "" and ">", or both empty."""
    text = "".join(str(child) for child in edge.children if isinstance(child, Token)).replace(" ", "")
    return "<" if text.startswith("<") else "", ">" if text.endswith(">") else ""


class Reading:
    """Writes the parts of one query that read."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._special: Mapping[str, Callable[[Node], str]] = {
            "name": lambda node: written_name(check_own(name_of(node))),
            "variable": lambda node: scope.find(name_of(trees(node)[0])).sent,
            "has_labels": self._has_labels, "parameter": self._parameter, "function": self._function,
            "comprehension": self._loop, "quantifier": self._loop, "chain": self._condition,
            "pattern_comprehension": self._list_of_patterns,
        }  # fmt: skip

    def expression(self, node: Node) -> str:
        """Returns an expression. Raises ToolRefused."""
        special = self._special.get(node.data)
        if special is not None:
            return special(node)
        joined = "" if node.data in ("lookup", "index", "slice") else " "
        return joined.join(self._part(child) for child in node.children)

    def path(self, path: Node) -> tuple[str, list[str]]:
        """Returns a path of MATCH, and the conditions under which it is found. Raises ToolRefused."""
        named, way = tree(path, "name"), trees(path)[-1]
        [chain] = trees(way, "chain") or [way]
        text, nodes = self.chain(chain)
        conditions = [self._scope.filter(each) for each in nodes]
        long = any(True for _ in below(chain, "range"))
        if named is None and not long:
            return text, conditions
        whole = self._scope.bind(name_of(named) if named is not None else None).sent
        if long:
            # The nodes in between have no name of their own.
            conditions.append(f"all({whole}n IN nodes({whole}) WHERE {self._scope.filter(f'{whole}n')})")
        return f"{whole} = {f'{way.children[0]}({text})' if way.data == 'shortest' else text}", conditions

    def chain(self, chain: Node, *, names: bool = True) -> tuple[str, list[str]]:
        """Returns nodes and edges in turn, and the nodes' names in the database; `names` False leaves new ones out."""
        text, nodes, ways = "", [], trees(chain)
        for at, each in enumerate(ways):
            if each.data == "edge":
                text += self._edge(each)
                continue
            written, sent = self._node(each, self._ends(ways, at), names=names)
            text += written
            nodes.append(sent)
        return text, nodes

    def _part(self, child: Node | Token) -> str:
        if isinstance(child, Tree):
            return self.expression(child)
        return str(child).upper() if child.isalpha() and child.type not in ("NAME", "QUOTED") else str(child)

    def _node(self, node: Node, ends: set[str], *, names: bool) -> tuple[str, str]:
        name, labels, props = parts_of(node)
        known = self._scope.names.get(name) if name is not None else None
        if not labels and known is None:
            if len(ends) != 1:
                hint = f"({name or ''}:{min(ends or self._scope.access.readable, default='Label')})"
                raise ToolRefused("unlabelled_node", f"Every node of a pattern needs a label, such as {hint}.")
            labels = list(ends)
        shown = "".join(f":{written_name(self._scope.check_label(label))}" for label in labels)
        found = known or self._scope.bind(name, labels=labels)
        given = f" {self.expression(props)}" if props is not None else ""
        return f"({found.sent if names or known else ''}{shown}{given})", found.sent

    def _ends(self, ways: Sequence[Node], at: int) -> set[str]:
        """Returns the labels that a node can have by the edges beside it; none where their types don't say."""
        possible = []
        for beside in (at - 1, at + 1):
            edge = ways[beside] if 0 <= beside < len(ways) else None
            if edge is None or not types_of(edge) or tree(edge, "range") is not None:
                continue
            rules = [self._scope.edge_rule(kind) for kind in types_of(edge)]
            starts = {label for rule in rules for label in rule.start}
            reached = {label for rule in rules for label in rule.end}
            left, right = arrows(edge)
            if bool(left) == bool(right):
                possible.append(starts | reached)
            else:
                possible.append(reached if bool(right) == (beside < at) else starts)
        return set.intersection(*possible) if possible else set()

    def _edge(self, edge: Node) -> str:
        # Without a type an edge has any that the policy names, and no other.
        types = types_of(edge) or sorted(self._scope.policy.edges)
        for kind in types:
            self._scope.edge_rule(kind)
        if not types:
            raise ToolRefused("unknown_label", "There are no edges.")
        named, length, props = tree(edge, "name"), tree(edge, "range"), tree(edge, "props")
        shown = self._scope.bind(name_of(named), types=() if length else types).sent if named is not None else ""
        shown += ":" + "|".join(written_name(kind) for kind in types)
        shown += text_of(length) if length is not None else ""
        shown += f" {self.expression(props)}" if props is not None else ""
        left, right = arrows(edge)
        return f"{left}-[{shown}]-{right}"

    def _has_labels(self, node: Node) -> str:
        name, labels = trees(node)
        shown = "".join(f":{written_name(self._scope.check_label(name_of(each)))}" for each in trees(labels))
        return self._scope.find(name_of(name)).sent + shown

    def _parameter(self, node: Node) -> str:
        name = name_of(trees(node)[0])
        if name not in self._scope.parameters:
            raise ToolRefused("unknown_parameter", f"${name[:40]} is not among the parameters.")
        return f"${written_name(name)}"

    def _function(self, node: Node) -> str:
        if has(node, "SHORTEST"):
            return self._shortest(node)
        arguments = ", ".join(self.expression(each) for each in trees(node)[1:])
        distinct = "DISTINCT " if has(node, "DISTINCT") else ""
        return f"{name_of(trees(node)[0])}({'*' if has(node, 'STAR') else distinct + arguments})"

    def _shortest(self, node: Node) -> str:
        # What it leads over can't be filtered here.
        if not self._scope.access.reads_all:
            raise ToolRefused("unsupported", "A shortest path is for callers who may read every label.")
        for each in below(node, "node"):
            self._scope.find(parts_of(each)[0] or "")
        [chain] = trees(node, "chain")
        return f"{node.children[0]}({self.chain(chain)[0]})"

    def _loop(self, node: Node) -> str:
        before = dict(self._scope.names)
        named, listed, *rest = trees(node)
        text = self.expression(listed)
        sent = self._scope.bind(name_of(named)).sent
        where = tree(node, "where")
        condition = f" WHERE {self.expression(trees(where)[0])}" if where is not None else ""
        result = f" | {self.expression(rest[-1])}" if rest and rest[-1] is not where else ""
        self._scope.names = before
        if node.data == "quantifier":
            return f"{str(node.children[0]).lower()}({sent} IN {text}{condition})"
        return f"[{sent} IN {text}{condition}{result}]"

    def _condition(self, node: Node) -> str:
        """Returns a pattern that stands as a condition: it names nothing new."""
        if len(trees(node)) == 1:
            [only] = trees(node)
            name, _, props = parts_of(only)
            if name is None or props is not None:
                raise ToolRefused("unparsable", "A node alone is no condition.")
            held = tree(only, "has_labels")
            return f"({self._has_labels(held) if held is not None else self._scope.find(name).sent})"
        for each in trees(node):
            name = parts_of(each)[0]
            if each.data == "edge" and (name or tree(each, "range") is not None):
                raise ToolRefused("unsupported", "In a condition an edge has no name and one length; MATCH it first.")
            if name is not None:
                self._scope.find(name)
        return self.chain(node, names=False)[0]

    def _list_of_patterns(self, node: Node) -> str:
        [chain], result, where = trees(node, "chain"), trees(node)[-1], tree(node, "where")
        if any(below(chain, "range")):
            raise ToolRefused("unsupported", "A path of several lengths is found by MATCH, not in a list.")
        before = dict(self._scope.names)
        text, nodes = self.chain(chain)
        conditions = [self._scope.filter(each) for each in dict.fromkeys(nodes)]
        conditions += [f"({self.expression(trees(where)[0])})"] if where is not None else []
        shown = self.expression(result)
        self._scope.names = before
        return f"[{text} WHERE {' AND '.join(conditions)} | {shown}]"
