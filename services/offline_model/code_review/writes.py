"""Where code writes to the names of a module and to attributes from elsewhere, or into the objects that they hold."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from services.offline_model.code_review.calls import parameters
from services.offline_model.code_review.shown import Shown, ShownFile, bare_name, dotted

_MUTATES = frozenset({"append", "extend", "insert", "add", "update", "setdefault", "pop", "remove", "clear", "discard",
                      "appendleft", "popitem", "__setitem__"})  # fmt: skip
_SETTERS = frozenset({"globals", "vars", "setattr", "exec", "eval", "locals"})


def changed_at(name: str, file: ShownFile, shown: Shown) -> tuple[str, int] | None:
    """Returns where a name of a module is changed outside the module's own top level, if it is."""
    for function in file.functions:
        local = {
            node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        } | set(parameters(function))
        declared = any(isinstance(node, ast.Global) and name in node.names for node in ast.walk(function))
        for node in ast.walk(function):
            if declared and isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store):
                return file.path, node.lineno
            if (declared or name not in local) and puts_into(node, name):
                return file.path, getattr(node, "lineno", 1)
    for where in shown.python:
        for node in where.nodes:
            if where is not file and _sets_from_outside(node, name):
                return where.path, getattr(node, "lineno", 1)
            if isinstance(node, ast.Call) and bare_name(node.func) in _SETTERS and where is file and _names(node, name):
                return where.path, node.lineno
    return None


def fills(node: ast.Call, attribute: str) -> bool:
    """Tells whether a call sets an attribute of that name, or changes the object that it holds."""
    if bare_name(node.func) == "setattr":
        return _names(node, attribute)
    return (
        isinstance(node.func, ast.Attribute) and node.func.attr in _MUTATES and bare_name(node.func.value) == attribute
    )


def puts_into(node: ast.AST, name: str) -> bool:
    """Tells whether a node changes the object that a name holds, or may hand it to who does."""
    if isinstance(node, ast.Assign | ast.AugAssign | ast.Delete):
        told = node.targets if isinstance(node, ast.Assign | ast.Delete) else [node.target]
        return any(isinstance(one, ast.Subscript) and dotted(one.value) == name for one in told)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _MUTATES:
        return dotted(node.func.value) == name
    return False


def _sets_from_outside(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Store | ast.Del):
        return not (isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"})
    if isinstance(node, ast.Assign | ast.AugAssign | ast.Delete):
        told = node.targets if isinstance(node, ast.Assign | ast.Delete) else [node.target]
        return any(isinstance(one, ast.Subscript) and bare_name(one.value) == name for one in told)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _MUTATES:
        return bare_name(node.func.value) == name
    return isinstance(node, ast.Call) and bare_name(node.func) == "setattr" and _names(node, name)


def _names(node: ast.Call, name: str) -> bool:
    if bare_name(node.func) in {"exec", "eval"}:
        told = node.args[0] if node.args else None
        return not isinstance(told, ast.Constant) or name in str(told.value)
    texts: Sequence[object] = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
    # Without a text to compare with, it may be about any name.
    return name in texts or bare_name(node.func) in {"globals", "vars", "locals"} or not texts
