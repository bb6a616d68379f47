"""What a prompt tells of the database, as far as questions can refer to it: columns, tables, values of a kind."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from services.offline_model.data_questions import statement
from services.offline_model.data_questions.statement import CannotEdit
from services.offline_model.data_questions.words import column_words, plain_words, row_words
from services.offline_model.prompt_data import Example
from services.offline_model.vocabulary import Vocabulary

_TYPE = (
    r"(?:small|big)?int(?:eger)?|text|varchar|char|numeric|decimal|real|double|float|bool(?:ean)?|date|time|timestamp"
    r"|timestamptz|interval|uuid|jsonb?"
)
_COLUMN = re.compile(rf"(?:\(|,|\*/,)\s*\"?([a-z_][a-z0-9_]*)\"?\s+(?:{_TYPE})", re.IGNORECASE)
_TABLE = re.compile(r"^\s*[-*]?\s*(?:table\s+)?(?:\w+\.)?([a-z_][a-z0-9_]*)\s*\(", re.IGNORECASE | re.MULTILINE)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_WORDS = r"[a-z_]+(?: [a-z_]+)?"
_ENUMERATION = re.compile(
    rf"({_WORDS}(?: \([^)]*\))?(?:, {_WORDS}(?: \([^)]*\))?)+,? (?:and|or) {_WORDS})|({_WORDS}(?:, {_WORDS}){{2,}})"
)
_LEADING = frozenset(("are", "is", "be", "of", "either", "means", "mean", "written", "called", "where", "measures"))
_SPLIT = re.compile(r",? (?:and|or) |, ")


@dataclass(frozen=True)
class Schema:
    """Words that name columns, tables and their rows, and sets of values of which one may stand for another."""

    columns: dict[str, str]
    tables: frozenset[str]
    enumerations: tuple[frozenset[str], ...]
    rows: Mapping[str, str]
    vocabulary: Vocabulary

    def siblings(self, value: str) -> list[str]:
        """Values that may stand in a value's place, the longest first, spelt as the database spells them."""
        spelt = value.replace("_", " ")
        found = {
            name
            for names in self.enumerations
            if spelt in {other.replace("_", " ") for other in names}
            for name in names
            if name.replace("_", " ") != spelt
        }
        snake = {name.replace("_", " ") for name in found if "_" in name}
        return sorted(found - snake, key=lambda name: (-len(name), name))


def read_schema(tables: str, prose: str, examples: Iterable[Example], vocabulary: Vocabulary) -> Schema:
    """Reads a schema summary (`table(column type /* comment */, …)`), notes, and the examples' statements."""
    columns = [name.lower() for name in _COLUMN.findall(tables)]
    names = [name.lower() for name in _TABLE.findall(tables)]
    values: dict[str, set[str]] = {}
    for example in examples:
        try:
            tree = statement.parse(example.sql)
        except CannotEdit:
            continue  # an example that is no statement teaches nothing
        columns += statement.columns_of(tree)
        names += statement.tables_of(tree)
        for column, found in statement.values_by_column(tree).items():
            values.setdefault(column, set()).update(found)
    comments = "\n".join(_COMMENT.findall(tables))
    return Schema(
        columns=column_words(columns, vocabulary),
        tables=words_of_tables(names),
        enumerations=(*_enumerations(f"{comments}\n{prose}"), *(frozenset(found) for found in values.values())),
        rows=row_words(names, vocabulary),
        vocabulary=vocabulary,
    )


def words_of_tables(names: Iterable[str]) -> frozenset[str]:
    """The words that tables are called by."""
    return frozenset(word for name in names for word in plain_words(name.replace("_", " ")))


def _enumerations(text: str) -> Iterable[frozenset[str]]:
    for match in _ENUMERATION.finditer(text.lower()):
        items = [item.strip() for item in _SPLIT.split(re.sub(r" \([^)]*\)", "", match[0]))]
        lead, _, first = items[0].partition(" ")
        # "their kinds are ferry, container, …": the list begins after the verb.
        yield frozenset([first if lead in _LEADING and first else items[0], *items[1:]])
