"""Numbers as they are stated: in digits of any form, as shares, in words, rounded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Final, NamedTuple

from services.kit.statements.readable import Wording
from services.kit.text.number_words import SCALES, numbers_in_words

LONGEST_NUMBER: Final = 60
NUMBER: Final = re.compile(
    r"\d{1,3}(?:[,.]\d{3})+(?:[.,]\d+)?(?!\d)|\d{1,3}(?:['\u2019\u00a0\u202f ]\d{3})+(?:[.,]\d+)?(?!\d)|\d+(?:[.,]\d+)?"
)
_NEGATIVE: Final = re.compile(rf"(?<!\w)[-\u2212]({NUMBER.pattern})")
_LIST_NUMBER: Final = re.compile(r"^[ \t>*-]*(\d{1,3})[.)](?=\s)", re.MULTILINE)
_PERCENT: Final = re.compile(r"\s?(?:%|percent|prozent|por ciento)")
_PLURALS: Final = {
    "dozens": 12, "tens": 10, "hundreds": 100, "thousands": 1000, "tens of thousands": 10**4,
    "hundreds of thousands": 10**5, "millions": 10**6, "tens of millions": 10**7, "dutzende": 12, "hunderte": 100,
    "tausende": 1000, "zehntausende": 10**4, "hunderttausende": 10**5, "millionen": 10**6, "docenas": 12, "decenas": 10,
    "cientos": 100, "miles": 1000, "decenas de miles": 10**4, "cientos de miles": 10**5,
}  # fmt: skip
_PLURAL: Final = re.compile(rf"\b({'|'.join(sorted(_PLURALS, key=len, reverse=True))}) (?:of|von|de)\b")
# What is a number by its meaning, with how far off it may be.
_MEANT: Final = (
    (r"half(?! past)|h\u00e4lfte|mitad", Decimal("0.5"), "0.01"),
    (r"(?:a|one) third|ein drittel|un tercio", Decimal(1) / 3, "0.1"),
    (r"two thirds|zwei drittel|dos tercios", Decimal(2) / 3, "0.1"),
    (r"(?:a|one) quarter(?! (?:past|to))|ein viertel|un cuarto", Decimal("0.25"), "0.01"),
    (r"three quarters|drei viertel|tres cuartos", Decimal("0.75"), "0.01"),
    (r"twice|doubled?|doppelt|verdoppelt|doble", Decimal(2), "0.01"),
    (r"tripled?|dreifach|verdreifacht|triple", Decimal(3), "0.01"),
    (r"(?:a|the) (?:couple|pair)|both|beiden?|(?:un|el) par|amb[oa]s", Decimal(2), "0"),
    (r"handfuls?|handvoll|pu\u00f1ado", Decimal(5), "4"),
)
_MEANINGS: Final = re.compile(r"\b(?:" + "|".join(f"({said})" for said, *_ in _MEANT) + r")\b")
# Of two that are named, and of no others.
_BOTH: Final = re.compile(r"both|beiden?|amb[oa]s")
_AND: Final = re.compile(r"\b(?:and|und|sowie|y|e|nor|noch|ni)\b")
_SCALE: Final = re.compile(rf"[\s-]?({'|'.join(SCALES)}|mio|mrd|k|m|bn|b)\b\.?")
_READ: Final = re.compile(rf"(?:{NUMBER.pattern})(?:{_SCALE.pattern})?|{_PERCENT.pattern}")
_SHORT_SCALES: Final = {"mio": 10**6, "mrd": 10**9, "k": 1000, "m": 10**6, "bn": 10**9, "b": 10**9}
_ABOUT: Final = re.compile(
    r"(?:about|approximately|approx\.?|around|roughly|nearly|almost|over|under|some|more than|less than"
    r"|at least|at most|ungefähr|etwa|rund|circa|ca\.|fast|knapp|über|mehr als|weniger als|aproximadamente"
    r"|alrededor de|unos|unas|casi|más de|menos de|cerca de|~|≈|>|<|≥|≤)\s*$"
)
_BELOW: Final = re.compile(r"\b(?:minus|below|negative|under|unter|negativ|menos|bajo|dropp?ed|fell|decrease|loss)\b")
_STOP: Final = "\0"


class StatedNumber(NamedTuple):
    """A number that is stated, and what it may mean: each a number and the unit that it was rounded to.

    parts: the numbers that it is where it is several, one after another.
    least: for one that is counted in hundreds or thousands, that many.
    """

    start: int
    end: int
    ways: tuple[tuple[Decimal, Decimal], ...] = ()
    parts: tuple[Decimal, ...] = ()
    is_percent: bool = False
    least: int = 0


def numbers_in(text: str) -> set[Decimal]:
    """Returns all that the numbers of a text may mean, which is in lower case."""
    found = {value for said in {*NUMBER.findall(text)} for value, _ in _readings(said)}
    found |= {-value for said in {*_NEGATIVE.findall(text)} for value, _ in _readings(said)}
    return found | {Decimal(number.value) for number in numbers_in_words(text)}


def numbers_stated(wording: Wording, *, longest_list: int, rounds: bool) -> Iterator[StatedNumber]:
    """Yields the numbers that a wording states; the lines of a list are numbered up to `longest_list`."""
    for start, end in _list_numbers(wording.rest, longest_list):
        wording.blank(start, end)
    rest = wording.rest
    is_below = _BELOW.search(rest) is not None
    for match in NUMBER.finditer(rest):
        yield _in_digits(match, wording, is_below=is_below, rounds=rounds)
    words = _READ.sub(lambda each: _STOP * len(each[0]), rest)
    for number in numbers_in_words(words):
        is_percent = _PERCENT.match(rest, number.end) is not None
        ways = _ways(Decimal(number.value), Decimal(int(rounds)), is_percent=is_percent)
        yield StatedNumber(number.start, number.end, ways, is_percent=is_percent)
    for match in _PLURAL.finditer(words):
        yield StatedNumber(*match.span(1), least=_PLURALS[match[1]])
    for match in _MEANINGS.finditer(words):
        _, value, off = _MEANT[(match.lastindex or 1) - 1]
        if not (_BOTH.fullmatch(match[0]) and _AND.search(words)):
            unit = Decimal(off) * int(rounds)
            yield StatedNumber(*match.span(), ((value, unit), (value * 100, unit * 100)))


def decimal_of(text: str) -> Decimal | None:
    """Returns a number as programs write it; None for anything else."""
    try:
        number = Decimal(text.strip()) if len(text) <= LONGEST_NUMBER else None
    except InvalidOperation:
        return None
    return number if number is not None and number.is_finite() else None


def _in_digits(match: re.Match[str], wording: Wording, *, is_below: bool, rounds: bool) -> StatedNumber:
    rest, end = wording.rest, match.end()
    is_percent = _PERCENT.match(rest, end) is not None
    scaled = None if is_percent else _SCALE.match(rest, end)
    scales = [Decimal({**SCALES, **_SHORT_SCALES}[scaled[1]]) if scaled else Decimal(1)]
    # Metres, kelvin, bytes; but `13k` is thousands.
    if scaled and scaled[1] in ("m", "k", "b") and wording.shown[end : end + 1] != "k":
        scales.append(Decimal(1))
    about = _ABOUT.search(rest[max(0, match.start() - 24) : match.start()]) is not None
    signs = (-1,) if _is_negative(rest, match.start()) else (1, -1) if is_below else (1,)
    ways = tuple(
        way
        for value, step in _readings(match[0], about=about, is_english=wording.is_english)
        for scale in scales
        for sign in signs
        for way in _ways(sign * value * scale, (step if rounds else 0) * scale, is_percent=is_percent)
    )
    parts = [decimal_of(part) for part in re.split("[ ,]", match[0])]
    several = tuple(part for part in parts if part is not None) if len(parts) > 1 else ()
    return StatedNumber(*match.span(), ways, several if len(several) == len(parts) else (), is_percent)


def _ways(value: Decimal, unit: Decimal, *, is_percent: bool) -> tuple[tuple[Decimal, Decimal], ...]:
    return ((value, unit), (value / 100, unit / 100)) if is_percent else ((value, unit),)


def _readings(said: str, *, about: bool = False, is_english: bool = False) -> Iterator[tuple[Decimal, Decimal]]:
    """Yields what a number as it was written may mean, each with the unit that it was rounded to.

    A point or a comma before three digits says one thing in English, and in other languages the other.
    """
    joined = re.sub(r"['\u2019\u00a0\u202f ]", "", said)
    marks = [mark for mark in joined if mark in ",."]
    ways = set()
    if not marks:
        ways.add(joined)
    elif len({*marks}) == 2:
        thousands, point = marks[0], marks[-1]
        ways.add(joined.replace(thousands, "").replace(point, "."))
    else:
        is_grouped = re.fullmatch(r"\d{1,3}(?:[,.]\d{3})+", joined) is not None
        if is_grouped and not (is_english and marks == ["."]):
            ways.add(re.sub("[,.]", "", joined))
        if len(marks) == 1 and not (is_grouped and (joined.endswith("000") or (is_english and marks == [","]))):
            ways.add(joined.replace(",", "."))
    for way in ways:
        value = decimal_of(way)
        if value is not None:
            decimals = len(way.partition(".")[2])
            zeros = len(way) - len(way.rstrip("0")) if about and not decimals and value else 0
            yield value, Decimal(10) ** (zeros - decimals)


def _list_numbers(text: str, most: int) -> Iterator[tuple[int, int]]:
    """Yields where the lines of a list are numbered: from 1 on, and no further than there is something to list."""
    expected = 1
    for match in _LIST_NUMBER.finditer(text):
        number = int(match[1])
        if number == 1:
            expected = 1
        if number == expected and number <= max(most, 3):
            expected += 1
            yield match.span(1)


def _is_negative(text: str, start: int) -> bool:
    return start > 0 and text[start - 1] in "-\u2212" and (start == 1 or not (text[start - 2].isalnum()))
