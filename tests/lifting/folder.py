"""How much of other people's path functions can be lifted: `python -m tests.lifting.folder FOLDER…`.

Folders are read, and not installed: of a module only definitions and constants are made, of those of other packages
that are not here a stand-in. Each conditional edge counts as one function.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any

from langgraph.graph import END, START

from services.runtime.hosted.lifting.expressions import NotLiftedError
from tests.lifting.agreement import STATES, agreement, lift

ALL_THERE_ARE = ", all there are"
SKIPPED = {".git", ".venv", "node_modules", "site-packages", "tests"}
HERE = ("langchain_core", "langgraph", "typing", "typing_extensions", "enum", "dataclasses", "pydantic", "operator",
        "functools", "logging", "re", "json", "datetime", "math", "collections", "abc", "uuid")  # fmt: skip


class _StandsIn(type):
    """Gives a stand-in what is asked of it, while functions run; while they are read there is no such thing."""

    running = False

    def __getattr__(cls, name: str) -> Any:
        if not _StandsIn.running or name.startswith("__"):
            raise AttributeError(name)
        return StandIn()


class StandIn(metaclass=_StandsIn):
    """In the place of what is not installed: a logger, a colour, a client."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __call__(self, *_: Any, **__: Any) -> Any:
        return self

    def __class_getitem__(cls, _: Any) -> Any:
        return cls

    def __getattr__(self, name: str) -> Any:
        return getattr(type(self), name)

    def __add__(self, other: Any) -> str:
        return f"{other}"

    __radd__ = __add__


@contextmanager
def running(function: Any, module: Module) -> Iterator[None]:
    """Puts stand-ins in the place of what a function names and nobody made: a module's logger, an object's client."""
    names = getattr(function, "__globals__", {})
    missing = {name: StandIn() for name in module.made_by_calls if name not in names}
    owner = vars(function.__self__) if isinstance(function, MethodType) else {}
    asked = {name: StandIn() for name in function.__code__.co_names if isinstance(function, MethodType)}
    asked = {name: value for name, value in asked.items() if name in module.assigned_to_self and name not in owner}
    names.update(missing)
    owner.update(asked)
    _StandsIn.running = True
    try:
        yield
    finally:
        _StandsIn.running = False
        for name in missing:
            del names[name]
        for name in asked:
            del owner[name]


@dataclass(frozen=True)
class Edge:
    """A conditional edge that stands in a file."""

    file: Path
    line: int
    path: ast.expr
    ends: ast.expr | None
    around: tuple[ast.AST, ...]


class Module:
    """A file's definitions and constants."""

    def __init__(self, file: Path, root: Path) -> None:
        self.file = file
        self.root = root
        self.tree = ast.parse(file.read_text("utf-8", "replace"))
        self._names: dict[str, Any] | None = None

    @property
    def names(self) -> dict[str, Any]:
        """What its names stand for; of modules that import one another, what there is by then."""
        if self._names is None:
            self._names = {"__name__": self.file.stem, "__builtins__": builtins}
            self._fill(self._names)
        return self._names

    def _fill(self, names: dict[str, Any]) -> None:
        for statement in self.tree.body:
            match statement:
                case ast.Import() | ast.ImportFrom():
                    self._import(statement, names)
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                    self._run(statement, names)
                case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value) if _is_constant(value):
                    self._run(statement, names)

    def _run(self, statement: ast.stmt, names: dict[str, Any]) -> None:
        plain = _undecorated(statement)
        try:
            exec(compile(ast.Module([plain], []), str(self.file), "exec"), names)
        except Exception:
            if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                names.setdefault(statement.name, StandIn)

    def _import(self, statement: ast.Import | ast.ImportFrom, names: dict[str, Any]) -> None:
        for each in statement.names:
            name = each.asname or each.name.partition(".")[0]
            names[name] = self._imported(statement, each.name)

    def _imported(self, statement: ast.Import | ast.ImportFrom, name: str) -> Any:
        module = statement.module or "" if isinstance(statement, ast.ImportFrom) else name
        if module.partition(".")[0] in HERE and not getattr(statement, "level", 0):
            try:
                found = importlib.import_module(module)
            except ImportError:
                return StandIn
            return (
                getattr(found, name, StandIn)
                if isinstance(statement, ast.ImportFrom)
                else sys.modules[name.partition(".")[0]]
            )
        own = self._own(statement, module)
        if own is None:
            return StandIn
        if isinstance(statement, ast.Import):
            made = ModuleType(module)
            vars(made).update(own.names)
            return made
        return own.names.get(name, StandIn)

    def _own(self, statement: ast.Import | ast.ImportFrom, module: str) -> Module | None:
        parts = module.split(".") if module else []
        level = getattr(statement, "level", 0)
        if level:
            places = [self.file.parents[level - 1].joinpath(*parts)]
        else:
            places = [parent.joinpath(*parts) for parent in self.file.parents if parent.is_relative_to(self.root)]
            places += [
                parent / "src" / Path(*parts) for parent in self.file.parents if parent.is_relative_to(self.root)
            ]
        for place in places:
            for file in (place.with_suffix(".py"), place / "__init__.py"):
                if file.is_file() and file != self.file:
                    try:
                        return module_of(file, self.root)
                    except (SyntaxError, RecursionError):
                        return None
        return None

    @cached_property
    def made_by_calls(self) -> set[str]:
        """The names of the module that stand for what only running it makes."""
        return {
            target.id
            for statement in self.tree.body
            if isinstance(statement, ast.Assign) and not _is_constant(statement.value)
            for target in statement.targets
            if isinstance(target, ast.Name)
        }

    @cached_property
    def assigned_to_self(self) -> set[str]:
        """The attributes that methods give their objects."""
        return {
            node.attr
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        }

    @cached_property
    def edges(self) -> list[Edge]:
        """The conditional edges that it makes."""
        return list(_edges(self.tree, self.file, ()))


