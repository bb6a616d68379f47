"""Numbers that are written in words, in English, German and Spanish."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

# `one`, `ein` and `uno` are articles and pronouns as well, and count within a longer number alone; `null` is no value,
# and `once` a word of English.
_SMALL: Final = {
    "zero": 0, "cero": 0, "two": 2, "zwei": 2, "zwo": 2, "dos": 2, "three": 3, "drei": 3, "tres": 3, "four": 4,
    "vier": 4, "cuatro": 4, "five": 5, "fünf": 5, "cinco": 5, "six": 6, "sechs": 6, "seis": 6, "seven": 7,
    "sieben": 7, "siete": 7, "eight": 8, "acht": 8, "ocho": 8, "nine": 9, "neun": 9, "nueve": 9, "ten": 10,
    "zehn": 10, "diez": 10, "eleven": 11, "elf": 11, "twelve": 12, "zwölf": 12, "doce": 12, "dozen": 12,
    "dutzend": 12, "docena": 12, "thirteen": 13, "dreizehn": 13, "trece": 13, "fourteen": 14, "vierzehn": 14,
    "catorce": 14, "fifteen": 15, "fünfzehn": 15, "quince": 15, "sixteen": 16, "sechzehn": 16, "dieciséis": 16,
    "seventeen": 17, "siebzehn": 17, "diecisiete": 17, "eighteen": 18, "achtzehn": 18, "dieciocho": 18,
    "nineteen": 19, "neunzehn": 19, "diecinueve": 19, "twenty": 20, "zwanzig": 20, "veinte": 20, "veintiún": 21,
    "veintiuno": 21, "veintidós": 22, "veintitrés": 23, "veinticuatro": 24, "veinticinco": 25, "veintiséis": 26,
    "veintisiete": 27, "veintiocho": 28, "veintinueve": 29, "thirty": 30, "dreißig": 30, "treinta": 30, "forty": 40,
    "vierzig": 40, "cuarenta": 40, "fifty": 50, "fünfzig": 50, "cincuenta": 50, "sixty": 60, "sechzig": 60,
    "sesenta": 60, "seventy": 70, "siebzig": 70, "setenta": 70, "eighty": 80, "achtzig": 80, "ochenta": 80,
    "ninety": 90, "neunzig": 90, "noventa": 90, "doscientos": 200, "trescientos": 300, "cuatrocientos": 400,
    "quinientos": 500, "seiscientos": 600, "setecientos": 700, "ochocientos": 800, "novecientos": 900,
}  # fmt: skip
_ONES: Final = {"one": 1, "a": 1, "an": 1, "ein": 1, "eine": 1, "eins": 1, "uno": 1, "un": 1, "una": 1}
SCALES: Final = {
    "hundred": 100, "hundert": 100, "cien": 100, "ciento": 100, "thousand": 1000, "tausend": 1000, "mil": 1000,
    "million": 10**6, "millionen": 10**6, "millón": 10**6, "millones": 10**6, "billion": 10**9,
    "milliarde": 10**9, "milliarden": 10**9,
}  # fmt: skip
_SHORTEST_COMPOUND, _LONGEST_COMPOUND = 6, 80
_JOINS: Final = frozenset({"and", "und", "y"})
_WORD: Final = re.compile(r"[^\W\d_]+")
_GERMAN: Final = sorted(
    [word for word in (*_SMALL, *_ONES, "und", "hundert", "tausend") if re.fullmatch(r"[a-zäöüß]+", word)],
    key=len,
    reverse=True,
)
_GERMAN_PARTS: Final = re.compile("|".join(_GERMAN))
_SPELT: Final = str.maketrans({"á": "a", "é": "e", "í": "i", "ó": "o", "ú": "u"})
_FEMININE: Final = {f"{word[:-2]}as": value for word, value in _SMALL.items() if word.endswith("ientos")}
_FORMS: Final = {**_SMALL, **_FEMININE, "veintiuna": 21}
_KNOWN: Final = {**_FORMS, **{word.translate(_SPELT): value for word, value in _FORMS.items()}}


class WrittenNumber(NamedTuple):
    """A number in words, and where it stands."""

    value: int
    start: int
    end: int


def numbers_in_words(text: str) -> Iterator[WrittenNumber]:
    """Yields the numbers that a text writes in words; `text` is in lower case."""
    number = _Number()
    start, end = 0, 0
    for match in _WORD.finditer(text):
        if text[end : match.start()].strip(" ") not in ("", "-"):
            yield from (WrittenNumber(value, start, end) for value in number.end())
        start = start if number.is_begun else match.start()
        for word in _parts(match[0]):
            for value in number.read(word):
                yield WrittenNumber(value, start, end)
                start = match.start()
        end = match.end()
    yield from (WrittenNumber(value, start, end) for value in number.end())


def _parts(word: str) -> list[str]:
    """Returns the words that a German number is written together from, tens before ones, or the word itself."""
    found = _GERMAN_PARTS.findall(word) if _SHORTEST_COMPOUND < len(word) < _LONGEST_COMPOUND else []
    if word in _KNOWN or len(found) < 2 or "".join(found) != word:
        return [word]
    while "und" in found[1:-1]:
        at = found.index("und", 1)
        found[at - 1 : at + 2] = [found[at + 1], found[at - 1]]
    return found


class _Number:
    """A number that is being read, word by word."""

    def __init__(self) -> None:
        self._total, self._part, self._said = 0, 0, False

    @property
    def is_begun(self) -> bool:
        """Whether a word of it was read."""
        return self._said or self._part > 0

    def read(self, word: str) -> Iterator[int]:
        """Takes a word in; yields the number before it, if it does not go on with that."""
        if word in _JOINS and (self._part or self._total):
            return
        value = _KNOWN.get(word, _ONES.get(word))
        if value is not None:
            if not self._goes_on_with(value):
                yield from self.end()
            self._part += value
            self._said = self._said or word in _KNOWN
        elif word in SCALES:
            self._scale(SCALES[word])
        else:
            yield from self.end()

    def end(self) -> Iterator[int]:
        """Yields the number, if there is one, and begins anew."""
        if self._said:
            yield self._total + self._part
        self._total, self._part, self._said = 0, 0, False

    def _goes_on_with(self, value: int) -> bool:
        tens = self._part % 100
        return tens == 0 or (tens >= 20 and tens % 10 == 0 and 0 < value < 10)

    def _scale(self, scale: int) -> None:
        self._part = max(1, self._part) * scale
        if scale > 100:
            self._total, self._part = self._total + self._part, 0
        self._said = True
