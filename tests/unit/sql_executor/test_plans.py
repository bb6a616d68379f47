"""How large the plan of a statement may get, how many parts of it may hold memory, and what the check may cost."""
# ruff: noqa: S608 - statements are what is checked here

from __future__ import annotations

import asyncio

import pytest

from services.kit.tools.executor import ToolRefused
from services.sql_executor.callers import SqlCaller
from services.sql_executor.plans import MAX_COLUMNS, MAX_STEPS, Plan
from services.sql_executor.sent import check_sent
from services.sql_executor.statement import Statements, check_statement, statement_for
from services.sql_executor.syntax import SyntaxThread, read, without_positions
from tests.unit.sql_executor.test_statement_check import POLICY, _catalog

TEN = "+".join(["g"] * 10)
SERIES = "generate_series(1, 2) g"


def _ctes(body: str, levels: int, first: str = "SELECT device_id AS g FROM devices", how: str = "") -> str:
    """WITH queries of which each reads the one before; the last is `c<levels>`."""
    ctes = [f"c0 AS ({first})"]
    ctes += [f"c{level} AS {how}({body.format(before=f'c{level - 1}')})" for level in range(1, levels + 1)]
    return f"WITH {', '.join(ctes)} "


def _nested(expression: str, levels: int) -> str:
    """An expression around itself."""
    inner = "g"
    for _ in range(levels):
        inner = f"({expression.format(inner)})::int"
    return inner


def _subqueries(levels: int, end: str = "") -> str:
    inner = "(SELECT device_id AS g FROM devices) q0"
    for level in range(1, levels + 1):
        inner = f"(SELECT {TEN} AS g FROM {inner}{end}) q{level}"
    return inner


def _union(branches: int, of: str = "SELECT {number} AS x FROM ships") -> str:
    if branches == 1:
        return of.format(number=1)
    half = branches // 2
    return f"({_union(half, of)}) UNION ALL ({_union(branches - half, of)})"


