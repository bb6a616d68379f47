"""The policy's roles, grants and row-level security: planned, applied, verified, and what verification notices."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from services.kit.tools.executor import ToolRefused
from services.sql_executor.callers import CallerSigner, SqlCaller
from services.sql_executor.errors import UnsafeDatabase
from services.sql_executor.execution import QueryRunner
from services.sql_executor.pool import reader_pool
from services.sql_executor.provisioning import NotApplied, apply, compare
from services.sql_executor.server import check_database, check_secret
from tests.fixtures.forked import program
from tests.integration.sql_executor.fleet import (
    CALLER,
    PASSWORD,
    POLICY_FILE,
    SECRET,
    Fleet,
    fleet_policy,
    leaks,
    provisioned,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")
Connection = psycopg.AsyncConnection[Any]

# What somebody changes afterwards, and the words with which verification must notice.
DRIFT = [
    ("ALTER ROLE signalbox_reader BYPASSRLS", "bypasses row-level security"),
    ("ALTER ROLE signalbox_reader SUPERUSER", "is a superuser"),
    ("ALTER ROLE signalbox_reader CREATEROLE", "may make roles"),
    ("ALTER ROLE signalbox_reader INHERIT", "is not NOINHERIT"),
    ("ALTER ROLE signalbox_reader CONNECTION LIMIT -1", "not limited to 20 connections"),
    ("ALTER ROLE signalbox_policy LOGIN", "signalbox_policy is not NOLOGIN"),
    ("GRANT pg_read_all_data TO signalbox_reader", "is a member of pg_read_all_data"),
    ("GRANT signalbox_policy TO signalbox_reader", "is a member of signalbox_policy"),
    ("ALTER ROLE signalbox_reader IN DATABASE {database} SET statement_timeout = 0", "statement_timeout = "),
    ("ALTER ROLE signalbox_reader IN DATABASE {database} SET work_mem = '1GB'", "work_mem = 4096"),
    ("ALTER ROLE signalbox_reader IN DATABASE {database} RESET hash_mem_multiplier", "hash_mem_multiplier = 2"),
    ("ALTER ROLE signalbox_reader IN DATABASE {database} SET search_path = pg_temp", "search_path = public"),
    ("ALTER TABLE ships OWNER TO signalbox_reader", "owns table ships"),
    ("GRANT TEMPORARY ON DATABASE {database} TO PUBLIC", "PUBLIC has TEMPORARY"),
    ("GRANT CREATE ON DATABASE {database} TO signalbox_reader", "signalbox_reader has CREATE"),
    ("GRANT CREATE ON SCHEMA public TO PUBLIC", "PUBLIC may make objects in the schema public"),
    ("REVOKE USAGE ON SCHEMA public FROM signalbox_reader", "may not use the schema public"),
    ("GRANT SELECT ON admin TO signalbox_reader", "signalbox_reader has SELECT on public.admin"),
    ("GRANT SELECT (login) ON admin TO PUBLIC", "PUBLIC has SELECT on public.admin"),
    ("GRANT SELECT ON user_device_assignment TO PUBLIC", "PUBLIC has SELECT on public.user_device_assignment"),
    ("GRANT SELECT ON users TO signalbox_reader", "signalbox_reader has SELECT on public.users"),
    ("GRANT SELECT (pin) ON users TO signalbox_reader", "signalbox_reader has SELECT on public.users"),
    ("GRANT UPDATE ON devices TO signalbox_reader", "signalbox_reader has UPDATE on public.devices"),
    ("GRANT USAGE ON SEQUENCE s TO PUBLIC", "PUBLIC has USAGE on public.s"),
    ("GRANT SELECT ON everything_view TO signalbox_reader", "signalbox_reader has SELECT on public.everything_view"),
    ("GRANT SELECT ON devices_snapshot TO PUBLIC", "PUBLIC has SELECT on public.devices_snapshot"),
    ("REVOKE SELECT ON devices FROM signalbox_reader", "may not read public.devices"),
    ("REVOKE SELECT (email) ON users FROM signalbox_reader", "may not read email of public.users"),
    ("ALTER TABLE devices DISABLE ROW LEVEL SECURITY", "row-level security of public.devices is off"),
    ("ALTER TABLE users NO FORCE ROW LEVEL SECURITY", "of public.users does not bind its owner"),
    ("ALTER POLICY signalbox_own ON devices USING (true)", "policy signalbox_own on public.devices is not as"),
    ("ALTER POLICY signalbox_admin ON users TO PUBLIC", "policy signalbox_admin on public.users is not as"),
    ("ALTER POLICY signalbox_others ON users USING (true)", "policy signalbox_others on public.users is not as"),
    ("DROP POLICY signalbox_own ON device_readings", "policy signalbox_own on public.device_readings does not exist"),
    ("CREATE POLICY extra ON devices USING (true)", "policy extra on public.devices also shows rows"),
    ("CREATE POLICY extra ON users TO signalbox_reader USING (true)", "policy extra on public.users also shows rows"),
    ("GRANT EXECUTE ON FUNCTION everything() TO PUBLIC", "public.everything() runs with the rights of"),
    ("GRANT EXECUTE ON FUNCTION signalbox.caller() TO signalbox_reader", "signalbox.caller() is not as"),
    ("ALTER FUNCTION signalbox.caller_subject() SECURITY INVOKER", "signalbox.caller_subject() is not as"),
    ("ALTER FUNCTION signalbox.caller_is_admin() RESET search_path", "signalbox.caller_is_admin() is not as"),
    ("ALTER FUNCTION signalbox.caller() OWNER TO postgres", "signalbox.caller() is not as"),
    ("CREATE OR REPLACE FUNCTION signalbox.caller_is_admin() RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER "
     "PARALLEL RESTRICTED SET search_path = pg_catalog, pg_temp AS 'SELECT true'", "caller_is_admin() is not as"),
    ("CREATE FUNCTION signalbox.more() RETURNS int LANGUAGE sql AS 'SELECT 1'", "signalbox.more is none of the"),
    ("CREATE OR REPLACE VIEW signalbox.user_device_assignment WITH (security_barrier) AS "
     "SELECT user_id, device_id FROM user_device_assignment", "view signalbox.user_device_assignment is not as"),
    ("ALTER VIEW signalbox.user_device_assignment SET (security_barrier = false)", "user_device_assignment is not as"),
    ("GRANT SELECT ON signalbox.caller_secret TO signalbox_reader", "has SELECT on signalbox.caller_secret"),
    ("ALTER TABLE signalbox.caller_secret OWNER TO postgres", "caller secret is not owned by signalbox_policy"),
    ("UPDATE signalbox.caller_secret SET inner_pad = outer_pad", "caller secret is not the one given"),
    ("ALTER SCHEMA signalbox OWNER TO postgres", "schema signalbox is not owned by signalbox_policy"),
    ("ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC", "PUBLIC gets SELECT on every new one"),
    ("ALTER DEFAULT PRIVILEGES GRANT USAGE ON SEQUENCES TO signalbox_reader", "signalbox_reader gets USAGE on every"),
    ("GRANT EXECUTE ON FUNCTION pg_terminate_backend(int, bigint) TO PUBLIC", "may call pg_terminate_backend"),
    ("ALTER TABLE ships RENAME TO vessels", "public.ships is not a table"),
    ("ALTER TABLE user_device_assignment RENAME device_id TO gadget", "assignment.device_id does not exist"),
]  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def owner(fleet: Fleet) -> AsyncIterator[Connection]:
    async with await psycopg.AsyncConnection.connect(fleet.superuser_dsn, autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize(("change", "notice"), DRIFT, ids=[change[:50] for change, _ in DRIFT])
async def test_a_change_is_noticed_and_mended_or_nothing_is_changed(
    fleet: Fleet, owner: Connection, change: str, notice: str
) -> None:
    async with owner.transaction(force_rollback=True):
        await owner.execute(change.replace("{database}", owner.info.dbname).encode())
        broken = await compare(owner, fleet.policy, SECRET)
        assert any(notice in difference.problem for difference in broken), broken
        try:
            assert await apply(owner, fleet.policy, secret=SECRET)
            assert await compare(owner, fleet.policy, SECRET) == []
        except NotApplied as error:
            left, now = error.left, await compare(owner, fleet.policy, SECRET)
        else:
            left, now = [], broken
        assert now == broken
        assert not any(difference.statements for difference in left)


async def test_verification_finds_nothing_where_nothing_was_changed(fleet: Fleet, owner: Connection) -> None:
    assert await compare(owner, fleet.policy, SECRET) == []


async def test_without_row_level_security_the_marks_would_show(fleet: Fleet, owner: Connection) -> None:
    """The detector of leaks is not blind: with one policy widened, it sees other people's rows."""
    await owner.execute("ALTER POLICY signalbox_own ON devices USING (true)")
    try:
        async with reader_pool(fleet.reader_dsn, min_size=1, max_size=1, wait_s=60) as pool:
            runner = QueryRunner(pool, CallerSigner(SECRET), fleet.policy.limits)
            table = await runner.run("SELECT * FROM devices", SqlCaller(str(CALLER), is_admin=False))
        assert set(leaks(str(table.rows))) == {"ZZ", "999777"}
    finally:
        await apply(owner, fleet.policy, secret=SECRET)


