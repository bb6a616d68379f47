"""The check of one statement without a database: what it lets through, how it is shown, and that it is faithful."""
# ruff: noqa: S608 - statements are what is compared here

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from postgast import pg_query_pb2 as pb

from services.kit.identity.caller import Caller
from services.kit.tools.executor import ToolRefused
from services.sql_executor.callers import CallerSigner, SqlCaller, hmac_pads, sql_caller
from services.sql_executor.catalog import Catalog, ColumnInfo
from services.sql_executor.errors import CallerUnfit
from services.sql_executor.policy import Functions, Limits, SqlPolicy, TableName, load_policy
from services.sql_executor.sent import check_sent
from services.sql_executor.statement import check_statement, statement_for
from services.sql_executor.syntax import read, without_positions, write
from tests.integration.sql_executor.analyst_queries import ANALYST_QUERIES
from tests.integration.sql_executor.hostile import (
    RUNS_AWAY,
    Hostile,
    carriers,
    catalogs,
    disguises,
    functions,
    readers,
    reading,
    statements,
)

POLICY = load_policy(Path(__file__).resolve().parents[3] / "examples" / "harbour" / "sql_policy.yaml")
COLUMNS = {
    "devices": "device_id ship_id name kind status installed_at",
    "device_current_data": "device_id temperature humidity pressure battery status updated_at",
    "device_readings": "reading_id device_id recorded_at temperature humidity pressure battery",
    "users": "user_id name email created_at",
    "ships": "ship_id name kind home_port built_year",
}
UNIQUE = {("devices", "device_id"), ("ships", "ship_id"), ("users", "user_id"), ("device_current_data", "device_id")}
MINE = "(SELECT device_id FROM signalbox.user_device_assignment WHERE user_id = 27)"
NEEDS_DATABASE = {"query_failed", RUNS_AWAY, "invalid_arguments", ""}


def _catalog(
    policy: SqlPolicy = POLICY, partial: tuple[str, ...] = (), *, kind: str = "text", rows: float = 1000
) -> Catalog:
    columns = {
        TableName("public", table): tuple(
            ColumnInfo(name, _type(name, kind), is_unique=(table, name) in UNIQUE) for name in names.split()
        )
        for table, names in COLUMNS.items()
    }
    hidden = frozenset(TableName("public", table) for table in partial)
    return Catalog(policy, columns, hidden, dict.fromkeys(columns, rows))


def _type(column: str, kind: str) -> str:
    if column.endswith("_at"):
        return "timestamp with time zone"
    if column in ("temperature", "humidity", "pressure", "battery"):
        return "numeric"
    return "integer" if column.endswith("_id") or column == "built_year" else kind


def _shown(sql: str, *, admin: bool = False, catalog: Catalog | None = None) -> str:
    catalog = catalog or _catalog()
    return statement_for(sql, SqlCaller("27", admin), catalog).sql


def _hostile() -> list[Hostile]:
    themes = (carriers, reading, catalogs, statements, functions, disguises, readers)
    tables = [value for theme in themes for value in vars(theme).values() if isinstance(value, list)]
    return [hostile for table in tables for hostile in table if hostile.reason not in NEEDS_DATABASE]


@pytest.mark.parametrize(
    "hostile", _hostile(), ids=lambda hostile: hostile.sql[:60].encode("ascii", "replace").decode()
)
def test_a_hostile_statement_is_refused_with_its_reason(hostile: Hostile) -> None:
    with pytest.raises(ToolRefused) as refusal:
        check_statement(hostile.sql.replace("{backend}", "1"), _catalog())
    assert refusal.value.reason == hostile.reason
    assert refusal.value.message.endswith((".", "?"))
    assert len(refusal.value.message) < 500


@pytest.mark.parametrize("sql", ANALYST_QUERIES)
def test_what_is_shown_passes_again_and_stays_as_it_is(sql: str) -> None:
    catalog = _catalog()
    once = write(check_statement(sql, catalog).tree).text
    assert write(check_statement(once, catalog).tree).text == once


