"""Adapts an example's SQL to a question that is near the example's.

Question and example are taken apart the same way; what they differ in is edited in the statement, and what the question
asks beyond the example without a place in its statement means that the example does not fit, and so does what only the
example asks. What comes out is checked against the question once more (`faithfulness.py`). So an adapted query never
silently ignores a word, a number, a name or a time window of the question.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlglot import exp

from services.offline_model.data_questions import sql_edits, statement
from services.offline_model.data_questions.faithfulness import NEUTRAL, check_small_words, check_structure
from services.offline_model.data_questions.reading import Comparison, Number, Reading, read_question
from services.offline_model.data_questions.schema import Schema, words_of_tables
from services.offline_model.data_questions.statement import CannotEdit
from services.offline_model.data_questions.words import AGGREGATES, plain_words
from services.offline_model.prompt_data import Example
from services.offline_model.vocabulary import Vocabulary

# Each edit makes an example a little less near.
EDIT_PENALTY = 0.03

Place = tuple[Comparison, exp.Expr | None]


@dataclass(frozen=True)
class Adapted:
    """A query for the question, and how near its example was: 1 is the same question."""

    sql: str
    nearness: float


def adapt(example: Example, question: str, schema: Schema) -> Adapted:
    """Adapts an example to a question. Raises CannotEdit, with what has no place, when it does not fit."""
    if plain_words(example.question) == plain_words(question) and _numbers(example.question) == _numbers(question):
        return Adapted(example.sql, 1.0)
    return _Adaptation(example, question, schema).run()


class _Adaptation:
    """One attempt: the statement under edit, and what of question and example is still unmatched."""

    def __init__(self, example: Example, question: str, schema: Schema) -> None:
        self._tree = statement.parse(example.sql)
        self._held = statement.columns_of(self._tree)
        self._has_hidden_bound = _has_hidden_bound(self._tree, example.question, schema.vocabulary)
        self._schema = schema
        self._edits = 0
        self._example_text = example.question
        self._text = question

    def run(self) -> Adapted:
        self._match_values()
        words = self._schema.vocabulary
        asked, shown = read_question(self._text, words), read_question(self._example_text, words)
        self._match_names(asked.names, shown.names)
        self._match_comparisons(asked, shown)
        self._match_window(asked, shown)
        self._match_numbers(asked.numbers, shown.numbers)
        self._match_top(asked, shown)
        nearness = self._match_words(set(asked.words), set(shown.words))
        check_small_words(asked.rest, shown.rest, self._tree, self._schema)
        check_structure(self._text, asked.rest, self._tree, self._schema)
        return Adapted(statement.render(self._tree), nearness - EDIT_PENALTY * self._edits)

    def _match_values(self) -> None:
        """Matches values that the example's question spells as ordinary words, such as `offline` or `cold store`."""
        missing = []
        for value in dict.fromkeys(statement.string_literals(self._tree)):
            phrase = value.replace("_", " ")
            if phrase != phrase.lower() or not _mentions(self._example_text, phrase):
                continue
            self._example_text = _without(self._example_text, phrase)
            if _mentions(self._text, phrase):
                self._text = _without(self._text, phrase)
            else:
                missing.append(value)
        for value in missing:
            self._exchange_value(value)

    def _exchange_value(self, value: str) -> None:
        self._edits += 1
        for name in self._schema.siblings(value):
            phrase = name.replace("_", " ")
            if _mentions(self._text, phrase):
                self._refuse_hidden_bound()
                sql_edits.replace_string(self._tree, value, name)
                self._text = _without(self._text, phrase)
                return
        sql_edits.drop_string(self._tree, value)

    def _refuse_hidden_bound(self) -> None:
        """A bound that the example's question does not show was chosen for the very thing it is about."""
        if self._has_hidden_bound:
            raise CannotEdit("the example's bound holds for the example only")

    def _match_names(self, asked: tuple[str, ...], shown: tuple[str, ...]) -> None:
        wanted, rest = _unshared(asked, shown)
        literals = {value.lower() for value in statement.string_literals(self._tree)}
        places = [name for name in rest if name.lower() in literals]
        if len(places) < len(rest):
            raise CannotEdit(f"the example is about {', '.join(rest)}")
        if len(wanted) > len(places):
            raise CannotEdit(f"the example has no place for {wanted[len(places)]!r}")
        for place, name in zip(places, wanted, strict=False):
            sql_edits.replace_string(self._tree, place, name)
        for place in places[len(wanted) :]:
            sql_edits.drop_string(self._tree, place)
        self._edits += len(places)

    def _match_comparisons(self, asked: Reading, shown: Reading) -> None:
        places = [(comparison, self._bound(comparison)) for comparison in shown.comparisons]
        last: exp.Expr | None = None
        for wanted in asked.comparisons:
            column = self._column_near(wanted)
            place = _best_place(places, wanted, column)
            if place is None:
                last = self._add_comparison(last, wanted, column)
            else:
                places.remove(place)
                last = self._change_comparison(place, wanted, column)
        for comparison, _ in places:
            # Other words of the question may mean that very bound ("freezing"), so it is never just left out.
            raise CannotEdit(f"the question does not ask for the example's bound {' and '.join(comparison.values)}")

    def _bound(self, comparison: Comparison) -> exp.Expr | None:
        try:
            return statement.find_bound(self._tree, comparison)
        except CannotEdit:
            return None  # the statement puts it in other words; it may still be the same in the question

    def _change_comparison(self, place: Place, wanted: Comparison, column: str | None) -> exp.Expr | None:
        shown, node = place
        if node is None:
            if shown.values != wanted.values:
                sql_edits.replace_year(self._tree, shown.values[0], wanted.values[0])
            if shown.operator != wanted.operator:
                raise CannotEdit("the example compares in another way")
            return None
        if column is None and self._column_near(shown) is not None:
            raise CannotEdit("the question does not say what is to be compared")
        held = statement.bound_column(node)
        changes_column = column is not None and held in self._schema.columns.values() and column != held
        if column is not None and held != column and not changes_column:
            raise CannotEdit(f"the example compares something else than {column}")
        if not changes_column and (shown.operator, shown.values) == (wanted.operator, wanted.values):
            return node
        self._edits += int(changes_column)
        return sql_edits.rewrite_bound(node, wanted, column if changes_column else None)

    def _add_comparison(self, beside: exp.Expr | None, wanted: Comparison, column: str | None) -> exp.Expr:
        if beside is None or column is None or not isinstance(beside.this, exp.Column):
            raise CannotEdit(f"the example has no place for a bound of {' and '.join(wanted.values)}")
        self._edits += 1
        return sql_edits.add_bound(beside, wanted, column)

    def _column_near(self, comparison: Comparison) -> str | None:
        return next((self._schema.columns[word] for word in comparison.near if word in self._schema.columns), None)

    def _match_window(self, asked: Reading, shown: Reading) -> None:
        if asked.window == shown.window:
            return
        if shown.window is None:
            raise CannotEdit("the example has no time window")
        if asked.window is None:
            sql_edits.drop_window(self._tree, shown.window)
            self._edits += 1
        else:
            sql_edits.replace_window(self._tree, shown.window, asked.window)

    def _match_numbers(self, asked: tuple[Number, ...], shown: tuple[Number, ...]) -> None:
        wanted = [number for number in asked if number not in shown]
        places = [number for number in shown if number not in asked]
        for number in wanted:
            place = next((place for place in places if place.noun == number.noun), None)
            if place is None:
                raise CannotEdit(f"the example has no place for the number {number.value}")
            places.remove(place)
            sql_edits.replace_number(self._tree, place.value, number.value)
        for place in places:
            sql_edits.drop_number(self._tree, place.value)
            self._edits += 1

    def _match_words(self, asked: set[str], shown: set[str]) -> float:
        """Explains the words that question and example do not share; returns the nearness that is left."""
        total_asked, total_shown = len(asked), len(shown)
        asked, shown = asked - shown, shown - asked
        self._exchange_aggregates(asked, shown)
        self._exchange_columns(asked, shown)
        if "count" in asked:
            self._tree = sql_edits.count_rows(self._tree)
            asked.discard("count")
            self._edits += 1
        # The tables that the statement reads anyway, and what it computes, need no word.
        told = words_of_tables(statement.tables_of(self._tree)) | NEUTRAL | self._schema.vocabulary.neutral
        foreign = sorted(asked - told - self._computed())
        dropped = sorted("a count" if word == "count" else word for word in shown - told)
        if foreign or dropped:
            raise CannotEdit(f"the example is about something else: {', '.join(foreign or dropped)}")
        explained = 1 - len(asked) / total_asked if total_asked else 0.0
        wanted = 1 - len(shown) / total_shown if total_shown else 0.0
        if not explained:
            raise CannotEdit("the example has no word of the question")
        return 0.7 * explained + 0.3 * wanted

    def _computed(self) -> set[str]:
        """Words for the aggregates that the statement shows."""
        kinds = {
            type(found).__name__.upper() for shown in self._tree.expressions for found in shown.find_all(exp.AggFunc)
        }
        return {word for word, kind in AGGREGATES.items() if kind in kinds}

    def _exchange_aggregates(self, asked: set[str], shown: set[str]) -> None:
        for new in sorted(asked & AGGREGATES.keys()):
            for old in sorted(shown & AGGREGATES.keys()):
                swapped = sql_edits.swap_aggregate(self._tree, AGGREGATES[old], AGGREGATES[new])
                if not swapped and {old, new} == {"most", "least"}:
                    swapped = sql_edits.flip_order(self._tree)
                if swapped:
                    asked.discard(new)
                    shown.discard(old)
                    self._edits += 1
                    break

    def _exchange_columns(self, asked: set[str], shown: set[str]) -> None:
        columns = self._schema.columns
        for new in sorted(asked & columns.keys()):
            if columns[new] in self._held:
                asked.discard(new)
                continue
            old = next((word for word in sorted(shown & columns.keys()) if columns[word] in self._held), None)
            if old is not None:
                self._refuse_hidden_bound()
                sql_edits.rename_column(self._tree, columns[old], columns[new])
                shown.discard(old)
                self._edits += 1
            if old is not None or columns[new] in statement.columns_of(self._tree):
                asked.discard(new)

    def _match_top(self, asked: Reading, shown: Reading) -> None:
        if asked.top == shown.top:
            return
        if asked.top is not None and self._tree.args.get("order") is None:
            raise CannotEdit(f"the example has no order to take the first {asked.top} of")
        sql_edits.set_limit(self._tree, asked.top)