# What would grow by what the planner puts in the place of names, were there no fences around queries.
FENCED = [
    *(_ctes(f"SELECT {TEN} AS g FROM {{before}}", levels) + f"SELECT count(g) FROM c{levels}" for levels in (5, 6, 7)),
    f"SELECT count(g) FROM {_subqueries(6)}",
    _ctes(f"SELECT {TEN} AS g FROM {{before}}", 6, how="NOT MATERIALIZED ") + "SELECT g FROM c6",
    _ctes(f"SELECT CASE WHEN {TEN} > 1 THEN {TEN} END AS g FROM {{before}}", 6) + "SELECT g FROM c6",
    _ctes("SELECT coalesce(g, g, g, g, g, g, g, g, g, g) AS g FROM {before}", 6) + "SELECT g FROM c6",
    _ctes("SELECT greatest(g, g, g, g, g, g, g, g, g, g) AS g FROM {before}", 6) + "SELECT g FROM c6",
    _ctes(f"SELECT {' OR '.join(['g'] * 10)} AS g FROM {{before}}", 6, "SELECT true AS g") + "SELECT g FROM c6",
    _ctes(f"SELECT s.g FROM {{before}} c, LATERAL (SELECT {TEN.replace('g', 'c.g')} AS g) s", 6) + "SELECT g FROM c6",
    _ctes(f"SELECT {TEN} AS g FROM {{before}} GROUP BY 1", 6) + "SELECT g FROM c6 WHERE g > 1 ORDER BY g",
    _ctes(f"SELECT {TEN} AS g FROM {{before}} UNION ALL SELECT 1", 6).replace("WITH", "WITH RECURSIVE", 1)
    + "SELECT g FROM c6",
    _ctes(f"SELECT {TEN} AS x FROM {{before}} AS t(g)", 6) + "SELECT x FROM c6",
    _ctes(f"SELECT {TEN} AS g FROM {{before}} UNION ALL SELECT 1", 6) + "SELECT g FROM c6",
    _ctes(f"SELECT j.g FROM (SELECT {TEN} AS g FROM {{before}}) a FULL JOIN (SELECT 1 AS g) j USING (g)", 2)
    + f"SELECT {', '.join([TEN] * 60)} FROM (SELECT {TEN} AS g FROM c2) q",
    _ctes("SELECT " + ", ".join(f"count(p) AS j{place}" for place in range(9)) + " FROM {before} p", 6)
    + "SELECT count(p) FROM c6 p",
    # what is asked of a UNION is asked of each of its parts
    f"SELECT count(*) FROM ({_union(300)}) u WHERE {' AND '.join(f'x <> {number}' for number in range(300))}",
    f"WITH u AS ({_union(300)}) SELECT count(*) FROM u WHERE {' AND '.join(f'x <> {number}' for number in range(300))}",
    # a subquery is planned wherever the column that it gives is named, and so is the WITH query that it reads
    _ctes(f"SELECT {TEN} AS g FROM {{before}}", 3, "SELECT (SELECT count(*) FROM ships) AS g") + "SELECT g FROM c3",
    "WITH w AS (SELECT count(*) AS n FROM ships a, ships b, ships c), "
    + _ctes(f"SELECT {TEN} AS g FROM {{before}}", 2, "SELECT (SELECT n FROM w) AS g").removeprefix("WITH ")
    + "SELECT g FROM c2",
    _ctes("SELECT a.g FROM {before} a, {before} b", 12, how="NOT MATERIALIZED ") + "SELECT g FROM c12",
    f"SELECT count(*) FROM ({_union(120)}) u WHERE x NOT IN (SELECT g FROM {SERIES})",
    # each name of a column that FULL JOINs share stands for those of all of them
    f"SELECT {', '.join(['g'] * 1500)} FROM (SELECT 1 AS g) q "
    + " ".join(f"FULL JOIN (SELECT 1 AS g) q{number} USING (g)" for number in range(40)),
    f"SELECT count(*) FROM ({_union(500, 'TABLE ships')}) u",
]  # fmt: skip
COPIED = [
    _ctes("SELECT ROW(g, g, g, g, g, g, g, g, g, g) AS g FROM {before}", 6) + "SELECT count(g) FROM c6",
    # operators that Postgres writes as several, each with a copy of what stands left of them
    f"SELECT {_nested('{} BETWEEN 1 AND 2', 20)} FROM {SERIES}",
    f"SELECT {_nested('{} NOT BETWEEN SYMMETRIC 1 AND 2', 10)} FROM {SERIES}",
    f"SELECT {_nested('{} IN (' + ', '.join(['g'] * 30) + ')', 4)} FROM {SERIES}",
]  # fmt: skip
HOLDS = [
    f"SELECT count(*) FROM ({_union(500, 'TABLE users')}) u",
    f"SELECT count(*) FROM {SERIES} GROUP BY CUBE ({', '.join(f'g + {number}' for number in range(12))})",
    f"SELECT 1 FROM {SERIES} GROUP BY {', '.join(['ROLLUP (1, 2, 3, 4, 5, 6, 7, 8, 9)'] * 200)}",
    f"SELECT {', '.join(f'count(DISTINCT g + {number})' for number in range(400))} FROM {SERIES}",
    f"SELECT {', '.join(f'max(g ORDER BY g + {number})' for number in range(400))} FROM {SERIES}",
    f"SELECT {', '.join(f'mode() WITHIN GROUP (ORDER BY g + {number})' for number in range(400))} FROM {SERIES}",
    f"SELECT {', '.join(f'row_number() OVER (ORDER BY g + {number})' for number in range(400))} FROM {SERIES}",
    "SELECT count(*) FROM " + ", ".join(f"ships s{number}" for number in range(200)),
    f"SELECT count(*) FROM ({_union(200, f'SELECT g FROM {SERIES} ORDER BY -g')}) q",
    f"SELECT {', '.join(['(SELECT count(*) FROM ships)'] * 150)}",
    f"SELECT 1 FROM {', '.join(f'{SERIES}{number}' for number in range(150))}",
    # long values, which are held beside what a sort may have
    f"SELECT {', '.join(f'count(DISTINCT s || (g + {number}))' for number in range(95))} FROM "
    "generate_series(1, 110) g, (SELECT repeat('x', 32000) AS s OFFSET 0) r",
    "SELECT count(DISTINCT repeat(name, 100)), count(DISTINCT repeat(kind, 200)) FROM devices",
]  # fmt: skip
STARS = "SELECT " + ", ".join(["*"] * 50) + " FROM {before}"
WIDE = f"WITH w AS (SELECT {', '.join(f'1 AS c{number}' for number in range(800))}) "
WORKS = [
    _ctes(STARS, 3) + "SELECT 1 FROM c3",
    _ctes(STARS.replace("*", "p.*").replace("{before}", "{before} p"), 5) + "SELECT 1 FROM c5",
    f"SELECT {', '.join(['1'] * (MAX_COLUMNS + 1))}",
    f"VALUES ({', '.join(['1'] * (MAX_COLUMNS + 1))})",
    f"{WIDE}SELECT 1 FROM {', '.join(f'w w{number}' for number in range(90))}",
    f"{WIDE}SELECT 1 FROM w{' NATURAL JOIN w' * 40}",
    "WITH b AS (SELECT 1 AS x) SELECT 1 FROM " + ", ".join(f"b b{number}" for number in range(400))
    + f" WHERE {' AND '.join(['q = q'] * 400)}",
    "WITH b AS (SELECT 1 AS x) SELECT 1 FROM " + ", ".join(f"b b{number}" for number in range(90))
    + f" WHERE {' AND '.join(['x = x'] * 700)}",
    # each pass over a recursion finds one column more that is no number
    f"WITH RECURSIVE r({', '.join(f'c{number}' for number in range(15))}) AS (SELECT {', '.join(['1'] * 15)} UNION ALL "
    f"SELECT {', '.join(f'c{number}' for number in range(1, 15))}, repeat('x', 100) FROM r WHERE "
    f"{' OR '.join(f'c1 = {number}' for number in range(1200))}) SELECT 1 FROM r",
]  # fmt: skip
FITS = [
    # a result that goes through many steps, with one sort after the other
    "WITH daily AS (SELECT device_id, date_trunc('day', recorded_at) AS day, avg(temperature) AS t, max(humidity) AS h "
    "FROM device_readings GROUP BY 1, 2), moved AS (SELECT *, t - lag(t) OVER w AS step, avg(t) OVER w AS mean FROM "
    "daily WINDOW w AS (PARTITION BY device_id ORDER BY day)), scored AS (SELECT *, CASE WHEN step > mean THEN step / "
    "nullif(mean, 0) WHEN step < 0 THEN -step ELSE 0 END AS score FROM moved), ranked AS (SELECT *, rank() OVER "
    "(PARTITION BY day ORDER BY score DESC) AS place FROM scored) SELECT d.name, r.day, r.score, r.place FROM ranked r "
    "JOIN devices d USING (device_id) JOIN ships s USING (ship_id) WHERE r.place <= 3 AND r.score BETWEEN 0.1 AND 9 "
    "ORDER BY r.day, r.place",
    f"SELECT {', '.join(f'count(DISTINCT name) FILTER (WHERE ship_id = {ship})' for ship in range(30))} FROM devices",
    "SELECT count(*) FROM devices d0 " + " ".join(f"JOIN devices d{other} USING (device_id)" for other in range(1, 12)),
    " UNION ALL ".join(
        f"SELECT '{month}' AS month, count(DISTINCT d.name), avg(r.temperature) FROM devices d JOIN device_readings r "
        f"ON r.device_id = d.device_id JOIN ships s ON s.ship_id = d.ship_id WHERE r.recorded_at >= '2026-{month}-01' "
        "GROUP BY s.kind"
        for month in range(1, 13)
    ),
    f"SELECT max(x) FROM ({_union(12)}) u WHERE x > 1 AND x < 9 AND x IN (1, 2, 3)",
    f"SELECT name FROM devices WHERE lower(trim(name)) IN ({', '.join(f'{number}::text' for number in range(1000))})",
    "WITH c AS (SELECT device_id, ship_id FROM devices) SELECT count(*) FROM "
    + ", ".join(f"c c{number}" for number in range(20))
    + " WHERE " + " AND ".join(f"c{number}.device_id = c{number + 1}.device_id" for number in range(19)),
    # where the planner does not look into a query, its columns are as good as any
    _ctes(f"SELECT {TEN} AS g FROM {{before}}", 9, how="MATERIALIZED ") + "SELECT count(g) FROM c9",
    f"SELECT count(g) FROM {_subqueries(9, ' OFFSET 0')}",
]  # fmt: skip


