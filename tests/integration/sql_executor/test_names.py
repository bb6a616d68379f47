"""The names that the check knows are the database's own: it reads `u.f` as a call when the row u has no column f."""
# ruff: noqa: S608 - statements are what is compared here

from __future__ import annotations

import psycopg
import pytest

from services.sql_executor import grammar
from services.sql_executor.catalog import Catalog, read_catalog
from services.sql_executor.selects import Selects
from services.sql_executor.syntax import read
from tests.integration.sql_executor.analyst_queries import ANALYST_QUERIES
from tests.integration.sql_executor.fleet import Fleet

pytestmark = pytest.mark.asyncio(loop_scope="module")

EXPRESSIONS = [
    "1", "'x'", "NULL", "-1", "1 + 1", "name", "d.name", "d.name::text", "CAST(1 AS bigint)", "1::numeric(3, 1)",
    "'x'::varchar(3)",
    "name COLLATE \"C\"", "lower(name)::text", "(ARRAY[1, 2])[1]", "ARRAY[1]", "ARRAY(SELECT 1)", "EXISTS (SELECT 1)",
    "(SELECT 1)", "(SELECT 1 AS a)", "(SELECT name FROM ships LIMIT 1)", "(SELECT count(*) FROM ships)", "(VALUES (1))",
    "(SELECT 1 UNION SELECT 2 LIMIT 1)",
    "ROW(1, 2)", "(1, 2)", "coalesce(1, 2)", "greatest(1, 2)", "least(1, 2)", "nullif(1, 2)", "1 IN (1, 2)",
    "CASE WHEN TRUE THEN 1 END", "CASE WHEN TRUE THEN 1 ELSE d.name::int END", "CASE WHEN TRUE THEN 1 ELSE 2::int END",
    "CASE WHEN TRUE THEN name ELSE kind END",
    "now()", "current_date", "current_timestamp", "localtime",
    "now() AT TIME ZONE 'UTC'",
    "extract(year FROM now())", "position('a' IN name)", "trim(name)", "substring(name FROM 1 FOR 2)",
    "interval '1 day'",
    "date '2026-01-01'", "NOT TRUE", "TRUE AND FALSE", "name IS NULL", "name LIKE 'x'", "1 = ANY (ARRAY[1])",
    "rank() OVER (ORDER BY name)", "1::int::text", "(SELECT 1)::text", "(SELECT name FROM ships LIMIT 1)::text",
    "to_json(d)", "timestamptz '2026-01-01'", "1.5", "'{}'::jsonb -> 'a'", "generate_series(1, 2)", "TRUE::boolean",
]  # fmt: skip
SOURCES = [
    "devices", "devices x", "devices AS x(a, b)", "(SELECT 1, 2 AS b) x", "(VALUES (1, 2)) x", "(VALUES (1, 2)) x(a)",
    "generate_series(1, 2)", "generate_series(1, 2) g", "generate_series(1, 2) AS g(n)", "unnest(ARRAY[1])",
    "unnest(ARRAY[1]) u",
    "unnest(ARRAY[1], ARRAY[2]) u", "unnest(ARRAY[1], ARRAY[2]) AS u(a)", "unnest(ARRAY[1]) WITH ORDINALITY",
    "unnest(ARRAY[1]) WITH ORDINALITY AS u(a, n)", "unnest(ARRAY[1]) WITH ORDINALITY u",
    "json_each('{\"a\": 1}')",
    "jsonb_each_text('{\"a\": 1}') e", "jsonb_array_elements('[1]')", "jsonb_array_elements('[1]') e",
    "json_array_elements_text('[1]') AS e(v)", "jsonb_object_keys('{\"a\": 1}')", "jsonb_object_keys('{\"a\": 1}') k",
    "string_to_table('a,b', ',') t", "regexp_matches('ab', 'a') m", "regexp_split_to_table('a b', ' ') r",
    "generate_subscripts(ARRAY[1], 1) s", "devices d JOIN ships s USING (ship_id)",
    "devices d NATURAL JOIN (SELECT 1 AS ship_id) s", "(devices d JOIN ships s ON TRUE) AS j",
    "(SELECT * FROM devices d JOIN ships s USING (ship_id)) AS j(a, b)",
    "devices d JOIN (SELECT 'x' AS name, 2 AS ship_id, 3 AS x) s USING (ship_id, name) JOIN ships t USING (name)",

    "(devices d JOIN ships s USING (ship_id)) AS j", "(devices d JOIN ships s USING (ship_id)) AS j(a, b)",
    "devices d LEFT JOIN LATERAL (SELECT d.name AS n, 1) q ON TRUE", "(TABLE ships) t",
    "(SELECT d.*, 1 FROM devices d) q",
]  # fmt: skip


async def _named(connection: psycopg.AsyncConnection[object], sql: str) -> list[str]:
    cursor = await connection.execute(f"SELECT * FROM ({sql}) AS q LIMIT 0".encode())
    return [column.name for column in cursor.description or ()]


async def _both(fleet: Fleet, statements: list[str]) -> None:
    async with await psycopg.AsyncConnection.connect(fleet.superuser_dsn, autocommit=True) as connection:
        catalog: Catalog = await read_catalog(connection, fleet.policy)
        await connection.execute("SET search_path = public")
        for sql in statements:
            columns = Selects(catalog).statement(read(sql, fleet.policy.limits))
            known, real = [column.name for column in columns], await _named(connection, sql.rstrip(";"))
            assert known == real, sql


async def test_output_columns_have_the_names_that_postgres_gives(fleet: Fleet) -> None:
    await _both(fleet, [f"SELECT {expression} FROM devices d" for expression in EXPRESSIONS])


async def test_relations_have_the_columns_that_postgres_gives(fleet: Fleet) -> None:
    await _both(fleet, [f"SELECT * FROM {source}" for source in SOURCES])


async def test_analysts_columns_too(fleet: Fleet) -> None:
    hidden = [sql for sql in ANALYST_QUERIES if "* FROM users" not in sql]
    await _both(fleet, hidden)


async def test_every_function_of_the_list_is_in_the_catalog_with_its_columns(fleet: Fleet) -> None:
    query = """
        SELECT DISTINCT proname, ARRAY(
            SELECT name FROM unnest(proargnames, proargmodes) AS a(name, mode) WHERE mode IN ('o', 't', 'b')
        )::text[]
        FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND proname = ANY (%s)
    """
    async with await psycopg.AsyncConnection.connect(fleet.superuser_dsn) as connection:
        found = await (await connection.execute(query, (sorted(grammar.FUNCTIONS),))).fetchall()
    words = {"coalesce", "greatest", "least", "nullif", "grouping", "trim"}  # of the grammar
    assert {name for name, _ in found} | words >= grammar.FUNCTIONS
    for name, outputs in found:
        if (name, outputs) == ("unnest", ["lexeme", "positions", "weights"]):
            continue  # of a tsvector, which no query can name
        assert tuple(outputs) == grammar.FUNCTION_COLUMNS.get(name, ()), name
