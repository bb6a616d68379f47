"""What names stand for, as the source of their module says."""

from __future__ import annotations

import ast
import builtins
import importlib.util
import inspect
import sys
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final

from services.runtime.hosted.lifting import expressions as ex
from services.runtime.hosted.path_function import PathFunction

_PLAIN: Final = (bool, int, float, str, type(None), list, tuple, set, frozenset, dict)
_MADE: Final = ("set", "frozenset", "tuple", "list")
_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
# Its END and START are what every graph is written with.
_KNOWN: Final = "langgraph"


def bound_in(tree: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yields names that something in a tree gives a value to, each with what does."""
    for each in ast.walk(tree):
        yield from ((name, each) for name in _bound_by(each))


def _bound_by(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.MatchAs(name=str() as name) | ast.MatchStar(name=str() as name):
            yield name
        case ast.ExceptHandler(name=str() as name) | ast.MatchMapping(rest=str() as name):
            yield name
        case ast.Import(names) | ast.ImportFrom(names=names):
            yield from (each.asname or each.name.partition(".")[0] for each in names)


def computed(named: Sequence[ex.Named]) -> Iterator[ex.Named]:
    """Yields plain values that no literal says: of a module, of a class in it, or of a parameter's default.

    They may be other values elsewhere: from the environment, a file, or what a function is given.
    """
    # What a dict has by a key is said with the dict.
    wholes = [each.value for each in named if isinstance(each.value, dict)]
    for each in named:
        if not (any(each.home is whole for whole in wholes) or _is_literal(each)):
            yield each


def _is_literal(named: ex.Named) -> bool:
    if type(named.value) not in _PLAIN:
        return True
    name, home = named.name.rpartition(".")[2], named.home
    if isinstance(home, dict) and isinstance(module := sys.modules.get(home.get("__name__", "")), ModuleType):
        return vars(module) is home and _is_in_module(module, name, named.value)
    if isinstance(home, ModuleType):
        return _is_in_module(home, name, named.value)
    if isinstance(home, Enum):
        return name == "name" or _is_in_class(type(home), home.name, named.value)
    if isinstance(home, type):
        return any(_is_in_class(each, name, named.value) for each in home.__mro__ if name in vars(each))
    return isinstance(home, FunctionType) and _is_default(home, name, named.value)


def _is_in_module(module: ModuleType, name: str, value: Any) -> bool:
    tree = _tree(module)
    # Of the module itself, not of its functions, unless these say that they mean it.
    nodes = [each for each in _own(tree) if name in _bound_by(each)]
    if len(nodes) != 1 or any(isinstance(each, ast.Global) and name in each.names for each in ast.walk(tree)):
        return False
    if isinstance(statement := nodes[0], ast.ImportFrom):
        of = importlib.util.resolve_name(f"{'.' * statement.level}{statement.module or ''}", module.__package__)
        other = sys.modules.get(of)
        original = next(each.name for each in statement.names if (each.asname or each.name) == name)
        return of.partition(".")[0] == _KNOWN or (other is not None and _is_in_module(other, original, value))
    return _is_given(tree.body, nodes[0], module, value)


def _is_in_class(kind: type, name: str, value: Any) -> bool:
    module = sys.modules.get(kind.__module__)
    body = _tree(module).body if module else []
    for part in kind.__qualname__.split("."):
        body = next((each.body for each in body if isinstance(each, ast.ClassDef) and each.name == part), [])
    nodes = [each for statement in body for each in _own(statement) if name in _bound_by(each)]
    return module is not None and len(nodes) == 1 and _is_given(body, nodes[0], module, value)


def _is_default(function: FunctionType, name: str, value: Any) -> bool:
    tree, module = PathFunction(function).tree, inspect.getmodule(function)
    if module is None or not isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return False
    given = tree.args
    positional = [*given.posonlyargs, *given.args]
    defaults = [*zip(reversed(positional), reversed(given.defaults), strict=False)]
    defaults += [(each, default) for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True) if default]
    return any(_says(default, module, value) for each, default in defaults if each.arg == name)


def _is_given(body: list[ast.stmt], target: ast.AST, module: ModuleType, value: Any) -> bool:
    """Whether a statement of a body gives a target a literal of this value."""
    for each in body:
        match each:
            case ast.Assign(targets, said) if target in targets:
                return _says(said, module, value)
            case ast.AnnAssign(target=one, value=ast.expr() as said) if target is one:
                return _says(said, module, value)
    return False


def _says(said: ast.expr, module: ModuleType, value: Any) -> bool:
    if not _is_said(said, module):
        return False
    around = {**vars(module), "__builtins__": {name: getattr(builtins, name) for name in _MADE}}
    # What has been put into it since isn't in the source.
    found = eval(compile(ast.Expression(said), "<literal>", "eval"), around)  # noqa: S307 - literals alone
    return type(found) is type(value) and bool(found == value)


def _is_said(said: ast.expr, module: ModuleType) -> bool:
    """Whether an expression is made of literals, and of names of them."""
    match said:
        case ast.Constant():
            return True
        case ast.Name(name) if name in vars(module):
            value = vars(module)[name]
            return type(value) in _PLAIN and _is_in_module(module, name, value)
        case ast.Tuple(parts) | ast.List(parts) | ast.Set(parts):
            return all(_is_said(each, module) for each in parts)
        case ast.Dict(keys, values):
            return all(each is not None and _is_said(each, module) for each in [*keys, *values])
        case ast.UnaryOp(operand=part):
            return _is_said(part, module)
        case ast.BinOp(left, _, right):
            return _is_said(left, module) and _is_said(right, module)
        case ast.Call(ast.Name(name), parts, []) if name in _MADE and name not in vars(module):
            return all(_is_said(each, module) for each in parts)
    return False


def _own(tree: ast.AST) -> Iterator[ast.AST]:
    """Yields what is in a tree, but for what is in functions and classes."""
    yield tree
    for each in ast.iter_child_nodes(tree):
        if isinstance(each, _SCOPES):
            yield each
        else:
            yield from _own(each)


def _tree(module: ModuleType) -> ast.Module:
    try:
        return ast.parse(Path(module.__file__ or "").read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ast.Module([], [])
