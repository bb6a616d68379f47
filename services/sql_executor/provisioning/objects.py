"""The schema `signalbox`: the secret, the functions that check the caller's signature, and the assignment views."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from services.sql_executor.callers import hmac_pads
from services.sql_executor.naming import POLICY_SCHEMA, assignment_view, keys_function
from services.sql_executor.policy import OwnedByJoin, TableName
from services.sql_executor.provisioning.difference import Difference, Sql, State, Statement, mend
from services.sql_executor.queries import load_queries

QUERIES = load_queries("caller.sql")
SUBJECT_TYPES = {"integer": "bigint", "uuid": "uuid", "text": "text"}
_FIXED_SETTINGS = ["search_path=pg_catalog, pg_temp"]


def raw(text: str) -> sql.SQL:
    """Return text of the database's own making (a type's name) as SQL."""
    return sql.SQL(text)


def made_from(statement: Sql) -> str:
    """Return a short fingerprint of the statement that makes something."""
    return hashlib.sha256(statement.as_string(None).encode()).hexdigest()[:16]


def fingerprint(*deparsed: str | None) -> str:
    """Return the fingerprint of what the database made of a definition."""
    return hashlib.sha256("".join(text or "" for text in deparsed).encode()).hexdigest()


@dataclass(frozen=True)
class WantedFunction:
    """A function as it must be."""

    name: str
    statement: Sql
    language: str
    for_reader: bool

    @property
    def source(self) -> str:
        """The function's body, which the database keeps verbatim."""
        return self.statement.as_string(None).split("$$")[1]


async def object_differences(state: State) -> list[Difference]:
    """Compare the schema, the secret's table, the functions and the views."""
    types = await column_types(state, [state.policy.table_name(join.join) for join in state.policy.joins()])
    missing = [
        Difference(f"the column {state.policy.table_name(join.join)}.{column} does not exist")
        for join in state.policy.joins()
        for column in (join.subject_column, join.on)
        if (state.policy.table_name(join.join), column) not in types
    ]
    if missing:
        return missing
    found = [*await _schema(state), *await _owner_grants(state), *await _secret(state)]
    return [*found, *await _functions(state, types), *await _views(state)]


async def column_types(state: State, tables: list[TableName]) -> dict[tuple[TableName, str], str]:
    """Return the type of each column of some tables."""
    rows = await state.rows("columns", schemas=[t.schema for t in tables], names=[t.name for t in tables])
    return {(TableName(row.schema, row.name), row.column): row.type for row in rows}


async def _schema(state: State) -> list[Difference]:
    rows = await state.rows("signalbox_schema")
    owner = sql.Identifier(state.owner)
    found = []
    me = (await state.rows("whoami"))[0]
    if not rows:
        # A role that is no superuser has to be a member of the one it makes things for.
        join = [] if me.superuser else [sql.SQL("GRANT {} TO CURRENT_USER").format(owner)]
        create = sql.SQL("CREATE SCHEMA {} AUTHORIZATION {}").format(sql.Identifier(POLICY_SCHEMA), owner)
        found.append(mend("the schema signalbox does not exist", *join, create))
    elif rows[0].owner != state.owner:
        text = sql.SQL("ALTER SCHEMA {} OWNER TO {}").format(sql.Identifier(POLICY_SCHEMA), owner)
        found.append(mend(f"the schema signalbox is not owned by {state.owner}", text))
    grants = {(row.schema, row.grantee, row.privilege) for row in await state.rows("schema_grants")}
    if (POLICY_SCHEMA, state.reader, "USAGE") not in grants:
        text = sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(
            sql.Identifier(POLICY_SCHEMA), sql.Identifier(state.reader)
        )
        found.append(mend(f"the role {state.reader} may not use the schema signalbox", text))
    return found


async def _owner_grants(state: State) -> list[Difference]:
    grants = {
        (row.schema, row.name, row.column)
        for row in await state.rows("relation_grants")
        if row.grantee == state.owner and row.privilege == "SELECT"
    }
    found = []
    for join in state.policy.joins():
        table = state.policy.table_name(join.join)
        for column in (join.subject_column, join.on):
            if (*table, column) not in grants and (*table, None) not in grants:
                text = sql.SQL("GRANT SELECT ({}) ON {} TO {}").format(
                    sql.Identifier(column), sql.Identifier(*table), sql.Identifier(state.owner)
                )
                found.append(mend(f"the role {state.owner} may not read {table}.{column}", text))
    return found


async def _secret(state: State) -> list[Difference]:
    rows = await state.rows("secret_table")
    table = sql.Identifier(POLICY_SCHEMA, "caller_secret")
    found = []
    if not rows:
        found.append(
            mend("the table of the caller secret does not exist", *as_owner(state, raw(QUERIES["caller_secret"])))
        )
    elif rows[0].owner != state.owner:
        text = sql.SQL("ALTER TABLE {} OWNER TO {}").format(table, sql.Identifier(state.owner))
        found.append(mend(f"the table of the caller secret is not owned by {state.owner}", text))
    if state.secret is None:
        return found
    pads = hmac_pads(state.secret)
    stored = await state.rows("secret") if rows and rows[0].readable else []
    if [(bytes(row.inner_pad), bytes(row.outer_pad)) for row in stored] != [pads]:
        steps = [Statement(text) for text in as_owner(state, raw(QUERIES["set_caller_secret"]))]
        steps[1] = Statement(steps[1].text, pads)
        found.append(Difference("the caller secret is not the one given", steps))
    return found


