"""The two roles: the reader, who logs in and may only read, and the policy's owner, whom nobody logs in as."""

from __future__ import annotations

from psycopg import sql

from services.sql_executor.provisioning.difference import Difference, State, mend

_ATTRIBUTES = {
    "rolsuper": ("SUPERUSER", "is a superuser and would see every row"),
    "rolbypassrls": ("BYPASSRLS", "bypasses row-level security"),
    "rolcreaterole": ("CREATEROLE", "may make roles"),
    "rolcreatedb": ("CREATEDB", "may make databases"),
    "rolreplication": ("REPLICATION", "may read the replication stream"),
}
# What sorts and hashes beyond `work_mem` may write; a role can't lift limits that only a superuser sets.
_SUPERUSER_SETTINGS = {"temp_file_limit": str(256 * 1024), "track_activities": "off"}


async def role_differences(state: State) -> list[Difference]:
    """Compares the roles, what they are members of, what they own and the reader's settings."""
    reader = await _role(state, state.reader, {"rolcanlogin": ("LOGIN", True), "rolinherit": ("INHERIT", False)})
    owner = await _role(state, state.owner, {"rolcanlogin": ("LOGIN", False), "rolinherit": ("INHERIT", False)})
    found = [*reader, *owner, *await _connection_limit(state), *await _memberships(state), *await _owned(state)]
    return [*found, *await _settings(state)]


async def _role(state: State, role: str, wanted: dict[str, tuple[str, bool]]) -> list[Difference]:
    rows = await state.rows("role", role=role)
    name = sql.Identifier(role)
    if not rows:
        login = "LOGIN" if wanted["rolcanlogin"][1] else "NOLOGIN"
        return [
            mend(f"the role {role} does not exist", sql.SQL("CREATE ROLE {} {} NOINHERIT").format(name, sql.SQL(login)))
        ]
    found = []
    for attribute, (word, wish) in wanted.items():
        if getattr(rows[0], attribute) != wish:
            option = sql.SQL(word if wish else f"NO{word}")
            found.append(
                mend(
                    f"the role {role} is not {'' if wish else 'NO'}{word}",
                    sql.SQL("ALTER ROLE {} {}").format(name, option),
                )
            )
    for attribute, (word, harm) in _ATTRIBUTES.items():
        if getattr(rows[0], attribute):
            found.append(
                mend(f"the role {role} {harm}", sql.SQL("ALTER ROLE {} {}").format(name, sql.SQL(f"NO{word}")))
            )
    return found


async def _connection_limit(state: State) -> list[Difference]:
    limit = state.policy.limits.connections
    rows = await state.rows("role")
    if rows and rows[0].rolconnlimit == limit:
        return []
    text = sql.SQL("ALTER ROLE {} CONNECTION LIMIT {}").format(sql.Identifier(state.reader), sql.Literal(limit))
    return [mend(f"the role {state.reader} is not limited to {limit} connections", text)]


async def _memberships(state: State) -> list[Difference]:
    found = []
    for role in (state.reader, state.owner):
        for row in await state.rows("memberships", role=role):
            text = sql.SQL("REVOKE {} FROM {}").format(sql.Identifier(row.granted), sql.Identifier(role))
            found.append(mend(f"the role {role} is a member of {row.granted} and may become it", text))
    return found


async def _owned(state: State) -> list[Difference]:
    rows = await state.rows("owned_objects")
    return [Difference(f"the role {state.reader} owns {row.described}; give it another owner") for row in rows]


def _wanted_settings(state: State) -> dict[str, str]:
    wanted = {
        "default_transaction_read_only": "on",
        "statement_timeout": str(state.policy.limits.statement_timeout_ms),
        "work_mem": str(state.policy.limits.work_mem_kb),
        "hash_mem_multiplier": "2",
        "lock_timeout": "1000",
        "idle_in_transaction_session_timeout": "30000",
        "search_path": state.policy.schemas[0],
        "row_security": "on",
        "standard_conforming_strings": "on",
        "TimeZone": "UTC",
        "DateStyle": "ISO, YMD",
        "IntervalStyle": "postgres",
        # Results are read to their end: the best plan is the one for all rows. Compiling costs more than these queries.
        "cursor_tuple_fraction": "1",
        "jit": "off",
    }
    if state.policy.hardening:
        wanted |= _SUPERUSER_SETTINGS
    return wanted


async def _settings(state: State) -> list[Difference]:
    present = {row.name.lower(): row.value for row in await state.rows("role_settings")}
    database = (await state.rows("whoami"))[0].database
    found = []
    for name, value in _wanted_settings(state).items():
        quoted = sql.Identifier(value).as_string(None) if name == "search_path" else value
        if present.get(name.lower()) not in (value, quoted):
            text = sql.SQL("ALTER ROLE {} IN DATABASE {} SET {} = {}").format(
                sql.Identifier(state.reader), sql.Identifier(database), sql.Identifier(name), sql.Literal(value)
            )
            problem = f"the role {state.reader} does not have the setting {name} = {value}"
            found.append(mend(problem, text, needs_superuser=name in _SUPERUSER_SETTINGS))
    return found
