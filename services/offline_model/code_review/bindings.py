"""What names are given, in the code that was shown."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from services.offline_model.code_review.shown import ShownFile, dotted


def assigned_values(name: str, nodes: Iterable[ast.AST], before: int) -> list[ast.expr]:
    """Returns the expressions that a name is given, up to a line."""
    found: list[ast.expr] = []
    for node in nodes:
        if getattr(node, "lineno", 0) > before:
            continue
        targets, value = _assignment(node)
        if value is not None and any(
            isinstance(part, ast.Name) and part.id == name for target in targets for part in ast.walk(target)
        ):
            found.append(value)
    return found


def _assignment(node: ast.AST) -> tuple[list[ast.expr], ast.expr | None]:
    if isinstance(node, ast.Assign):
        # Only what is bound, not the parts of `a[i] = …`.
        return [target for target in node.targets if isinstance(target, ast.Name | ast.Tuple | ast.List)], node.value
    if isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
        return [node.target], node.value
    if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
        return [node.target], node.iter
    if isinstance(node, ast.withitem) and node.optional_vars is not None:
        return [node.optional_vars], node.context_expr
    return [], None


def module_level(file: ShownFile) -> list[ast.AST]:
    """Returns the assignments at the top of a file."""
    return [node for node in file.statements if isinstance(node, ast.Assign | ast.AnnAssign)]


def self_values(attribute: str, file: ShownFile) -> list[ast.expr]:
    """Returns the expressions that `self.attribute` is given."""
    return [
        node.value
        for node in file.nodes
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and node.value is not None
        and any(
            isinstance(target, ast.Attribute) and dotted(target) == f"self.{attribute}"
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        )
    ]