@pytest.mark.parametrize(
    ("sql", "shown"),
    [
        ("SELECT 1", "SELECT 1"),
        ("SELECT name FROM ships", "SELECT name FROM ships"),
        ("SELECT name FROM devices", f"SELECT name FROM devices WHERE devices.device_id IN {MINE}"),
        (
            "SELECT name FROM devices d WHERE kind = 'a' OR kind = 'b'",
            f"SELECT name FROM devices d WHERE (kind = 'a' OR kind = 'b') AND d.device_id IN {MINE}",
        ),
        ("SELECT name FROM users", "SELECT name FROM users WHERE users.user_id = 27"),
        (
            "SELECT s.name FROM ships s LEFT JOIN devices d ON d.ship_id = s.ship_id OR TRUE",
            "SELECT s.name FROM ships s LEFT JOIN devices d ON (d.ship_id = s.ship_id OR true) "
            f"AND d.device_id IN {MINE}",
        ),
        (
            "SELECT s.name FROM ships s LEFT JOIN devices d USING (ship_id)",
            "SELECT s.name FROM ships s LEFT JOIN (SELECT * FROM devices WHERE devices.device_id IN "
            f"{MINE}) d USING (ship_id)",
        ),
        (
            "SELECT s.name FROM devices d RIGHT JOIN ships s ON TRUE",
            f"SELECT s.name FROM (SELECT * FROM devices WHERE devices.device_id IN {MINE}) d "
            "RIGHT JOIN ships s ON true",
        ),
        (
            "SELECT d.a FROM devices d(a)",
            f"SELECT d.a FROM (SELECT * FROM devices WHERE devices.device_id IN {MINE}) d(a)",
        ),
        (
            "SELECT 1 FROM devices UNION SELECT 2 FROM ships",
            f"SELECT 1 FROM devices WHERE devices.device_id IN {MINE} UNION SELECT 2 FROM ships",
        ),
        (
            "WITH c AS (SELECT name FROM devices) SELECT name FROM c",
            f"WITH c AS (SELECT name FROM devices WHERE devices.device_id IN {MINE}) SELECT name FROM c",
        ),
    ],
)
def test_the_filter_is_shown_where_it_filters_before_joining(sql: str, shown: str) -> None:
    assert _shown(sql) == shown
    assert "signalbox." not in _shown(sql, admin=True)


IN_SUBQUERIES = [
    "SELECT g.n FROM users u, generate_series(0, 99) AS g(n) WHERE g.n IN (SELECT user_id FROM users)",
    "SELECT d.device_id FROM devices d WHERE EXISTS (SELECT 1 FROM devices e WHERE e.device_id > d.device_id)",
    "SELECT 1 FROM users WHERE user_id = (SELECT max(user_id) FROM users) AND name = ANY (SELECT name FROM users)",
    "SELECT 1 FROM ships s LEFT JOIN devices d ON d.ship_id IN (SELECT ship_id FROM devices) AND TRUE",
    "SELECT 1 FROM devices WHERE TRUE AND kind IN (SELECT kind FROM devices WHERE EXISTS (SELECT FROM users))",
    "SELECT (SELECT count(*) FROM users) FROM devices GROUP BY (SELECT max(user_id) FROM users) "
    "HAVING count(*) > (SELECT count(*) FROM devices) ORDER BY (SELECT 1 FROM users) LIMIT (SELECT 1 FROM devices)",
    "WITH c AS (SELECT name FROM users WHERE name IN (SELECT name FROM devices)) SELECT 1 FROM c, users WHERE TRUE",
]


@pytest.mark.parametrize("sql", IN_SUBQUERIES)
@pytest.mark.parametrize("partial", [(), ("users",), ("users", "devices")])
def test_every_table_in_a_subquery_is_filtered(sql: str, partial: tuple[str, ...]) -> None:
    catalog = _catalog(partial=partial)
    uses = len(check_statement(sql, catalog).uses) - sql.count("FROM ships")
    shown = _shown(sql, catalog=catalog)
    assert shown.count("user_id = 27") == uses >= 2


