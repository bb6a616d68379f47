"""What may be stated: values of results, texts such as a question, and how many of something there are."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from decimal import Decimal
from functools import cached_property
from typing import Final

from services.kit.statements.links import links_in
from services.kit.statements.numbers import StatedNumber, decimal_of, numbers_in
from services.kit.statements.readable import MARKS, NAME, WORD, plain, stem
from services.kit.statements.records import Records
from services.kit.statements.tables import LONGEST_VALUE, Table, Value
from services.kit.text.moments import WEEKDAYS, Clock, Day, Found, moments_in

DIGITS_AND_LETTERS: Final = re.compile(r"\w+(?:[-_./:#]\w+)*")
_LONGEST_NAME: Final = 200
_DIGIT: Final = re.compile(r"\d")
_IN_QUOTES: Final = re.compile(
    r"'([^'\n]{1,80})'|\"([^\"\n]{1,80})\"|[:=][ \t]{0,4}([^\W\d_][^,{}\n]{0,80}?)[ \t]{0,4}(?=[,}])"
)
# A whole number is a share only where its column, or the question, speaks of one.
_SHARES: Final = re.compile(
    r"%|percent|pct|share|ratio|rate|portion|humid|battery|charge|load|cpu|memory|disk|usage|utili|occup|level"
    r"|progress|avail|uptime|complet|cover|confid|probab|growth|margin|discount|tax|vat|anteil|quote|prozent|auslast"
    r"|feucht|f\u00fcll|porc|humed|carga|uso|ocupa|tasa"
)


class Material:
    """What may be stated: what stands in tables and other results, and in texts such as a question.

    `labels` are names of columns and the like, which may be spoken of, and vouch for no number and no link.
    """

    def __init__(
        self,
        *,
        tables: Sequence[Table] = (),
        texts: Iterable[str] = (),
        results: Iterable[str] = (),
        counts: Iterable[int] = (),
        labels: Iterable[str] = (),
    ) -> None:
        self.tables = tables
        self._numbers: set[Decimal] = set()
        self._days: set[Day] = set()
        self._clocks: set[Clock] = set()
        self._tokens: set[str] = set()
        self._words: set[str] = set()
        self._squeezed: list[str] = []
        self._values: set[str] = set()
        texts = [*texts]
        # One text, whose parts nothing reads across.
        self._take_text("\n\n".join(texts))
        asked, shares = self._numbers.copy(), self._numbers.copy()
        self._asked = f" {' '.join(WORD.findall(plain(' '.join(texts))))} "
        are_asked_for = any(_SHARES.search(plain(text)) for text in texts)
        read = [*results]
        for table in tables:
            for at, column in enumerate(zip(*table.rows, strict=True)):
                named = table.columns[at] if at < len(table.columns) else ""
                is_share = are_asked_for or _SHARES.search(named.lower()) is not None
                for value in column:
                    number = self._take_value(value)
                    if number is not None and (is_share or not isinstance(value, int)):
                        shares.add(number)
                    read += [value] if isinstance(value, str) else []
        self._take_text("\n\n".join(read))
        for label in (*labels, *(column for table in tables for column in table.columns)):
            self._take_words(plain(label))
        self._counts = {*counts, *(each for table in tables for each in _counts(table.rows))} or {0}
        self._numbers |= {Decimal(count) for count in self._counts}
        self._ordered, self._shares = sorted(self._numbers), sorted(shares)
        self._beside = sorted({*asked, *map(Decimal, self._counts)})
        self._parts = self._days | {Day(d.year, d.month, 0) for d in self._days}
        self._parts |= {Day(0, d.month, d.day) for d in self._days} | {Day(0, d.month, 0) for d in self._days}
        self._weekdays = {day.weekday() for day in map(_as_date, self._days) if day}
        self._text = " ".join(self._squeezed)

    def _take_value(self, value: Value) -> Decimal | None:
        """Takes a value, and returns the number that it is."""
        if isinstance(value, bool) or value is None:
            return None
        number = decimal_of(str(value))
        if number is not None:
            self._numbers.add(number)
        if isinstance(value, str) and len(value) <= LONGEST_VALUE:
            self._values.add(" ".join(plain(value).split()))
        return number

    def _take_text(self, text: str) -> None:
        seen = plain(text)
        self._take_words(seen)
        self._squeezed.append(" ".join(seen.split()))
        self._tokens.update(links_in(seen))
        self._values.update(next(filter(None, found)) for found in _IN_QUOTES.findall(seen))
        between, end = [], 0
        for found in sorted(moments_in(seen), key=lambda each: each.start):
            # What may be a word is no month that anything could be said of.
            self._days.update(day for day in found.days if day.day or not found.doubtful)
            self._numbers.update(Decimal(day.year) for day in found.days if day.year)
            if found.clock:
                self._clocks.add(found.clock)
            between.append(seen[end : found.start])
            end = found.end
        # Each only once: much of what is long says the same again and again.
        for token in {*DIGITS_AND_LETTERS.findall(seen)}:
            if not token.isdecimal() and _DIGIT.search(token):
                self._tokens.update(_pieces(token))
        self._numbers |= numbers_in(" ".join([*between, seen[end:]]))

    def _take_words(self, text: str) -> None:
        self._words.update(map(stem, {*WORD.findall(text), *NAME.findall(text)}))

    def holds_number(self, number: StatedNumber) -> bool:
        """Tells whether a number stands here, or one that is it once it is rounded as it was."""
        if number.least:
            return any(number.least <= each < number.least * 1000 for each in self._ordered)
        ordered = self._shares if number.is_percent else self._ordered
        held = any(_holds(ordered, value, unit) for value, unit in number.ways)
        # Numbers one after another, and no thousands.
        return held or (number.parts != () and all(_holds(self._ordered, each, Decimal(0)) for each in number.parts))

    @cached_property
    def records(self) -> Records | None:
        """The rows of a result; None of several, of which nobody knows which one is spoken of."""
        return Records(self.tables[0], self.asks_for, self.is_beside) if len(self.tables) == 1 else None

    def is_beside(self, number: StatedNumber) -> bool:
        """Tells whether a number is how many there are of something, or stands in a text and not in a result."""
        return number.least > 0 or any(_holds(self._beside, value, Decimal(0)) for value, _ in number.ways)

    def asks_for(self, words: str) -> bool:
        """Tells whether words stand in a text, and so need not be told of a result."""
        return f" {words} " in self._asked

    def holds_day(self, day: Day) -> bool:
        """Tells whether a day stands here, or one of which as much was said."""
        return day in self._parts

    def holds_moment(self, found: Found, said: str) -> bool:
        """Tells whether a day, a time, a day's name or a relative day stands here, as much of it as was said."""
        days, clock, weekday = found.days, found.clock, found.weekday
        if days and not any(map(self.holds_day, days)):
            return False
        if clock and not any(_is_part(clock, each) for each in self._clocks):
            return False
        if found.relative and not self.holds_words(said):
            return False
        return weekday is None or weekday in self._weekdays or any(
            stem(name) in self._words for name, at in WEEKDAYS.items() if at == weekday
        )  # fmt: skip

    def holds_token(self, token: str) -> bool:
        """Tells whether a name with digits, or a link, stands here as a whole."""
        return token in self._tokens

    def holds_quarter(self, quarter: int) -> bool:
        """Tells whether a day of a quarter stands here."""
        return any((day.month - 1) // 3 + 1 == quarter for day in self._days)

    def holds_word(self, word: str) -> bool:
        """Tells whether a word stands here, in whatever case and number."""
        return stem(word) in self._words

    def holds_words(self, words: str) -> bool:
        """Tells whether words stand here one after another, or each of them does."""
        squeezed = " ".join(words.split())
        return squeezed in self._text or all(self.holds_word(word) for word in WORD.findall(squeezed))

    def holds_value(self, words: Sequence[str]) -> bool:
        """Tells whether words are all of a value."""
        return " ".join(words) in self._values

    def is_spoken_of(self, wording: str) -> bool:
        """Tells whether a value that stands in quotes or in a table is named."""
        words = [word.strip(MARKS) for word in plain(wording).replace(",", " ").replace(".", " ").split()]
        return any(self.holds_value(words[at : at + length]) for at in range(len(words)) for length in range(1, 7))

    @property
    def longest_list(self) -> int:
        """How many of something there are at most."""
        return max(self._counts, default=0)


def _holds(ordered: Sequence[Decimal], number: Decimal, unit: Decimal) -> bool:
    at = bisect_left(ordered, number - unit / 2)
    return at < len(ordered) and ordered[at] <= number + unit / 2


def _is_part(clock: Clock, of: Clock) -> bool:
    return all(said in (-1, there) for said, there in zip(clock, of, strict=True))


def _counts(rows: Sequence[Sequence[Value]]) -> Iterator[int]:
    """Yields how many rows there are, how many different values, and how many rows hold the same one."""
    yield len(rows)
    for column in zip(*rows, strict=True):
        held = Counter(value for value in column if not isinstance(value, float))
        yield len(held)
        if len(held) < len(rows):
            yield from held.values()


def _pieces(token: str) -> Iterator[str]:
    """Yields a name and the names in it that are written together: of `a/b-1` also `b-1`."""
    yield token
    if len(token) > _LONGEST_NAME:
        return
    at = [0, *(match.end() for match in re.finditer(r"[-_./:#]", token))][:12]
    ends = [*(match.start() for match in re.finditer(r"[-_./:#]", token)), len(token)][:12]
    for start in at:
        for end in ends:
            if start < end:
                yield token[start:end]


def _as_date(day: Day) -> date | None:
    try:
        return date(*day)
    except ValueError:
        return None