async def test_a_vacuum_that_comes_to_the_tables_in_another_order_only_delays_it(
    fleet: Fleet, owner: Connection
) -> None:
    """The lock that a vacuum has, and its write to a row of the catalog that is being changed, are a deadlock."""
    await owner.execute("REVOKE SELECT ON devices FROM signalbox_reader; DROP POLICY signalbox_own ON device_readings")
    async with await psycopg.AsyncConnection.connect(fleet.superuser_dsn) as vacuum, asyncio.timeout(60):
        # It is `apply` that finds out, since the other one looks later.
        await vacuum.execute("SET deadlock_timeout = '60s'")
        await vacuum.execute("LOCK TABLE device_readings IN SHARE UPDATE EXCLUSIVE MODE")
        await owner.execute("SET deadlock_timeout = '4s'")
        applying = asyncio.create_task(apply(owner, fleet.policy, secret=SECRET))
        waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'device_readings'::regclass"
        while await (await vacuum.execute(waits)).fetchone() == (0,):  # noqa: ASYNC110 - locks tell nobody
            await asyncio.sleep(0.02)
        await vacuum.execute("GRANT SELECT ON devices TO signalbox_policy")
        assert not applying.done(), "it was undone, and has begun again"
        await vacuum.rollback()
        assert len(await applying) == 2
    await owner.execute("RESET deadlock_timeout")
    assert await compare(owner, fleet.policy, SECRET) == []


