"""A table's conditions as one Python function, with what each rule read as another: data is decided as fast as code.

Names in it are fields of the table's records, and constants stand in the syntax tree as they are: no text is parsed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from signalbox_routing.terms import (
    AllOf,
    Always,
    AnyOf,
    Comparison,
    Condition,
    InvalidTableError,
    Not,
    OneOf,
    Operator,
    Term,
    Value,
)

FACTS, POLICY = "facts", "policy"
Grounds = Callable[[Any, Any], dict[str, Any]]
_OPERATORS: dict[Operator, type[ast.cmpop]] = {
    "==": ast.Eq,
    "!=": ast.NotEq,
    "<": ast.Lt,
    "<=": ast.LtE,
    ">": ast.Gt,
    ">=": ast.GtE,
}


@dataclass(frozen=True)
class Records:
    """The records that a table's terms are fields of."""

    facts: type
    policy: type

    def name_of(self, term: Term) -> str:
        """Returns which of the two a term belongs to. Raises InvalidTableError."""
        if term.record is self.facts:
            return FACTS
        if issubclass(self.policy, term.record):
            return POLICY
        raise InvalidTableError(f"{term!r} is not a field of {self.facts.__name__} or {self.policy.__name__}")


def first_that_holds(conditions: Sequence[Condition], records: Records) -> Callable[[Any, Any], int]:
    """Returns a function of facts and policy: the number of the first condition that holds, the last one by default."""
    chosen: ast.expr = ast.Constant(len(conditions) - 1)
    for number, condition in reversed(list(enumerate(conditions[:-1]))):
        chosen = ast.IfExp(_expression(condition, records), ast.Constant(number), chosen)
    made: Callable[[Any, Any], int] = _function(chosen)
    return made


def test(condition: Condition, records: Records) -> Callable[[Any, Any], bool]:
    """Returns a function of facts and policy: whether the condition holds."""
    made: Callable[[Any, Any], bool] = _function(_expression(condition, records))
    return made


def reader(terms: Sequence[Term], records: Records) -> Grounds:
    """Returns a function of facts and policy: the values of these terms by name."""
    names: list[ast.expr | None] = [ast.Constant(term.name) for term in terms]
    made: Grounds = _function(ast.Dict(names, [_operand(term, records) for term in terms]))
    return made


def _function(body: ast.expr) -> Any:
    names = [ast.arg(FACTS), ast.arg(POLICY)]
    parameters = ast.arguments(posonlyargs=[], args=names, kwonlyargs=[], kw_defaults=[], defaults=[])
    tree = ast.fix_missing_locations(ast.Expression(ast.Lambda(parameters, body)))
    return eval(compile(tree, "<decision table>", "eval"), {"__builtins__": {}})  # noqa: S307 - of our own tree


def _expression(condition: Condition, records: Records) -> ast.expr:
    match condition:
        case Term():
            return _operand(condition, records)
        case Comparison(term, operator, other):
            right = _operand(other, records)
            return ast.Compare(_operand(term, records), [_OPERATORS[operator]()], [right])
        case OneOf(term, values):
            return ast.Compare(
                _operand(term, records), [ast.In()], [ast.Tuple([ast.Constant(value) for value in values], ast.Load())]
            )
        case Not(part):
            return ast.UnaryOp(ast.Not(), _expression(part, records))
        case AllOf(parts):
            return ast.BoolOp(ast.And(), [_expression(part, records) for part in parts])
        case AnyOf(parts):
            return ast.BoolOp(ast.Or(), [_expression(part, records) for part in parts])
        case Always():
            return ast.Constant(value=True)
    raise InvalidTableError(f"{condition!r} is not a condition")


def _operand(operand: Term | Value, records: Records) -> ast.expr:
    if isinstance(operand, Term):
        return ast.Attribute(ast.Name(records.name_of(operand), ast.Load()), operand.name, ast.Load())
    return ast.Constant(operand)
