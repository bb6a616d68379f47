"""`python -m services.sql_executor.provisioning plan|apply|verify --policy FILE --dsn-env NAME`, and

`… init --users TABLE --dsn-env NAME` drafts a policy file from foreign keys, with `--out DIR` examples and words too;
`… try --policy FILE --dsn-env NAME --as SUBJECT SQL` shows what a caller sees; the DSN is the reader's then.

Exit status: 0 when the database is (now) as the policy promises, 1 when it is not, 2 when the input is wrong or the
database can't be reached.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg
from psycopg import AsyncConnection

from services.kit.errors import SignalboxError
from services.kit.identity.caller import Caller
from services.kit.postgres import connect
from services.kit.text.policy_file import PolicyFileError
from services.sql_executor.callers import MIN_SECRET_LENGTH
from services.sql_executor.errors import UnsafeDatabase
from services.sql_executor.policy import SqlPolicy, TableName, load_policy
from services.sql_executor.pool import APPLICATION_NAME
from services.sql_executor.provisioning import Difference, NotApplied, apply, beyond_reach, compare, search_path
from services.sql_executor.provisioning.described_tables import read_tables
from services.sql_executor.provisioning.draft import drafted, read_schema
from services.sql_executor.provisioning.questions import drafted_examples, drafted_vocabulary
from services.sql_executor.provisioning.trial import tried
from services.sql_executor.settings import ProvisioningSettings, environment_dsn

OK, NOT_AS_PROMISED, WRONG_INPUT = 0, 1, 2


class _WrongInput(Exception):
    """What is wrong with the command's input."""


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    options = _parser().parse_intermixed_args(arguments)
    try:
        return asyncio.run(_run(options))
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
    parser.add_argument("action", choices=["plan", "apply", "verify", "init", "try"])
    parser.add_argument("query", nargs="?", metavar="SQL", help="query to try")
    parser.add_argument("--policy", type=Path, metavar="FILE", help="policy file (YAML)")
    parser.add_argument("--dsn-env", required=True, metavar="NAME", help="environment variable with the DSN to use")
    parser.add_argument("--users", metavar="TABLE", help="table of the users who own rows, for init")
    parser.add_argument("--share-rest", action="store_true", help="for init: share tables that lead to no user")
    parser.add_argument("--out", type=Path, metavar="DIR", help="for init: where to write the files")
    parser.add_argument("--schema", action="append", metavar="NAME", help="schema to draft for; public if left out")
    parser.add_argument("--as", dest="subject", metavar="SUBJECT", help="caller to try a query as")
    parser.add_argument("--role", action="append", metavar="ROLE", help="role of that caller; repeatable")
    return parser


async def _run(options: argparse.Namespace) -> int:
    if options.action == "init":
        return await _init(options, _dsn(options))
    if options.policy is None:
        raise _WrongInput(f"{options.action} needs --policy FILE")
    policy = load_policy(options.policy)
    dsn = _dsn(options)
    if options.action == "try":
        return await _try(options, policy, dsn)
    async with await connect(dsn, APPLICATION_NAME) as connection:
        if options.action == "apply":
            return await _apply(connection, policy)
        found = await compare(connection, policy, ProvisioningSettings().secret())
        if options.action == "verify":
            return _verify(found, policy)
        return _plan(found, await beyond_reach(connection, found), policy)


def _dsn(options: argparse.Namespace) -> str:
    try:
        return environment_dsn(options.dsn_env)
    except ValueError as error:
        raise _WrongInput(str(error)) from error


async def _init(options: argparse.Namespace, dsn: str) -> int:
    if options.policy is not None and options.out is None:
        raise _WrongInput("init of a policy that there is needs --out DIR, for examples and words")
    async with await connect(dsn, APPLICATION_NAME) as connection:
        if options.policy is None:
            text = await _drafted_policy(connection, options)
            if options.out is None:
                _say(text.rstrip())
                return OK
            _write(options.out, {"policy.yaml": text})
        policy = load_policy(options.policy or options.out / "policy.yaml")
        tables = await read_tables(connection, policy)
    drafts = {"examples.yaml": drafted_examples(policy, tables), "vocabulary.yaml": drafted_vocabulary(policy, tables)}
    _write(options.out, drafts)
    return OK


async def _drafted_policy(connection: AsyncConnection[Any], options: argparse.Namespace) -> str:
    if not options.users and not options.share_rest:
        raise _WrongInput("init needs --users TABLE: the table whose rows are the callers; or --share-rest without it")
    schemas = options.schema or ["public"]
    schema, _, name = (options.users or "").rpartition(".")
    users = TableName(schema or schemas[0], name) if name else None
    found = await read_schema(connection, schemas)
    cursor = await connection.execute("SELECT current_database()")
    [[database]] = await cursor.fetchall()
    return drafted(database, schemas, found, users, share_rest=options.share_rest)


def _write(directory: Path, files: Mapping[str, str]) -> None:
    """Writes files that are not there yet: people have gone through those that are."""
    there = [str(directory / name) for name in files if (directory / name).exists()]
    if there:
        raise _WrongInput(f"there is already {', '.join(there)}: remove it, or name another directory")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (directory / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise _WrongInput(f"can't write to {directory}: {error}") from error
    for name in files:
        _say(f"{directory / name}: go through it")


async def _try(options: argparse.Namespace, policy: SqlPolicy, dsn: str) -> int:
    secret = _secret()
    if not options.query or not options.subject:
        raise _WrongInput('try needs a caller and a query: try --as 27 "SELECT …"')
    try:
        caller = Caller(options.subject, frozenset(options.role or ()))
        shown, is_answered = await tried(policy, dsn, secret, caller, options.query)
    except (SignalboxError, UnsafeDatabase) as error:
        raise _WrongInput(str(error)) from error
    _say(shown)
    return OK if is_answered else NOT_AS_PROMISED


def _secret() -> str:
    secret = ProvisioningSettings().secret()
    if secret is None or len(secret) < MIN_SECRET_LENGTH:
        raise _WrongInput(f"SIGNALBOX_CALLER_SECRET must be set, with at least {MIN_SECRET_LENGTH} characters")
    return secret


def _plan(found: list[Difference], beyond: list[Difference], policy: SqlPolicy) -> int:
    if any(difference.statements for difference in found):
        _say(f"{search_path(policy).as_string(None)};")
        _say("")
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
    for difference in beyond:
        _say(f"-- can't be applied by this role: {difference.problem}")
    return OK if not by_hand and not beyond else NOT_AS_PROMISED


def _verify(found: list[Difference], policy: SqlPolicy) -> int:
    for difference in found:
        _say(f"FAILED: {difference.problem}")
    _say(f"{policy.database}: {len(found)} checks failed" if found else f"{policy.database}: as the policy promises")
    return NOT_AS_PROMISED if found else OK


async def _apply(connection: AsyncConnection[Any], policy: SqlPolicy) -> int:
    secret = _secret()
    try:
        done = await apply(connection, policy, secret=secret, reader_password=ProvisioningSettings().password())
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