FILTERED = f"SELECT name FROM devices d WHERE d.device_id IN {MINE}"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT name FROM devices",
        "TABLE users",
        f"{FILTERED} OR TRUE",
        f"{FILTERED} UNION SELECT name FROM users",
        f"SELECT name FROM devices d, devices e WHERE d.device_id IN {MINE}",
        f"SELECT name FROM devices e WHERE EXISTS (SELECT 1 FROM ships d WHERE d.device_id IN {MINE})",
        f"SELECT name FROM devices d WHERE kind IN (SELECT kind FROM devices d WHERE d.device_id IN {MINE})",
        f"SELECT name FROM ships s LEFT JOIN devices d ON TRUE WHERE d.device_id IN {MINE}",
        f"SELECT name FROM devices d LEFT JOIN ships s ON d.device_id IN {MINE}",
        f"SELECT name FROM devices d FULL JOIN ships s ON TRUE WHERE d.device_id IN {MINE}",
        f"SELECT name FROM devices d(device_id) WHERE d.device_id IN {MINE}",
        f"{FILTERED} AND 1 IN (SELECT user_id FROM signalbox.user_device_assignment)",
        "SELECT name FROM users WHERE users.user_id = 28",
        "WITH devices AS (SELECT 1) SELECT * FROM devices",
        "SELECT * FROM c, (WITH c AS (SELECT 1) SELECT 1 FROM c) q",
        "WITH a AS (SELECT 1 FROM c), c AS (SELECT 1) SELECT 1 FROM a",
        "SELECT * FROM admin",
        "SELECT * FROM devices d TABLESAMPLE system (10)",
    ],
)
def test_what_has_a_table_without_its_filter_is_not_sent(sql: str) -> None:
    """However the statement was made: these were not made here."""
    with pytest.raises(ToolRefused):
        check_sent(_tree(sql), SqlCaller("27", is_admin=False), _catalog())


def test_a_table_is_filtered_at_its_own_place() -> None:
    for sql in (FILTERED, f"SELECT 1 FROM ships LEFT JOIN devices d ON TRUE AND d.device_id IN {MINE}"):
        check_sent(_tree(sql), SqlCaller("27", is_admin=False), _catalog())
    every = SqlCaller("ops", is_admin=True)
    check_sent(_tree("SELECT name FROM devices"), every, _catalog())
    with pytest.raises(ToolRefused):
        check_sent(_tree("SELECT pin FROM users"), every, _catalog(partial=("users",)))


def _tree(sql: str) -> pb.SelectStmt:
    tree = read(sql, Limits())
    without_positions(tree)
    return tree


@pytest.mark.parametrize(
    ("sql", "reads"),
    [
        ("SELECT 10 AS readings", False),
        ("VALUES (10)", False),
        ("SELECT count(*) FROM generate_series(1, 10)", False),
        ("SELECT * FROM (SELECT 10 AS readings) q", False),
        ("WITH c AS (SELECT 10 AS readings) SELECT readings FROM c", False),
        ("WITH c AS (SELECT name FROM devices) SELECT 10 AS readings", False),
        ("WITH c AS (SELECT name FROM devices), e AS (SELECT name FROM c) SELECT 10 AS readings", False),
        ("WITH c AS (SELECT name FROM devices), e AS (SELECT 10 AS n) SELECT n FROM e", False),
        ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT count(*) FROM n", False),
        ("SELECT count(*) FROM devices", True),
        ("TABLE ships", True),
        ("SELECT 10 AS readings WHERE EXISTS (SELECT FROM devices)", True),
        ("SELECT 10 AS readings UNION SELECT device_id FROM devices", True),
        ("VALUES ((SELECT count(*) FROM devices))", True),
        ("WITH c AS (SELECT name FROM devices), e AS (SELECT name FROM c) SELECT count(*) FROM e", True),
        ("SELECT (WITH c AS (SELECT name FROM devices) SELECT count(*) FROM c) AS n", True),
        (
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n JOIN devices ON device_id = i WHERE i < 5) "
            "SELECT count(*) FROM n",
            True,
        ),
        (
            "WITH RECURSIVE late AS (SELECT count(*) AS n FROM early), early AS (SELECT name FROM devices) "
            "SELECT n FROM late",
            True,
        ),
    ],
)
def test_whether_a_result_is_read_from_a_table(sql: str, reads: bool) -> None:
    assert statement_for(sql, SqlCaller("27", is_admin=False), _catalog()).reads_tables is reads


