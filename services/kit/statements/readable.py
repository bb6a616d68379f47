"""A text as a reader sees it, and its words without what case, number and language add to them."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

NAME: Final = re.compile(r"[^\W\d_][\w\u2019'-]*")
WORD: Final = re.compile(r"[^\W_]+")
POSSESSIVE: Final = r"['\u2019]s?$"
MARKS: Final = "*_`'\"()\u201c\u201d\u201e\u00ab\u00bb"
# A point that is written so that no program takes it for one, as readers are used to.
_POINT: Final = re.compile(
    r"(?<=\w)(?:\s?[\[({]\s?(?:\.|dot|punkt|punto)\s?[\])}]\s?(?=\w)"
    r"|\s(?:dot|\.)\s(?=(?:app|com|de|dev|es|eu|info|io|net|org)\b))",
    re.IGNORECASE,
)
_ENGLISH_TEXT: Final = """
the is are and of in has have had you your with for there that this to on by from it was were at which
"""
_ENGLISH: Final = frozenset(_ENGLISH_TEXT.split())
_GERMAN_TEXT: Final = """
der das und ist sind eine ein mit für von im den dem hat haben ihre nicht es gibt wurde auf zu liegt beträgt insgesamt
sie ihr höchste keine am aus bei wird
"""
_GERMAN: Final = frozenset(_GERMAN_TEXT.split())
_SPANISH_TEXT: Final = """
el la los las y es son de en con tiene tienen su sus hay que por un una del fue más tienes usted según está están al
lo tu tus mi mis desde hasta cada
"""
_SPANISH: Final = frozenset(_SPANISH_TEXT.split())
# What has a capital, begins a sentence or heads a column, and is no name.
_OTHER_TEXT: Final = """
i i'm i've id ids sql csv json utc gmt cet null n/a na ok celsius fahrenheit kelvin volt volts watt watts hertz pascal
usd eur mr mrs ms postgres postgresql url ip api am pm yes no true false data table total note english german spanish
these those its he she they we our my all each every both none some any most many here nothing everything everyone
nobody what who average mean median sum maximum max minimum min highest lowest number count result results answer
value values range latest earliest newest oldest first last status name time day date unit question query row rows
column per a an anzahl gesamt summe durchschnitt mittelwert wert werte ergebnis niedrigste höchste höchster
niedrigster größte kleinste zeit tag datum und der die das promedio máximo mínimo número resultado valor fecha ja nein
unknown ustedes tú du sie ihr wir
"""
NO_NAMES: Final = _ENGLISH | _SPANISH | frozenset(_OTHER_TEXT.split())


def shown(text: str) -> str:
    """Returns a text as a reader sees it: without what is not shown, and with digits and letters of one form."""
    text = _POINT.sub(".", text)
    if text.isascii():
        return text
    plain_text = unicodedata.normalize("NFKC", text.replace("²", "2").replace("³", "3"))
    return "".join(each for each in plain_text if unicodedata.category(each) != "Cf")


def plain(text: str) -> str:
    """Returns a text as a reader sees it, in lower case where that changes no place in it."""
    seen = shown(text)
    lower = seen.lower()
    return lower if len(lower) == len(seen) else seen


def stem(word: str) -> str:
    """Returns a word without what its number or case adds to it, in any of the three languages."""
    bare = re.sub(POSSESSIVE, "", word)
    return re.sub(r"(?:es|en|er|e|s|n)$", "", bare) if len(bare) > 4 else bare.rstrip("s") if len(bare) > 2 else bare


def stems(text: str) -> tuple[str, ...]:
    """Returns the words of a text, which is in lower case."""
    return tuple(map(stem, WORD.findall(text)))


class UnsupportedStatement(NamedTuple):
    """What of a wording does not stand in the material: its kind (number, date, name, link) and the words."""

    kind: str
    words: str


class Wording:
    """A wording that is looked at step by step: what one has read, the next does not see in `rest`."""

    def __init__(self, text: str) -> None:
        # Of more blanks than one none says anything, and expressions read them from each place within.
        lines = (" ".join(line.split()) for line in shown(text).splitlines())
        self.shown = shown("\n".join(filter(None, lines)))
        lower = self.shown.lower()
        self.lower = lower if len(lower) == len(self.shown) else self.shown
        self.rest = self.lower
        words = Counter(WORD.findall(self.rest))
        english, german, spanish = (sum(words[each] for each in of) for of in (_ENGLISH, _GERMAN, _SPANISH))
        # Whether a comma parts thousands.
        self.is_english = english > german + spanish
        # Whether few words but names have capitals.
        self.has_names_in_capitals = english + spanish > german

    def blank(self, start: int, end: int) -> None:
        """Takes out what was read."""
        self.rest = self.rest[:start] + " " * (end - start) + self.rest[end:]

    def said(self, match: re.Match[str]) -> str:
        """Returns what was found in `rest` as it was written."""
        return self.shown[match.start() : match.end()]

    def sentences(self) -> Iterator[tuple[int, int]]:
        """Yields where sentences, and lines, begin and end."""
        start = 0
        for match in re.finditer(r"[.!?;](?=[\s\"'”)*_]|$)|\n", self.shown):
            yield start, match.start()
            start = match.end()
        yield start, len(self.shown)
