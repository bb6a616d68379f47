"""Where values come from: the program itself, a check, outside, or a place that was not shown."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from services.offline_model.code_review.bindings import bound_at, module_values, self_values
from services.offline_model.code_review.calls import Given, callers, given, parameters, targets
from services.offline_model.code_review.guards import guard_of
from services.offline_model.code_review.opinion import Need
from services.offline_model.code_review.sanitizers import is_sanitizer, looks_like_one
from services.offline_model.code_review.shown import Function, Shown, ShownFile, bare_name, dotted

CONSTANT, CHECKED, UNKNOWN, OUTSIDE = "constant", "checked", "unknown", "outside"
MAX_DEPTH = 14
# Every call met may double the ways: what takes longer than this is left to a person.
MAX_STEPS = 600
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
# Methods and functions that give back what they were given, in another form.
CARRIERS = frozenset(
    (
        "format", "join", "strip", "lstrip", "rstrip", "lower", "upper", "replace", "split", "encode", "decode", "get",
        "title", "str", "bytes", "list", "tuple", "sorted", "set", "dict", "Path", "PurePath", "resolve", "realpath",
        "abspath", "normpath", "joinpath", "expanduser", "pop", "getlist", "text", "SQL", "loads", "b64decode",
        "BytesIO", "StringIO", "unquote", "removeprefix", "removesuffix", "format_map", "splitlines", "items", "keys",
    )
)  # fmt: skip

# What gives back what it was given, written so that a URL or a pattern can hold it.
ENCODERS = frozenset({"quote", "quote_plus", "urlencode", "escape", "fspath", "fsencode", "fsdecode"})
# What reads from whatever it is given.
OPENERS = frozenset({"tarfile.open", "tarfile.TarFile", "zipfile.ZipFile", "gzip.open"})
# Modules, which carry nothing themselves when a function of theirs does.
MODULES = frozenset(
    (
        "tarfile", "zipfile", "gzip", "os", "re", "json", "base64", "urllib", "parse", "psycopg", "sql", "io",
        "pathlib", "path", "os.path", "urllib.parse", "psycopg.sql",
    )
)  # fmt: skip


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
    """Where an expression stands, and the call that led there, if one did."""

    file: ShownFile
    function: Function | None
    call: tuple[ast.Call, Scope] | None = None
    seen: frozenset[tuple[str, str, int]] = frozenset()

    def visiting(self, name: str, line: int) -> Scope:
        """Returns the scope while a name is being looked up, so that a loop ends."""
        return replace(self, seen=self.seen | {(self.file.path, name, line)})


@dataclass
class Tracer:
    """Traces values through the code that was shown, for one kind of weakness."""

    shown: Shown
    weakness: str
    _depth: int = field(default=0, repr=False)
    _steps: int = field(default=0, repr=False)

    def trace(self, node: ast.expr, scope: Scope) -> list[Origin]:
        """Returns every place that a value may come from; none when it only comes from itself."""
        self._steps += 1
        if self._depth > MAX_DEPTH or self._steps > MAX_STEPS:
            return [self._unknown(node, scope, "it goes through too many hands")]
        self._depth += 1
        try:
            return _unique(self._trace(node, scope))
        finally:
            self._depth -= 1

    def _trace(self, node: ast.expr, scope: Scope) -> list[Origin]:
        if isinstance(node, ast.Constant):
            return [Origin(CONSTANT, "the value is a constant", scope.file.path, node.lineno)]
        if self._is_request(node, scope):
            return [Origin(OUTSIDE, f"`{ast.unparse(node)[:80]}` comes from a request", scope.file.path, node.lineno)]
        if _is_typed(node):
            return [self._unknown(node, scope, f"`{ast.unparse(node)[:60]}` is up to whoever starts the program")]
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
        constant = Origin(CONSTANT, "the value is a constant", scope.file.path, node.lineno)
        return self._all(parts, scope) if parts else [constant]

    def _all(self, nodes: Iterable[ast.expr], scope: Scope) -> list[Origin]:
        return [origin for node in nodes for origin in self.trace(node, scope)]

    def _is_request(self, node: ast.expr, scope: Scope) -> bool:
        chain = dotted(node).split(".")
        if not any(name in REQUEST_NAMES and part in REQUEST_PARTS for name, part in itertools.pairwise(chain)):
            return False
        # A request that the program makes itself is an outgoing one.
        root = ast.Name(chain[0], lineno=node.lineno, col_offset=0)
        made = scope.function is not None and bool(bound_at(chain[0], scope.function.body, root).values)
        return not made and not scope.file.imports.get(chain[0], "").startswith(("urllib", "requests", "httpx"))

    def _name(self, node: ast.Name, scope: Scope) -> list[Origin]:
        name, path, function = node.id, scope.file.path, scope.function
        if (path, name, node.lineno) in scope.seen:
            return []
        inner = scope.visiting(name, node.lineno)
        if function is not None and (guard := guard_of(name, function, node.lineno)):
            return [Origin(CHECKED, f"`{name}` is checked", path, guard)]
        bound = bound_at(name, function.body if function else scope.file.statements, node)
        found = self._all(bound.values, inner)
        if bound.replaced or (function is None and bound.values):
            return found
        if function is not None and name in parameters(function):
            return found + self._parameter(name, function, inner)
        module = module_values(name, scope.file)
        if module:
            return found + self._all(module, Scope(scope.file, None, seen=inner.seen))
        return found if bound.values else self._imported(name, node, inner)

    def _parameter(self, name: str, function: Function, scope: Scope) -> list[Origin]:
        path = scope.file.path
        if scope.call is not None:
            call, caller = scope.call
            return self._passed(given(call, name, function), function, replace(caller, seen=caller.seen | scope.seen))
        if any(bare_name(decorator) in ROUTE_DECORATORS for decorator in function.decorator_list):
            return [Origin(OUTSIDE, f"`{name}` is part of the request's path", path, function.lineno)]
        need = Need("callers", function.name)
        unknown = Origin(UNKNOWN, f"`{name}` is whatever the callers of {function.name} pass", path, function.lineno,
                         need)  # fmt: skip
        found: list[Origin] = []
        for file, reached in callers(self.shown, scope.file, function):
            found += [unknown] if reached is None else self._passed_at(reached, name, function, file, scope)
        # One caller that was shown is not all of them: the others are to be looked for.
        return [replace(origin, need=origin.need or need) for origin in found] or [unknown]

    def _passed_at(self, call: ast.Call, name: str, function: Function, file: ShownFile, scope: Scope) -> list[Origin]:
        around = file.function_at(call.lineno)
        if around is function and file is scope.file and (file.path, name, -call.lineno) in scope.seen:
            return []
        inner = Scope(file, around, seen=scope.seen).visiting(name, -call.lineno)
        found = self._passed(given(call, name, function), function, inner)
        inside = around is None and file.lines.get(call.lineno, "")[:1].isspace()
        if inside and any(origin.kind == UNKNOWN for origin in found):
            # A search shows the call, and not the function that it stands in.
            need = Need("lines", file.path, call.lineno)
            return [Origin(UNKNOWN, "the function around a caller was not read", file.path, call.lineno, need)]
        return found

    def _passed(self, passed: Given, function: Function, caller: Scope) -> list[Origin]:
        if passed.value is not None:
            return self.trace(passed.value, caller)
        return [Origin(UNKNOWN, f"a call of {function.name} passes more than it shows", caller.file.path,
                       function.lineno)]  # fmt: skip

    def _call(self, node: ast.Call, scope: Scope) -> list[Origin]:
        name = bare_name(node.func)
        defined = targets(self.shown, node, scope.file)
        if not defined and (name in NUMBERS or is_sanitizer(node, self.weakness, scope.file)):
            return [Origin(CHECKED, f"it goes through {name}()", scope.file.path, node.lineno)]
        if not defined and looks_like_one(node, self.weakness, scope.file):
            need = Need("lines", scope.file.path, 1)
            return [self._unknown(node, scope, f"which {name}() it goes through", need)]
        passed = [*node.args, *(keyword.value for keyword in node.keywords)]
        if name == "get" and isinstance(node.func, ast.Attribute):
            return self._looked_up(node, node.func.value, scope)
        if name in CARRIERS or name in ENCODERS or dotted(node.func) in OPENERS or _is_of_paths(node, scope):
            receiver = [node.func.value] if isinstance(node.func, ast.Attribute) else []
            carried = [part for part in receiver if dotted(part) not in MODULES]
            return self._all([*carried, *passed], scope) or [self._unknown(node, scope, f"{name}() gives it")]
        if defined:
            return [origin for file, one in defined for origin in self._returned(file, one, node, scope)]
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
        inner = Scope(file, function, (call, scope), scope.seen)
        values = [
            one.value
            for one in ast.walk(function)
            if isinstance(one, ast.Return | ast.Yield | ast.YieldFrom) and one.value is not None
        ]
        return self._all(values, inner) or [self._unknown(call, scope, f"what {function.name}() returns")]

    def _subscript(self, node: ast.Subscript, scope: Scope) -> list[Origin]:
        holder = self.trace(node.value, scope)
        if holder and all(origin.kind == CONSTANT for origin in holder):
            what = f"it is looked up in the fixed `{ast.unparse(node.value)[:60]}`"
            return [Origin(CHECKED, what, scope.file.path, node.lineno)]
        return holder

    def _attribute(self, node: ast.Attribute, scope: Scope) -> list[Origin]:
        if isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}:
            values = self_values(node.attr, scope.file)
            key = (scope.file.path, f"self.{node.attr}", 0)
            if key not in scope.seen and values:
                found = []
                for value in values:
                    around = scope.file.function_at(value.lineno)
                    found += self.trace(value, Scope(scope.file, around, seen=scope.seen | {key}))
                return found
            return [self._unknown(node, scope, f"`self.{node.attr}` is set elsewhere", Need("definition", node.attr))]
        return self.trace(node.value, scope)

    def _imported(self, name: str, node: ast.Name, scope: Scope) -> list[Origin]:
        module, _, original = scope.file.imports.get(name, "").strip(".").rpartition(".")
        for file in self.shown.python if module else ():
            if file.path.removesuffix(".py").endswith(module.replace(".", "/")) and (
                values := module_values(original, file)
            ):
                return self._all(values, Scope(file, None, seen=scope.seen))
        return [self._unknown(node, scope, f"`{name}` is defined elsewhere", Need("definition", name))]

    def _unknown(self, node: ast.expr, scope: Scope, what: str, need: Need | None = None) -> Origin:
        return Origin(UNKNOWN, what, scope.file.path, node.lineno, need)


def _is_typed(node: ast.expr) -> bool:
    """Tells whether a value is what a person at a terminal typed."""
    chain = dotted(node).split(".")
    return chain[:2] == ["sys", "argv"] or (chain == ["input"] and isinstance(node, ast.Call))


def _is_of_paths(node: ast.Call, scope: Scope) -> bool:
    return scope.file.full_name(node.func).startswith("os.path.")


def _parts(node: ast.expr) -> list[ast.expr] | None:
    """Returns what an expression is made of, or None when that says nothing of its value."""
    if isinstance(node, ast.JoinedStr | ast.List | ast.Tuple | ast.Set):
        return list(node.values if isinstance(node, ast.JoinedStr) else node.elts)
    if isinstance(node, ast.FormattedValue | ast.Starred | ast.Await | ast.NamedExpr):
        return [node.value]
    if isinstance(node, ast.UnaryOp):
        return [node.operand]
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.BoolOp):
        return list(node.values)
    if isinstance(node, ast.IfExp):
        return [node.body, node.orelse]
    if isinstance(node, ast.Dict):
        return [part for part in [*node.keys, *node.values] if part is not None]
    if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp):
        return [node.elt]
    return [] if isinstance(node, ast.Compare) else None


def _unique(origins: Iterable[Origin]) -> list[Origin]:
    return list(dict.fromkeys(origins))