@pytest.mark.parametrize(
    ("sql", "stated"),
    [
        # Whatever the query says of itself, in whatever words.
        ("SELECT name, 98 AS used FROM ships WHERE name LIKE 'a%' LIMIT 1", "used"),
        ("SELECT true AS full, -5 AS delta, 90 + 8 AS used, 1e3 AS n, NULL AS none FROM ships",
         "full delta used n none"),
        ("SELECT 'pool ' || 'exhausted' AS cause, upper('pool') AS up, E'po\\x6fl' AS escaped FROM ships",
         "cause up escaped"),
        ("SELECT 98, 'a', upper('b'), now(), CASE WHEN true THEN 1 END, ARRAY[1] FROM ships",
         "?column? upper now case array"),
        ("SELECT name, 'x' AS name FROM ships", "name"),
        ("SELECT unnest(ARRAY['a', 'b']) AS part, generate_series(1, 9) AS n FROM ships", "part n"),
        ("SELECT c.* FROM (SELECT name, 98 AS used FROM ships) c", "used"),
        ("WITH c AS (SELECT 98 AS used) SELECT name, used FROM ships, c", "used"),
        ("WITH c(a, b) AS (SELECT 98, name FROM ships) SELECT a AS x, b AS y FROM c", "x"),
        ("SELECT name, v FROM ships, (VALUES (1), (2)) AS t(v)", "v"),
        ("SELECT name, v FROM ships, LATERAL (SELECT 98 AS v) t", "v"),
        ("SELECT name, g FROM ships, generate_series(1, 9) AS g", "g"),
        ("SELECT name, ordinality FROM ships, unnest(ARRAY[name]) WITH ORDINALITY", "ordinality"),
        ("SELECT name FROM ships UNION ALL SELECT 'x'", "name"),
        ("SELECT name FROM (VALUES ('x')) t(name) LEFT JOIN ships USING (name)", "name"),
        ("SELECT (SELECT 98 FROM ships LIMIT 1) AS used, ARRAY(SELECT 98 FROM ships) AS those", "used those"),
        ("SELECT EXISTS (SELECT 1) AS yes, 1 IN (SELECT 1) AS one FROM ships", "yes one"),
        ("SELECT (SELECT count(*) FROM generate_series(1, 98)) AS n, (SELECT count(*)) AS one FROM ships", "n one"),
        ("SELECT max(98) AS most, min('a') AS least, string_agg(DISTINCT 'x', ',') AS those FROM ships",
         "most least those"),
        ("SELECT first_value('x') OVER (ORDER BY name) AS first, max(98) OVER w AS m FROM ships WINDOW w AS ()",
         "first m"),
        ("SELECT any_value('x' ORDER BY name) AS any FROM ships", "any"),
        ("SELECT to_json(t) AS whole FROM (SELECT name, 98 AS used FROM ships) t", "whole"),
        ("WITH RECURSIVE n(i, s) AS (SELECT 1, name FROM ships UNION ALL SELECT i + 1, s FROM n) SELECT * FROM n",
         "i"),
        # A column that starts as read is not, when another value comes into it later.
        ("WITH RECURSIVE n(a, b, c) AS (SELECT name, name, 'x' FROM ships UNION ALL SELECT b, c, c FROM n) "
         "SELECT * FROM n", "a b c"),
        # What the query says in the place of what it reads, or beside it.
        ("SELECT coalesce('x', name) AS a, coalesce(kind, 'x') AS b, coalesce(built_year, 98) AS c FROM ships",
         "a b c"),
        ("SELECT CASE WHEN built_year > 0 THEN 'new' ELSE name END AS a, CASE WHEN true THEN 1 ELSE 0 END AS b, "
         "CASE kind WHEN 'a' THEN 98 ELSE 0 END AS c, CASE WHEN name = name THEN 98 END AS d FROM ships", "a b c d"),
        ("SELECT left(name, 0) || 'x' AS a, replace(name, 'a', 'x') AS b, concat(name, 'x') AS c, 'the ' || name AS d, "
         "string_agg(name, ' failed, ') AS e, lag(name, 9, 'x') OVER () AS f, translate(name, 'a', 'x') AS g, "
         "overlay(name PLACING 'x' FROM 1) AS h, format('x', name) AS i FROM ships GROUP BY name", "a b c d e f g h i"),
        ("SELECT nullif('x', name) AS a, greatest('zzz', name) AS b, least(98, built_year) AS c FROM ships", "a b c"),
        ("SELECT count(*) * 0 + 98 AS a, built_year - built_year + 98 AS b, built_year / built_year * 98 AS c, "
         "sum(98) / count(*) AS d, count(*) + 98 AS e, max(98) FILTER (WHERE kind = 'a') AS f FROM ships GROUP BY 2, 3",
         "a b c d e f"),
        ("SELECT to_char(built_year, '\"pool exhausted\"') AS a, jsonb_build_object('x', name) AS b, "
         "ARRAY[name, 'x'] AS c, built_year > 0 OR true AS d FROM ships", "a b c d"),
        ("SELECT a FROM (SELECT coalesce('x', name) AS a FROM ships) t", "a"),
        # What comes from a table, as it is or in what is made of it.
        ("SELECT * FROM ships", ""),
        ("SELECT s.*, d.name AS device FROM ships s JOIN devices d USING (ship_id)", ""),
        ("SELECT name AS service FROM ships WHERE name = 'a'", ""),
        ("SELECT upper(name), name || '', name || ' (' || kind || ')', name::text, built_year > 1990 FROM ships", ""),
        ("SELECT coalesce(name, '-'), coalesce(sum(built_year), 0), nullif(name, 'x'), lag(name, 1) OVER () FROM ships "
         "GROUP BY name", ""),
        ("SELECT date_trunc('hour', recorded_at) AS hour, to_char(recorded_at, 'YYYY-MM-DD HH24:MI') AS minute, "
         "extract(epoch FROM recorded_at) AS s, recorded_at AT TIME ZONE 'UTC' AS utc, max(recorded_at) - "
         "min(recorded_at) AS took, round(avg(temperature)::numeric, 2) AS mean FROM device_readings GROUP BY 1, 2",
         ""),
        ("SELECT sum(temperature) / count(*) AS mean, count(*) / 15.0 AS rate, 100.0 * count(*) FILTER (WHERE "
         "humidity > 9) / count(*) AS share, avg(pressure) * 1024 AS bytes, sum(CASE WHEN battery < 5 THEN 1 ELSE 0 "
         "END) AS low, 1.0 / max(battery) AS per, avg(CASE WHEN battery < 5 THEN 1.0 END) AS part, "
         "max(battery) - min(battery) AS gap, bool_or(battery < 5) AS any FROM device_readings", ""),
        ("SELECT CASE WHEN built_year > 0 THEN name ELSE kind END AS a, split_part(name, '-', 2) AS b FROM ships", ""),
        ("SELECT count(*), count(1), sum(1) FROM ships", ""),
        ("SELECT 4711 AS n FROM devices", "n"),
        ("SELECT count(*) FILTER (WHERE kind = 'a') AS n, bool_or(kind = 'a') FROM ships", ""),
        ("SELECT kind, max(built_year), string_agg(name, ', ' ORDER BY name) FROM ships GROUP BY kind", ""),
        ("SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY built_year) AS half FROM ships", ""),
        ("SELECT row_number() OVER () AS n, rank() OVER (ORDER BY name) AS r, lag(name) OVER w FROM ships "
         "WINDOW w AS (ORDER BY name)", ""),
        ("SELECT (SELECT count(*) FROM ships) AS n", ""),
        ("SELECT EXISTS (SELECT 1 FROM ships WHERE kind = 'a') AS yes, 'a' IN (SELECT kind FROM ships) AS one", ""),
        ("SELECT EXISTS (SELECT 1 WHERE name = 'a') AS yes, ARRAY(SELECT name) AS names FROM ships", ""),
        ("SELECT count(*) FROM (SELECT 1 FROM ships) t", ""),
        ("WITH c AS (SELECT kind, count(*) AS n FROM ships GROUP BY kind) SELECT kind AS k, n * 100 AS x FROM c", ""),
        ("SELECT t.a FROM (SELECT name FROM ships) AS t(a)", ""),
        ("SELECT name FROM ships UNION SELECT name FROM devices", ""),
        ("SELECT name FROM ships EXCEPT SELECT 'x'", ""),
        ("SELECT 'x' AS name INTERSECT SELECT name FROM ships", ""),
        ("VALUES ((SELECT count(*) FROM ships))", ""),
        ("SELECT part FROM ships, unnest(string_to_array(name, ' ')) AS part", ""),
        ("SELECT to_json(ships) AS whole, count(s) AS n FROM ships, ships s GROUP BY 1", ""),
        ("WITH RECURSIVE n(i, s) AS (SELECT ship_id, name FROM ships UNION ALL SELECT d.ship_id, n.s FROM n JOIN "
         "devices d ON d.device_id = n.i) SELECT i, s FROM n", ""),
    ],
)  # fmt: skip
def test_which_columns_a_query_states_itself(sql: str, stated: str) -> None:
    assert list(check_statement(sql, _catalog()).stated_columns) == stated.split()