@cache
def module_of(file: Path, root: Path) -> Module:
    """Returns a file's module."""
    return Module(file, root)


def _edges(node: ast.AST, file: Path, around: tuple[ast.AST, ...]) -> Iterator[Edge]:
    for child in ast.iter_child_nodes(node):
        inside = (
            (*around, child) if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else around
        )
        match child:
            case ast.Call(ast.Attribute(attr="add_conditional_edges"), arguments, keywords):
                named = {each.arg: each.value for each in keywords}
                path = arguments[1] if len(arguments) > 1 else named.get("path")
                ends = arguments[2] if len(arguments) > 2 else named.get("path_map")
                if path is not None:
                    yield Edge(file, child.lineno, path, ends, around)
        yield from _edges(child, file, inside)


def _is_constant(value: ast.expr) -> bool:
    calls = (ast.Call, ast.Attribute, ast.Lambda, ast.Await, ast.Yield, ast.comprehension)
    return not any(isinstance(each, calls) for each in ast.walk(value))


def _undecorated(statement: ast.stmt) -> ast.stmt:
    if isinstance(statement, ast.ClassDef):
        kept = [each for each in statement.decorator_list if "dataclass" in ast.unparse(each)]
        body = [each if _is_kind(each) else _undecorated(each) for each in statement.body]
        made = ast.ClassDef(statement.name, statement.bases, statement.keywords, body, kept)
        return ast.copy_location(made, statement)
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        kind = type(statement)
        made_ = kind(statement.name, _unannotated(statement.args), statement.body, [], None)
        return ast.fix_missing_locations(ast.copy_location(made_, statement))
    return statement


def _is_kind(function: ast.stmt) -> bool:
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return True
    return any(ast.unparse(each) in ("staticmethod", "classmethod", "property") for each in function.decorator_list)


def _unannotated(given: ast.arguments) -> ast.arguments:
    for each in (*given.posonlyargs, *given.args, *given.kwonlyargs):
        each.annotation = None
    return given


def function_of(edge: Edge, module: Module) -> Any:
    """Returns the path function of an edge. Raises NotLiftedError where it is made in a way that can't be followed."""
    names = dict(module.names)
    for scope in edge.around:
        if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
            _names_in(scope, module, names)
    match edge.path:
        case ast.Name(name):
            found = names.get(name, StandIn)
        case ast.Attribute(ast.Name("self"), name):
            classes = [each for each in edge.around if isinstance(each, ast.ClassDef)]
            found = _method(names.get(classes[-1].name), name, module) if classes else StandIn
        case ast.Attribute(owner, name):
            found = _of_owner(owner, name, module, names)
        case ast.Lambda():
            found = eval(compile(ast.Expression(edge.path), str(module.file), "eval"), names)
        case _:
            raise NotLiftedError("is made by a call")
    if isinstance(found, FunctionType | MethodType):
        return found
    raise NotLiftedError("is not in the folder")


def _names_in(scope: ast.FunctionDef | ast.AsyncFunctionDef, module: Module, names: dict[str, Any]) -> None:
    """Adds what a function defines that an edge is made in."""
    for statement in ast.walk(scope):
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() if statement is not scope:
                module._run(statement, names)
            case ast.Assign([ast.Name()], value) if _is_constant(value) and not isinstance(value, ast.Name):
                module._run(statement, names)
            case ast.Import() | ast.ImportFrom():
                module._import(statement, names)


def _of_owner(owner: ast.expr, name: str, module: Module, names: dict[str, Any]) -> Any:
    known = names.get(owner.id) if isinstance(owner, ast.Name) else None
    if isinstance(known, type | ModuleType):
        return getattr(known, name, StandIn)
    # An instance of something: the one class of the folder that has a method of that name.
    found = []
    for file in _files(module.root):
        try:
            other = module_of(file, module.root)
        except SyntaxError:
            continue
        classes = [node for node in other.tree.body if isinstance(node, ast.ClassDef)]
        found += [
            (other, each.name) for each in classes if any(getattr(part, "name", "") == name for part in each.body)
        ]
    if len(found) != 1:
        raise NotLiftedError("is a method that is not in the folder once")
    other, kind = found[0]
    return _method(other.names.get(kind), name, other)


