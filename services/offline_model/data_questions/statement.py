"""An example's statement, parsed: what it reads, compares and shows, and where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal, InvalidOperation

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from services.offline_model.data_questions.reading import Comparison, Window, hours_of

MAX_SQL_CHARACTERS = 20_000
_BOUNDS = (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.EQ, exp.NEQ, exp.Between)


class CannotEdit(Exception):
    """The statement has no place for the wanted change."""


def parse(sql: str) -> exp.Expr:
    """Parses one statement. Raises CannotEdit."""
    if len(sql) > MAX_SQL_CHARACTERS:
        raise CannotEdit("the statement is too long")
    try:
        tree = sqlglot.parse_one(sql, dialect="postgres")
    except (SqlglotError, RecursionError) as error:
        raise CannotEdit("the statement cannot be parsed") from error
    if not isinstance(tree, exp.Query):
        raise CannotEdit("the statement is no query")
    return tree


def render(tree: exp.Expr) -> str:
    """Writes the statement in Postgres' dialect."""
    return tree.sql(dialect="postgres")


def columns_of(tree: exp.Expr) -> list[str]:
    """Names of all columns that the statement mentions, in order, each once; names that it gives itself left out."""
    own = {alias.alias.lower() for alias in tree.find_all(exp.Alias)}
    names = (column.name.lower() for column in tree.find_all(exp.Column) if column.name)
    return list(dict.fromkeys(name for name in names if name not in own))


def tables_of(tree: exp.Expr) -> list[str]:
    """Names of the tables that the statement reads."""
    return [table.name.lower() for table in tree.find_all(exp.Table)]


def values_by_column(tree: exp.Expr) -> dict[str, set[str]]:
    """The strings that the statement's conditions compare each column with."""
    found: dict[str, set[str]] = {}
    for literal in tree.find_all(exp.Literal):
        condition = literal.find_ancestor(exp.EQ, exp.In)
        column = condition.this if condition is not None else None
        if literal.is_string and isinstance(column, exp.Column):
            found.setdefault(column.name.lower(), set()).add(literal.name)
    return found


def string_literals(tree: exp.Expr) -> list[str]:
    """The statement's string literals without the wildcards of patterns, intervals left out."""
    return [
        literal.name.strip("%")
        for literal in tree.find_all(exp.Literal)
        if literal.is_string and not literal.find_ancestor(exp.Interval) and literal.name.strip("%")
    ]


def find_bound(tree: exp.Expr, comparison: Comparison) -> exp.Expr:
    """Finds the condition whose numbers are the comparison's. Raises CannotEdit."""
    wanted = [Decimal(value) for value in comparison.values]
    for node in tree.find_all(*_BOUNDS):
        sides = [node.args["low"], node.args["high"]] if isinstance(node, exp.Between) else [node.expression]
        if [_number(side) for side in sides] == wanted:
            return node
    raise CannotEdit(f"no condition compares with {' and '.join(comparison.values)}")


def bound_column(node: exp.Expr) -> str:
    """Name of the column that a condition bounds; empty when it bounds something else."""
    column = node.this.find(exp.Column) if isinstance(node.this, exp.Expr) else None
    return column.name.lower() if column is not None else ""


def has_hidden_bound(tree: exp.Expr, shown: Iterable[str]) -> bool:
    """Whether a condition compares with a number that the example's question does not show, such as what is hot."""
    known = {Decimal(number) for number in shown}
    return any(
        _number(node) not in known
        for node in _condition_literals(tree)
        if isinstance(node.parent, _BOUNDS) and not isinstance(node.parent, exp.EQ)
    )


def find_strings(tree: exp.Expr, text: str) -> list[exp.Literal]:
    """Finds the string literals that are a text, letter case and wildcards aside. Raises CannotEdit."""
    literals = [
        node for node in tree.find_all(exp.Literal) if node.is_string and node.name.strip("%").lower() == text.lower()
    ]
    if not literals:
        raise CannotEdit(f"the example does not compare with {text!r}")
    return literals


def find_number(tree: exp.Expr, text: str) -> exp.Expr:
    """Finds a number in the conditions. Raises CannotEdit."""
    wanted = Decimal(text)
    for node in _condition_literals(tree):
        if _number(node) == wanted:
            return node
    raise CannotEdit(f"the example does not compare with {text}")


def _condition_literals(tree: exp.Expr) -> Iterator[exp.Expr]:
    for literal in tree.find_all(exp.Literal):
        if not literal.is_string and literal.find_ancestor(exp.Where, exp.Having, exp.Join):
            yield literal.parent if isinstance(literal.parent, exp.Neg) else literal


def find_interval(tree: exp.Expr, window: Window) -> exp.Expr:
    """Finds the interval that is as long as a window. Raises CannotEdit."""
    intervals = list(tree.find_all(exp.Interval))
    same = [node for node in intervals if _interval_hours(node) == window.hours]
    if same:
        return same[0]
    raise CannotEdit("the example has no such time window")


def _interval_hours(node: exp.Interval) -> float | None:
    unit = node.args.get("unit")
    try:
        return float(node.this.name) * hours_of(unit.name if unit is not None else "")
    except (KeyError, ValueError, AttributeError):
        return None


def _number(node: exp.Expr | None) -> Decimal | None:
    sign = -1 if isinstance(node, exp.Neg) else 1
    literal = node.this if isinstance(node, exp.Neg) else node
    if not isinstance(literal, exp.Literal) or literal.is_string:
        return None
    try:
        return sign * Decimal(literal.name)
    except InvalidOperation:
        return None
