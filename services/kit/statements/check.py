"""What a wording states that stands nowhere in what it words: a number, a date, a name, a link; or not so.

It holds whatever wrote the words, and asks no model. What may be stated is what stands in the material: as it stands
there, rounded, as a percentage, in words, in another customary form; or how many of something there are. A sum or a
difference is neither. What is said of a row that is named must stand in that row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from services.kit.statements.links import take_links
from services.kit.statements.material import Material
from services.kit.statements.names import NameCheck
from services.kit.statements.numbers import numbers_stated
from services.kit.statements.readable import UnsupportedStatement, Wording
from services.kit.statements.records import misattributed
from services.kit.text.moments import moments_in

LONGEST_WORDING: Final = 20_000
MOST_TOLD: Final = 5
_NONE: Final = re.compile(
    r"\b(?:no|not|none|zero|nothing|nobody|neither|never|\w+n['\u2019]t|kein\w*|nicht\w*|nie|null|niemand|ning[u\u00fa]n\w*|nada"
    r"|nadie|cero|unable|cannot)\b|\b0\b",
    re.IGNORECASE,
)
# Amounts that stand for nothing to be looked up.
_AMOUNTS: Final = re.compile(
    r"\b(?:all|every\w*|each|both|most|almost|half|few|many|several|one|single|1|alle[sn]?|jede\w*|beiden?|meisten?|fast"
    r"|viele|wenige|einige|ein\w{0,2}|tod[oa]s|cada|amb[oa]s|casi|much[oa]s|poc[oa]s|un[oa]?)\b",
    re.IGNORECASE,
)


def unsupported(
    wording: str, material: Material, *, most: int | None = MOST_TOLD, rounds: bool = True
) -> list[UnsupportedStatement]:
    """Returns what a wording states that does not stand in the material, at most `most`; empty when all does.

    Where nothing `rounds`, a number has to stand there as it is.
    """
    if len(wording) > LONGEST_WORDING:
        return [UnsupportedStatement("number", f"({len(wording)} characters, which are too many to be checked)")]
    return list(dict.fromkeys(_problems(Wording(wording), material, rounds=rounds)))[:most]


def denies(wording: str) -> bool:
    """Tells whether a wording says that something is not, or that there is none."""
    return _NONE.search(wording) is not None


def speaks_of_amounts(wording: str) -> bool:
    """Tells whether a wording says of how many something is, though in no number, or that there is none."""
    return denies(wording) or _AMOUNTS.search(wording) is not None


def _problems(wording: Wording, material: Material, *, rounds: bool) -> Iterator[UnsupportedStatement]:
    for link in take_links(wording):
        if not material.holds_token(link):
            yield UnsupportedStatement("link", link)
    moments = []
    for found in [*moments_in(wording.rest)]:
        if found.doubtful and not any(map(material.holds_day, found.days)):
            continue  # and read as a number
        said = wording.shown[found.start : found.end]
        if not material.holds_moment(found, said.lower()):
            yield UnsupportedStatement("date", said)
        wording.blank(found.start, found.end)
        moments.append(found)
    names = NameCheck(wording, material)
    yield from (UnsupportedStatement("name", words) for words in names.with_digits())
    numbers = [*numbers_stated(wording, longest_list=material.longest_list, rounds=rounds)]
    for number in numbers:
        if not material.holds_number(number):
            yield UnsupportedStatement("number", wording.shown[number.start : number.end])
    yield from (UnsupportedStatement("name", words) for words in names.in_words())
    if material.records:
        yield from misattributed(wording, material.records, numbers, moments)
