"""Whether what is said of a row that is named stands in that row: not in another, in another column or unit, or denied.

A row is known by the first column of texts that differ in all rows. What is said in a sentence belongs to the row that
is named before it or, where a sentence begins with what is said, behind it; of several that are named together, to all
of them, or to one each in their order.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final, NamedTuple

from services.kit.statements.numbers import StatedNumber, decimal_of
from services.kit.statements.readable import NO_NAMES, WORD, UnsupportedStatement, Wording, plain, stem, stems
from services.kit.statements.tables import LONGEST_VALUE, Table, Value
from services.kit.text.moments import Clock, Day, Found, moments_in

_MOST_WORDS: Final = 6
_READ_BEFORE: Final = 40
# Two words are the same in two languages by so many first letters (temperatura).
_ALIKE: Final = 6
MOST_SHOWN: Final = 200
# By which all rows are meant that are not named.
_OTHERS_TEXT: Final = "else other others rest remaining übrigen anderen demás resto otros otras"
_OTHERS: Final = frozenset(map(stem, _OTHERS_TEXT.split()))
# By which a row is named that nothing is said of.
_ASIDE: Final = re.compile(
    r"\b(?:than|unlike|except|not|but|behind|before|after|als|vor|au\u00dfer|que|salvo|excepto)\s(?:\w+\s)?[*_`\"']*$"
)
_DENIED: Final = re.compile(
    r"\b(?:not|no|never|\w+n['\u2019]t|nicht|kein\w*|nie|nunca|ning[u\u00fa]n\w*)\s"
    r"(?:(?!(?:only|just|fewer|less|more|than|nur|weniger|mehr|solo|menos|m\u00e1s|but|sondern|sino|with|mit|con"
    r"|and|und|y|since|while|whose)\b)\w+\s){0,5}[*_`\"']*$"
)
_NONE_OF_ALL: Final = re.compile(r"\W*(?:none|no(?![,:.;])|not one|kein\w*|niemand|nobody|ning[u\u00fa]n\w*)\b")
_ALL: Final = re.compile(r"\b(?:all|every|each|alle[sn]?|jede\w*|tod[oa]s|cada|both|beiden?|amb[oa]s)\b")
_PREDICATE: Final = re.compile(
    r"\b(?:is|are|was|were|ist|sind|war|waren|son|est\u00e1n?|es|eran|have|has|haben|tienen|status|state|at|with|bei|mit|con)\s(?:\w+\s){0,2}[*_`\"']*$"
)
# Of what one row alone can be said; and how another place is said. Of age, speed and ranks the least may be the most.
_MOST: Final = re.compile(
    r"\b(?:most(?! (?:recent|likely|prob|import|common))|highest|largest|biggest|greatest|maximum|warmest|hottest"
    r"|longest|heaviest|busiest|meisten?|w\u00e4rmste\w*|l\u00e4ngste\w*|h\u00f6chste\w*|gr\u00f6\u00dfte\w*|mayor|m\u00e1xim\w*"
    r"|m\u00e1s alt[oa]s?)\b"
)
_LEAST: Final = re.compile(
    r"\b(?:fewest|least|lowest|smallest|minimum|coldest|coolest|shortest|lightest|cheapest|wenigsten?"
    r"|k\u00e4lteste\w*|k\u00fcrzeste\w*|niedrigste\w*|kleinste\w*|menor|m\u00ednim\w*"
    r"|m\u00e1s baj[oa]s?)\b"
)
_NOT_FIRST: Final = re.compile(
    r"\b(?:second|third|fourth|next|one of|among|at least|at most|mindestens|h\u00f6chstens|zweit\w*|dritt\w*|segund\w*"
    r"|tercer\w*|rank\w*|rang\w*|puesto|al menos|menos de|m\u00e1s de|like|not|nicht|no|together|combined|zusammen"
    r"|junt[oa]s)\b"
)
# By which two rows are set against each other, with the second behind it.
_MORE: Final = re.compile(
    r"\b(?:more|higher|larger|bigger|greater|warmer|hotter|longer|heavier|busier|above|mehr|h\u00f6her\w*"
    r"|gr\u00f6\u00dfer\w*|w\u00e4rmer|l\u00e4nger|m\u00e1s|mayor)\b"
)
_LESS: Final = re.compile(
    r"\b(?:fewer|less|lower|smaller|colder|cooler|shorter|lighter|cheaper|below|weniger|niedriger\w*"
    r"|kleiner\w*|k\u00e4lter|k\u00fcrzer|menos|menor)\b"
)
_THAN: Final = re.compile(r"\b(?:than|als|que)\s(?:\w+\s)?[*_`\"']*$")
# What is said before a name and is of it.
_OF: Final = re.compile(
    r"[\s%\u00b0*_`]*(?:(?!(?:and|und|y|that|those|die|der|la|el)\b)\w+\s){0,2}"
    r"(?:for|from|by|of|in|at|f\u00fcr|von|bei|im|para|por|en)\s(?:\w{1,3}\s)?[*_`\"']*"
)
# How a sentence, or a line of a list, goes on about the row that was named before it.
_GOES_ON: Final = re.compile(r"\W*(?:it|its|er|es|sie|sein\w*|su|sus|este|esta)\b|[-*•+]\s")
_LABEL_BEFORE: Final = re.compile(
    r"([^\W\d_]+)(?:\s?[*_`:=(]+|\s(?:of|is|was|at|are|were|von|ist|war|bei|liegt|de|es|fue|era|about|only|a|the)\b)*"
    r"\s?[*_`($\u20ac\u00a3\u2212-]*$"
)
_BEHIND: Final = re.compile(r"[*_`]*\s?\u00b0?\s?([^\W\d_]+(?:/[^\W\d_]+)?|[%$\u20ac\u00a3])")
# Of what one may be written for another, each with its other names.
_UNITS: Final = {
    name: (at, unit.split()[0])
    for at, units in enumerate(
        (
            "degree degrees grad grados, c celsius, f fahrenheit, k kelvin",
            "percent % pct prozent",
            "kg kilogram kilograms kilogramm kilogramos, g gram grams gramm gramos, lb lbs pound pounds pfund libras, "
            "t ton tons tonne tonnes tonnen toneladas, oz ounces",
            "m metre metres meter meters metros, km kilometre kilometres kilometer kilometers kil\u00f3metros, cm, mm, "
            "mi mile miles meilen millas, ft foot feet, nm, inch inches zoll",
            "s sec second seconds sekunden segundos, ms milliseconds millisekunden milisegundos, "
            "min minute minutes minuten minutos, h hour hours stunden horas, d day days tage tagen d\u00edas",
            "eur euro euros \u20ac, usd dollar dollars d\u00f3lares $, gbp \u00a3, chf franken",
            "w watt watts, kw kilowatt kilowatts, mw", "wh, kwh, mwh", "pa, hpa, kpa, bar, mbar, psi",
            "b byte bytes, kb, mb, gb, tb", "l litre litres liter liters litros, ml, m3",
            "kn knot knots knoten nudos, km/h kmh, mph, m/s",
        )
    )
    for unit in units.split(", ")
    for name in unit.split()
}  # fmt: skip


class _Mention(NamedTuple):
    """Where rows are named, or something is said that stands in them."""

    start: int
    end: int
    rows: frozenset[int]
    is_name: bool = False
    is_denied: bool = False
    is_aside: bool = False
    columns: frozenset[int] = frozenset()


class Records:
    """The rows of a table, by their names and by what stands in them.

    What was asked for, or is how many there are of something, need not be of any row.
    """

    def __init__(
        self, table: Table, asks_for: Callable[[str], bool], is_beside: Callable[[StatedNumber], bool]
    ) -> None:
        self.all = frozenset(range(len(table.rows)))
        self._asks_for, self._is_beside = asks_for, is_beside
        self._texts: dict[tuple[str, ...], dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
        self._numbers: dict[Decimal, set[tuple[int, int]]] = defaultdict(set)
        self._moments: dict[Day | Clock, set[int]] = defaultdict(set)
        self._of_moments: set[int] = set()
        columns = [*zip(*table.rows, strict=True)]
        self._keys = [at for at, column in enumerate(columns) if _tells_apart(column)]
        for at, column in enumerate(columns):
            for row, value in enumerate(column):
                number = None if isinstance(value, bool) or value is None else decimal_of(str(value))
                if number is not None:
                    self._numbers[number].add((row, at))
                elif isinstance(value, str) and len(value) <= LONGEST_VALUE:
                    self._take_text(plain(value), row, at)
        self._columns: dict[int, dict[int, Decimal]] = defaultdict(dict)
        for number, places in self._numbers.items():
            for row, at in places:
                self._columns[at][row] = number
        self.are_of_moments = not self._of_moments.isdisjoint(self._keys)
        self._ordered = sorted(self._numbers)
        self._known: dict[tuple[Any, frozenset[int]], tuple[frozenset[int], frozenset[int]]] = {}
        named = [WORD.findall(plain(name)) for name in table.columns]
        self._units = [next((_UNITS[word] for word in words[:0:-1] if word in _UNITS), None) for words in named]
        self._ids = {at for at, words in enumerate(named) if "id" in words}
        self._labels: dict[str, set[int]] = defaultdict(set)
        for at in {at for held in self._numbers.values() for _, at in held if at < len(named)}:
            for word in set(named[at]) - NO_NAMES - _UNITS.keys():
                self._labels[stem(word)[:_ALIKE]].add(at)

    def _take_text(self, text: str, row: int, column: int) -> None:
        moments = [*moments_in(text)]
        for found in moments:
            self._of_moments.add(column)
            for part in (part for each in (*found.days, found.clock) if each for part in _parts(each)):
                self._moments[part].add(row)
        if not moments and len(stems(text)) <= _MOST_WORDS and not set(WORD.findall(text)) <= NO_NAMES:
            self._texts[stems(text)][column].add(row)

    def in_words(self, text: str, start: int, end: int) -> list[_Mention]:
        """Returns where names and texts of rows stand in a part of a text, of several the longest.

        Of the columns that tell rows apart the first that is spoken of names them.
        """
        found = [*WORD.finditer(text, start, end)]
        said = [stem(match[0]) for match in found]
        spans: list[tuple[int, int, dict[int, set[int]]]] = []
        at = 0
        while at < len(found):
            for length in range(min(_MOST_WORDS, len(found) - at), 0, -1):
                if columns := self._texts.get(tuple(said[at : at + length])):
                    spans.append((found[at].start(), found[at + length - 1].end(), columns))
                    at += length - 1
                    break
            else:
                if said[at] in _OTHERS:
                    spans.append((*found[at].span(), {key: {*self.all} for key in self._keys}))
            at += 1
        spoken_of = [key for key in self._keys if any(key in columns for *_, columns in spans)]
        return [mention for span in spans if (mention := self._mention(*span, spoken_of[:1], text, start))]

    def _mention(
        self, begin: int, end: int, columns: dict[int, set[int]], key: list[int], text: str, start: int
    ) -> _Mention | None:
        before = text[max(start, begin - _READ_BEFORE) : begin]
        for at in key:
            if at in columns:
                is_aside = _ASIDE.search(before) is not None
                return _Mention(begin, end, frozenset(columns[at]), is_name=not is_aside, is_aside=is_aside)
        if self._asks_for(text[begin:end]):
            return None
        rows = frozenset(row for held in columns.values() for row in held)
        return _Mention(begin, end, rows, is_denied=_DENIED.search(before) is not None)

    def told_of(self, said: StatedNumber | Found, text: str, start: int) -> _Mention | None:
        """Returns the rows that hold a number, a day or a time; None where that says nothing of a row."""
        return self._in_moment(said) if isinstance(said, Found) else self._in_number(said, text, start)

    def _in_number(self, number: StatedNumber, text: str, start: int) -> _Mention | None:
        """Returns the rows that hold a number in the column and unit that are said, if any row holds it.

        None for one that was counted or asked for.
        """
        if self._is_beside(number) or not self._near(number.ways)[0]:
            return None
        before = text[max(start, number.start - _READ_BEFORE) : number.start]
        behind = _BEHIND.match(text, number.end)
        words = [each[1] for each in (_LABEL_BEFORE.search(before), behind) if each]
        said = [columns for word in words if (columns := self._labelled(word))]
        others = frozenset[int]()
        if said:
            others = frozenset[int]().union(*self._labels.values()).difference(*said)
        unit = _UNITS.get(behind[1] if behind else "", _UNITS.get(before.rstrip()[-1:]))
        if unit:
            others |= {at for at in range(len(self._units)) if not self._fits(unit, at)}
        held, at = self._near(number.ways, others)
        return _Mention(*number[:2], held, is_denied=_DENIED.search(before) is not None, columns=at)

    def _in_moment(self, found: Found) -> _Mention | None:
        """Returns the rows that hold a day or a time, if any does."""
        said = [*found.days, *([found.clock] if found.clock else [])]
        rows = frozenset(row for each in said if each in self._moments for row in self._moments[each])
        return _Mention(found.start, found.end, rows) if rows else None

    def is_first(self, name: _Mention, sentence: str, columns: frozenset[int]) -> bool:
        """Tells whether a row holds the most, or the least, of what is measured, where a sentence says that."""
        most, least = _MOST.search(sentence), _LEAST.search(sentence)
        if bool(most) == bool(least) or _NOT_FIRST.search(sentence):
            return True
        extreme = max if most else min
        measured = self._measured(sentence, columns)
        return not measured or any(extreme(held.values()) in map(held.get, name.rows) for held in measured)

    def is_more(self, name: _Mention, other: _Mention, between: str, sentence: str) -> bool:
        """Tells whether a row holds more, or less, than another one, where that is said between their names."""
        more, less = _MORE.search(between), _LESS.search(between)
        if bool(more) == bool(less) or not _THAN.search(between) or _NOT_FIRST.search(between):
            return True
        (greater, smaller) = (name, other) if more else (other, name)
        measured = self._measured(sentence, frozenset())
        return not measured or any(
            held[one] > held[another]
            for held in measured
            for one in greater.rows & held.keys()
            for another in smaller.rows & held.keys()
        )

    def _measured(self, sentence: str, columns: frozenset[int]) -> list[dict[int, Decimal]]:
        """Returns the numbers by row of the columns that are spoken of, or where none is, of any that counts things."""
        columns |= frozenset[int]().union(*map(self._labelled, WORD.findall(sentence)))
        return [held for at, held in self._columns.items() if at in columns or (not columns and at not in self._ids)]

    def _labelled(self, word: str) -> set[int]:
        return self._labels.get(stem(word)[:_ALIKE], set())

    def _near(
        self, ways: tuple[tuple[Decimal, Decimal], ...], others: frozenset[int] = frozenset()
    ) -> tuple[frozenset[int], frozenset[int]]:
        """Returns the rows, and the columns, that hold a number, but for other columns; the same is said often."""
        if (known := self._known.get((ways, others))) is None:
            near = [
                (row, at)
                for value, unit in ways
                for number in self._ordered[
                    bisect_left(self._ordered, value - unit / 2) : bisect_right(self._ordered, value + unit / 2)
                ]
                for row, at in self._numbers[number]
                if at not in others
            ]
            known = frozenset(row for row, _ in near), frozenset(at for _, at in near)
            self._known[ways, others] = known
        return known

    def _fits(self, unit: tuple[int, str], column: int) -> bool:
        own = self._units[column] if column < len(self._units) else None
        return own is None or own == unit or (own[0] == unit[0] and unit[1] == "degree")


def misattributed(
    wording: Wording, records: Records, numbers: Sequence[StatedNumber], moments: Sequence[Found]
) -> Iterator[UnsupportedStatement]:
    """Yields what a wording says of rows that does not stand in them."""
    text, last = wording.lower, list[_Mention]()
    sentences = [*wording.sentences()]
    told: dict[int, list[StatedNumber | Found]] = defaultdict(list)
    stated: list[StatedNumber | Found] = [*numbers, *moments]
    for each in stated:
        told[bisect_right(sentences, each.start, key=lambda at: at[0]) - 1].append(each)
    for number, (start, end) in enumerate(sentences):
        if text[end : end + 1] == "?":
            continue
        spoken_of = records.in_words(text, start, end)
        found = [each for each in spoken_of if not each.is_aside]
        taken = {at for of in found for at in range(of.start, of.end)}
        read = [records.told_of(each, text, start) for each in told[number] if each.start not in taken]
        apart = [each for each in read if each]
        if not any(each.is_name for each in found):
            # Where rows are of days or times, these name them.
            apart = [each._replace(is_name=not each.columns and records.are_of_moments) for each in apart]
        mentions = sorted([*found, *apart])
        names = [each for each in mentions if each.is_name]
        if not names and last and _GOES_ON.match(text, start, end):
            mentions = [last[0]._replace(start=start), *mentions]
        elif len({each.rows for each in names}) == 1 or start == end:
            last = names or last
        else:
            last = []
        ranks = all(
            records.is_more(one, other, text[start if at == 0 else one.end : other.start], text[start:end])
            for at, (one, other) in enumerate(pairwise(spoken_of))
            if one.is_name and other.is_aside
        )
        if not ranks or not all(each.rows for each in apart) or not _holds(mentions, text, start, end, records):
            yield UnsupportedStatement("row", wording.shown[start:end].strip()[:MOST_SHOWN])


def _holds(mentions: list[_Mention], text: str, start: int, end: int, records: Records) -> bool:
    sentence = text[start:end]
    names, values = [each for each in mentions if each.is_name], [each for each in mentions if not each.is_name]
    if "|" in sentence:
        return not names or all(names[0].rows & each.rows for each in values)
    one = mentions[0] if len(mentions) == 1 else None
    if one and not one.is_denied and one.rows != records.all:
        # A name is what is said only behind the verb itself.
        verb = _PREDICATE.search(text[max(start, one.start - _READ_BEFORE) : one.start])
        is_said = verb is not None and (not one.is_name or verb[0].count(" ") == 1)
        if is_said and _ALL.search(text[start : one.start]):
            return False
        if _NONE_OF_ALL.match(sentence) and (is_said or not one.is_name):
            return False
    if not names:
        return not any(each.is_denied and each.rows == records.all for each in values)
    columns = frozenset[int]().union(*(each.columns for each in values))
    if len(names) == 1 and not records.is_first(names[0], sentence, columns):
        return False
    said, following = list[_Mention](), None
    for each in reversed(mentions):
        following = each if each.is_name else following
        is_of = each.columns and following and _OF.fullmatch(text, each.end, following.start)
        said.append(each._replace(start=following.end) if is_of and following else each)
    return _is_in_rows(sorted(said)) or (
        not mentions[0].is_name and _is_in_rows([each._replace(start=-each.start) for each in reversed(mentions)])
    )


def _parts(of: Day | Clock) -> Iterator[Day | Clock]:
    """Yields as much of a day or a time as may be said of it."""
    if isinstance(of, Day):
        year, month, day = of
        yield from (of, Day(year, month, 0), Day(0, month, day), Day(0, month, 0))
    else:
        yield from (of, of._replace(second=-1), Clock(of.hour, -1, -1))


def _is_in_rows(mentions: Sequence[_Mention]) -> bool:
    """Tells whether what is said stands in the rows that are named before it; what is said first, in the first."""
    groups: list[tuple[list[_Mention], list[_Mention]]] = [([], [])]
    for each in mentions:
        named, said = groups[-1]
        if each.is_name and named and said and (len(groups) > 1 or said[-1].start > named[0].start):
            groups.append(([each], []))
        else:
            (named if each.is_name else said).append(each)
    return all(map(_are_of, *zip(*groups, strict=True)))


def _are_of(named: Sequence[_Mention], said: Sequence[_Mention]) -> bool:
    """Tells whether all that is said stands in all rows that are named, or else in one each, in their order."""
    rows = {name.rows for name in named}
    apart = [each for each in said if not all(bool(of & each.rows) is not each.is_denied for of in rows)]
    count = len(named)
    if not apart or count < 2 or len(apart) % count:
        return not apart
    by_column = all(named[at % count].rows & each.rows for at, each in enumerate(apart))
    return by_column or all(named[at // (len(apart) // count)].rows & each.rows for at, each in enumerate(apart))


def _tells_apart(column: Sequence[Value]) -> bool:
    words = {stems(plain(value)) for value in column if isinstance(value, str) and len(value) <= LONGEST_VALUE}
    return len(words) == len(column) > 0 and () not in words