def as_owner(state: State, *statements: Sql) -> list[Sql]:
    """Return statements that run as the policy's owner, so that it owns what they make."""
    return [sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(state.owner)), *statements, sql.SQL("RESET ROLE")]


def _wanted_functions(state: State, types: dict[tuple[TableName, str], str]) -> Iterator[WantedFunction]:
    plain = {"caller": ("plpgsql", False), "caller_subject": ("sql", True), "caller_is_admin": ("sql", True)}
    for name, (language, for_reader) in plain.items():
        yield WantedFunction(name, sql.SQL(QUERIES[name]).format(), language, for_reader)
    for join in state.policy.joins():
        table = state.policy.table_name(join.join)
        name = keys_function(state.policy, join)
        statement = sql.SQL(QUERIES["caller_keys"]).format(
            function=sql.Identifier(name),
            key_type=raw(types[(table, join.on)]),
            key=sql.Identifier(join.on),
            table=sql.Identifier(*table),
            subject=sql.Identifier(join.subject_column),
            subject_type=raw(SUBJECT_TYPES[state.policy.owner.subject_type]),
        )
        yield WantedFunction(name, statement, "sql", True)


async def _functions(state: State, types: dict[tuple[TableName, str], str]) -> list[Difference]:
    present = {row.name: row for row in await state.rows("signalbox_functions")}
    found = []
    for wanted in _wanted_functions(state, types):
        row = present.pop(wanted.name, None)
        if row is not None and _is_as_wanted(row, wanted, state):
            continue
        name = sql.Identifier(POLICY_SCHEMA, wanted.name)
        steps = [wanted.statement, sql.SQL("REVOKE ALL ON FUNCTION {}() FROM PUBLIC").format(name)]
        if wanted.for_reader:
            steps.append(sql.SQL("GRANT EXECUTE ON FUNCTION {}() TO {}").format(name, sql.Identifier(state.reader)))
        drop = [sql.SQL("DROP FUNCTION {}() CASCADE").format(name)] if row is not None else []
        problem = "does not exist" if row is None else "is not as the policy makes it"
        found.append(mend(f"the function signalbox.{wanted.name}() {problem}", *drop, *as_owner(state, *steps)))
    found += [Difference(f"the function signalbox.{name} is none of the policy's; drop it") for name in present]
    return found


def _is_as_wanted(row: Any, wanted: WantedFunction, state: State) -> bool:
    grantees = [state.reader] if wanted.for_reader else []
    return (row.source, row.language, row.settings, row.owner, row.grantees) == (
        wanted.source, wanted.language, _FIXED_SETTINGS, state.owner, grantees
    ) and (row.definer, row.volatility, row.parallel) == (True, "s", "r")  # fmt: skip


def _view_statement(state: State, name: str, joins: list[OwnedByJoin]) -> Sql:
    return sql.SQL(QUERIES["caller_assignments"]).format(
        view=sql.Identifier(name),
        subject=sql.Identifier(joins[0].subject_column),
        keys=sql.SQL(", ").join(sql.Identifier(join.on) for join in joins),
        table=sql.Identifier(*state.policy.table_name(joins[0].join)),
        subject_type=raw(SUBJECT_TYPES[state.policy.owner.subject_type]),
    )


async def _views(state: State) -> list[Difference]:
    present = {row.name: row for row in await state.rows("signalbox_views")}
    grants = {(row.schema, row.name, row.column, row.grantee) for row in await state.rows("relation_grants")}
    wanted: dict[str, list[OwnedByJoin]] = {}
    for join in state.policy.joins():
        wanted.setdefault(assignment_view(state.policy, join), []).append(join)
    found = []
    for name, joins in wanted.items():
        row = present.pop(name, None)
        statement = _view_statement(state, name, joins)
        view = sql.Identifier(POLICY_SCHEMA, name)
        grant = sql.SQL("GRANT SELECT ON {} TO {}").format(view, sql.Identifier(state.reader))
        good = row is not None and row.owner == state.owner and row.options == ["security_barrier=true"]
        if not good or row is None or row.mark != f"{made_from(statement)} {fingerprint(row.definition)}":
            mark = sql.SQL(QUERIES["mark_view"]).format(
                view=sql.Literal(name),
                view_text=sql.Literal(view.as_string(None)),
                made_from=sql.Literal(made_from(statement)),
            )
            drop = [sql.SQL("DROP VIEW {}").format(view)] if row is not None else []
            problem = "does not exist" if row is None else "is not as the policy makes it"
            found.append(mend(f"the view signalbox.{name} {problem}", *drop, *as_owner(state, statement, grant, mark)))
        elif (POLICY_SCHEMA, name, None, state.reader) not in grants:
            found.append(mend(f"the role {state.reader} may not read signalbox.{name}", grant))
    found += [Difference(f"the view signalbox.{name} is none of the policy's; drop it") for name in present]
    return found
