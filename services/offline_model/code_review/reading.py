"""Whether a name of a list or a map is only read where it stands, or the object gets another name there."""

from __future__ import annotations

import ast

from services.offline_model.code_review.definitions import is_standard
from services.offline_model.code_review.shown import ShownFile

_READERS = frozenset({"len", "sorted", "list", "tuple", "set", "frozenset", "dict", "any", "all", "sum", "min", "max",
                      "str", "repr", "print", "enumerate", "zip", "isinstance", "bool"})  # fmt: skip
_TAKES = frozenset(
    {"join", "format", "extend", "update", "union", "intersection", "difference", "issubset", "fullmatch"}
)


def is_read(node: ast.expr, file: ShownFile) -> bool:
    """Tells whether a place where an object is named lets nobody keep it, who might change it later."""
    around = file.parents.get(id(node))
    if isinstance(around, ast.keyword):
        around = file.parents.get(id(around))
    if isinstance(around, ast.Call):
        return _takes_no_hold(around, file)
    if isinstance(around, ast.Attribute):
        # A method that is not called here may be called anywhere; one that changes the object is looked for elsewhere.
        outer = file.parents.get(id(around))
        return not isinstance(around.ctx, ast.Load) or (isinstance(outer, ast.Call) and outer.func is around)
    if isinstance(around, (ast.If, ast.While, ast.Assert, ast.For, ast.AsyncFor, ast.comprehension, ast.Expr)):
        return True
    return isinstance(around, (ast.Compare, ast.Subscript, ast.Starred, ast.FormattedValue, ast.BinOp, ast.UnaryOp))


def _takes_no_hold(call: ast.Call, file: ShownFile) -> bool:
    if isinstance(call.func, ast.Name):
        return call.func.id in _READERS
    if not isinstance(call.func, ast.Attribute):
        return False
    root = call.func.value
    is_library = isinstance(root, ast.Name) and root.id in file.imports and is_standard(file.imports[root.id])
    return is_library or call.func.attr in _TAKES
