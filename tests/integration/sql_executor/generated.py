"""Generated SELECTs over the harbour, with subqueries wherever SQL takes one; the same seed gives the same statements.

All columns are whole numbers, and what has a LIMIT is sorted by all of them, so that two databases with the same rows
give the same rows, in whatever order. There is nothing in a statement that is random or of the time.
"""
# ruff: noqa: S608, S311 - queries are what is made here; the same every time, on purpose

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

_T = TypeVar("_T")
_COLUMNS = {
    "devices": ("device_id", "ship_id"),
    "device_current_data": ("device_id",),
    "device_readings": ("reading_id", "device_id"),
    "users": ("user_id",),
    "ships": ("ship_id", "built_year"),
}
_TABLES = ("devices", "devices", "device_current_data", "device_readings", "users", "users", "ships")
_COMPARISONS = ("=", "<>", "<", ">", "<=", ">=")
_JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")


def generated(count: int, *, seed: int) -> Iterator[str]:
    """Yields so many statements."""
    chance = random.Random(seed)
    for _ in range(count):
        writer = _Writer(chance)
        yield writer.query(chance.choice((1, 2, 2, 3)), chance.choice((1, 2)))


class _Writer:
    """Writes one statement; each method takes how many queries may still be nested in what it returns.

    `seen` are the columns that can be named. Every name of a relation comes once.
    """

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._names = 0
        self._ctes: list[tuple[str, int]] = []

    def query(self, depth: int, width: int, seen: Sequence[str] = ()) -> str:
        """Returns a query of so many columns, called c1, c2, …"""
        known = len(self._ctes)
        ctes = self._with(depth - 1, seen) if depth > 0 and self._chance.random() < 0.2 else ""
        roll = self._chance.random()
        if depth > 0 and roll < 0.15:
            operator = self._pick("UNION", "UNION ALL", "INTERSECT", "EXCEPT", "EXCEPT ALL")
            sides = [f"({self.query(depth - 1, width, seen)})" for _ in range(2)]
            text = f"{ctes}{sides[0]} {operator} {sides[1]}"
        elif depth > 0 and roll < 0.22:
            rows = [", ".join(self._value(depth - 1, seen) for _ in range(width)) for _ in range(2)]
            text = f"{ctes}VALUES {', '.join(f'({row})' for row in rows)}"
        else:
            text = ctes + self._select(depth, width, seen)
        del self._ctes[known:]
        return text + self._limit(depth, width)

    def _with(self, depth: int, seen: Sequence[str]) -> str:
        recursive = self._chance.random() < 0.2
        written = []
        for _ in range(self._pick(1, 1, 2)):
            name, width = self._name(), self._pick(1, 2)
            columns = ", ".join(f"c{place + 1}" for place in range(width))
            if recursive:
                first = self.query(depth, 1, seen)
                query = (
                    f"({first}) UNION SELECT r.c1 + 1 FROM {name} AS r WHERE {self._condition(depth, ['r.c1'])} "
                    "AND r.c1 < 9"
                )
                width, columns = 1, "c1"
            else:
                query = self.query(depth, width, seen)
            how = "" if recursive else self._pick("", "", "MATERIALIZED ", "NOT MATERIALIZED ")
            written.append(f"{name}({columns}) AS {how}({query})")
            self._ctes.append((name, width))
        return f"WITH {'RECURSIVE ' if recursive else ''}{', '.join(written)} "

    def _select(self, depth: int, width: int, outer: Sequence[str]) -> str:
        source, own = self._from(depth, outer)
        seen = [*own, *outer] if self._chance.random() < 0.7 else own
        where = f" WHERE {self._condition(depth, seen)}" if self._chance.random() < 0.7 else ""
        roll = self._chance.random()
        if roll < 0.3:
            key = self._value(depth - 1, own)
            listed = [key, *(self._aggregate(depth, own) for _ in range(width - 1))]
            having = f" HAVING {self._compared(self._aggregate(depth, own), depth)}" if roll < 0.15 else ""
            key = self._pick("1", f"ROLLUP ({key})", f"GROUPING SETS (({key}), ())") if key in own else "1"
            return f"SELECT {self._listed(listed)} FROM {source}{where} GROUP BY {key}{having}"
        if roll < 0.4:
            return f"SELECT {self._listed([self._aggregate(depth, own) for _ in range(width)])} FROM {source}{where}"
        if roll < 0.55:
            window = f"PARTITION BY {self._value(depth - 1, seen)} ORDER BY {self._value(depth - 1, seen)}"
            call = self._pick("count(*)", f"max({self._pick(*own)})", "rank()", f"min({self._value(depth - 1, own)})")
            over, named = self._pick((f"({window})", ""), ("w", f" WINDOW w AS ({window})"))
            listed = [f"{call} OVER {over}", *(self._value(depth - 1, seen) for _ in range(width - 1))]
            return f"SELECT {self._listed(listed)} FROM {source}{where}{named}"
        distinct = self._pick("", "", "", "DISTINCT ")
        return f"SELECT {distinct}{self._listed([self._value(depth, seen) for _ in range(width)])} FROM {source}{where}"

    def _limit(self, depth: int, width: int) -> str:
        if self._chance.random() > 0.25:
            return ""
        every = ", ".join(str(place + 1) for place in range(width))
        count = self._pick(
            "3", f"(SELECT count(*) % 5 FROM {self._pick(*_TABLES)})", f"({self._single(depth - 1)}) % 7"
        )
        return f" ORDER BY {every} LIMIT abs({count})" + self._pick("", " OFFSET (SELECT count(*) % 3 FROM devices)")

    def _from(self, depth: int, outer: Sequence[str]) -> tuple[str, list[str]]:
        """Returns what stands after FROM, and its columns."""
        text, seen = self._relation(depth, outer)
        for _ in range(self._pick(0, 0, 1, 1, 2) if depth > 0 else 0):
            lateral = self._chance.random() < 0.3
            other, columns = self._relation(depth - 1, [*seen, *outer] if lateral else outer, lateral=lateral)
            how = self._pick("CROSS JOIN", ",", "ON", "ON", "USING", "NATURAL")
            shared = [name for name in (column.split(".")[1] for column in seen) if f".{name}" in "".join(columns)]
            unique = [name for name in shared if sum(column.endswith(f".{name}") for column in seen) == 1]
            if how == "USING" and unique and not lateral:
                text = f"{text} {self._pick(*_JOINS)} {other} USING ({unique[0]})"
            elif how == "NATURAL" and len(unique) == len(shared) and not lateral:
                text = f"{text} NATURAL {self._pick('JOIN', 'LEFT JOIN', 'RIGHT JOIN')} {other}"
            elif how in ("CROSS JOIN", ","):
                text = f"{text} {'CROSS JOIN' if how != ',' else ','} {other}"
            else:
                join = self._pick("JOIN", "LEFT JOIN") if lateral else self._pick(*_JOINS)
                condition = self._equal(seen, columns)
                if join != "FULL JOIN" and self._chance.random() < 0.6:
                    condition += f" AND {self._condition(depth - 1, [*seen, *columns])}"
                text = f"{text} {join} {other} ON {condition}"
            seen += columns
            if how == ",":  # what is joined on would not see what stands before the comma
                break
        return text, seen

    def _relation(self, depth: int, outer: Sequence[str], *, lateral: bool = False) -> tuple[str, list[str]]:
        name = self._name()
        roll = self._chance.random()
        if lateral or (depth > 0 and roll < 0.25):
            width = self._pick(1, 2)
            query = self.query(max(depth - 1, 0), width, outer)
            columns = [f"c{place + 1}" for place in range(width)]
            return f"{'LATERAL ' if lateral else ''}({query}) AS {name}({', '.join(columns)})", _of(name, columns)
        if self._ctes and roll < 0.5:
            cte, width = self._pick(*self._ctes)
            return f"{cte} AS {name}", _of(name, [f"c{place + 1}" for place in range(width)])
        if roll < 0.55:
            last = self._pick("30", "9", f"least(30, ({self._single(depth - 1)}))")
            return f"generate_series(0, {last}) AS {name}(n)", [f"{name}.n"]
        table = self._pick(*_TABLES)
        if roll < 0.62:
            columns = [f"x{place}" for place, _ in enumerate(_COLUMNS[table][:1])]
            return f"{table} AS {name}({', '.join(columns)})", _of(name, columns)
        shown = self._pick(table, f"public.{table}", f'"{table}"', table.upper())
        return f"{shown} AS {name}", _of(name, _COLUMNS[table])

    def _value(self, depth: int, seen: Sequence[str]) -> str:
        """Returns a whole number."""
        column = self._pick(*seen) if seen else self._pick("1", "61", "27")
        if depth <= 0 or self._chance.random() < 0.5:
            return self._pick(column, column, column, f"{column} % 10", "61")
        makers: Sequence[Callable[[], str]] = (
            lambda: f"({self._single(depth - 1, seen)})",
            lambda: f"coalesce(({self._single(depth - 1, seen)}), {column})",
            lambda: (
                f"CASE WHEN {self._condition(depth - 1, seen)} THEN {column} ELSE {self._value(depth - 1, seen)} END"
            ),
            lambda: f"CASE {column} WHEN ({self._single(depth - 1, seen)}) THEN 1 ELSE 2 END",
            lambda: f"greatest({column}, ({self._single(depth - 1, seen)}))",
            lambda: f"abs(({self._single(depth - 1, seen)}) - {column})",
            lambda: f"cardinality(ARRAY({self.query(depth - 1, 1, seen)}))",
            lambda: f"(ARRAY[{column}, ({self._single(depth - 1, seen)})])[2]",
            lambda: f"(({self._condition(depth - 1, seen)})::int)",
            lambda: f"nullif(({self._single(depth - 1, seen)}), {column})",
        )
        return self._pick(*makers)()

    def _aggregate(self, depth: int, seen: Sequence[str]) -> str:
        call = self._pick(
            "count(*)", f"count(DISTINCT {self._pick(*seen)})", f"sum({self._value(depth - 1, seen)})",
            f"max({self._value(depth - 1, seen)})",
        )  # fmt: skip
        return call + (f" FILTER (WHERE {self._condition(depth - 1, seen)})" if self._chance.random() < 0.3 else "")

    def _single(self, depth: int, seen: Sequence[str] = ()) -> str:
        """Returns a query of one row."""
        if depth <= 0:
            table = self._pick(*_TABLES)
            return f"SELECT {self._pick('count(*)', f'max({_COLUMNS[table][0]})')} FROM {table}"
        name = self._name()
        call = self._pick("count(*)", f"max({name}.c1)", f"min({name}.c1)")
        return f"SELECT {call} FROM ({self.query(depth - 1, 1, seen)}) AS {name}(c1)"

    def _condition(self, depth: int, seen: Sequence[str]) -> str:
        column = self._pick(*seen) if seen else "61"
        if depth <= 0:
            return self._pick(f"{column} > 30", f"{column} % 7 = 3", f"{column} BETWEEN 20 AND 70", "TRUE")
        makers: Sequence[Callable[[], str]] = (
            lambda: f"{column} IN ({self.query(depth - 1, 1, seen)})",
            lambda: f"{column} NOT IN ({self.query(depth - 1, 1, seen)})",
            lambda: f"{self._pick('', 'NOT ')}EXISTS ({self.query(depth - 1, 1, seen)})",
            lambda: (
                f"{column} {self._pick(*_COMPARISONS)} {self._pick('ANY', 'ALL')} ({self.query(depth - 1, 1, seen)})"
            ),
            lambda: f"({column}, {self._value(0, seen)}) IN ({self.query(depth - 1, 2, seen)})",
            lambda: f"{column} = ANY (ARRAY({self.query(depth - 1, 1, seen)}))",
            lambda: f"{column} BETWEEN ({self._single(depth - 1, seen)}) AND 90",
            lambda: f"{column} IN (61, ({self._single(depth - 1, seen)}))",
            lambda: f"({self._single(depth - 1, seen)}) IS DISTINCT FROM {column}",
            lambda: f"NOT ({self._condition(depth - 1, seen)})",
            lambda: f"({self._condition(depth - 1, seen)} OR {self._condition(depth - 1, seen)})",
            lambda: f"{self._condition(depth - 1, seen)} AND {self._condition(depth - 1, seen)}",
            lambda: self._compared(column, depth),
            lambda: "TRUE",
        )
        return self._pick(*makers)()

    def _compared(self, value: str, depth: int) -> str:
        return f"{value} {self._pick(*_COMPARISONS)} ({self._single(depth - 1)})"

    def _equal(self, one: Sequence[str], other: Sequence[str]) -> str:
        return f"{self._pick(*one)} = {self._pick(*other)}"

    def _listed(self, values: Sequence[str]) -> str:
        return ", ".join(f"{value} AS c{place + 1}" for place, value in enumerate(values))

    def _name(self) -> str:
        self._names += 1
        return f"t{self._names}"

    def _pick(self, *of: _T) -> _T:
        return self._chance.choice(of)


def _of(name: str, columns: Sequence[str]) -> list[str]:
    return [f"{name}.{column}" for column in columns]
