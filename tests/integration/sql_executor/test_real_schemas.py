"""Policies for schemas as they are: owners several tables away, keys with other names, hops that are shown too."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest
import pytest_asyncio
import yaml

from services.kit.identity.caller import Caller
from services.sql_executor.callers import CallerSigner, SqlCaller
from services.sql_executor.execution import QueryRunner
from services.sql_executor.policy import SqlPolicy, TableName, load_policy
from services.sql_executor.pool import reader_pool
from services.sql_executor.provisioning import NotApplied, apply, compare
from services.sql_executor.provisioning.draft import drafted, read_schema
from services.sql_executor.provisioning.trial import tried
from tests.fixtures.forked import program
from tests.fixtures.postgres import PostgresCluster

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET, PASSWORD = "a caller secret of the tests, forty characters", "reader-password"
_SCHEMA = """
    CREATE TABLE people (id bigint PRIMARY KEY, name text);
    CREATE TABLE sites (id int PRIMARY KEY, label text);
    CREATE TABLE memberships (person bigint REFERENCES people, site int REFERENCES sites, PRIMARY KEY (person, site));
    CREATE TABLE machines (number int PRIMARY KEY, at_site int REFERENCES sites, name text);
    CREATE TABLE sensors (id int PRIMARY KEY, machine int REFERENCES machines, unit text);
    CREATE TABLE samples (sample_id int PRIMARY KEY, sensor int REFERENCES sensors, value numeric);
    CREATE TABLE notes (id int PRIMARY KEY, author bigint REFERENCES people, text text);
    CREATE TABLE catalogue (id int PRIMARY KEY, title text);
    INSERT INTO people VALUES (27, 'own'), (31, 'ZZ');
    INSERT INTO sites VALUES (1, 'own'), (2, 'ZZ');
    INSERT INTO memberships VALUES (27, 1), (31, 2);
    INSERT INTO machines VALUES (10, 1, 'own'), (20, 2, 'ZZ');
    INSERT INTO sensors VALUES (100, 10, 'own'), (200, 20, 'ZZ');
    INSERT INTO samples SELECT n, CASE WHEN n % 2 = 0 THEN 100 ELSE 200 END, n FROM generate_series(1, 20) n;
    INSERT INTO notes VALUES (1, 27, 'own'), (2, 31, 'ZZ');
    INSERT INTO catalogue VALUES (1, 'everybody');
"""


@pytest_asyncio.fixture(loop_scope="module")
async def schema(postgres_cluster: PostgresCluster) -> AsyncIterator[str]:
    """The DSN of the database's owner, who has CREATEROLE and is no superuser, as managed databases give."""
    name = postgres_cluster.create_database()
    with psycopg.connect(postgres_cluster.dsn(), autocommit=True) as superuser:
        superuser.execute("CREATE ROLE landlord LOGIN CREATEROLE PASSWORD 'landlord'")
        superuser.execute(f"ALTER DATABASE {name} OWNER TO landlord".encode())
    dsn = postgres_cluster.dsn(name, user="landlord", password="landlord")
    with psycopg.connect(postgres_cluster.dsn(name), autocommit=True) as superuser:
        superuser.execute("ALTER SCHEMA public OWNER TO landlord")
    with psycopg.connect(dsn, autocommit=True) as landlord:
        landlord.execute(_SCHEMA)
    yield dsn
    with psycopg.connect(postgres_cluster.dsn(name), autocommit=True) as superuser:
        superuser.execute("DROP OWNED BY landlord CASCADE")
    postgres_cluster.drop_database(name)
    with psycopg.connect(postgres_cluster.dsn(), autocommit=True) as superuser:
        for role in ("tenant", "tenant_policy", "landlord"):
            if superuser.execute("SELECT FROM pg_roles WHERE rolname = %s", (role,)).fetchone() is not None:
                superuser.execute(f"DROP OWNED BY {role} CASCADE".encode())
                superuser.execute(f"DROP ROLE {role}".encode())


