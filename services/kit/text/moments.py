"""Days and times as people and machines write them, in English, German and Spanish."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_NAMES: Final = (
    "january januar jänner enero", "february februar febrero", "march märz maerz marzo", "april abril",
    "may mai mayo", "june juni junio", "july juli julio", "august agosto", "september septiembre setiembre",
    "october oktober octubre", "november noviembre", "december dezember diciembre",
)  # fmt: skip
_SHORT: Final = (
    "jan ene", "feb", "mar mrz", "apr abr", "", "jun", "jul", "aug ago", "sep sept", "oct okt", "nov", "dec dez dic",
)  # fmt: skip
MONTHS: Final = {name: at for at, names in enumerate(_NAMES, 1) for name in names.split()}
_ALL_MONTHS: Final = {**MONTHS, **{name: at for at, names in enumerate(_SHORT, 1) for name in names.split()}}
# What is a month only beside a day or a year.
_WORDS_TOO: Final = frozenset({"march", "mar", "may", "mai", "mayo", "marzo", "august"})
WEEKDAYS: Final = {
    name: at
    for at, names in enumerate(
        (
            "monday montag lunes", "tuesday dienstag martes", "wednesday mittwoch miércoles",
            "thursday donnerstag jueves", "friday freitag viernes", "saturday samstag sonnabend sábado",
            "sunday sonntag domingo",
        )
    )
    for name in names.split()
}  # fmt: skip
_MONTH: Final = rf"(?P<month>{'|'.join(sorted(_ALL_MONTHS, key=len, reverse=True))})\b\.?"
_ISO: Final = re.compile(r"(?<!\d)(?P<year>\d{4})[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})(?![-/]?\d)")
_ISO_MONTH: Final = re.compile(r"(?<![\d.-])(?P<year>(?:19|20)\d\d)-(?P<month>0[1-9]|1[0-2])(?![-\d])")
_NUMERIC: Final = re.compile(r"(?<![\d.])(?P<one>\d{1,2})[./-](?P<two>\d{1,2})[./-](?P<year>\d{4}|\d\d)(?!\d|[.]\d)")
_DAY: Final = r"(?P<day>\d{1,2})(?:st|nd|rd|th|\.)?"
_DAY_FIRST: Final = re.compile(rf"(?<!\d){_DAY}\s+(?:of\s+|de\s+)?{_MONTH}(?:,?\s+(?:de\s+|del\s+)?(?P<year>\d{{4}}))?")
_MONTH_FIRST: Final = re.compile(rf"\b{_MONTH}\s+(?:the\s+)?{_DAY}(?!\d|[.:,]\d)(?:,?\s+(?P<year>\d{{4}}))?")
_MONTH_YEAR: Final = re.compile(rf"\b{_MONTH},?\s+(?:of\s+|de\s+)?(?P<year>\d{{4}})")
_MONTH_ALONE: Final = re.compile(rf"\b(?P<month>{'|'.join(MONTHS)})\b")
_WEEKDAY: Final = re.compile(rf"\b(?P<weekday>{'|'.join(WEEKDAYS)})s?\b")
# Days that are told by the one on which it is said.
_RELATIVE: Final = re.compile(
    r"\b(?:yesterday|today|tomorrow|tonight"
    r"|(?:last|past|previous|next|this) (?:night|morning|afternoon|evening|week|weekend|month|quarter|year)"
    r"|(?:vor)?gestern|heute|(?:letzte|vorige|n\u00e4chste|diese)[mnrs]? (?:nacht|woche|wochenende|monat|quartal|jahr)"
    r"|(?:ante)?ayer|hoy|anoche|est[ae] (?:ma\u00f1ana|tarde|semana|mes|a\u00f1o)"
    r"|(?:semana|mes|trimestre|a\u00f1o) (?:pasad[oa]|anterior))\b"
)
_CLOCK: Final = re.compile(
    r"(?<![\d:.])(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,]\d+)?)?(?!\d|:\d)"
    r"(?:\s?(?P<half>[ap]\.?m\b\.?))?(?:\s?(?:z|utc|gmt|uhr|h)\b|[+-]\d\d:?\d\d)?"
)
_HOUR: Final = re.compile(r"(?<![\d:.,])(?P<hour>\d{1,2})\s?(?:(?P<half>[ap]\.?m\b\.?)|uhr\b|o'clock\b)")


class Day(NamedTuple):
    """A day, or as much of one as was said; 0 for what was not."""

    year: int
    month: int
    day: int


class Clock(NamedTuple):
    """A time of the day; minutes and seconds are -1 where they were not said."""

    hour: int
    minute: int
    second: int


class Found(NamedTuple):
    """A day or a time in a text, in each way in which it can be read.

    One that is `relative` says how long ago, or how soon; a `doubtful` one may be a number and a word, or a word.
    """

    start: int
    end: int
    days: tuple[Day, ...] = ()
    clock: Clock | None = None
    weekday: int | None = None
    relative: bool = False
    doubtful: bool = False


def moments_in(text: str) -> Iterator[Found]:
    """Yields the days and times in a text, which is in lower case; what overlaps was read as the first of them."""
    taken = bytearray(len(text))
    for pattern in _PATTERNS:
        for match in pattern.finditer(text):
            if any(taken[match.start() : match.end()]):
                continue
            found = _read(match)
            if found is not None:
                taken[match.start() : match.end()] = b"\1" * (match.end() - match.start())
                yield found


def _read(match: re.Match[str]) -> Found | None:
    parts = match.groupdict()
    where = match.span()
    if match.re is _RELATIVE:
        return Found(*where, relative=True)
    if "weekday" in parts:
        return Found(*where, weekday=WEEKDAYS[parts["weekday"]])
    if "hour" in parts:
        return _clock(parts, where)
    if "one" in parts:
        one, two, year = int(parts["one"]), int(parts["two"]), int(parts["year"])
        year += 2000 if year < 100 else 0
        days = tuple(dict.fromkeys(Day(year, month, day) for day, month in ((one, two), (two, one)) if _is(month, day)))
        return Found(*where, days=days) if days else None
    name = parts["month"]
    month = int(name) if name.isdecimal() else _ALL_MONTHS[name]
    day = Day(int(parts.get("year") or 0), month, int(parts.get("day") or 0))
    doubtful = name in _WORDS_TOO and not day.year
    return Found(*where, days=(day,), doubtful=doubtful) if _is(day.month, day.day or 1) else None


def _clock(parts: dict[str, str | None], where: tuple[int, int]) -> Found | None:
    hour, minute, second = (int(parts.get(name) or -1) for name in ("hour", "minute", "second"))
    hour = max(hour, 0)
    minute = 0 if parts.get("minute") == "00" else minute
    second = 0 if parts.get("second") == "00" else second
    if (parts.get("half") or "").startswith("p") and hour < 12:
        hour += 12
    elif (parts.get("half") or "").startswith("a") and hour == 12:
        hour = 0
    return Found(*where, clock=Clock(hour, minute, second)) if hour <= 24 and minute < 60 else None


def _is(month: int, day: int) -> bool:
    return 1 <= month <= 12 and 1 <= day <= 31


_PATTERNS: Final = (
    _ISO, _NUMERIC, _DAY_FIRST, _MONTH_FIRST, _MONTH_YEAR, _ISO_MONTH, _CLOCK, _HOUR, _MONTH_ALONE, _WEEKDAY,
    _RELATIVE,
)  # fmt: skip
