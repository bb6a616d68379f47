"""Which calls reach a function, and which functions a call reaches: by name, and only where the name can mean it."""

from __future__ import annotations

import ast
import builtins
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from services.offline_model.code_review.bindings import functions_named
from services.offline_model.code_review.shown import Function, Shown, ShownFile, bare_name, dotted

MAX_TARGETS = 3
_BUILTINS = frozenset(dir(builtins))
# Methods that anything may have: on an object whose class was not shown, they say nothing of whose they are.
_ANYBODYS = frozenset(
    name for kind in (str, bytes, dict, list, set, io.BytesIO, io.TextIOWrapper) for name in dir(kind)
) | {"get", "post", "put", "delete", "patch", "head", "run", "call", "execute", "start", "stop", "send", "open",
     "save", "load", "loads", "dump", "dumps", "connect", "submit", "process", "handle", "main", "parse"}  # fmt: skip
_SELVES = frozenset({"self", "cls"})


@dataclass(frozen=True)
class Given:
    """What a call gives a parameter: an expression where the call stands, one of the function's own, or who knows."""

    value: ast.expr | None
    is_default: bool = False


def parameters(function: Function) -> list[str]:
    """Returns the names of a function's parameters, without those that gather the rest."""
    arguments = function.args
    return [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def given(call: ast.Call, parameter: str, function: Function) -> Given:
    """Returns what a call gives a parameter."""
    for keyword in call.keywords:
        if keyword.arg == parameter:
            return Given(keyword.value)
    positional = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    if positional[:1] and positional[0] in _SELVES and not _names_self(call):
        positional = positional[1:]
    before = call.args[: positional.index(parameter) + 1] if parameter in positional else []
    if any(isinstance(part, ast.Starred) for part in before or call.args):
        return Given(None)
    if parameter in positional and len(before) == positional.index(parameter) + 1:
        return Given(before[-1])
    if any(keyword.arg is None for keyword in call.keywords):
        return Given(None)
    default = _default(function, parameter)
    return Given(default, is_default=default is not None)


def callers(shown: Shown, file: ShownFile, function: Function) -> Iterator[tuple[ShownFile, ast.Call | None]]:
    """Yields the calls that reach a function; None for one that may, as on an object whose class was not shown."""
    owner, is_method = file.class_of(function), _is_method(file, function)
    name = function.name
    if name == "__init__":
        yield from shown.calls.get(owner.name, ()) if owner else ()
        yield from ((where, None) for where in shown.python if owner and _is_made_otherwise(shown, where, owner))
        return
    for where, call in shown.calls.get(name, ()):
        if _reaches(call, where, file, name, owner.name if owner else "", is_method=is_method):
            yield where, call
        elif is_method and isinstance(call.func, ast.Attribute):
            yield where, None
    for where in shown.python:
        if any(_names_it(node, where, name, is_method=is_method) for node in where.nodes):
            yield where, None


def targets(shown: Shown, call: ast.Call, file: ShownFile) -> list[tuple[ShownFile, Function]]:
    """Returns the functions that a call may reach."""
    name = bare_name(call.func)
    if isinstance(call.func, ast.Name) and name in _BUILTINS:
        return []
    bound = [(where, one) for where, one in functions_named(shown, file, call.func) if not _is_method(where, one)]
    if isinstance(call.func, ast.Name) or bound:
        return bound if len(bound) <= MAX_TARGETS else []
    found = []
    for where, function in shown.functions.get(name, ()):
        owner = where.class_of(function)
        owner_name = owner.name if owner else ""
        if not _is_method(where, function) or not _may_be_of(shown, call, file, owner_name):
            continue
        if _reaches(call, file, where, name, owner_name, is_method=True):
            found.append((where, function))
    return found if len(found) <= MAX_TARGETS else []


def _may_be_of(shown: Shown, call: ast.Call, file: ShownFile, owner: str) -> bool:
    """Tells whether the object whose method is called may be of a class; what is imported is of another one."""
    receiver = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    root = dotted(receiver).partition(".")[0]
    if root in file.imports:
        return bare_name(receiver) == owner
    around = file.function_at(call.lineno) if root in {*_SELVES, "super"} and dotted(receiver) == root else None
    if around is None and not isinstance(receiver, ast.Call) and root not in {owner, *_SELVES, "super"}:
        return _is_made(shown, file, receiver, owner)
    own = file.class_of(around) if around else None
    below = [one for one in shown.classes if one.name == owner]
    return (
        own is None
        or not owner
        or owner in _lineage(shown, own)
        or any(own.name in _lineage(shown, one) for one in below)
    )


def _is_made(shown: Shown, file: ShownFile, receiver: ast.expr, owner: str) -> bool:
    """Tells whether everything that a name or an attribute is given is made by a class."""
    places: list[ShownFile] = shown.python
    nodes: list[tuple[ShownFile, ast.AST]]
    if isinstance(receiver, ast.Name):
        around = file.function_at(receiver.lineno)
        if around is not None and receiver.id in parameters(around):
            return False
        inside = list(ast.walk(around)) if around is not None else []
        is_local = any(isinstance(one, ast.Name) and one.id == receiver.id and not isinstance(one.ctx, ast.Load)
                       for one in inside)  # fmt: skip
        nodes = [(file, one) for one in (inside if is_local else file.nodes)]
    else:
        nodes = [(where, one) for where in places for one in where.nodes]
    name = bare_name(receiver)
    given_ = [
        where.parents.get(id(one))
        for where, one in nodes
        if not isinstance(getattr(one, "ctx", ast.Load()), ast.Load)
        and bare_name(one) == name
        and isinstance(one, ast.Attribute | ast.Name)
    ]
    return bool(given_) and all(
        isinstance(one, ast.Assign | ast.AnnAssign)
        and isinstance(one.value, ast.Call)
        and bare_name(one.value) == owner
        for one in given_
    )


def _lineage(shown: Shown, own: ast.ClassDef) -> set[str]:
    """Returns the names of a class and of all that it inherits from, as far as they were shown."""
    classes = {node.name: node for file in shown.python for node in file.nodes if isinstance(node, ast.ClassDef)}
    names, more = {own.name}, [own]
    while more:
        bases = {bare_name(base) for base in more.pop().bases} - names
        names |= bases
        more += [classes[base] for base in bases if base in classes]
    return names


def _is_method(file: ShownFile, function: Function) -> bool:
    return file.class_of(function) is not None or parameters(function)[:1] in (["self"], ["cls"])


def _reaches(call: ast.Call, where: ShownFile, file: ShownFile, name: str, owner: str, *, is_method: bool) -> bool:
    if isinstance(call.func, ast.Name):
        place = where.imports.get(call.func.id, "").strip(".").rpartition(".")[0].rpartition(".")[2]
        return not is_method and (where is file or not place or place == _module(file))
    if not isinstance(call.func, ast.Attribute):
        return False
    receiver = bare_name(call.func.value)
    if not is_method:
        return receiver == _module(file) or where.full_name(call.func.value).rpartition(".")[2] == _module(file)
    if receiver in _SELVES or receiver == "super":
        return where is file or name not in _ANYBODYS
    return receiver == owner or name not in _ANYBODYS


def _module(file: ShownFile) -> str:
    path = PurePosixPath(file.path)
    return path.parent.name if path.stem == "__init__" else path.stem


def _names_self(call: ast.Call) -> bool:
    """Tells whether a call names the object itself among its arguments, as `Parent.method(self, …)` does."""
    return bool(call.args) and isinstance(call.args[0], ast.Name) and call.args[0].id in _SELVES


def _names_it(node: ast.AST, file: ShownFile, name: str, *, is_method: bool) -> bool:
    """Tells whether a place names a function without calling it there: whoever has it may call it, with anything."""
    if isinstance(node, ast.alias):
        return node.name.rpartition(".")[2] == name and node.asname not in (None, name)
    around = file.parents.get(id(node))
    if isinstance(node, ast.Constant):
        # It is looked up by its name, as among the globals or the attributes.
        looks = isinstance(around, ast.Call) and bare_name(around.func) in {"getattr", "methodcaller", "get"}
        return node.value == name and (looks or isinstance(around, ast.Subscript))
    named = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    if named != name or not isinstance(getattr(node, "ctx", None), ast.Load):
        return False
    return is_method <= isinstance(node, ast.Attribute) and not (isinstance(around, ast.Call) and around.func is node)


def _is_made_otherwise(shown: Shown, file: ShownFile, owner: ast.ClassDef) -> bool:
    """Tells whether objects of a class may be made by other calls than those of its name."""
    for node in file.nodes:
        if isinstance(node, ast.ClassDef) and node is not owner and owner.name in _lineage(shown, node):
            return True
        if isinstance(node, ast.alias) and node.name == owner.name and node.asname not in (None, owner.name):
            return True
        if isinstance(node, ast.Call):
            is_own = bare_name(node.func) in {"cls", "__class__", "type"} and any(
                node is one for one in ast.walk(owner)
            )
            if is_own or (bare_name(node.func) == "__init__" and bare_name(_receiver(node)) == owner.name):
                return True
        if isinstance(node, ast.Name) and node.id == owner.name and isinstance(node.ctx, ast.Load):
            around = file.parents.get(id(node))
            is_passed = isinstance(around, ast.Call) and bare_name(around.func) not in {"isinstance", "issubclass"}
            if isinstance(around, ast.Assign | ast.Dict | ast.List | ast.Return | ast.keyword) or (
                isinstance(around, ast.Call) and is_passed and around.func is not node
            ):
                return True
    return False


def _receiver(call: ast.Call) -> ast.expr:
    return call.func.value if isinstance(call.func, ast.Attribute) else call.func


def _default(function: Function, parameter: str) -> ast.expr | None:
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = [*zip(reversed(positional), reversed(arguments.defaults), strict=False)]
    pairs += [(one, value) for one, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value]
    return next((value for one, value in pairs if one.arg == parameter), None)