def shortened(sql: str) -> str:
    """Returns a name for a test of a statement."""
    return f"{sql[:60]}… {len(sql)}"


@pytest.mark.parametrize("sql", COPIED + HOLDS + WORKS, ids=shortened)
def test_what_would_plan_or_check_too_long_is_refused(sql: str) -> None:
    with pytest.raises(ToolRefused) as refused:
        check_statement(sql, _catalog())
    assert refused.value.reason == "too_large", refused.value.message


@pytest.mark.parametrize("sql", FITS + FENCED, ids=shortened)
def test_what_analysts_ask_passes(sql: str) -> None:
    check_statement(sql, _catalog())


def test_a_refusal_names_a_way_out() -> None:
    for sql, words in (
        (COPIED[1], "in a subquery"),
        (HOLDS[0], "split it into several"),
        (HOLDS[-1], "left(…, 100)"),
        (WORKS[0], "name those you need"),
    ):
        with pytest.raises(ToolRefused) as refused:
            check_statement(sql, _catalog())
        assert words in refused.value.message


@pytest.mark.parametrize(
    ("sql", "shown"),
    [
        ("SELECT x FROM (SELECT name || 'x' AS x FROM ships) q", "SELECT name || 'x' AS x FROM ships OFFSET 0"),
        ("SELECT * FROM (VALUES (1)) v(x)", "VALUES (1) OFFSET 0"),
        ("SELECT * FROM (TABLE ships UNION TABLE ships) q", "SELECT * FROM ships OFFSET 0"),
        ("WITH c AS (SELECT 1 AS x) SELECT x FROM c", "WITH c AS MATERIALIZED (SELECT 1 AS x)"),
        ("WITH c AS NOT MATERIALIZED (TABLE ships) SELECT name FROM c", "WITH c AS MATERIALIZED ("),
        # where a column stands for a column, and where a fence is already
        ("SELECT q.name FROM (SELECT name, s.* FROM ships s) q", "FROM ships s) q"),
        ("SELECT x FROM (SELECT 1 AS x LIMIT 3) q", "LIMIT 3) q"),
        ("WITH c AS (TABLE ships) SELECT name FROM c", "WITH c AS (SELECT"),
        # what stands in an expression is no table for others
        ("SELECT (SELECT max(name) FROM ships) WHERE 1 IN (SELECT 1 + 1)", "SELECT 1 + 1)"),
    ],
)
def test_a_fence_stands_around_what_is_not_only_columns(sql: str, shown: str) -> None:
    assert shown in statement_for(sql, SqlCaller("27", is_admin=True), _catalog()).sql


