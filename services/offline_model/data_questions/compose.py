"""Questions to a database made into statements, from nothing but its tables and what words mean.

Every word of a question must have a part in its statement; one that has none, a small word that turns a question into
another (not, or, those, than), or a part that could be of two things, and there is no statement.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Final

from services.offline_model.data_questions.reading import Comparison, read_question
from services.offline_model.data_questions.tables import Schema
from services.offline_model.data_questions.words import NEUTRAL, content_words

_SMALL_WORDS = re.compile(
    r"\b(?:not|no|none|never|neither|nor|without|except|excluding|besides|\w+n't|cannot|too|or|either|versus|vs|those"
    r"|these|them|they|their|its?|that one|ones?|same|previous|before|again|others?|else|out of|than|more|less|fewer"
    r"|higher|lower|above|below|over|under|between|beyond|when|where|who|whom|whose|why|how (?!many\b)\w+)\b|[<>=≤≥]"
)
_PAST = re.compile(r"\b(?:was|were|had|did|been|used to|ago)\b")
_EVER: Final = frozenset(("ever", "recorded"))
_TIME_UNITS: Final = frozenset(("hour", "day", "week", "month", "year"))
_FUNCTIONS: Final = {"average": "avg", "most": "max", "least": "min", "sum": "sum"}
_SHOWN_AS: Final = {"average": "average", "most": "highest", "least": "lowest", "sum": "total"}
_OPERATORS: Final = {"gt": ">", "ge": ">=", "lt": "<", "le": "<=", "eq": "=", "ne": "<>"}
_OF = re.compile(r"\b(?:of|across|among|for|from)\s+(?:(?:all|any|the|my|our)\s+)*(\w+)")
# What begins so, or has a column behind `in`, asks for some of them, and not to show the column of all.
_SOME = re.compile(r"^\W*(?:which|what)\s+(?:of\s+(?:my|our|all|the)\s+)*(\w+)|\b(?:in|on|at|off)\s+(\w+)")
_YEAR = re.compile(r"(?:19|20)\d\d")


class CannotCompose(Exception):
    """There is no statement that a question certainly means; says why."""


def compose(question: str, schema: Schema) -> str:
    """Returns the statement that answers a question. Raises CannotCompose."""
    return _Composition(question, schema).statement()


class _Composition:
    """One question: its words that have no part yet, and the parts of its statement."""

    def __init__(self, question: str, schema: Schema) -> None:
        text, self._values = schema.take_values(question)
        self._asked = read_question(text, schema.vocabulary)
        self._schema = schema
        self._words = content_words(self._asked.rest, schema.vocabulary)
        self._entities = set(schema.rows.values())
        self._spoken_of = [word for word in self._words if word in self._entities]
        self._is_past = self._wants_past()
        self._tables: list[str] = []
        self._where: list[str] = []
        self._shown: list[str] = []

    def statement(self) -> str:
        """Puts the parts together."""
        small = set(_SMALL_WORDS.findall(self._asked.rest)) - self._schema.vocabulary.phrases.keys()
        if small:
            raise CannotCompose(f"small words that could mean anything: {', '.join(sorted(small))}")
        for comparison in self._asked.comparisons:
            self._compare(comparison)
        self._name_and_number()
        for value in self._values:
            self._hold_value(value)
        self._hold_window()
        written = self._most_counted()
        if not written:
            groups = self._groups()
            written = self._counted(groups) if "count" in self._words else self._measured(groups)
        self._refuse_rest()
        return written

    # What a question holds for.

    def _wants_past(self) -> bool:
        """Whether it is about the past; what was is not told by how things are."""
        history = {self._schema.rows[table] for table in self._schema.vocabulary.history if table in self._schema.rows}
        named = _EVER | history
        by_time = any(
            word == "per" and after in _TIME_UNITS for word, after in zip(self._words, self._words[1:], strict=False)
        )
        return self._asked.window is not None or by_time or not named.isdisjoint(self._words)

    def _compare(self, comparison: Comparison) -> None:
        for word in comparison.near:
            if column := self._schema.columns.get(word):
                self._take_last(word)
                self._where.append(_condition(self._measure(column), comparison))
                self._shown.append(self._measure(column))
                return
            if dated := self._dated(word):
                self._take_last(word)
                self._where.append(_years(dated, self._schema.tables, comparison))
                self._shown.append(dated)
                return
        raise CannotCompose(f"of what {' and '.join(comparison.values)} is a bound")

    def _dated(self, word: str) -> str:
        """The column of what happened at some time, such as `installed_at` and `built_year`."""
        found = [
            f"{table}.{column}"
            for table, columns in self._schema.tables.items()
            for column in columns
            if column in (f"{word}_at", f"{word}_year") and table not in self._schema.vocabulary.history
        ]
        return found[0] if len(found) == 1 and self._need(found[0].partition(".")[0]) else ""

    def _name_and_number(self) -> None:
        for name in self._asked.names:
            noun = self._noun_of(name)
            table = self._schema.table_of(noun) if noun else self._schema.table_of_name(name)
            if not table or not self._schema.title_of(table):
                raise CannotCompose(f"whose name {name} is")
            self._need(table)
            self._take_last(self._schema.rows[table], unless=self._spoken_of[:1])
            self._hold(f"{table}.{self._schema.title_of(table)}", _quoted(name))
        for number in self._asked.numbers:
            if number.noun not in self._entities:
                raise CannotCompose(f"what {number.value} is of")
            self._take_last(number.noun, unless=["count"])
            self._hold(self._key_of(number.noun), number.value)

    def _noun_of(self, name: str) -> str:
        said = re.search(rf"(\w+)\s+[\"'\u201c\u2018]?{re.escape(name)}", self._asked.text)
        words = content_words(said[1], self._schema.vocabulary) if said else []
        return words[0] if words and words[0] in self._entities else ""

    def _hold_value(self, text: str) -> None:
        found = [value for value in self._schema.values if value.text == text]
        if len(found) > 1:
            found = [value for value in found if self._schema.rows[value.table] in self._spoken_of[:1]]
        if len(found) != 1:
            raise CannotCompose(f"what {text} is of")
        if self._is_past and not self._spoken_of:
            raise CannotCompose(f"whether it was {text} then")
        self._need(found[0].table)
        self._take_last(found[0].column)
        self._hold(f"{found[0].table}.{found[0].column}", _quoted(text))

    def _hold(self, column: str, value: str) -> None:
        if any(each.startswith(f"{column} = ") for each in self._where):
            raise CannotCompose(f"how {column} can be two things")
        self._where.append(f"{column} = {value}")

    def _hold_window(self) -> None:
        if self._asked.window is None:
            return
        time = self._time()
        table = time.partition(".")[0]
        # Counted back from the newest row, as the data may end some time ago.
        newest, window = f"(SELECT max({time}) FROM {table})", self._asked.window  # noqa: S608 - the executor checks it
        self._where.append(f"{time} > {newest} - interval '{window.amount} {window.unit}s'")

    def _time(self) -> str:
        """The column that tells when something was measured."""
        for table in sorted(self._schema.vocabulary.history & self._schema.tables.keys()):
            for column, kind in self._schema.tables[table].items():
                if kind.startswith(("timestamp", "date")) and self._need(table):
                    return f"{table}.{column}"
        raise CannotCompose("nothing tells of the past")

    # What it asks for.

    def _groups(self) -> list[str]:
        """Takes `per …` out, and returns what to group by."""
        if self._words.count("per") > 1:
            raise CannotCompose("it groups twice")
        if "per" not in self._words:
            return []
        at = self._words.index("per")
        key, *owners = [*self._words[at + 1 : at + 3], ""][:2]
        if key in self._schema.columns and self._asked.top is not None:
            self._words.remove("per")  # top 3 by battery
            return []
        del self._words[at : at + 2]
        if key in _TIME_UNITS:
            return [f"date_trunc('{key}', {self._time()})"]
        if key in self._entities:
            self._spoken_of.remove(key)
            self._need(self._schema.table_of(key))
            return [self._key_of(key), *(each for each in self._named(key) if each != self._key_of(key))]
        owner = next((word for word in owners if word in self._entities), "")
        if owner:
            del self._words[at : at + 1]
            self._spoken_of.remove(owner)
        if not (owner := owner or next(iter(self._spoken_of), "")):
            raise CannotCompose("of what it groups")
        table = self._schema.table_of(owner)
        if key not in self._schema.tables[table]:
            raise CannotCompose("what to group by")
        self._need(table)
        return [f"{table}.{key}"]

    def _most_counted(self) -> str:
        """Ranks by how many of something there are: `the ship with the most devices`; empty where that is not asked."""
        told = [word for word in self._words if word not in ("per", "count", "most")]
        is_most = "most" in (*self._words, self._asked.superlative)
        named = [word for word in told if word in self._entities]
        is_ranked = self._asked.top is not None and is_most and not self._schema.columns.keys() & set(told)
        if not is_ranked or len(named) != 2 or len(set(named)) != 2:
            return ""
        subject, counted = named
        self._take("per", "count", "most", subject, counted)
        tables = {word: self._schema.table_of(word) for word in named}
        if self._is_past != (tables[counted] in self._schema.vocabulary.history):
            raise CannotCompose(f"how many {counted}s there were")
        for table in tables.values():
            self._need(table)
        self._refuse_past()
        shown, key = self._named(subject), self._key_of(subject)
        count = f"count(DISTINCT {self._key_of(counted)})" if self._is_multiplied(counted) else "count(*)"
        order = [f"{counted}s DESC", key]
        return self._select([*shown, f"{count} AS {counted}s"], shown, order=order, limit=self._asked.top or 1)

    def _counted(self, groups: list[str]) -> str:
        counted = next((word for word in self._words[self._words.index("count") :] if word in self._entities), "")
        if not counted and len(self._values) == 1:
            counted = self._schema.rows[self._tables[0]]  # how many are offline
        if not counted or self._asked.top is not None:
            raise CannotCompose("what is counted")
        self._take("count", counted)
        if counted not in {self._schema.rows[table] for table in self._tables}:
            self._need(self._schema.table_of(counted))
        if self._is_past != (counted in {self._schema.rows[table] for table in self._schema.vocabulary.history}):
            raise CannotCompose(f"how many {counted}s there were")
        self._refuse_past()
        count = f"count(DISTINCT {self._key_of(counted)})" if self._is_multiplied(counted) else "count(*)"
        by_time = any(group.startswith("date_trunc") for group in groups)
        ranked = [] if by_time else [f"{counted}s DESC"]
        return self._select([*groups, f"{count} AS {counted}s"], groups, order=[*ranked, *groups] if groups else [])

    def _measured(self, groups: list[str]) -> str:
        subject = next(iter(self._spoken_of), "")
        functions = [word for word in self._words if word in _FUNCTIONS]
        if not functions and self._asked.superlative:
            functions = [self._asked.superlative]
        measures = list(dict.fromkeys(word for word in self._words if word in self._schema.columns))
        columns = [self._measure(self._schema.columns[word]) for word in measures]
        self._refuse_mixed(subject, functions, measures)
        self._take(*functions, *measures)
        self._refuse_past()
        if self._asked.top is not None:
            return self._ranked(subject, functions, columns, groups)
        if groups and not functions and not columns and subject:
            self._words.insert(0, "count")  # devices per kind
            self._words.insert(1, subject)
            return self._counted(groups)
        if functions or (groups and columns):
            return self._aggregated(subject, functions or ["average"], columns, groups)
        return self._listed(subject, columns, groups)

    def _refuse_mixed(self, subject: str, functions: list[str], measures: list[str]) -> None:
        """Refuses what words in another order could mean as well."""
        place = self._words.index
        if functions and len(measures) > 1 and functions[0] in self._words and place(measures[0]) < place(functions[0]):
            raise CannotCompose(f"the {functions[0]} of what")
        is_listed = self._asked.comparisons and not functions and subject in self._words
        if is_listed and measures and place(measures[-1]) > place(subject):
            raise CannotCompose(f"whether {measures[-1]} is bounded, too")
        some = content_words(" ".join(map("".join, _SOME.findall(self._asked.rest))), self._schema.vocabulary)
        if {*measures} - {subject} and not (functions or self._asked.comparisons) and {subject, *measures} & {*some}:
            raise CannotCompose(f"what of {' and '.join(measures)} is meant")
        extreme = {"most", "least"}.intersection(functions)
        if extreme and subject and self._asked.top is None and not self._is_of(subject):
            raise CannotCompose(f"how many {subject}s are asked for")

    def _is_of(self, entity: str) -> bool:
        """Whether something is asked of them, and not which of them: `of my devices`."""
        return any(entity in content_words(word, self._schema.vocabulary) for word in _OF.findall(self._asked.rest))

    def _ranked(self, subject: str, functions: list[str], columns: list[str], groups: list[str]) -> str:
        limit = self._asked.top or 1
        if len(functions) != 1 or functions[0] not in ("most", "least") or len(columns) != 1 or groups or not subject:
            raise CannotCompose("what to rank by")
        self._take(subject)
        self._need(self._schema.table_of(subject))
        if limit > 1 and self._is_multiplied(subject):
            raise CannotCompose(f"one {subject} could be there twice")
        descending = " DESC NULLS LAST" if functions == ["most"] else ""
        key = self._key_of(subject)
        return self._select([*self._named(subject), *columns], [], order=[columns[0] + descending, key], limit=limit)

    def _aggregated(self, subject: str, functions: list[str], columns: list[str], groups: list[str]) -> str:
        if not columns or (len(columns) > 1 and len(functions) > 1):
            raise CannotCompose("what of it")
        multiplied = [column for column in columns if self._is_multiplied(self._schema.rows[column.partition(".")[0]])]
        if multiplied and self._schema.vocabulary.references:
            raise CannotCompose("which rows are there once")
        if subject:
            self._take(subject)
            measured = {column.partition(".")[0] for column in columns}
            if not self._is_grouped(subject, groups) and not all(self._tells(subject, table) for table in measured):
                raise CannotCompose(f"whether of each {subject}")
        shown = [
            f"{_aggregate(function, column)} AS {_SHOWN_AS[function]}_{column.partition('.')[2]}"
            for column in columns
            for function in dict.fromkeys(functions)
        ]
        by_time = any(group.startswith("date_trunc") for group in groups)
        first = shown[0].rpartition(" ")[2]
        return self._select([*groups, *shown], groups, order=groups if by_time else [f"{first} DESC"] if groups else [])

    def _listed(self, subject: str, columns: list[str], groups: list[str]) -> str:
        if groups or self._is_past or not (subject or (columns and self._where)):
            raise CannotCompose("what to list")
        if not subject:
            return self._select([*columns], [], order=[])
        self._take(subject)
        self._need(self._schema.table_of(subject))
        shown = dict.fromkeys([*self._named(subject), *columns, *self._shown])
        if not self._is_multiplied(subject):
            return self._select([*shown], [], order=[self._key_of(subject)])
        if columns or self._shown:
            raise CannotCompose(f"one {subject} could be there twice")
        return self._select([*shown], [*shown], order=[*shown])

    # Words and tables.

    def _refuse_past(self) -> None:
        happened = any(each.endswith(("_at", "_year")) for each in self._shown)
        if _PAST.search(self._asked.rest) and not self._is_past and not happened:
            raise CannotCompose("it is about the past")

    def _refuse_rest(self) -> None:
        owners = {self._schema.rows[table] for table in self._tables}
        known = NEUTRAL | self._schema.vocabulary.neutral | owners
        known |= _EVER if self._is_past else {"current"}
        left = [word for word in self._words if word not in known]
        if left:
            raise CannotCompose(f"what is meant by {', '.join(left)}")

    def _take(self, *words: str) -> None:
        self._words = [word for word in self._words if word not in words]

    def _take_last(self, word: str, unless: list[str] | None = None) -> None:
        if word in self._words and word not in (unless or ()):
            del self._words[len(self._words) - 1 - self._words[::-1].index(word)]

    def _need(self, table: str) -> bool:
        if table not in self._tables:
            self._tables.append(table)
        return True

    def _measure(self, column: str) -> str:
        """The column of the one table that tells it, of the present or of the past."""
        found = [
            table
            for table, columns in self._schema.tables.items()
            if column in columns and (table in self._schema.vocabulary.history) == self._is_past
        ]
        if len(found) != 1:
            raise CannotCompose(f"whose {column}")
        self._need(found[0])
        return f"{found[0]}.{column}"

    def _is_grouped(self, entity: str, groups: list[str]) -> bool:
        table = self._schema.table_of(entity)
        key = self._schema.key_of(table)
        # Where keys are named after what they are of, any table's column of that name is one.
        owner = f"{table}." if self._schema.vocabulary.keys else "."
        return any(group.endswith(f"{owner}{key}") for group in groups)

    def _tells(self, entity: str, table: str) -> bool:
        """Whether each row of a table is of one of something."""
        named = self._schema.table_of(entity)
        return table == named or self._schema.key_of(named) in [key for _, key in self._schema.joins(table, named)]

    def _key_of(self, entity: str) -> str:
        column = f"{entity}_id"
        table = next((table for table in self._tables if column in self._schema.tables[table]), "")
        if not table or self._schema.vocabulary.keys:
            table = self._schema.table_of(entity)
            column = self._schema.key_of(table)
            self._need(table)
        if not column:
            raise CannotCompose(f"no number of a {entity}")
        return f"{table}.{column}"

    def _named(self, entity: str) -> list[str]:
        table = self._schema.table_of(entity)
        columns = (self._schema.key_of(table), self._schema.title_of(table))
        return [f"{table}.{column}" for column in dict.fromkeys(columns) if column]

    def _is_multiplied(self, entity: str) -> bool:
        """Whether a join can bring one of them more than once: with a table that is finer."""
        order = list(self._schema.rows)
        mine = max(order.index(table) for table in order if self._schema.rows[table] == entity)
        return any(order.index(table) < mine and self._schema.rows[table] != entity for table in self._joined()[1])

    def _select(self, shown: list[str], groups: list[str], *, order: list[str], limit: int = 0) -> str:
        joins, _ = self._joined()
        where = f" WHERE {' AND '.join(dict.fromkeys(self._where))}" if self._where else ""
        grouped = f" GROUP BY {', '.join(groups)}" if groups else ""
        ordered = f" ORDER BY {', '.join(order)}" if order else ""
        return f"SELECT {', '.join(shown)} FROM {joins}{where}{grouped}{ordered}{f' LIMIT {limit}' if limit else ''}"  # noqa: S608 - the executor checks it

    def _joined(self) -> tuple[str, list[str]]:
        """Joins the tables by the columns that they share as keys, by way of others where need be."""
        first, *rest = self._tables
        joined, written = [first], first
        for table in rest:
            for step, joining in self._path(joined, table):
                written += f" JOIN {step} {joining}"
                joined.append(step)
        return written, joined

    def _path(self, joined: list[str], goal: str) -> list[tuple[str, str]]:
        if goal in joined:
            return []
        waiting: deque[tuple[str, list[tuple[str, str]], bool | None]] = deque((table, [], None) for table in joined)
        seen = set(joined)
        while waiting:
            at, path, was_up = waiting.popleft()
            for table in self._schema.tables:
                by = self._schema.joins(at, table)
                if not by or table in seen:
                    continue
                if len(by) > 1:
                    raise CannotCompose(f"by which of {', '.join(mine for mine, _ in by)} {table} is meant")
                is_up = self._schema.refers(at, by[0][0])
                if was_up is not None and is_up != was_up and not (is_up and self._schema.only_refers(at)):
                    continue  # what two share, or what refers to two, need not be what has them to do with each other
                step = (table, _joining(at, table, *by[0]))
                if table == goal:
                    return [*path, step]
                if table not in self._schema.vocabulary.history:
                    waiting.append((table, [*path, step], is_up))
                    seen.add(table)
        raise CannotCompose(f"what {goal} has to do with {', '.join(joined)}")


def _joining(one: str, other: str, left: str, right: str) -> str:
    return f"USING ({left})" if left == right else f"ON {other}.{right} = {one}.{left}"


def _condition(subject: str, comparison: Comparison) -> str:
    if comparison.operator == "between":
        return f"{subject} BETWEEN {comparison.values[0]} AND {comparison.values[1]}"
    if comparison.operator == "in":
        raise CannotCompose("a year of what")
    return f"{subject} {_OPERATORS[comparison.operator]} {comparison.values[0]}"


def _years(column: str, tables: dict[str, dict[str, str]], comparison: Comparison) -> str:
    """A bound of years, on a year or on an instant."""
    years = [int(value) for value in comparison.values if _YEAR.fullmatch(value)]
    if len(years) != len(comparison.values):
        raise CannotCompose("a time that is no year")
    first, after = years[0], years[-1] + 1
    bounds = {
        "in": (first, after), "eq": (first, after), "ge": (first, None), "gt": (after, None), "lt": (None, first),
        "le": (None, after), "between": (first, after),
    }.get(comparison.operator)  # fmt: skip
    if bounds is None:
        raise CannotCompose("another way of comparing years")
    table, _, name = column.partition(".")
    is_year = tables[table][name].endswith("int") or tables[table][name] == "integer"
    least, below = (str(year) if is_year else f"'{year}-01-01'" for year in (bounds[0] or 0, bounds[1] or 0))
    parts = [f"{column} >= {least}"] if bounds[0] else []
    return " AND ".join([*parts, *([f"{column} < {below}"] if bounds[1] else [])])


def _aggregate(function: str, column: str) -> str:
    return f"round(avg({column}), 2)" if function == "average" else f"{_FUNCTIONS[function]}({column})"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
