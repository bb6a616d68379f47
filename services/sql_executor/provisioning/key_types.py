"""Whether Postgres can compare the columns that lead to owners with each other, and owners with a caller's subject."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import psycopg
from psycopg import sql

from services.sql_executor.policy import OwnedByColumn, SqlPolicy, TableName
from services.sql_executor.provisioning.difference import Difference, State
from services.sql_executor.provisioning.objects import SUBJECT_TYPES, column_types, raw

_PREPARED = sql.Identifier("signalbox_compared")


class _Column(NamedTuple):
    table: TableName
    name: str

    def __str__(self) -> str:
        return f"{self.table}.{self.name}"


async def key_type_differences(state: State) -> list[Difference]:
    """Compares types: where there is no `=` for two of them, nothing can be applied, or every query is refused."""
    policy = state.policy
    types = await column_types(state, [*policy.visible(), *policy.hops()])
    subject = SUBJECT_TYPES[policy.owner.subject_type]
    pairs = {
        (str(column), types[column], "a caller's subject", subject) for column in _owners(policy) if column in types
    } | {
        (str(one), types[one], str(other), types[other])
        for one, other in _joined(policy)
        if one in types and other in types
    }
    return [
        Difference(
            f"{one} is {kind}, and {other} {other_kind}: Postgres can't compare the two, and would find no owner"
        )
        for one, kind, other, other_kind in sorted(pairs)
        if kind != other_kind and not await _are_comparable(state, kind, other_kind)
    ]


def _owners(policy: SqlPolicy) -> Iterator[_Column]:
    for table, rule in policy.visible().items():
        if isinstance(rule.owned_by, OwnedByColumn):
            yield _Column(table, rule.owned_by.column)
    for way in policy.ways():
        yield _Column(policy.table_name(way.hops[-1].table), way.subject_column)


def _joined(policy: SqlPolicy) -> Iterator[tuple[_Column, _Column]]:
    """Yields each column that leads to another table, with the one that it leads to."""
    for table, rule in policy.visible().items():
        before = table
        for hop in rule.way.hops if rule.way else ():
            here = policy.table_name(hop.table)
            yield _Column(before, hop.column), _Column(here, hop.key)
            before = here


async def _are_comparable(state: State, one: str, other: str) -> bool:
    """Asks Postgres, which knows its operators and casts; nothing runs, and no table is needed for it."""
    try:
        async with state.connection.transaction(force_rollback=True):
            statement = sql.SQL("PREPARE {} AS SELECT $1::{} = $2::{}").format(_PREPARED, raw(one), raw(other))
            await state.connection.execute(statement, prepare=False)
            await state.connection.execute(sql.SQL("DEALLOCATE {}").format(_PREPARED), prepare=False)
    except (psycopg.errors.UndefinedFunction, psycopg.errors.AmbiguousFunction):
        return False
    except psycopg.errors.InsufficientPrivilege:  # a type of a schema that is closed to this role: its owner is told
        return True
    return True