async def test_the_reader_itself_can_verify(fleet: Fleet) -> None:
    async with await psycopg.AsyncConnection.connect(fleet.reader_dsn, autocommit=True) as connection:
        await check_database(connection, fleet.policy)


async def test_the_service_does_not_start_as_another_role_or_on_a_changed_database(
    fleet: Fleet, owner: Connection
) -> None:
    with pytest.raises(UnsafeDatabase, match="must log in as the reader role signalbox_reader, not as postgres"):
        await check_database(owner, fleet.policy)
    await owner.execute("ALTER TABLE users DISABLE ROW LEVEL SECURITY")
    try:
        async with await psycopg.AsyncConnection.connect(fleet.reader_dsn, autocommit=True) as connection:
            with pytest.raises(UnsafeDatabase, match=r"row-level security of public\.users is off"):
                await check_database(connection, fleet.policy)
    finally:
        await apply(owner, fleet.policy, secret=SECRET)


async def test_the_service_does_not_start_with_another_secret(fleet: Fleet) -> None:
    async with reader_pool(fleet.reader_dsn, min_size=1, max_size=1, wait_s=60) as pool:
        await check_secret(QueryRunner(pool, CallerSigner(SECRET), fleet.policy.limits))
        with pytest.raises(UnsafeDatabase, match="SIGNALBOX_CALLER_SECRET is not the one"):
            await check_secret(QueryRunner(pool, CallerSigner("x" * 40), fleet.policy.limits))


