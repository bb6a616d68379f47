"""The schema `signalbox`: the secret, the functions that check the caller's signature, and the assignment views."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from services.sql_executor.callers import hmac_pads
from services.sql_executor.naming import POLICY_SCHEMA, assignment_view, keys_function
from services.sql_executor.policy import TableName, Way
from services.sql_executor.provisioning.difference import Difference, Sql, State, Statement, mend
from services.sql_executor.queries import load_queries

QUERIES = load_queries("caller.sql")
SUBJECT_TYPES = {"integer": "bigint", "uuid": "uuid", "text": "text"}
_FIXED_SETTINGS = ["search_path=pg_catalog, pg_temp"]


def raw(text: str) -> sql.SQL:
    """Returns text of the database's own making (a type's name), or of this package's, as SQL."""
    return sql.SQL(text)


def made_from(statement: Sql) -> str:
    """Returns a short fingerprint of the statement that makes something."""
    return hashlib.sha256(statement.as_string(None).encode()).hexdigest()[:16]


def fingerprint(*deparsed: str | None) -> str:
    """Returns the fingerprint of what the database made of a definition."""
    return hashlib.sha256("".join(text or "" for text in deparsed).encode()).hexdigest()


def with_body(query: str, **names: sql.Composable) -> tuple[Sql, str]:
    """Returns one of the named queries around a body in dollar quotes, with names filled in, and the body by itself.

    The quotes are `$$` unless a name in the body has them in it.
    """
    head, body, tail = (raw(part).format(**names) for part in query.split("$$"))
    text = body.as_string(None)
    quote = next(each for each in _dollar_quotes() if each not in text)
    return sql.Composed([head, raw(quote), body, raw(quote), tail]), text


def _dollar_quotes() -> Iterator[str]:
    yield "$$"
    for number in itertools.count(1):
        yield f"$q{number}$"


@dataclass(frozen=True)
class WantedFunction:
    """A function as it must be; the database keeps its body verbatim."""

    name: str
    statement: Sql
    source: str
    language: str
    for_reader: bool


async def object_differences(state: State) -> list[Difference]:
    """Compares the schema, the secret's table, the functions and the views."""
    types = await column_types(state, state.policy.hops())
    missing = [*await _hops_that_are_no_tables(state)]
    missing += [
        Difference(f"the column {table}.{column} does not exist")
        for table, column in _read_columns(state)
        if (table, column) not in types
    ]
    missing += _taken_names(state)
    if missing:
        return missing
    found = [*await _schema(state), *await _owner_grants(state), *await _secret(state)]
    return [*found, *await _functions(state, types), *await _views(state)]


async def _hops_that_are_no_tables(state: State) -> list[Difference]:
    """A view shows its owner's rows: of row-level security on what is behind it, that is nothing, without a word."""
    hops = state.policy.hops()
    rows = await state.rows("tables", schemas=[hop.schema for hop in hops], names=[hop.name for hop in hops])
    kinds = {TableName(row.schema, row.name): row.kind for row in rows}
    return [
        Difference(f"{hop} leads to owners and is a view: name the tables behind it in the policy's path instead")
        for hop in hops
        if kinds.get(hop, "r") not in ("r", "p")
    ]


def _read_columns(state: State) -> list[tuple[TableName, str]]:
    """Returns the columns that lead to owners, with their tables."""
    found = []
    for way in state.policy.ways():
        tables = [state.policy.table_name(hop.table) for hop in way.hops]
        found += [(table, hop.key) for table, hop in zip(tables, way.hops, strict=True)]
        found += [(table, hop.column) for table, hop in zip(tables, way.hops[1:], strict=False)]
        found.append((tables[-1], way.subject_column))
    return list(dict.fromkeys(found))


async def column_types(state: State, tables: list[TableName]) -> dict[tuple[TableName, str], str]:
    """Returns the type of each column of some tables."""
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
    for table, column in _read_columns(state):
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
    """Returns statements that run as the policy's owner, so that it owns what they make."""
    return [sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(state.owner)), *statements, sql.SQL("RESET ROLE")]


