"""Example questions with their SQL, notes, and a vocabulary, drafted from what a policy shows of a database.

They say what the schema says: which tables there are, which refer to which, what can be counted, measured and dated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import yaml

from services.sql_executor.policy import SqlPolicy, TableName
from services.sql_executor.provisioning.described_tables import MOST_VALUES, DescribedColumn, Parent, Table
from services.sql_executor.provisioning.words import one

# Most examples of a database.
MOST_EXAMPLES: Final = 1000
_FUNCTIONS: Final = {
    "round(avg({})::numeric, 2)": "average", "sum({})": "total", "max({})": "highest", "min({})": "lowest"
}  # fmt: skip
# What is said of the highest and the lowest of a measure, by a word of it.
_SUPERLATIVES: Final = {
    **dict.fromkeys(("price", "cost"), ("most expensive", "cheapest")),
    **dict.fromkeys(("duration", "length", "pages", "minutes", "seconds", "milliseconds"), ("longest", "shortest")),
}
# What is said of a row that has a time, by the first word of such a column; one that ends in `ed` is said itself.
_BEGINNINGS: Final = {
    "hire": "hired", "birth": "born", "release": "released", "join": "joined", "ship": "shipped", "built": "built",
    "publication": "published", "creation": "created", "registration": "registered", "sent": "sent", "sold": "sold",
}  # fmt: skip
_INTRANSITIVE: Final = frozenset(("joined", "registered", "started", "ended", "expired"))
_HEADER = """\
# Drafted from the schema of {database}: go through it before you load it. {of_values}
"""
_NO_VALUES = "No row was read; values are those of enum types and CHECK constraints."
_VALUES = (
    "The rows that were read are those of look-up tables\n"
    f"# that every caller may read, {MOST_VALUES} at most of each: {{tables}}."
)


Example = tuple[str, str]


def drafted_examples(policy: SqlPolicy, tables: Sequence[Table]) -> str:
    """Returns the text of a file of examples and notes."""
    found: dict[str, str] = {}
    for table in tables:
        if not table.is_assignment:
            for question, statement in _examples(table):
                found.setdefault(question, statement)
    entries = [{"question": question, "sql": statement} for question, statement in found.items()]
    # Examples last, so that one is added at the file's end.
    content = {"version": 1, "notes": list(dict.fromkeys(_notes(tables))), "examples": entries[:MOST_EXAMPLES]}
    return _head(policy, tables) + _yaml(content)


def drafted_vocabulary(policy: SqlPolicy, tables: Sequence[Table]) -> str:
    """Returns the text of a vocabulary for the offline model."""
    told = [table for table in _finest_first(tables) if table.written == table.name.name]
    words = {table.name.name: table.one.replace(" ", "") for table in told}
    content = {
        "version": 1,
        "rows": words,
        "keys": {table.name.name: table.key.name for table in told if table.key},
        "titles": {table.name.name: table.title.name for table in told if table.title},
        "references": {
            f"{table.name.name}.{parent.column.name}": f"{parent.table.name.name}.{parent.key.name}"
            for table in told
            for parent in table.parents
        },
        "values": {
            f"{table.name.name}.{column.name}": list(column.values)
            for table in told
            for column in table.kinds
            if column.values
        },
        "synonyms": {words[table.name.name]: [table.one, table.many] for table in told if " " in table.one},
    }
    return _head(policy, tables) + _yaml(content)


# Questions, in the order in which they matter.


def _examples(table: Table) -> Iterator[Example]:
    source, order = f"FROM {table.written} AS t", f" ORDER BY t.{table.key.written}" if table.key else ""
    yield f"How many {table.many} are there?", f"SELECT count(*) AS {_alias(table.many)} {source}"
    yield f"List all {table.many}", f"SELECT {table.shown} {source}{order}"
    if table.title:
        named = f"WHERE t.{table.title.written} = 'Some Name'"
        yield f'Show the {table.one} "Some Name"', f"SELECT t.* {source} {named}"
    for column in table.kinds:
        if column is not table.title:
            yield from _by_kind(table, column)
    for parent in table.parents:
        yield from _by_parent(table, parent)
    for measure in table.measures:
        for words in table.called(measure):
            yield from _by_measure(table, measure, words)
    yield from _by_superlative(table)
    yield from _by_time(table)


def _by_kind(table: Table, column: DescribedColumn) -> Iterator[Example]:
    source, kind = f"FROM {table.written} AS t", f"t.{column.written}"
    count = f"count(*) AS {_alias(table.many)}"
    yield (
        f"How many {table.many} are there per {column.words}?",
        f"SELECT {kind}, {count} {source} GROUP BY {kind} ORDER BY 2 DESC, 1",
    )
    value, held = column.values[0], f"WHERE {kind} = {_literal(column.values[0])}"
    yield f"How many {table.many} have the {column.words} {value}?", f"SELECT {count} {source} {held}"
    yield f"Which {table.many} have the {column.words} {value}?", f"SELECT {table.shown} {source} {held}"
    yield f"How many {value} {table.many} are there?", f"SELECT {count} {source} {held}"


def _by_parent(table: Table, parent: Parent) -> Iterator[Example]:
    other = parent.table
    if other is table:
        return
    on = f"p.{parent.key.written} = t.{parent.column.written}"
    source = f"FROM {table.written} AS t JOIN {other.written} AS p ON {on}"
    outer = f"FROM {other.written} AS p LEFT JOIN {table.written} AS t ON {on}"
    shown = other.shown.replace("t.", "p.") if other.shown != "t.*" else f"p.{parent.key.written}"
    many = _alias(table.many)
    count = f"count(*) AS {many}"
    each = f"SELECT {shown}, count(t.{parent.column.written}) AS {many} {outer} GROUP BY {shown} ORDER BY {many}"
    yield f"How many {table.many} are there per {other.one}?", f"{each} DESC, 1"
    yield f"How many {table.many} does each {other.one} have?", f"{each} DESC, 1"
    yield f"Which {other.one} has the most {table.many}?", f"{each} DESC, 1 LIMIT 1"
    yield f"Which {other.one} has the fewest {table.many}?", f"{each}, 1 LIMIT 1"
    without = f"FROM {other.written} AS p WHERE NOT EXISTS (SELECT FROM {table.written} AS t WHERE {on})"
    yield f"Which {other.many} have no {table.many}?", f"SELECT {shown} {without}"
    yield f"Top 5 {other.many} by number of {table.many}", f"{each} DESC, 1 LIMIT 5"
    counted, listed = f"SELECT {count} {source} WHERE", f"SELECT {table.shown} {source} WHERE"
    if other.title:
        named = f"p.{other.title.written} ="
        yield f'How many {table.many} does the {other.one} "Some Name" have?', f"{counted} {named} 'Some Name'"
        yield f'Which {table.many} does the {other.one} "Some Name" have?', f"{listed} {named} 'Some Name'"
        for value in other.title.values[:1]:
            yield f"How many {value} {table.many} are there?", f"{counted} {named} {_literal(value)}"
            yield f"List all {value} {table.many}", f"{listed} {named} {_literal(value)}"
    for measure in table.measures:
        words = _once("total", measure.words)
        total = _alias(words)
        grouped = f"SELECT {shown}, sum(t.{measure.written}) AS {total} {source} GROUP BY {shown}"
        question = f"What is the {words} of the {table.many} per {other.one}?"
        yield question, f"{grouped} ORDER BY {total} DESC NULLS LAST"


def _by_measure(table: Table, measure: DescribedColumn, words: str) -> Iterator[Example]:
    source, value, many = f"FROM {table.written} AS t", f"t.{measure.written}", table.many
    shown = f"SELECT {table.shown}, {value} {source}" if table.shown != "t.*" else f"SELECT t.* {source}"
    for function, said in _FUNCTIONS.items():
        statement = f"SELECT {function.format(value)} AS {_alias(_once(said, words))} {source}"
        yield f"What is the {_once(said, words)} of all {many}?", statement
        yield f"What is the {said} {table.one} {words}?", statement
        if said != "total":
            yield f"What is the {said} {words} of {one(table.one)}?", statement
        if said == "average" and words.endswith("s"):
            yield f"What is the average number of {words} of {one(table.one)}?", statement
    yield f"Which {table.one} has the highest {words}?", f"{shown} ORDER BY {value} DESC NULLS LAST LIMIT 1"
    yield f"Which {table.one} has the lowest {words}?", f"{shown} ORDER BY {value} LIMIT 1"
    yield f"Top 5 {many} by {words}", f"{shown} ORDER BY {value} DESC NULLS LAST LIMIT 5"
    having = words if words.endswith("s") else one(words)
    yield f"Which {many} have {having} above 10?", f"{shown} WHERE {value} > 10 ORDER BY {value} DESC"
    yield f"How many {many} have {having} of 5?", f"SELECT count(*) AS {_alias(many)} {source} WHERE {value} = 5"


def _by_superlative(table: Table) -> Iterator[Example]:
    said = {
        measure: {_SUPERLATIVES[word] for word in measure.words.split() if word in _SUPERLATIVES}
        for measure in table.measures
    }
    for measure in table.measures:
        for words in said[measure]:
            if sum(words in each for each in said.values()) > 1:
                continue  # nobody knows which is meant
            value = f"t.{measure.written}"
            shown = f"SELECT {table.shown}, {value}" if table.shown != "t.*" else "SELECT t.*"
            orders = (f"{value} DESC NULLS LAST", value)
            for word, order in zip(words, orders, strict=True):
                rows = f"{shown} FROM {table.written} AS t ORDER BY {order}"
                yield f"What is the {word} {table.one}?", f"{rows} LIMIT 1"
                yield f"Top 5 {word} {table.many}", f"{rows} LIMIT 5"


def _by_time(table: Table) -> Iterator[Example]:
    """Asks how many there were of what happens once; what lasts is there in other years, too, and began in one."""
    source, count = f"FROM {table.written} AS t", f"count(*) AS {_alias(table.many)}"
    for column in table.plain:
        if not (column.is_year or column.is_moment):
            continue
        value = f"t.{column.written}"
        year = value if column.is_year else f"extract(year FROM {value})"
        then = f"{source} WHERE {year} = 2024"
        counted = f"SELECT {count} {then}"
        each = f"SELECT {year} AS year, {count} {source} GROUP BY 1 ORDER BY 1"
        began = _said_of(column)
        if _is_of_events(table, column):
            yield f"How many {table.many} were there in 2024?", counted
            yield f"How many {table.many} were made in 2024?", counted
            yield f"How many {table.many} are there per year?", each
        elif began:
            yield f"How many {table.many} {began} in 2024?", counted
            shown = table.shown if table.shown == "t.*" else f"{table.shown}, {value}"
            yield f"Which {table.many} {began} in 2024?", f"SELECT {shown} {then} ORDER BY {value}"
            yield f"How many {table.many} {began} per year?", each


def _is_of_events(table: Table, column: DescribedColumn) -> bool:
    """Whether a time is that of the row itself, as `loaned_on` of a loan is, and neither `due_on` nor `hired_on`."""
    last = re.escape(table.one.split()[-1])
    return bool(
        re.fullmatch(
            rf"(?:{last}(?:e?d)?|scheduled|occurred|happened|taken|placed|made) (?:date|at|on|time)|date", column.words
        )
    )


def _said_of(column: DescribedColumn) -> str:
    """What is said of a row that has a time, such as `were hired`; empty where nobody knows."""
    word = _BEGINNINGS.get(column.words.split()[0], column.words.split()[0])
    said = word if word.endswith("ed") or word in _BEGINNINGS.values() else ""
    return said if said in _INTRANSITIVE else said and f"were {said}"


def _notes(tables: Sequence[Table]) -> Iterator[str]:
    for table in tables:
        for parent in table.parents:
            yield (
                f"A {table.one} refers to a {parent.table.one}: "
                f"{table.written}.{parent.column.written} = {parent.table.written}.{parent.key.written}."
            )
        for column in table.kinds:
            place = f"{table.written}.{column.written}"
            yield f"The {column.words} of a {table.one} ({place}) is one of: {', '.join(column.values)}."


def _finest_first(tables: Sequence[Table]) -> list[Table]:
    """The tables, each before those that it refers to."""
    placed: dict[TableName, Table] = {}

    def place(table: Table, above: tuple[TableName, ...]) -> None:
        for parent in table.parents:
            if parent.table.name not in (*above, table.name):
                place(parent.table, (*above, table.name))
        placed.setdefault(table.name, table)

    for table in tables:
        place(table, ())
    return list(placed.values())[::-1]


def _once(said: str, words: str) -> str:
    """What is said of a measure, unless its words say that themselves: the total of orders is no total total."""
    return words if said in words.split() else f"{said} {words}"


def _alias(words: str) -> str:
    name = words.replace(" ", "_")
    return name if name.isascii() and name.replace("_", "").isalnum() else "value"


def _literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _head(policy: SqlPolicy, tables: Sequence[Table]) -> str:
    read = [str(table.name) for table in tables if table.title and table.title.values]
    of_values = _VALUES.format(tables=", ".join(read)) if read else _NO_VALUES
    return _HEADER.format(database=policy.database, of_values=of_values)


def _yaml(content: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True, width=110)