async def _draft(dsn: str, directory: Path, **changes: object) -> SqlPolicy:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        found = await read_schema(connection, ["public"])
        text = drafted("estate", ["public"], found, TableName("public", "people"))
    content = {**yaml.safe_load(text), "roles": {"reader": "tenant", "owner": "tenant_policy"}, **changes}
    (directory / "policy.yaml").write_text(yaml.safe_dump(content))
    return load_policy(directory / "policy.yaml")


async def _applied(dsn: str, policy: SqlPolicy) -> str:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await apply(connection, policy, secret=SECRET, reader_password=PASSWORD)
        assert await compare(connection, policy, SECRET) == []
    parts = psycopg.conninfo.conninfo_to_dict(dsn)
    return psycopg.conninfo.make_conninfo("", **{**parts, "user": "tenant", "password": PASSWORD})


async def test_a_draft_follows_foreign_keys_and_holds_when_it_is_applied(schema: str, tmp_path: Path) -> None:
    policy = await _draft(schema, tmp_path, hardening=False)
    assert set(policy.tables) == {"people", "sites", "machines", "sensors", "samples", "notes"}
    assert set(policy.restricted) == {"memberships", "catalogue"}
    assert policy.owner.subject_type == "integer"
    way = policy.tables["samples"].way
    assert way is not None
    assert [hop.table for hop in way.hops] == ["sensors", "machines", "sites", "memberships"]
    reader = await _applied(schema, policy)
    for table in policy.tables:
        shown, is_answered = await tried(policy, reader, SECRET, Caller("27"), f"SELECT * FROM {table}")  # noqa: S608
        assert is_answered, shown
        assert "ZZ" not in shown
        raw = await _seen(reader, policy, table)  # row-level security by itself, without the shown filter
        assert raw == (10 if table == "samples" else 1), table
    everything, _ = await tried(policy, reader, SECRET, Caller("x", frozenset({"admin"})), "SELECT name FROM machines")
    assert "ZZ" in everything


async def test_what_leads_to_a_user_by_any_foreign_key_is_not_shared(schema: str) -> None:
    async with await psycopg.AsyncConnection.connect(schema, autocommit=True) as connection:
        await connection.execute(
            """
            CREATE TABLE orders (id int PRIMARY KEY, person int REFERENCES people (id));
            CREATE TABLE order_items (order_id int REFERENCES orders, item int REFERENCES catalogue, amount int,
                PRIMARY KEY (order_id, item));
            CREATE TABLE parcels (id int PRIMARY KEY, order_id int, item int,
                FOREIGN KEY (order_id, item) REFERENCES order_items);
            CREATE TABLE shelves (id int PRIMARY KEY, item int REFERENCES catalogue);
            """
        )
        found = await read_schema(connection, ["public"])
    text = drafted("estate", ["public"], found, TableName("public", "people"), share_rest=True)
    policy = yaml.safe_load(text)
    shared = {name for name, table in policy["tables"].items() if table.get("shared")}
    assert shared == {"catalogue", "shelves"}
    assert set(policy["restricted"]) == {"memberships", "order_items", "parcels"}


async def _seen(reader: str, policy: SqlPolicy, table: str) -> int:
    async with reader_pool(reader, min_size=1, max_size=1) as pool:
        runner = QueryRunner(pool, CallerSigner(SECRET), policy.limits)
        rows = (await runner.run(f"SELECT count(*) FROM {table}", SqlCaller("27", is_admin=False))).rows  # noqa: S608
        return int(rows[0][0] or 0)


async def test_the_shown_filter_names_the_way(schema: str, tmp_path: Path) -> None:
    policy = await _draft(schema, tmp_path, hardening=False)
    reader = await _applied(schema, policy)
    shown, _ = await tried(policy, reader, SECRET, Caller("27"), "SELECT count(*) FROM samples")
    assert shown.startswith(
        "SELECT count(*) FROM samples WHERE samples.sensor IN "
        "(SELECT id FROM signalbox.sensors_to_memberships WHERE person = 27);\n"
    )
    assert shown.endswith("count\n10")