async def test_a_signature_is_good_for_one_transaction_of_one_session(fleet: Fleet) -> None:
    """A value stolen from one transaction, replayed in the next or in another session, is refused."""
    signer = CallerSigner(SECRET)
    neighbour = SqlCaller("31", is_admin=False)
    begin = "SELECT (extract(epoch FROM transaction_timestamp()) * 1000000)::bigint"
    count = "SELECT count(*) FROM devices"

    async def start(connection: Connection) -> int:
        row = await (await connection.execute(begin)).fetchone()
        assert row is not None
        return int(row[0])

    async def use(connection: Connection, value: str) -> int:
        await connection.execute("SELECT set_config('signalbox.caller', %s, true)", (value,))
        row = await (await connection.execute(count)).fetchone()
        assert row is not None
        return int(row[0])

    async with (
        await psycopg.AsyncConnection.connect(fleet.reader_dsn) as one,
        await psycopg.AsyncConnection.connect(fleet.reader_dsn) as other,
    ):
        parts = {"database": one.info.dbname, "backend_pid": one.info.backend_pid, "started_us": await start(one)}
        value = signer.sign(neighbour, **parts)  # type: ignore[arg-type]
        assert await use(one, value) == 11
        for forged in (
            value.replace("user:31", "user:27"),
            value.replace("user:", "admin:"),
            "",
            "user:31",
            value[:-1],
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="no caller was signed"):
                await use(one, forged)
            await one.rollback()
            await start(one)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await use(one, value)  # the next transaction
        await start(other)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await use(other, value)  # another session


async def test_others_keep_their_access_and_views_stay_shut_for_the_reader(owner: Connection) -> None:
    """Row-level security does not lock out the application, and the owner's views show the reader's session nothing."""
    async with owner.transaction(force_rollback=True):
        await owner.execute(
            "CREATE ROLE app; GRANT USAGE, CREATE ON SCHEMA public TO app; GRANT SELECT ON users TO app"
        )
        await owner.execute("ALTER TABLE devices OWNER TO app")
        await owner.execute("SET LOCAL ROLE app")
        for table, number in (("users", 41), ("devices", 121)):
            row = await (await owner.execute(f"SELECT count(*) FROM {table}".encode())).fetchone()  # noqa: S608
            assert row == (number,)
        await owner.execute("CREATE VIEW apps_view AS SELECT * FROM devices")
        await owner.execute("RESET ROLE")
        await owner.execute("GRANT SELECT ON apps_view TO signalbox_reader")
        await owner.execute("SET LOCAL SESSION AUTHORIZATION signalbox_reader")
        assert await (await owner.execute("SELECT * FROM apps_view")).fetchall() == []


async def test_a_role_that_is_no_superuser_can_apply(unprovisioned: str) -> None:
    """An owner of the tables with CREATEROLE is enough, without the hardening that needs a superuser."""
    policy = fleet_policy().model_copy(
        update={"hardening": False, "roles": fleet_policy().roles.model_copy(update={"reader": "r2", "owner": "p2"})}
    )
    parts = psycopg.conninfo.conninfo_to_dict(unprovisioned)
    async with await psycopg.AsyncConnection.connect(unprovisioned, autocommit=True) as superuser:
        name = superuser.info.dbname
        await superuser.execute("CREATE ROLE keeper LOGIN CREATEROLE PASSWORD 'keeper'")
        await superuser.execute(f'ALTER DATABASE "{name}" OWNER TO keeper'.encode())
        await superuser.execute("ALTER SCHEMA public OWNER TO keeper; DROP FUNCTION everything()")
        await superuser.execute("ALTER DEFAULT PRIVILEGES IN SCHEMA public REVOKE SELECT ON TABLES FROM PUBLIC")
        for table in ("users", "ships", "devices", "device_readings", "device_current_data", "admin", "s",
                      "user_device_assignment", "everything_view", "invoker_view", "devices_snapshot", "deployments",
                      "service_metrics"):  # fmt: skip
            await superuser.execute(f"ALTER TABLE {table} OWNER TO keeper".encode())
        try:
            dsn = psycopg.conninfo.make_conninfo("", **{**parts, "user": "keeper", "password": "keeper"})
            async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as keeper:
                assert await apply(keeper, policy, secret=SECRET, reader_password=PASSWORD)
            assert await compare(superuser, policy, SECRET) == []
            reader = psycopg.conninfo.make_conninfo("", **{**parts, "user": "r2", "password": PASSWORD})
            async with reader_pool(reader, min_size=1, max_size=1, wait_s=60) as pool:
                runner = QueryRunner(pool, CallerSigner(SECRET), policy.limits)
                counted = await runner.run("SELECT count(*) FROM devices", SqlCaller(str(CALLER), is_admin=False))
                assert counted.rows == [("13",)]
                with pytest.raises(ToolRefused, match="not open to queries"):
                    await runner.run("SELECT count(*) FROM admin", SqlCaller("ops", is_admin=True))
        finally:
            await superuser.execute("REASSIGN OWNED BY keeper TO postgres; DROP OWNED BY r2, p2, keeper CASCADE")
            await superuser.execute("DROP ROLE r2, p2, keeper")


