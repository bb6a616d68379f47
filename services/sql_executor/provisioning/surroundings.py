"""What the rest of the database gives to everybody, and the reader must not have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from psycopg import sql

from services.sql_executor.naming import POLICY_SCHEMA, assignment_view
from services.sql_executor.policy import TableName
from services.sql_executor.provisioning.difference import Difference, State, mend

# What they end or write shows outside of the transaction that calls them, and reaches other callers' sessions.
_DANGEROUS = ["pg_terminate_backend", "pg_cancel_backend", "pg_logical_emit_message"]
_KINDS = {"r": "TABLES", "S": "SEQUENCES"}


async def surroundings_differences(state: State) -> list[Difference]:
    """Compares grants on the database, its schemas, other relations and functions, and default privileges."""
    found = [*await _database(state), *await _schemas(state), *await _relations(state)]
    found += [*await _definer_functions(state), *await _default_privileges(state)]
    return [*found, *(await _dangerous_functions(state) if state.policy.hardening else [])]


async def _database(state: State) -> list[Difference]:
    database = sql.Identifier((await state.rows("whoami"))[0].database)
    grants = {(row.grantee, row.privilege) for row in await state.rows("database_grants")}
    found = []
    for grantee, privilege in sorted(grants):
        if privilege != "CONNECT":
            text = sql.SQL("REVOKE {} ON DATABASE {} FROM {}").format(sql.SQL(privilege), database, _grantee(grantee))
            harm = (
                "temporary tables can take the names of real ones"
                if privilege == "TEMPORARY"
                else "it may make schemas"
            )
            found.append(mend(f"{grantee} has {privilege} on the database: {harm}", text))
    if (state.reader, "CONNECT") not in grants:
        text = sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database, sql.Identifier(state.reader))
        found.append(mend(f"the role {state.reader} has no CONNECT of its own", text))
    return found


async def _schemas(state: State) -> list[Difference]:
    grants = {(row.schema, row.grantee, row.privilege) for row in await state.rows("schema_grants")}
    readable = {*state.policy.schemas, POLICY_SCHEMA}
    joined = {hop.schema for hop in state.policy.hops()}
    found = []
    for schema, grantee, privilege in sorted(grants):
        if privilege == "CREATE" and grantee != state.owner:
            text = sql.SQL("REVOKE CREATE ON SCHEMA {} FROM {}").format(sql.Identifier(schema), _grantee(grantee))
            found.append(mend(f"{grantee} may make objects in the schema {schema}", text))
        elif grantee == state.reader and schema not in readable:
            text = sql.SQL("REVOKE USAGE ON SCHEMA {} FROM {}").format(sql.Identifier(schema), _grantee(grantee))
            found.append(mend(f"{grantee} may use the schema {schema}, which the policy does not show", text))
    wanted = [(schema, state.reader) for schema in state.policy.schemas]
    wanted += [(schema, state.owner) for schema in sorted(joined)]
    for schema, role in wanted:
        if (schema, role, "USAGE") not in grants:
            text = sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(sql.Identifier(schema), sql.Identifier(role))
            found.append(mend(f"the role {role} may not use the schema {schema}", text))
    return found


async def _relations(state: State) -> list[Difference]:
    """Whatever PUBLIC or the reader may do with relations, besides reading what the policy shows."""
    found: dict[tuple[str, str, str], Difference] = {}
    for row in await state.rows("relation_grants"):
        key = (row.schema, row.name, row.grantee)
        if row.grantee == state.owner or key in found or _is_due(row, state):
            continue
        kind = sql.SQL("SEQUENCE" if row.kind == "S" else "TABLE")
        text = sql.SQL("REVOKE ALL ON {} {} FROM {}").format(
            kind, sql.Identifier(row.schema, row.name), _grantee(row.grantee)
        )
        found[key] = mend(
            f"{row.grantee} has {row.privilege} on {row.schema}.{row.name}, which the policy does not give", text
        )
    return list(found.values())


def _is_due(row: Any, state: State) -> bool:
    if row.grantee != state.reader or row.privilege != "SELECT":
        return False
    if row.schema == POLICY_SCHEMA:
        return row.name in {assignment_view(state.policy, way) for way in state.policy.ways()}
    rule = state.policy.visible().get(TableName(row.schema, row.name))
    if rule is None:
        return False
    return row.column is None if rule.columns is None else row.column in rule.columns


async def _definer_functions(state: State) -> list[Difference]:
    found = []
    for row in await state.rows("definer_functions"):
        text = sql.SQL("REVOKE EXECUTE ON FUNCTION {}({}) FROM PUBLIC, {}").format(
            sql.Identifier(row.schema, row.name), sql.SQL(row.arguments), sql.Identifier(state.reader)
        )
        found.append(
            mend(f"{row.schema}.{row.name}({row.arguments}) runs with the rights of {row.owner} for the reader", text)
        )
    return found


async def _default_privileges(state: State) -> list[Difference]:
    return list(_default_privilege_steps(await state.rows("default_privileges")))


def _default_privilege_steps(rows: list[Any]) -> Iterator[Difference]:
    for row in rows:
        where = sql.SQL(" IN SCHEMA {}").format(sql.Identifier(row.schema)) if row.schema else sql.SQL("")
        text = sql.SQL("ALTER DEFAULT PRIVILEGES FOR ROLE {}{} REVOKE {} ON {} FROM {}").format(
            sql.Identifier(row.owner), where, sql.SQL(row.privilege), sql.SQL(_KINDS[row.kind]), _grantee(row.grantee)
        )
        yield mend(
            f"{row.grantee} gets {row.privilege} on every new one of {row.owner}'s {_KINDS[row.kind].lower()}", text
        )


async def _dangerous_functions(state: State) -> list[Difference]:
    found = []
    for row in await state.rows("dangerous_functions", functions=_DANGEROUS):
        text = sql.SQL("REVOKE EXECUTE ON FUNCTION pg_catalog.{}({}) FROM PUBLIC, {}").format(
            sql.Identifier(row.name), sql.SQL(row.arguments), sql.Identifier(state.reader)
        )
        found.append(
            mend(
                f"the reader may call {row.name}({row.arguments}), which reaches beyond its own transaction",
                text,
                needs_superuser=True,
            )
        )
    return found


def _grantee(name: str) -> sql.SQL | sql.Identifier:
    return sql.SQL("PUBLIC") if name == "PUBLIC" else sql.Identifier(name)