def test_a_shared_column_that_is_in_neither_table_is_left_to_the_database() -> None:
    assert "nowhere" in _shown("SELECT s.name FROM ships s JOIN users u USING (nowhere)", admin=True)


def test_a_table_with_hidden_columns_shows_only_the_others() -> None:
    catalog = _catalog(partial=("users",))
    listed = "user_id, name, email, created_at"
    assert _shown("SELECT * FROM users u", catalog=catalog) == (
        f"SELECT * FROM (SELECT {listed} FROM users WHERE users.user_id = 27) u"
    )
    assert (
        _shown("SELECT * FROM users", admin=True, catalog=catalog)
        == f"SELECT * FROM (SELECT {listed} FROM users) users"
    )


def test_the_policy_may_allow_more_functions() -> None:
    with pytest.raises(ToolRefused, match="similarity may not be called"):
        check_statement("SELECT similarity(name, 'x') FROM devices", _catalog())
    policy = POLICY.model_copy(update={"functions": Functions(allow=["similarity"])})
    check_statement("SELECT similarity(name, 'x') FROM devices", _catalog(policy))


def test_the_policy_bounds_the_depth() -> None:
    policy = POLICY.model_copy(update={"limits": Limits(depth=5)})
    check_statement("SELECT 1 + (2 + (3 + 4))", _catalog(policy))
    with pytest.raises(ToolRefused) as refused:
        check_statement("SELECT 1 + (2 + (3 + (SELECT 4 + (5 + 6))))", _catalog(policy))
    assert refused.value.reason == "too_deep"