def _has_hidden_bound(tree: exp.Expr, question: str, vocabulary: Vocabulary) -> bool:
    reading = read_question(question, vocabulary)
    shown = [
        *(number.value for number in reading.numbers),
        *(value for comparison in reading.comparisons for value in comparison.values),
    ]
    return statement.has_hidden_bound(tree, shown)


def _best_place(places: list[Place], wanted: Comparison, column: str | None) -> Place | None:
    """The same bound, else one on the same column, else the first."""
    same = [place for place in places if (place[0].operator, place[0].values) == (wanted.operator, wanted.values)]
    near = [place for place in places if column and place[1] is not None and statement.bound_column(place[1]) == column]
    return next(iter(same or near or places), None)


def _unshared(asked: tuple[str, ...], shown: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """What is only in the question and what is only in the example, letter case aside, in order."""
    wanted, places = list(asked), list(shown)
    for name in asked:
        twin = next((place for place in places if place.lower() == name.lower()), None)
        if twin is not None:
            places.remove(twin)
            wanted.remove(name)
    return wanted, places


def _numbers(text: str) -> list[str]:
    return re.findall(r"\d+(?:\.\d+)?|[<>=!]+|-(?=\d)", text)


def _mentions(text: str, phrase: str) -> bool:
    return _phrase(phrase).search(text) is not None


def _without(text: str, phrase: str) -> str:
    return _phrase(phrase).sub(" ", text, count=1)


def _phrase(phrase: str) -> re.Pattern[str]:
    words = r"[\s_-]+".join(re.escape(word) for word in phrase.split())
    stem = words[:-1] + "(?:y|ies)" if words.endswith("y") else words + "(?:s|es)?"
    return re.compile(rf"\b{stem}\b", re.IGNORECASE)
