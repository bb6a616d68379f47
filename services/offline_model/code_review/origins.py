"""Where values come from: the program itself, a check, outside, or a place that was not shown."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from services.offline_model.code_review.bindings import assigned_values, module_level, self_values
from services.offline_model.code_review.guards import guard_of
from services.offline_model.code_review.opinion import Need
from services.offline_model.code_review.shown import Function, Shown, ShownFile, bare_name, dotted

CONSTANT, CHECKED, UNKNOWN, OUTSIDE = "constant", "checked", "unknown", "outside"
MAX_DEPTH = 14
REQUEST_PARTS = frozenset(
    (
        "args", "form", "values", "json", "get_json", "get_data", "data", "cookies", "headers", "files", "query_params",
        "GET", "POST", "path_params", "query", "match_info", "body", "params", "query_string", "view_args", "rel_url",
        "post", "text", "url", "path",
    )
)  # fmt: skip
REQUEST_NAMES = frozenset({"request", "req", "websocket"})
ROUTE_DECORATORS = frozenset({"route", "get", "post", "put", "delete", "patch", "websocket", "api_route", "view"})
NUMBERS = frozenset({"int", "float", "bool", "len", "UUID", "Decimal", "ord", "hash", "round", "date", "fromisoformat"})
SANITIZERS = {
    "command": frozenset({"quote", "join_quoted"}),
    "xss": frozenset({"escape", "clean", "escape_html", "conditional_escape"}),
    "path": frozenset({"secure_filename", "basename", "safe_join"}),
    "ssrf": frozenset({"quote", "quote_plus", "urlencode"}),
    "sql": frozenset({"quote_ident", "Identifier", "quote_name"}),
}
# Methods and functions that give back what they were given, in another form.
CARRIERS = frozenset(
    (
        "format", "join", "strip", "lstrip", "rstrip", "lower", "upper", "replace", "split", "encode", "decode", "get",
        "title", "str", "bytes", "list", "tuple", "sorted", "set", "dict", "Path", "PurePath", "resolve", "realpath",
        "abspath", "normpath", "joinpath", "expanduser", "pop", "getlist", "text", "SQL", "loads", "b64decode",
        "BytesIO", "StringIO", "unquote", "removeprefix", "removesuffix", "format_map", "splitlines", "items", "keys",
    )
)  # fmt: skip

# What reads from whatever it is given.
OPENERS = frozenset({"tarfile.open", "tarfile.TarFile", "zipfile.ZipFile", "gzip.open"})


@dataclass(frozen=True)
class Origin:
    """One place that a value comes from."""

    kind: str
    what: str
    file: str
    line: int
    need: Need | None = None


@dataclass(frozen=True)
class Scope:
    """Where an expression stands, and what the caller passed for the parameters there."""

    file: ShownFile
    function: Function | None
    passed: tuple[tuple[str, ast.expr, Scope], ...] = ()
    seen: frozenset[tuple[str, int, str]] = frozenset()

    def visiting(self, name: str, line: int) -> Scope:
        """Returns the scope while a name is being looked up, so that a loop ends."""
        return replace(self, seen=self.seen | {(self.file.path, line, name)})


@dataclass
class Tracer:
    """Traces values through the code that was shown, for one kind of weakness."""

    shown: Shown
    weakness: str
    _depth: int = field(default=0, repr=False)

    def trace(self, node: ast.expr, scope: Scope) -> list[Origin]:
        """Returns every place that a value may come from."""
        if self._depth > MAX_DEPTH:
            return [self._unknown(node, scope, "it goes through too many hands")]
        self._depth += 1
        try:
            return _unique(self._trace(node, scope))
        finally:
            self._depth -= 1

    def _trace(self, node: ast.expr, scope: Scope) -> list[Origin]:
        if isinstance(node, ast.Constant):
            return [Origin(CONSTANT, "a constant", scope.file.path, node.lineno)]
        if self._is_request(node):
            return [Origin(OUTSIDE, f"`{ast.unparse(node)[:80]}` comes from a request", scope.file.path, node.lineno)]
        if isinstance(node, ast.Name):
            return self._name(node, scope)
        if isinstance(node, ast.Call):
            return self._call(node, scope)
        if isinstance(node, ast.Subscript):
            return self._subscript(node, scope)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, scope)
        parts = _parts(node)
        if parts is None:
            return [self._unknown(node, scope, f"`{ast.unparse(node)[:60]}` is beyond me")]
        return self._all(parts, scope) or [Origin(CONSTANT, "a constant", scope.file.path, node.lineno)]

    def _all(self, nodes: Iterable[ast.expr], scope: Scope) -> list[Origin]:
        return [origin for node in nodes for origin in self.trace(node, scope)]

    def _is_request(self, node: ast.expr) -> bool:
        chain = dotted(node).split(".")
        if chain[-1:] == ["input"] and isinstance(node, ast.Call) and len(chain) == 1:
            return True
        if chain[:2] == ["sys", "argv"]:
            return True
        return any(name in REQUEST_NAMES and part in REQUEST_PARTS for name, part in itertools.pairwise(chain))

    def _name(self, node: ast.Name, scope: Scope) -> list[Origin]:
        name, path = node.id, scope.file.path
        key = (path, scope.function.lineno if scope.function else 0, name)
        if key in scope.seen:
            return []
        inner = scope.visiting(name, key[1])
        if scope.function is not None:
            if guard := guard_of(name, scope.function, node.lineno):
                return [Origin(CHECKED, f"`{name}` is checked", path, guard)]
            if assigned := assigned_values(name, ast.walk(scope.function), node.lineno):
                return self._all(assigned, inner)
            if name in _parameters(scope.function):
                return self._parameter(name, scope.function, inner)
        module = assigned_values(name, module_level(scope.file), 10**9)
        if module:
            return self._all(module, Scope(scope.file, None, seen=inner.seen))
        return self._imported(name, node, inner)

    def _parameter(self, name: str, function: Function, scope: Scope) -> list[Origin]:
        for parameter, argument, caller in scope.passed:
            if parameter == name:
                return self.trace(argument, replace(caller, seen=caller.seen | scope.seen))
        path = scope.file.path
        if any(bare_name(decorator) in ROUTE_DECORATORS for decorator in function.decorator_list):
            return [Origin(OUTSIDE, f"`{name}` is part of the request's path", path, function.lineno)]
        found: list[Origin] = []
        for file, call in self.shown.calls_of(function.name):
            given = _argument(call, name, function)
            if given is not None:
                found += self._passed_at(call, given, file, scope)
        if found:
            return found
        return [Origin(UNKNOWN, f"`{name}` is whatever the callers of {function.name} pass", path, function.lineno,
                       Need("callers", function.name))]  # fmt: skip

    def _passed_at(self, call: ast.Call, given: ast.expr, file: ShownFile, scope: Scope) -> list[Origin]:
        around = file.function_at(call.lineno)
        found = self.trace(given, Scope(file, around, seen=scope.seen))
        inside = around is None and file.lines.get(call.lineno, "")[:1].isspace()
        if inside and any(origin.kind == UNKNOWN for origin in found):
            # A search shows the call, and not the function that it stands in.
            need = Need("lines", file.path, call.lineno)
            return [Origin(UNKNOWN, "the function around a caller was not read", file.path, call.lineno, need)]
        return found

    def _call(self, node: ast.Call, scope: Scope) -> list[Origin]:
        name = bare_name(node.func)
        if name in NUMBERS or name in SANITIZERS.get(self.weakness, ()):
            return [Origin(CHECKED, f"it goes through {name}()", scope.file.path, node.lineno)]
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        if name == "get" and isinstance(node.func, ast.Attribute) and not self._is_request(node.func.value):
            return self._looked_up(node, node.func.value, scope)
        if name in CARRIERS or dotted(node.func) in OPENERS or dotted(node.func).startswith("os.path."):
            receiver = [node.func.value] if isinstance(node.func, ast.Attribute) else []
            named = {
                "tarfile",
                "zipfile",
                "gzip",
                "os",
                "re",
                "json",
                "base64",
                "urllib",
                "parse",
                "psycopg",
                "sql",
                "io",
                "pathlib",
                "path",
            }
            carried = [part for part in receiver if not (isinstance(part, ast.Name) and part.id in named)]
            carried = [part for part in carried if dotted(part) not in {"os.path", "urllib.parse", "psycopg.sql"}]
            return self._all([*carried, *given], scope) or [self._unknown(node, scope, f"{name}() gives it")]
        defined = self.shown.functions_named(name)
        if defined:
            return [origin for file, one in defined[:3] for origin in self._returned(file, one, node, scope)]
        return [
            self._unknown(node, scope, f"{name or 'a call'}() gives it", Need("definition", name) if name else None)
        ]

    def _looked_up(self, node: ast.Call, holder: ast.expr, scope: Scope) -> list[Origin]:
        """Returns the origins of `holder.get(key, default)`: whatever the key is, the value is one of the map's."""
        origins = self._all([holder, *node.args[1:]], scope)
        if any(origin.kind != CONSTANT for origin in origins):
            return origins
        what = f"it is looked up in the fixed `{ast.unparse(holder)[:60]}`"
        return [Origin(CHECKED, what, scope.file.path, node.lineno)]

    def _returned(self, file: ShownFile, function: Function, call: ast.Call, scope: Scope) -> list[Origin]:
        passed = tuple(
            (parameter, given, scope)
            for parameter in _parameters(function)
            if (given := _argument(call, parameter, function)) is not None
        )
        inner = Scope(file, function, passed, scope.seen)
        values = [one.value for one in ast.walk(function) if isinstance(one, ast.Return) and one.value is not None]
        return self._all(values, inner)

    def _subscript(self, node: ast.Subscript, scope: Scope) -> list[Origin]:
        holder = self.trace(node.value, scope)
        if holder and all(origin.kind == CONSTANT for origin in holder):
            what = f"it is looked up in the fixed `{ast.unparse(node.value)[:60]}`"
            return [Origin(CHECKED, what, scope.file.path, node.lineno)]
        return holder

    def _attribute(self, node: ast.Attribute, scope: Scope) -> list[Origin]:
        if isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}:
            values = self_values(node.attr, scope.file)
            key = (scope.file.path, 0, f"self.{node.attr}")
            if key not in scope.seen and values:
                found = []
                for value in values:
                    around = scope.file.function_at(value.lineno)
                    found += self.trace(value, Scope(scope.file, around, seen=scope.seen | {key}))
                return found
            return [self._unknown(node, scope, f"`self.{node.attr}` is set elsewhere", Need("definition", node.attr))]
        return self.trace(node.value, scope)

    def _imported(self, name: str, node: ast.Name, scope: Scope) -> list[Origin]:
        for statement in scope.file.nodes:
            if isinstance(statement, ast.ImportFrom) and any((a.asname or a.name) == name for a in statement.names):
                place = (statement.module or "").replace(".", "/")
                for file in self.shown.python:
                    if file.path.removesuffix(".py").endswith(place) and (
                        values := assigned_values(name, module_level(file), 10**9)
                    ):
                        return self._all(values, Scope(file, None, seen=scope.seen))
        return [self._unknown(node, scope, f"`{name}` is defined elsewhere", Need("definition", name))]

    def _unknown(self, node: ast.expr, scope: Scope, what: str, need: Need | None = None) -> Origin:
        return Origin(UNKNOWN, what, scope.file.path, node.lineno, need)


