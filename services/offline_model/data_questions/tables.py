"""What a prompt tells of the database: tables, columns, the values that columns take, and the words for all of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property

from services.offline_model.data_questions.reading import QUOTE_BEFORE, QUOTE_BEHIND
from services.offline_model.data_questions.words import KNOWN, column_words, row_words, stem
from services.offline_model.prompt_data import Example
from services.offline_model.vocabulary import Vocabulary

_TABLE = re.compile(r"-\s*(?:\w+\.)?(?P<name>[a-z_]\w*)\((?P<columns>.*)\);")
_COLUMN = re.compile(
    r"(?:^|, )(?P<name>[a-z_]\w*) (?P<type>[a-z][\w. ]*?)(?:\([\d,]+\))?(?:\[\])*(?: /\*(?P<comment>.*?)\*/)?(?=, |$)"
)
_VALUES = re.compile(r"(?:[^:]*: )?(?P<values>[a-z_]+(?:, [a-z_]+)*,? (?:or|and) [a-z_]+)\.?")
_PARENTHESES = re.compile(r" \([^)]*\)")
_NAMED = re.compile(r"\bname = '(?P<name>[^']+)'")
_WORD = re.compile(r"[^\W\d_]{5,}")


@dataclass(frozen=True)
class Value:
    """A value that a column may have."""

    table: str
    column: str
    text: str


@dataclass(frozen=True)
class Schema:
    """Tables with the types of their columns, values, and examples of what names name."""

    tables: dict[str, dict[str, str]]
    values: tuple[Value, ...]
    examples: Sequence[Example]
    vocabulary: Vocabulary

    @cached_property
    def rows(self) -> dict[str, str]:
        """What one row of a table is called, the finest first."""
        return row_words(self.tables, self.vocabulary)

    @cached_property
    def columns(self) -> dict[str, str]:
        """The columns that are named by one word, by that word."""
        return column_words((column for columns in self.tables.values() for column in columns), self.vocabulary)

    def table_of(self, row: str) -> str:
        """The table with a row for each of something: of those that name it the one that tells most about it."""
        found = [table for table, word in self.rows.items() if word == row and table not in self.vocabulary.history]
        found = found or [table for table, word in self.rows.items() if word == row]
        return next((table for table in found if self.title_of(table)), found[0])

    def key_of(self, table: str) -> str:
        """The column that tells the rows of a table apart; empty for none."""
        key = self.vocabulary.keys.get(table, f"{self.rows[table]}_id")
        return key if key in self.tables[table] else ""

    def title_of(self, table: str) -> str:
        """The column that says what a row is called; empty for none."""
        title = self.vocabulary.titles.get(table, "name")
        return title if title in self.tables[table] else ""

    def joins(self, one: str, other: str) -> list[tuple[str, str]]:
        """The columns of two tables by which one refers to the other, or both to a third where nobody says."""
        if not self.vocabulary.references:
            shared = [name for name in self.tables[one] if name in self.tables[other] and name.endswith("_id")]
            return [(name, name) for name in shared[:1]]
        pairs = [*self.vocabulary.references.items()]
        both = [(left.split("."), right.split(".")) for left, right in (*pairs, *((b, a) for a, b in pairs))]
        return [(left[1], right[1]) for left, right in both if (left[0], right[0]) == (one, other)]

    def refers(self, table: str, column: str) -> bool | None:
        """Whether a column refers to another table; None where nobody says which do."""
        return f"{table}.{column}" in self.vocabulary.references if self.vocabulary.references else None

    def only_refers(self, table: str) -> bool:
        """Whether a table has nothing but references: it says which rows of others belong together."""
        return all(self.refers(table, column) for column in self.tables[table])

    def siblings(self, text: str) -> list[str]:
        """Other values of the columns that may have a value."""
        places = {(value.table, value.column) for value in self.values if value.text == text}
        return [value.text for value in self.values if (value.table, value.column) in places and value.text != text]

    def take_values(self, text: str) -> tuple[str, list[str]]:
        """Takes the values that a question names out of it, the longest first."""
        found = []
        for value in sorted({value.text for value in self.values}, key=lambda value: (-len(value), value)):
            words = "[ _-]".join(map(re.escape, value.split("_")))
            plural = f"{words[:-1]}(?:y|ies)" if words.endswith("y") else f"{words}(?:s|es)?"
            phrase = re.compile(rf"{QUOTE_BEFORE}?\b{plural}\b{QUOTE_BEHIND}?", re.IGNORECASE)
            if phrase.search(text):
                found.append(value)
                text = phrase.sub(" ", text, count=1)
        return text, found

    def table_of_name(self, name: str) -> str:
        """The table whose rows have names such as this one, as examples show it; empty where none does."""
        for example in self.examples:
            named = _NAMED.search(example.sql)
            if named and len(named["name"].split()) == len(name.split()):
                noun = re.search(r"(\w+)\.name = ", example.sql)
                table = noun and re.search(rf"\b(\w+)(?: AS)? {noun[1]}\b", example.sql)
                return table[1] if table and table[1] in self.tables else ""
        return ""

    def corrected(self, question: str) -> str:
        """The question with words that are misspelt as they were meant, where that is beyond doubt."""
        return _WORD.sub(lambda word: _nearest(word[0], self._known), question)

    @cached_property
    def _known(self) -> frozenset[str]:
        words = {*KNOWN, *self.rows.values(), *self.columns, *self.vocabulary.meanings, *self.vocabulary.neutral}
        texts = [value.text for value in self.values] + [example.question for example in self.examples]
        words |= {word.lower() for text in texts for word in re.findall(r"[^\W\d_]+", text)}
        return frozenset(words | {f"{word}s" for word in self.rows.values()})


def read_schema(tables: Iterable[str], examples: Sequence[Example], vocabulary: Vocabulary) -> Schema:
    """Reads a line for each table: `- table(column type /* comment */, …); …`."""
    found: dict[str, dict[str, str]] = {}
    values: list[Value] = []
    for table in filter(None, map(_TABLE.match, tables)):
        for column in _COLUMN.finditer(table["columns"]):
            found.setdefault(table["name"], {})[column["name"]] = column["type"].strip()
            listed = _VALUES.fullmatch(_PARENTHESES.sub("", (column["comment"] or "").strip()))
            items = re.split(r",? (?:or|and) |, ", listed["values"]) if listed else ()
            # "Ok, …" begins many a question.
            values += [Value(table["name"], column["name"], item) for item in items if len(item) > 2]
    for place, texts in vocabulary.values.items():
        table_name, _, column_name = place.partition(".")
        if column_name in found.get(table_name, ()):
            values += [Value(table_name, column_name, text) for text in texts]
    return Schema(found, tuple(values), examples, vocabulary)


def _nearest(word: str, known: frozenset[str]) -> str:
    """Returns the one known word that a word is but for a slip: a letter more or less, two swapped, another vowel."""
    lowered = word.lower()
    if lowered in known or stem(lowered) in known or word[0].isupper():
        return word
    close = get_close_matches(lowered, (each for each in known if each[0] == lowered[0]), cutoff=0.85)
    near = [each for each in close if len(each) != len(lowered) or _without_vowels(each) == _without_vowels(lowered)]
    return near[0] if len({stem(each) for each in near}) == 1 else word


def _without_vowels(word: str) -> list[str]:
    return sorted(re.sub("[aeiouy]", "", word))