def _command(action: str, dsn: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [*program("services.sql_executor.provisioning"), action, "--policy", str(POLICY_FILE)]
    given = {"PATH": os.environ["PATH"], "USER_DATABASE": dsn, **env}
    return subprocess.run(
        [*command, "--dsn-env", "USER_DATABASE"], env=given, capture_output=True, text=True, timeout=60, check=False
    )


async def test_the_command_plans_applies_and_verifies(unprovisioned: str) -> None:
    plan = _command("plan", unprovisioned)
    assert plan.returncode == 0, plan.stderr
    assert "-- row-level security of public.devices is off: the reader would see every row" in plan.stdout
    assert 'ALTER TABLE "public"."devices" ENABLE ROW LEVEL SECURITY;' in plan.stdout
    missing = _command("verify", unprovisioned)
    assert (missing.returncode, "FAILED: the schema signalbox does not exist" in missing.stdout) == (1, True)
    env = {"SIGNALBOX_CALLER_SECRET": SECRET, "SIGNALBOX_READER_PASSWORD": PASSWORD}
    applied = _command("apply", unprovisioned, **env)
    assert (applied.returncode, applied.stderr) == (0, ""), applied.stdout
    assert SECRET not in applied.stdout + plan.stdout
    assert PASSWORD not in applied.stdout
    assert _command("verify", unprovisioned, **env).stdout == "harbour: as the policy promises\n"
    assert _command("plan", unprovisioned, **env).stdout == "-- nothing to do\n"
    assert "0 differences mended" in _command("apply", unprovisioned, **env).stdout


async def test_the_command_says_what_is_wrong_with_its_input(database: str) -> None:
    for action, dsn, env, words in (
        ("apply", database, {}, "SIGNALBOX_CALLER_SECRET must be set"),
        ("apply", database, {"SIGNALBOX_CALLER_SECRET": "short"}, "at least 32 characters"),
        ("verify", "", {}, "the environment variable USER_DATABASE is not set"),
        ("verify", "postgresql://127.0.0.1:1/x", {}, "can't be used"),
    ):
        done = _command(action, dsn, **env)
        assert (done.returncode, done.stdout, words in done.stderr) == (2, "", True), done
        assert "Traceback" not in done.stderr
    done = _command("apply", database, SIGNALBOX_CALLER_SECRET=SECRET)
    assert (done.returncode, "public.devices is not a table of this database" in done.stdout) == (1, True)


async def test_two_fleets_share_a_cluster(fleet: Fleet, unprovisioned: str) -> None:
    """Roles belong to the cluster: provisioning a second database leaves the first as it was."""
    second = await provisioned(unprovisioned, fleet_policy())
    async with await psycopg.AsyncConnection.connect(second.superuser_dsn, autocommit=True) as connection:
        assert await compare(connection, second.policy, SECRET) == []
    async with await psycopg.AsyncConnection.connect(fleet.superuser_dsn, autocommit=True) as connection:
        assert await compare(connection, fleet.policy, SECRET) == []