def test_a_refusal_says_how_to_mend_it() -> None:
    for sql, words in (
        ("SELECT * FROM device", "did you mean 'devices'?"),
        ("SELECT temprature FROM device_current_data", "did you mean temperature?"),
        ("SELECT name FROM devices WHERE name ~ kind", "must be a literal"),
        ("SELECT d FROM devices d", "name the columns you need"),
    ):
        with pytest.raises(ToolRefused) as refusal:
            check_statement(sql, _catalog())
        assert words in refusal.value.message


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Nothing but a refusal ever comes out of the check, whatever goes in."""
    for sql in (text, f"SELECT {text}", f"SELECT name FROM devices WHERE {text}"):
        try:
            _shown(sql)
        except ToolRefused as refusal:
            if not refusal.reason:
                raise AssertionError(sql) from refusal


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\x00"), max_size=50))
def test_a_string_literal_survives_as_it_is(value: str) -> None:
    literal = "'" + value.replace("'", "''") + "'"
    shown = _shown(f"SELECT {literal} AS x")
    assert read(shown, Limits()).target_list[0].res_target.val.a_const.sval.sval == value


def test_line_ends_and_closing_semicolons_are_no_trouble() -> None:
    assert _shown("SELECT 1\r\n  , 2;\r\n") == "SELECT 1, 2"
    assert _shown("-- what\r\nSELECT 'ä ß\u200d\u2013' AS x ; ;") == "SELECT 'ä ß\u200d\u2013' AS x"


def test_a_caller_must_be_able_to_own_rows() -> None:
    assert sql_caller(Caller("27"), POLICY) == SqlCaller("27", is_admin=False)
    assert sql_caller(Caller("ops", frozenset({"admin"})), POLICY) == SqlCaller("ops", is_admin=True)
    for subject in ("ops", "27.0", "027", "+27", " 27", "27;", "2_7", "٢٧", "1" * 19, "-", "27\n"):
        with pytest.raises(CallerUnfit):
            sql_caller(Caller(subject), POLICY)
    by_uuid = POLICY.model_copy(update={"owner": POLICY.owner.model_copy(update={"subject_type": "uuid"})})
    good = "0b0fcd05-3f3e-4a58-8a4b-9b0d6a3b2f11"
    assert sql_caller(Caller(good), by_uuid).literal("uuid").a_const.sval.sval == good
    for subject in ("27", good + "0", "{" + good + "}"):
        with pytest.raises(CallerUnfit):
            sql_caller(Caller(subject), by_uuid)


def test_a_signature_depends_on_every_part() -> None:
    signer = CallerSigner("s" * 40)
    base = {"database": "harbour", "backend_pid": 7, "started_us": 1_000_000}
    signed = signer.sign(SqlCaller("27", is_admin=False), **base)  # type: ignore[arg-type]
    others = [
        signer.sign(SqlCaller("31", is_admin=False), **base),  # type: ignore[arg-type]
        signer.sign(SqlCaller("27", is_admin=True), **base),  # type: ignore[arg-type]
        signer.sign(SqlCaller("27", is_admin=False), **{**base, "database": "other"}),  # type: ignore[arg-type]
        signer.sign(SqlCaller("27", is_admin=False), **{**base, "backend_pid": 8}),  # type: ignore[arg-type]
        signer.sign(SqlCaller("27", is_admin=False), **{**base, "started_us": 1_000_001}),  # type: ignore[arg-type]
        CallerSigner("t" * 40).sign(SqlCaller("27", is_admin=False), **base),  # type: ignore[arg-type]
    ]
    assert len({value[:64] for value in [signed, *others]}) == 7
    assert signed.endswith(":user:27")
    with pytest.raises(ValueError, match="at least 32"):
        CallerSigner("short")


@given(st.text(min_size=1, max_size=100), st.binary(max_size=100))
def test_the_pads_make_the_hmac(secret: str, message: bytes) -> None:
    inner, outer = hmac_pads(secret)
    nested = hashlib.sha256(outer + hashlib.sha256(inner + message).digest()).digest()
    assert nested == hmac.digest(secret.encode(), message, "sha256")


@pytest.mark.parametrize(
    ("sql", "shown"),
    [
        (
            "SELECT name FROM devices d TABLESAMPLE bernoulli (12.5) REPEATABLE (3)",
            f"SELECT name FROM devices d TABLESAMPLE bernoulli (12.5) REPEATABLE (3) WHERE d.device_id IN {MINE}",
        ),
        ("SELECT count(*) FROM ships TABLESAMPLE system (1)", "SELECT count(*) FROM ships TABLESAMPLE system (1)"),
        (
            "SELECT 1 FROM ships LEFT JOIN users u TABLESAMPLE system (10) ON TRUE",
            "SELECT 1 FROM ships LEFT JOIN "
            "(SELECT * FROM users TABLESAMPLE system (10) WHERE users.user_id = 27) u ON TRUE",
        ),
    ],
)
def test_a_sample_is_of_a_table_and_its_rows_are_the_caller_s(sql: str, shown: str) -> None:
    assert _tree(_shown(sql)) == _tree(shown)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 FROM devices TABLESAMPLE system ((SELECT 10))",
        "SELECT 1 FROM devices TABLESAMPLE system (random() * 10)",
        "SELECT 1 FROM devices TABLESAMPLE system (-1)",
        "SELECT 1 FROM devices TABLESAMPLE system ('10')",
        "SELECT 1 FROM devices TABLESAMPLE system (NULL)",
        "SELECT 1 FROM devices TABLESAMPLE system (101)",
        "SELECT 1 FROM devices TABLESAMPLE system (10, 10)",
        "SELECT 1 FROM devices TABLESAMPLE system (10) REPEATABLE (random())",
        "SELECT 1 FROM devices TABLESAMPLE system_rows (10)",
        "SELECT 1 FROM devices TABLESAMPLE public.system (10)",
        "WITH c AS (SELECT name FROM devices) SELECT 1 FROM c TABLESAMPLE system (10)",
    ],
)
def test_a_sample_that_is_not_bounded_by_a_constant_is_refused(sql: str) -> None:
    with pytest.raises(ToolRefused) as refused:
        _shown(sql)
    assert refused.value.reason == "unsupported_syntax"
