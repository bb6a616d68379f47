"""Commands that are given a database which they can't use: each says so once, in words, without the password."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

import pytest
from psycopg.conninfo import conninfo_to_dict

from services.local.settings import inherited_environment
from tests.fixtures.forked import program

VARIABLE = "SIGNALBOX_DATABASE_DSN"
PASSWORD = "correct-horse"
# Less than a pool tries to connect.
DEADLINE_S = 60.0
LOAD = ("services.sql_executor.load_examples", "--file", "examples/harbour/examples.yaml", "--dsn-env", VARIABLE)
COMMANDS = (("services.runtime.commands.compat_check",), ("services.runtime.commands.migrate",), LOAD)


def refused(command: Sequence[str], dsn: str) -> list[str]:
    """What a command says that ends with status 2 and has no result."""
    ended = subprocess.run(
        [*program(command[0]), *command[1:]], env={**inherited_environment(), VARIABLE: dsn}, capture_output=True,
        text=True, timeout=DEADLINE_S,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (2, ""), ended.stderr
    assert PASSWORD not in ended.stderr
    return ended.stderr.splitlines()


def altered(dsn: str, **parts: str | int) -> str:
    """A URL that differs in some parts."""
    known = {**conninfo_to_dict(dsn), **parts}
    place = f"{known['user']}:{known['password']}@/{known['dbname']}"
    return f"postgresql://{place}?host={known['host']}&port={known['port']}&sslmode={known.get('sslmode', 'prefer')}"


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"port": 1, "password": PASSWORD}, "Connection refused"),
        ({"host": "nowhere.invalid", "password": PASSWORD}, "nowhere.invalid"),
        ({"password": PASSWORD}, "password authentication failed"),
        ({"dbname": "not_there"}, 'database "not_there" does not exist'),
        ({"sslmode": "require"}, "server does not support SSL"),
    ],
    ids=["unreachable", "unknown-host", "password", "no-database", "no-tls"],
)
def test_it_says_what_is_wrong_and_where(
    command: Sequence[str], parts: dict[str, str | int], reason: str, database: str
) -> None:
    error, hint = refused(command, altered(database, **parts))
    assert error.startswith(f"error: the database of {VARIABLE} can't be used: ")
    assert reason in error
    assert hint.startswith("what to do: ")


def test_a_database_that_nobody_has_migrated(database: str) -> None:
    error, _ = refused(("services.runtime.commands.compat_check",), database)
    assert 'relation "platform.runs" does not exist' in error