def _parts(node: ast.expr) -> list[ast.expr] | None:
    """Returns what an expression is made of, or None when that says nothing of its value."""
    if isinstance(node, ast.JoinedStr | ast.List | ast.Tuple | ast.Set):
        return list(node.values if isinstance(node, ast.JoinedStr) else node.elts)
    if isinstance(node, ast.FormattedValue | ast.Starred | ast.Await | ast.NamedExpr):
        return [node.value]
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.BoolOp):
        return list(node.values)
    if isinstance(node, ast.IfExp):
        return [node.body, node.orelse]
    if isinstance(node, ast.Dict):
        return list(node.values)
    if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp):
        return [node.elt]
    return [] if isinstance(node, ast.Compare) else None


def _parameters(function: Function) -> list[str]:
    arguments = function.args
    return [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def _argument(call: ast.Call, parameter: str, function: Function) -> ast.expr | None:
    for keyword in call.keywords:
        if keyword.arg == parameter:
            return keyword.value
    positional = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    if parameter not in positional:
        return None
    position = positional.index(parameter)
    if positional[0] in {"self", "cls"} and isinstance(call.func, ast.Attribute):
        position -= 1
    return call.args[position] if 0 <= position < len(call.args) else None


def _unique(origins: Iterable[Origin]) -> list[Origin]:
    return list(dict.fromkeys(origins))
