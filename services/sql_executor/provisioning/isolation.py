"""Each table of the policy: what the reader may read of it, and its row-level security."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg import sql

from services.sql_executor.naming import keys_function
from services.sql_executor.policy import OwnedByColumn, TableName, TableRule
from services.sql_executor.provisioning.difference import Difference, Sql, State, mend
from services.sql_executor.provisioning.objects import (
    QUERIES,
    SUBJECT_TYPES,
    column_types,
    fingerprint,
    made_from,
    raw,
    with_body,
)

_OTHERS = "signalbox_others"
_HOPS = "signalbox_hops"


async def isolation_differences(state: State) -> list[Difference]:
    """Compares grants, row-level security and policies of the tables that are shown."""
    rules = state.policy.visible()
    tables = {TableName(row.schema, row.name): row for row in await _tables(state, list(rules))}
    types = await column_types(state, list(rules))
    policies: dict[TableName, list[Any]] = {}
    for row in await state.rows("policies"):
        policies.setdefault(TableName(row.schema, row.table), []).append(row)
    grants = [row for row in await state.rows("relation_grants") if row.grantee == state.reader]
    found = []
    for table, rule in rules.items():
        if table not in tables or tables[table].kind not in ("r", "p"):
            found.append(Difference(f"{table} is not a table of this database; views can't be shown"))
            continue
        missing = [f"{table} has no column {name}" for name in _columns_of(rule) if (table, name) not in types]
        if missing:
            found += [Difference(problem) for problem in missing]
            continue
        found += _grants(state, table, rule, grants)
        if rule.owned_by is not None:
            found += _row_security(state, table, rule, tables[table], policies.get(table, []), types)
    return [*found, *await _open_hops(state, policies)]


async def _open_hops(state: State, policies: dict[TableName, list[Any]]) -> list[Difference]:
    """Where row-level security is on, or will be, the role that looks owners up must see every row of a hop."""
    found = []
    live = {TableName(row.schema, row.name): row for row in await _tables(state, state.policy.hops())}
    owned = {table for table, rule in state.policy.visible().items() if rule.owned_by is not None}
    for hop in state.policy.hops():
        row = next((each for each in policies.get(hop, []) if each.name == _HOPS), None)
        if hop not in live or not (hop in owned or live[hop].rls):
            continue
        statement = sql.SQL(QUERIES["owners_lookup"]).format(
            table=sql.Identifier(*hop), owner=sql.Identifier(state.owner)
        )
        if row is None or not _is_as_made(row, statement) or row.roles != [state.owner]:
            problem = "does not exist" if row is None else "is not as the policy file makes it"
            found.append(
                mend(f"the policy {_HOPS} on {hop} {problem}", *_remade(hop, _HOPS, statement, row is not None))
            )
    return found


async def _tables(state: State, tables: list[TableName]) -> list[Any]:
    return await state.rows("tables", schemas=[t.schema for t in tables], names=[t.name for t in tables])


def _columns_of(rule: TableRule) -> list[str]:
    if rule.columns is not None:
        return rule.columns
    return [] if rule.key is None else [rule.key]


def _grants(state: State, table: TableName, rule: TableRule, grants: Sequence[Any]) -> list[Difference]:
    given = {row.column for row in grants if (row.schema, row.name) == table and row.privilege == "SELECT"}
    name, reader = sql.Identifier(*table), sql.Identifier(state.reader)
    if rule.columns is None:
        text = sql.SQL("GRANT SELECT ON {} TO {}").format(name, reader)
        return [] if None in given else [mend(f"the role {state.reader} may not read {table}", text)]
    missing = [column for column in rule.columns if column not in given]
    if not missing:
        return []
    listed = sql.SQL(", ").join(map(sql.Identifier, rule.columns))
    text = sql.SQL("GRANT SELECT ({}) ON {} TO {}").format(listed, name, reader)
    return [mend(f"the role {state.reader} may not read {', '.join(missing)} of {table}", text)]


def _row_security(
    state: State,
    table: TableName,
    rule: TableRule,
    live: Any,
    policies: Sequence[Any],
    types: dict[tuple[TableName, str], str],
) -> list[Difference]:
    found = _policies(state, table, rule, policies, types)
    found += _access_of_others(state, table, live, policies)
    name = sql.Identifier(*table)
    if not live.rls:
        text = sql.SQL("ALTER TABLE {} ENABLE ROW LEVEL SECURITY").format(name)
        found.append(mend(f"row-level security of {table} is off: the reader would see every row", text))
    if not live.forced:
        text = sql.SQL("ALTER TABLE {} FORCE ROW LEVEL SECURITY").format(name)
        found.append(mend(f"row-level security of {table} does not bind its owner, nor the owner's views", text))
    return found


def _policies(
    state: State, table: TableName, rule: TableRule, live: Sequence[Any], types: dict[tuple[TableName, str], str]
) -> list[Difference]:
    present = {row.name: row for row in live}
    found = []
    wanted = {
        "signalbox_own": _own_rows(state, table, rule, types),
        "signalbox_admin": sql.SQL(QUERIES["admin_rows"]).format(
            table=sql.Identifier(*table), reader=sql.Identifier(state.reader)
        ),
    }
    for name, statement in wanted.items():
        row = present.pop(name, None)
        if row is None or not _is_as_made(row, statement) or row.roles != [state.reader]:
            problem = "does not exist" if row is None else "is not as the policy file makes it"
            steps = _remade(table, name, statement, row is not None)
            found.append(mend(f"the policy {name} on {table} {problem}", *steps))
    present.pop(_OTHERS, None)
    if table in state.policy.hops():
        present.pop(_HOPS, None)
    for name, row in present.items():
        if row.permissive and {"public", state.reader} & set(row.roles):
            found.append(
                Difference(
                    f"the policy {name} on {table} also shows rows to {state.reader}; "
                    f"limit it to other roles: ALTER POLICY {name} ON {table} TO …"
                )
            )
    return found


def _own_rows(state: State, table: TableName, rule: TableRule, types: dict[tuple[TableName, str], str]) -> Sql:
    name, reader = sql.Identifier(*table), sql.Identifier(state.reader)
    if (way := rule.way) is not None:
        return sql.SQL(QUERIES["own_rows_by_join"]).format(
            table=name, reader=reader, key=sql.Identifier(way.column),
            function=sql.Identifier(keys_function(state.policy, way)),
            key_type=raw(types[(table, way.column)]),
        )  # fmt: skip
    if isinstance(rule.owned_by, OwnedByColumn):
        return sql.SQL(QUERIES["own_rows_by_column"]).format(
            table=name, reader=reader, column=sql.Identifier(rule.owned_by.column),
            subject_type=raw(SUBJECT_TYPES[state.policy.owner.subject_type]),
        )  # fmt: skip
    raise AssertionError("a shared table has no owner's policy")


def _is_as_made(row: Any, statement: Sql) -> bool:
    return bool(row.mark == f"{made_from(statement)} {fingerprint(row.qual, row.with_check)}")


def _remade(table: TableName, name: str, statement: Sql, exists: bool) -> list[Sql]:
    identifier = sql.Identifier(*table)
    drop = [sql.SQL("DROP POLICY {} ON {}").format(sql.Identifier(name), identifier)] if exists else []
    mark, _ = with_body(
        QUERIES["mark_policy"],
        table=sql.Literal(identifier.as_string(None)),
        policy=sql.Literal(name),
        made_from=sql.Literal(made_from(statement)),
    )
    return [*drop, statement, mark]


def _access_of_others(state: State, table: TableName, live: Any, policies: Sequence[Any]) -> list[Difference]:
    """Row-level security must not lock out everybody else, and stay shut when the session is the reader's."""
    row = next((each for each in policies if each.name == _OTHERS), None)
    if row is not None:
        role = "PUBLIC" if row.roles == ["public"] else row.roles[0]
        statement = _others(state, table, role)
        if _is_as_made(row, statement):
            return []
        steps = _remade(table, _OTHERS, statement, exists=True)
        return [mend(f"the policy {_OTHERS} on {table} is not as it was made", *steps)]
    if live.rls and live.forced:
        return []
    # Where row-level security was on already, only its owner was outside of it.
    role = live.owner if live.rls else "PUBLIC"
    steps = _remade(table, _OTHERS, _others(state, table, role), exists=False)
    return [mend(f"row-level security of {table} would lock out {role}", *steps)]


def _others(state: State, table: TableName, role: str) -> Sql:
    return sql.SQL(QUERIES["other_sessions"]).format(
        table=sql.Identifier(*table),
        role=sql.SQL("PUBLIC") if role == "PUBLIC" else sql.Identifier(role),
        reader_name=sql.Literal(state.reader),
    )
