"""`python -m services.sql_executor.provisioning plan|apply|verify --policy FILE --dsn-env NAME`

Exit status: 0 when the database is (now) as the policy promises, 1 when it is not, 2 when the input is wrong or the
database can't be reached.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Any

import psycopg
from psycopg import AsyncConnection

from services.sql_executor.callers import MIN_SECRET_LENGTH
from services.sql_executor.errors import PolicyFileError
from services.sql_executor.policy import SqlPolicy, load_policy
from services.sql_executor.provisioning import Difference, NotApplied, apply, compare
from services.sql_executor.settings import ProvisioningSettings, environment_dsn

OK, NOT_AS_PROMISED, WRONG_INPUT = 0, 1, 2


class _WrongInput(Exception):
    """What is wrong with the command's input."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    options = _parser().parse_args(arguments)
    try:
        return asyncio.run(_run(options.action, options.policy, options.dsn_env))
    except (_WrongInput, PolicyFileError) as error:
        _complain(f"error: {error}")
    except psycopg.OperationalError as error:
        _complain(f"error: the database of ${options.dsn_env} can't be used: {error}".strip())
    except psycopg.errors.InsufficientPrivilege as error:
        _complain(
            f"error: the role of ${options.dsn_env} lacks a right: {str(error).splitlines()[0]}. Use the tables' owner "
            "with CREATEROLE, or a superuser; without one, set `hardening: false` in the policy file."
        )
    return WRONG_INPUT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sql-policy", description="Roles, grants and row-level security that a policy file needs in its database."
    )
    parser.add_argument("action", choices=["plan", "apply", "verify"])
    parser.add_argument("--policy", type=Path, required=True, metavar="FILE", help="policy file (YAML)")
    parser.add_argument("--dsn-env", required=True, metavar="NAME", help="environment variable with the DSN to use")
    return parser


async def _run(action: str, policy_file: Path, dsn_env: str) -> int:
    policy = load_policy(policy_file)
    try:
        dsn = environment_dsn(dsn_env)
    except ValueError as error:
        raise _WrongInput(str(error)) from error
    async with await AsyncConnection.connect(dsn, autocommit=True, connect_timeout=10) as connection:
        if action == "apply":
            return await _apply(connection, policy)
        found = await compare(connection, policy, ProvisioningSettings().secret())
        return _plan(found, policy) if action == "plan" else _verify(found, policy)


def _plan(found: list[Difference], policy: SqlPolicy) -> int:
    for difference in found:
        _say(f"-- {difference.problem}")
        for statement in difference.statements:
            _say(f"{statement.shown()};")
        if not difference.statements:
            _say("-- ^ this is for a person to mend")
        _say("")
    by_hand = sum(not difference.statements for difference in found)
    _say(
        f"-- {policy.database}: {len(found)} differences, {by_hand} of them to mend by hand"
        if found
        else "-- nothing to do"
    )
    return OK if not by_hand else NOT_AS_PROMISED


def _verify(found: list[Difference], policy: SqlPolicy) -> int:
    for difference in found:
        _say(f"FAILED: {difference.problem}")
    _say(f"{policy.database}: {len(found)} checks failed" if found else f"{policy.database}: as the policy promises")
    return NOT_AS_PROMISED if found else OK


async def _apply(connection: AsyncConnection[Any], policy: SqlPolicy) -> int:
    settings = ProvisioningSettings()
    secret = settings.secret()
    if secret is None or len(secret) < MIN_SECRET_LENGTH:
        raise _WrongInput(f"SIGNALBOX_CALLER_SECRET must be set, with at least {MIN_SECRET_LENGTH} characters")
    try:
        done = await apply(connection, policy, secret=secret, reader_password=settings.password())
    except NotApplied as error:
        for difference in error.left:
            _say(f"FAILED: {difference.problem}")
        _say(f"{policy.database}: nothing was changed; mend the above by hand and apply again")
        return NOT_AS_PROMISED
    for difference in done:
        _say(f"mended: {difference.problem}")
    _say(f"{policy.database}: {len(done)} differences mended; as the policy promises")
    return OK


def _complain(line: str) -> None:
    print(line, file=sys.stderr)  # noqa: T201 - what `plan` prints is SQL, for a file or another program


def _say(line: str) -> None:
    print(line, file=sys.stdout)  # noqa: T201 - the command's output


if __name__ == "__main__":
    sys.exit(main())
