"""What every name of a file is bound to, as far as that file alone says it."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

Function = ast.FunctionDef | ast.AsyncFunctionDef
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, *_COMPREHENSIONS)
# Who has these can give a name another value without writing it down.
REACHES_NAMES = frozenset(
    {"exec", "eval", "globals", "locals", "vars", "setattr", "delattr", "builtins", "__builtins__", "__dict__",
     "__setattr__", "__import__", "import_module", "modules"}
)  # fmt: skip


@dataclass(frozen=True)
class Binding:
    """One place that binds a name. `value` is what it is given there; None where that is not written down as such.

    how: `value` (assigned or added to), `entered` (by `with`), `import` (`full_name` says what), `parameter`,
    `definition` of a function or class, `builtin`, or `other`.
    """

    how: str
    node: ast.AST
    value: ast.expr | None = None
    full_name: str = ""


class Module:
    """A whole file and its names. Raises SyntaxError and the like when it does not parse."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self._lines = text.encode().split(b"\n")
        self.tree = ast.parse(text)
        self.nodes = list(ast.walk(self.tree))
        self.parents = {id(child): node for node in self.nodes for child in ast.iter_child_nodes(node)}
        self._bound: dict[int, dict[str, list[Binding]]] = {}
        for node in self.nodes:
            for name, scope, binding in self._bindings_at(node):
                self._bound.setdefault(id(scope), {}).setdefault(name, []).append(binding)

    def bindings(self, name: ast.Name) -> tuple[Binding, ...]:
        """Returns every place that may have given a name its value; none when the file does not say."""
        if name.id in self._unsettled or self.has_star_import:
            return ()
        for scope in self._scopes_around(name):
            found = self._bound.get(id(scope), {}).get(name.id)
            if found:
                return tuple(found)
        return (Binding("builtin", name),) if hasattr(builtins, name.id) else ()

    def full_name(self, node: ast.expr) -> str:
        """Returns the dotted name of what an expression names: imported by this file, or Python's own; else nothing."""
        if isinstance(node, ast.Attribute):
            whole = self.full_name(node.value)
            return f"{whole}.{node.attr}" if whole and node.attr not in self.attributes_set else ""
        if not isinstance(node, ast.Name):
            return ""
        found = self.bindings(node)
        if len(found) != 1:
            return ""
        return f"builtins.{node.id}" if found[0].how == "builtin" else found[0].full_name

    def function_around(self, node: ast.AST) -> Function | None:
        """Returns the innermost function that a node stands in."""
        return next((scope for scope in self._scopes_around(node) if isinstance(scope, Function)), None)

    def statement_around(self, node: ast.AST) -> ast.stmt:
        """Returns the innermost statement that a node is a part of."""
        while not isinstance(node, ast.stmt):
            node = self.parents[id(node)]
        return node

    def source(self, node: ast.AST) -> str:
        """Returns the text of a node; the standard library's own way splits the whole file each time."""
        place: Any = node
        lines = self._lines[place.lineno - 1 : place.end_lineno]
        lines[-1] = lines[-1][: place.end_col_offset]
        lines[0] = lines[0][place.col_offset :]
        return b"\n".join(lines).decode()

    @cached_property
    def has_star_import(self) -> bool:
        """Whether names come from another file that nobody wrote down here."""
        return any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in self.nodes)

    def mentioned(self, names: frozenset[str]) -> frozenset[str]:
        """Returns which of some names this file uses, as names, attributes or imports."""
        said = {getattr(node, "id", getattr(node, "attr", "")) for node in self.nodes}
        said |= {part for node in self.nodes if isinstance(node, ast.alias) for part in node.name.split(".")}
        return names & said

    @cached_property
    def attributes_set(self) -> frozenset[str]:
        """The attributes that this file sets on anything: what has one of these names may be something else."""
        return frozenset(n.attr for n in self.nodes if isinstance(n, ast.Attribute) and not isinstance(n.ctx, ast.Load))

    @cached_property
    def _unsettled(self) -> frozenset[str]:
        """Names that are set from another scope than they stand in."""
        return frozenset(
            name for node in self.nodes if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names
        )

    def _scopes_around(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yields the scopes that a name is looked up in, from the innermost on."""
        inner, first = node, True
        while (outer := self.parents.get(id(inner))) is not None:
            if isinstance(outer, _SCOPES) and self._is_inside(inner, outer):
                # What a class binds is no name to the functions in it.
                if first or not isinstance(outer, ast.ClassDef):
                    yield outer
                first = False
            inner = outer
        yield self.tree

    @staticmethod
    def _is_inside(part: ast.AST, scope: ast.AST) -> bool:
        """Tells whether a direct part of a scope is evaluated in it: decorators, defaults and bases are not."""
        if isinstance(scope, ast.Lambda):
            return part is scope.body
        if isinstance(scope, _COMPREHENSIONS):
            return True
        return part in getattr(scope, "body", ())

    def _bindings_at(self, node: ast.AST) -> Iterator[tuple[str, ast.AST, Binding]]:
        """Yields what a node binds: the name, the scope that has it then, and the binding."""
        scope = next(self._scopes_around(node))
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id, *self._bound_by_target(node, scope)
        elif isinstance(node, Function | ast.ClassDef):
            yield node.name, scope, Binding("definition", node)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                yield (
                    alias.asname or first,
                    scope,
                    Binding("import", node, full_name=alias.name if alias.asname else first),
                )
        elif isinstance(node, ast.ImportFrom):
            source = "." * node.level + (node.module or "")
            for alias in node.names:
                yield alias.asname or alias.name, scope, Binding("import", node, full_name=f"{source}.{alias.name}")
        elif isinstance(node, ast.arg):
            function = self.parents[id(self.parents[id(node)])]
            yield node.arg, function, Binding("parameter", function)
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name, scope, Binding("other", node)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            yield node.rest, scope, Binding("other", node)

    def _bound_by_target(self, name: ast.Name, scope: ast.AST) -> tuple[ast.AST, Binding]:
        parent = self.parents[id(name)]
        if isinstance(parent, ast.Assign | ast.AnnAssign | ast.AugAssign) and parent.value is not None:
            return scope, Binding("value", parent, parent.value)
        if isinstance(parent, ast.withitem):
            return scope, Binding("entered", self.statement_around(name), parent.context_expr)
        return scope, Binding("other", self.statement_around(name))


def parse_file(path: str, lines: Mapping[int, str]) -> Module | None:
    """Returns a whole file by its lines; None when it does not parse."""
    try:
        return Module(path, "\n".join(lines[number] for number in range(1, len(lines) + 1)) + "\n")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