def _wanted_functions(state: State, types: dict[tuple[TableName, str], str]) -> Iterator[WantedFunction]:
    plain = {"caller": ("plpgsql", False), "caller_subject": ("sql", True), "caller_is_admin": ("sql", True)}
    for name, (language, for_reader) in plain.items():
        yield WantedFunction(name, *with_body(QUERIES[name]), language, for_reader)
    # Tables may find their owners by the same keys, whatever their own columns are called.
    for name, way in {keys_function(state.policy, way): way for way in state.policy.ways()}.items():
        statement, source = with_body(
            QUERIES["caller_keys"],
            function=sql.Identifier(name),
            key_type=raw(types[(state.policy.table_name(way.hops[0].table), way.key)]),
            key=_of_first(way, way.key),
            table=_joined(state, way),
            subject=_of_last(way, way.subject_column),
            subject_type=raw(SUBJECT_TYPES[state.policy.owner.subject_type]),
        )
        yield WantedFunction(name, statement, source, "sql", True)


def _taken_names(state: State) -> Iterator[Difference]:
    """Ways whose functions or views would have one name: rows of the one would be found by the keys of the other."""
    meant: dict[tuple[str, str], str] = {("view", "caller_secret"): "the caller secret"}
    for way in state.policy.ways():
        lookup = sql.SQL("{} of {}").format(_of_last(way, way.subject_column), _joined(state, way)).as_string(None)
        keys = f"{_of_first(way, way.key).as_string(None)} by {lookup}"
        for kind, name, meaning in (
            ("view", assignment_view(state.policy, way), lookup),
            ("function", keys_function(state.policy, way), keys),
        ):
            if (other := meant.setdefault((kind, name), meaning)) != meaning:
                yield Difference(
                    f"the {kind} signalbox.{name} would be both for {other} and for {meaning}: "
                    "rename one of the tables or columns that lead to owners"
                )


def _joined(state: State, way: Way) -> Sql:
    """Returns the tables of a way as they stand in FROM; one by itself needs no alias."""
    tables = [sql.Identifier(*state.policy.table_name(hop.table)) for hop in way.hops]
    if len(tables) == 1:
        return sql.Composed([tables[0]])
    parts: list[sql.Composable] = [sql.SQL("{} AS h1").format(tables[0])]
    for number, (table, hop) in enumerate(zip(tables[1:], way.hops[1:], strict=True), 2):
        here, before = sql.Identifier(f"h{number}", hop.key), sql.Identifier(f"h{number - 1}", hop.column)
        alias = sql.Identifier(f"h{number}")
        parts.append(sql.SQL(" JOIN {} AS {} ON {} = {}").format(table, alias, here, before))
    return sql.Composed(parts)


def _of_first(way: Way, column: str) -> sql.Identifier:
    return sql.Identifier(column) if len(way.hops) == 1 else sql.Identifier("h1", column)


def _of_last(way: Way, column: str) -> sql.Identifier:
    return sql.Identifier(column) if len(way.hops) == 1 else sql.Identifier(f"h{len(way.hops)}", column)


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


def _view_statement(state: State, name: str, ways: list[Way]) -> Sql:
    return sql.SQL(QUERIES["caller_assignments"]).format(
        view=sql.Identifier(name),
        subject=_of_last(ways[0], ways[0].subject_column),
        keys=sql.SQL(", ").join(_of_first(way, key) for way, key in {way.key: (way, way.key) for way in ways}.values()),
        table=_joined(state, ways[0]),
        subject_type=raw(SUBJECT_TYPES[state.policy.owner.subject_type]),
    )


async def _views(state: State) -> list[Difference]:
    present = {row.name: row for row in await state.rows("signalbox_views")}
    grants = {(row.schema, row.name, row.column, row.grantee) for row in await state.rows("relation_grants")}
    wanted: dict[str, list[Way]] = {}
    for way in state.policy.ways():
        wanted.setdefault(assignment_view(state.policy, way), []).append(way)
    found = []
    for name, ways in wanted.items():
        row = present.pop(name, None)
        statement = _view_statement(state, name, ways)
        view = sql.Identifier(POLICY_SCHEMA, name)
        grant = sql.SQL("GRANT SELECT ON {} TO {}").format(view, sql.Identifier(state.reader))
        good = row is not None and row.owner == state.owner and row.options == ["security_barrier=true"]
        if not good or row is None or row.mark != f"{made_from(statement)} {fingerprint(row.definition)}":
            mark, _ = with_body(
                QUERIES["mark_view"],
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