@pytest.mark.parametrize("query", ["(SELECT 1 AS x) q", "(VALUES (1)) q(x)", "(WITH c AS (SELECT 1) TABLE c) q"])
def test_what_has_a_query_without_its_fence_is_not_sent(query: str) -> None:
    tree = read(f"SELECT x FROM {query}", POLICY.limits)
    without_positions(tree)
    with pytest.raises(ToolRefused):
        check_sent(tree, SqlCaller("27", is_admin=False), _catalog())


def test_a_value_in_from_is_a_query() -> None:
    """The planner would put the value in the place of each name of it."""
    with pytest.raises(ToolRefused, match="makes no rows"):
        check_statement("SELECT s, s FROM repeat('x', 1000000) AS r(s)", _catalog())


def test_parts_of_a_plan_are_counted() -> None:
    def parts(sql: str) -> int:
        return statement_for(sql, SqlCaller("27", is_admin=True), _catalog()).parts

    assert parts("SELECT name FROM ships WHERE built_year > 1990") == 0
    assert parts("SELECT DISTINCT kind FROM ships JOIN ships s USING (ship_id, kind) ORDER BY 1") == 3
    assert parts("SELECT name FROM devices JOIN users USING (name)") == 3
    assert parts("SELECT count(DISTINCT ship_id), sum(count(*)) OVER (ORDER BY kind) FROM ships GROUP BY kind") == 3
    assert parts("SELECT count(DISTINCT left(repeat(name, 9), 9000)) FROM ships") > 100


def test_the_check_counts_its_steps() -> None:
    """Whatever else multiplies, it ends by these."""
    plan = Plan()
    plan.step(MAX_STEPS)
    with pytest.raises(ToolRefused):
        plan.step(1)


@pytest.mark.asyncio
async def test_a_caller_has_one_statement_at_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that sends many leaves the thread to the others in between."""
    order: list[str] = []
    run = SyntaxThread.run

    async def noted(thread: SyntaxThread, work: object, query: str, *rest: object) -> object:
        order.append(query)
        return await run(thread, work, query, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(SyntaxThread, "run", noted)
    statements = Statements(_catalog())
    many, other = SqlCaller("27", is_admin=False), SqlCaller("31", is_admin=False)
    flood = [statements.for_caller(f"SELECT {number}", many) for number in range(5)]
    await asyncio.gather(*flood, statements.for_caller("SELECT 'other'", other))
    statements.close()
    assert order[:2] == ["SELECT 0", "SELECT 'other'"]
    assert len(order) == 6
