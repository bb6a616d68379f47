"""A table and its policy as an expression of Postgres over the ledger's `facts`, which decides exactly as Python does.

It speaks of facts whose JSON is of the record's own shape and no other: integers without a fraction, numbers that a
double holds, flags, texts. What else Python makes of a value (a default, a number from a text) is left to Python.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any

from psycopg import sql
from signalbox_routing.compiled import FACTS, Records
from signalbox_routing.facts import Record
from signalbox_routing.table import Router, Rule
from signalbox_routing.terms import (
    IN_PYTHON,
    MIRRORED,
    AllOf,
    AnyOf,
    Comparison,
    Condition,
    InvalidTableError,
    Not,
    OneOf,
    Operator,
    Term,
    TermKind,
    Value,
    terms,
)

TRUE, FALSE = sql.SQL("true"), sql.SQL("false")
_IN_SQL: Mapping[Operator, sql.SQL] = {
    "==": sql.SQL("="),
    "!=": sql.SQL("<>"),
    "<": sql.SQL("<"),
    "<=": sql.SQL("<="),
    ">": sql.SQL(">"),
    ">=": sql.SQL(">="),
}
_VALUE = {
    TermKind.FLAG: sql.SQL("(facts -> {})::boolean"),
    TermKind.INTEGER: sql.SQL("(facts -> {})::numeric"),
    TermKind.NUMBER: sql.SQL("(facts -> {})::double precision"),
    TermKind.TEXT: sql.SQL("facts ->> {}"),
}
_FITS = {
    TermKind.FLAG: sql.SQL("jsonb_typeof(facts -> {0}) = 'boolean'"),
    # A CASE is evaluated in order, an AND is not: nothing but a number can be cast to one.
    TermKind.INTEGER: sql.SQL(
        "CASE WHEN jsonb_typeof(facts -> {0}) = 'number' THEN scale((facts -> {0})::numeric) = 0 ELSE false END"
    ),
    TermKind.NUMBER: sql.SQL(
        "CASE WHEN jsonb_typeof(facts -> {0}) = 'number'"
        " THEN (facts -> {0})::numeric = 0 OR abs((facts -> {0})::numeric) BETWEEN 1e-300 AND 1e300 ELSE false END"
    ),
    TermKind.TEXT: sql.SQL("jsonb_typeof(facts -> {0}) = 'string'"),
}


_Told = Callable[[Rule, str], sql.Composable]


class NotInSql(Exception):
    """A table or a limit that Postgres would not decide by exactly as Python does."""


@dataclass(frozen=True)
class DecisionInSql:
    """`fits` says whether facts are of the table's shape, `way` which of `ways` they lead to instead of `destination`.

    Ways are counted from 1; the way to the decision's own destination is NULL. `differs` says of facts that fit whether
    they lead by another rule or elsewhere.
    """

    fits: sql.Composable
    way: sql.Composable
    ways: list[tuple[str, str]]
    differs: sql.Composable


def decision_in_sql(router: Router[Any, Any], policy: Record) -> DecisionInSql:
    """Returns what decides as the table does under a policy. Raises NotInSql."""
    return _Compiler(router, policy).decision()


class _Compiler:
    def __init__(self, router: Router[Any, Any], policy: Record) -> None:
        self._router = router
        self._policy = policy
        self._records = Records(router.facts_type, type(policy))
        self._ways: list[tuple[str, str]] = []

    def decision(self) -> DecisionInSql:
        return DecisionInSql(self._fits(), self._decided(self._number), self._ways, self._decided(_is_other))

    def _decided(self, told: _Told) -> sql.Composable:
        """Returns what is told of the rule that holds and of where it leads."""
        *rules, last = self._router.rules
        cases = [sql.SQL("WHEN {} THEN {}").format(self._condition(rule.when), self._way(rule, told)) for rule in rules]
        return self._cases(cases, self._way(last, told))

    def _fits(self) -> sql.Composable:
        known = terms(self._router.facts_type)
        try:
            facts = [getattr(known, field.name) for field in fields(self._router.facts_type)]
        except InvalidTableError as error:
            raise NotInSql(str(error)) from error
        checks = [sql.SQL("({})").format(_FITS[fact.kind].format(sql.Literal(fact.name))) for fact in facts]
        return sql.SQL(" AND ").join(checks) if checks else TRUE

    def _way(self, rule: Rule, told: _Told) -> sql.Composable:
        *first, last = rule.destinations
        cases = [
            sql.SQL("WHEN {} THEN {}").format(self._condition(case), told(rule, destination))
            for case, destination in zip(rule.choice, first, strict=True)
        ]
        return self._cases(cases, told(rule, last))

    def _cases(self, cases: list[sql.Composed], otherwise: sql.Composable) -> sql.Composable:
        return sql.SQL("CASE {} ELSE {} END").format(sql.SQL(" ").join(cases), otherwise) if cases else otherwise

    def _number(self, rule: Rule, destination: str) -> sql.Composable:
        self._ways.append((rule.name, destination))
        return sql.SQL("CASE WHEN destination <> {} THEN {} END").format(text_literal(destination), len(self._ways))

    def _condition(self, condition: Condition) -> sql.Composable:
        match condition:
            case Term():
                return self._compared(condition, "==", True)
            case Comparison(term, compared, other):
                return self._compared(term, compared, other)
            case OneOf(term, values):
                return self._joined(" OR ", [self._compared(term, "==", value) for value in values])
            case Not(part):
                return sql.SQL("(NOT {})").format(self._condition(part))
            case AllOf(parts):
                return self._joined(" AND ", [self._condition(part) for part in parts])
            case AnyOf(parts):
                return self._joined(" OR ", [self._condition(part) for part in parts])
        return TRUE

    def _joined(self, by: str, parts: list[sql.Composable]) -> sql.Composable:
        return sql.SQL("({})").format(sql.SQL(" AND " if by == " AND " else " OR ").join(parts))

    def _compared(self, left: Term | Value, compared: Operator, right: Term | Value) -> sql.Composable:
        left, right = self._known(left), self._known(right)
        if not isinstance(left, Term):
            if not isinstance(right, Term):
                return TRUE if IN_PYTHON[compared](left, right) else FALSE
            left, compared, right = right, MIRRORED[compared], left
        value = _VALUE[left.kind].format(sql.Literal(left.name))
        return sql.SQL("({} {} {})").format(value, _IN_SQL[compared], self._right(left, right))

    def _known(self, operand: Term | Value) -> Term | Value:
        """Returns the value of a limit; facts are known row by row."""
        if isinstance(operand, Term) and self._records.name_of(operand) != FACTS:
            limit: Value = getattr(self._policy, operand.name)
            return limit
        return operand

    def _right(self, left: Term, right: Term | Value) -> sql.Composable:
        if isinstance(right, Term):
            if right.kind is not left.kind:
                raise NotInSql(f"{left!r} and {right!r} are not of one kind")
            return _VALUE[right.kind].format(sql.Literal(right.name))
        if isinstance(right, bool):
            return TRUE if right else FALSE
        if isinstance(right, str):
            return text_literal(right)
        return _double(right) if left.kind is TermKind.NUMBER else _numeric(right)


def _is_other(rule: Rule, destination: str) -> sql.Composable:
    return sql.SQL("rule <> {} OR destination <> {}").format(text_literal(rule.name), text_literal(destination))


def text_literal(value: str) -> sql.Composable:
    """Returns a text as part of a statement that has parameters. Raises NotInSql."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise NotInSql("Postgres knows no half of a surrogate pair") from error
    if "\0" in value:
        raise NotInSql("Postgres knows no NUL in texts")
    # `%` stands for a parameter where the whole statement has some.
    return sql.SQL("{}::text").format(sql.Literal(value.replace("%", "%%")))


def _numeric(value: float) -> sql.Composable:
    """The exact value of a number, which for a double has many digits."""
    if not math.isfinite(value):
        raise NotInSql(f"{value} is not a number that a numeric could be compared with")
    return sql.SQL("{}::numeric").format(sql.Literal(format(Decimal(value), "f")))


def _double(value: float) -> sql.Composable:
    try:
        double = float(value)
    except OverflowError as error:
        raise NotInSql(f"{value} is beyond what a double holds") from error
    if not math.isfinite(double) or double != value:
        raise NotInSql(f"{value} is not a number that a double could be compared with")
    return sql.SQL("{}::double precision").format(sql.Literal(repr(double)))