async def test_a_view_on_the_way_is_refused_by_plan_and_verify(schema: str, tmp_path: Path) -> None:
    """Under an owner who is no superuser it would return nothing, without a word."""
    async with await psycopg.AsyncConnection.connect(schema, autocommit=True) as landlord:
        await landlord.execute("CREATE VIEW places AS SELECT * FROM sites")
        path = [{"table": "places", "column": "at_site", "references": "id"},
                {"table": "memberships", "column": "id", "references": "site"}]  # fmt: skip
        tables = {"machines": {"owned_by": {"path": path, "subject_column": "person"}}}
        policy = await _draft(schema, tmp_path, hardening=False, tables=tables, restricted=["memberships"])
        problems = [difference.problem for difference in await compare(landlord, policy, SECRET)]
        assert any("public.places leads to owners and is a view" in problem for problem in problems), problems
        with pytest.raises(NotApplied):
            await apply(landlord, policy, secret=SECRET)


async def test_a_hop_with_row_level_security_of_its_own_is_opened_to_the_lookup(schema: str, tmp_path: Path) -> None:
    async with await psycopg.AsyncConnection.connect(schema, autocommit=True) as landlord:
        await landlord.execute("ALTER TABLE memberships ENABLE ROW LEVEL SECURITY")
    policy = await _draft(schema, tmp_path, hardening=False)
    reader = await _applied(schema, policy)
    assert await _seen(reader, policy, "machines") == 1
    async with await psycopg.AsyncConnection.connect(schema, autocommit=True) as landlord:
        await landlord.execute("DROP POLICY signalbox_hops ON memberships")
        problems = [difference.problem for difference in await compare(landlord, policy, SECRET)]
        assert problems == ["the policy signalbox_hops on public.memberships does not exist"]


def _command(dsn: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OWNER_DSN": dsn, "SIGNALBOX_CALLER_SECRET": SECRET}
    command = [*program("services.sql_executor.provisioning"), "--dsn-env", "OWNER_DSN", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)


async def test_plan_says_what_needs_a_superuser_before_apply_fails(schema: str, tmp_path: Path) -> None:
    await _draft(schema, tmp_path, hardening=True)
    file = str(tmp_path / "policy.yaml")
    planned = _command(schema, "plan", "--policy", file)
    assert planned.returncode == 1
    assert "-- can't be applied by this role: the reader may call pg_terminate_backend" in planned.stdout
    assert "that needs a superuser: apply as one, or set `hardening: false`" in planned.stdout
    applied = _command(schema, "apply", "--policy", file)
    assert applied.returncode == 1
    assert "needs a superuser" in applied.stdout
    assert "nothing was changed" in applied.stdout


async def test_init_and_try_from_the_command_line(schema: str, tmp_path: Path) -> None:
    drafted_ = _command(schema, "init", "--users", "people")
    assert drafted_.returncode == 0, drafted_.stderr
    assert "samples: {owned_by: {path: [{table: sensors" in drafted_.stdout
    unknown = _command(schema, "init", "--users", "persons")
    assert (unknown.returncode, "there are: catalogue" in unknown.stderr) == (2, True), unknown.stderr
    reader = await _applied(schema, await _draft(schema, tmp_path, hardening=False))
    file = str(tmp_path / "policy.yaml")
    seen = _command(reader, "try", "--policy", file, "--as", "27", "SELECT label FROM sites")
    assert (seen.returncode, seen.stdout.splitlines()[-3:]) == (0, ["rows: 1", "label", "own"]), seen.stderr
    refused = _command(reader, "try", "--policy", file, "--as", "27", "SELECT * FROM memberships")
    assert refused.returncode == 1
    assert refused.stdout == "refused (restricted_table): The table 'memberships' is restricted; nobody may query it.\n"
    unfit = _command(reader, "try", "--policy", file, "--as", "nobody", "SELECT 1")
    assert (unfit.returncode, "integer" in unfit.stderr) == (2, True)