def _method(kind: Any, name: str, module: Module) -> Any:
    if not isinstance(kind, type):
        return StandIn
    static = next((vars(each)[name] for each in kind.__mro__ if name in vars(each)), None)
    if isinstance(static, staticmethod):
        return static.__func__
    if not isinstance(static, FunctionType):
        return StandIn
    made: Any = object.__new__(kind)
    tree = next(
        (each for each in module.tree.body if isinstance(each, ast.ClassDef) and each.name == kind.__name__), None
    )
    begin = next((each for each in tree.body if getattr(each, "name", "") == "__init__"), None) if tree else None
    if isinstance(begin, ast.FunctionDef):
        given = {each.arg: value for each, value in zip(begin.args.args[::-1], begin.args.defaults[::-1], strict=False)}
        for node in ast.walk(begin):
            match node:
                case ast.Assign([ast.Attribute(ast.Name("self"), attribute)], value):
                    value = given.get(value.id, value) if isinstance(value, ast.Name) else value
                    if isinstance(value, ast.Constant):
                        vars(made)[attribute] = value.value
    return MethodType(static, made)


def ends_of(edge: Edge, module: Module) -> dict[Any, str] | None:
    """Returns the path map that stands beside an edge."""
    if edge.ends is None:
        return None
    try:
        found = eval(compile(ast.Expression(edge.ends), "<ends>", "eval"), {**module.names, "END": END, "START": START})
    except Exception:
        return None
    if isinstance(found, list | tuple):
        return {each: each for each in found}
    return {key: str(to) for key, to in found.items()} if isinstance(found, dict) else None


def _files(root: Path) -> list[Path]:
    return [each for each in sorted(root.rglob("*.py")) if not SKIPPED.intersection(each.relative_to(root).parts)]


def main(folders: list[str]) -> int:
    """Says of each folder how many path functions were lifted, and whether table and function agree."""
    total, reasons, rows = Counter[str](), Counter[str](), list[tuple[str, Counter[str]]]()
    for folder in folders:
        root, counts = Path(folder).resolve(), Counter[str]()
        for file in _files(root):
            try:
                module = module_of(file, root)
            except (SyntaxError, RecursionError):
                continue
            for edge in module.edges:
                counts["functions"] += 1
                said = _one(edge, module)
                counts["lifted"] += said.startswith("✓")
                counts["states"] += int(said.split()[1]) if said.startswith("✓") else 0
                counts["wrong"] += "DISAGREES" in said
                fewer = said.startswith("✓") and int(said.split()[1]) < STATES
                counts["exhausted"] += fewer and ALL_THERE_ARE in said
                counts["fewer"] += fewer and ALL_THERE_ARE not in said
                if not said.startswith("✓"):
                    reasons[said] += 1
                sys.stdout.write(f"  {file.relative_to(root)}:{edge.line} {ast.unparse(edge.path)[:40]}: {said}\n")
        total += counts
        if counts["functions"]:
            rows.append((root.name, counts))
    rows.append(("all", total))
    width = max(len(name) for name, _ in rows)
    sys.stdout.write(f"{'':{width}} functions lifted    states on all there are on fewer disagree\n")
    sys.stdout.writelines(
        f"{name:{width}} {counts['functions']:9} {counts['lifted']:6} {counts['states']:9,} {counts['exhausted']:16} "
        f"{counts['fewer']:8} {counts['wrong']:8}\n"
        for name, counts in rows
    )
    sys.stdout.writelines(f"  {count:3} {reason}\n" for reason, count in reasons.most_common())
    return int(total["wrong"] > 0)


def _one(edge: Edge, module: Module) -> str:
    ends = ends_of(edge, module)
    try:
        function = function_of(edge, module)
        lifted = lift(function, ends, _nodes(module))
    except NotLiftedError as error:
        return f"✗ it {error}"
    with running(function, _module_of(function, module)):
        found = agreement(lifted, function, ends, _nodes(module), attempts=25)
    whole = ALL_THERE_ARE if found.decided < STATES and found.is_exhausted else ""
    told = f"✓ {found.decided} states{whole}, {found.raised} raised, {found.refused} refused, rules {found.rules}"
    if found.disagreements:
        state, place, other = found.disagreements[0]
        told += f" DISAGREES {len(found.disagreements)}: {place} not {other} on {str(state)[:300]}"
    return told


def _module_of(function: Any, module: Module) -> Module:
    """Returns the module that a function is defined in."""
    return module_of(Path(function.__code__.co_filename), module.root)


def _nodes(module: Module) -> list[str]:
    return [
        name
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "add_node"
        and node.args
        and (name := _name_of(node.args[0]))
    ]


def _name_of(node: ast.expr) -> str:
    """Returns the name of a node of a graph, which may be its function's."""
    match node:
        case ast.Constant(str(name)) | ast.Name(name) | ast.Attribute(attr=name):
            return name
    return ""


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
