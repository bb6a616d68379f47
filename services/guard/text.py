# ruff: noqa: RUF001 - look-alikes are what this module is about
"""A question as the checks read it: one spelling for what looks, sounds or is typed alike."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

# Letters of other scripts that look like Latin ones (Unicode's confusables, UTS #39), kept to what a Latin word can be
# spelt with, and the many forms of quotes and hyphens.
_LOOK_ALIKES: Final = {
    "a": "аαɑᴀ", "b": "вьβʙ", "c": "сᴄⅽ", "d": "ԁᴅđ", "e": "еёεᴇє", "f": "ꜰƒ", "g": "ɡɢԍ", "h": "нһհʜħ",
    "i": "іїıιɩɪ", "j": "јȷյᴊ", "k": "кκᴋ", "l": "ӏʟł", "m": "мᴍ", "n": "пηոռɴ", "o": "оοօσᴏø", "p": "рρᴘ",
    "q": "ԛզ", "r": "гʀ", "s": "ѕꜱſ", "t": "тτᴛ", "u": "υսᴜʋ", "v": "νѵᴠ", "w": "ԝωᴡ", "x": "хχ", "y": "уүγʏ", "z": "ᴢ",
    "A": "АΑ", "B": "ВΒ", "C": "С", "E": "ЕЁΕ", "H": "НΗ", "I": "ІЇΙӀ", "J": "Ј", "K": "КΚ", "M": "МΜ", "N": "Ν",
    "O": "ОΟՕ", "P": "РΡ", "Q": "Ԛ", "S": "ЅՍ", "T": "ТΤ", "W": "Ԝ", "X": "ХΧ", "Y": "УҮΥ", "Z": "Ζ",
    "'": "\u2018\u2019\u201a\u201b\u02bc\u02b9\u2032`\u00b4",
    '"': "\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033",
    "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2212",
}  # fmt: skip
_FOLD = str.maketrans({form: plain for plain, forms in _LOOK_ALIKES.items() for form in forms})
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_LETTER_BY_LETTER = re.compile(r"(?<![^\W_])(?:[^\W_][\s._*-]+){3,}[^\W_](?![^\W_])")
_LEET = str.maketrans("013457", "oieast")
_MIXED = re.compile(r"\b(?=\w*[a-z])(?=\w*\d)\w+\b")

# Scripts that write words without spaces between them.
UNSPACED: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_SCRIPT_BORDER = re.compile(
    r"(?<=[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af])(?=[0-9a-z])|(?<=[0-9a-z])(?=[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af])"
)
# Runs that no word and no punctuation needs; patterns that look for an end try a run from each of its characters.
_LONG_WORD = re.compile(r"(\w{48})(?=\w)")
_LONG_SIGNS = re.compile(r"([\W_]{8})[\W_]+")
# Characters that stand for phrases and long names of units: up to eighteen others, so that a short text would cost as
# much as a long one. They are no part of what the checks look for. What comes of them is not cut instead, since a
# question could hide behind it.
_LONGEST_FORM = 4
_PHRASES = [
    character
    for character in map(chr, (*range(0x3300, 0x3400), 0xFDFA, 0xFDFB))
    if len(unicodedata.normalize("NFKC", character)) > _LONGEST_FORM
]
_PHRASE = re.compile(f"[{''.join(_PHRASES)}]")
# What stands between the pieces of a name that is put together: 'ad' || 'min', ad/**/min, ad-min.
_TIE = re.compile(r"(?<=\w)(?:/\*.{0,40}?\*/|['\"]?\s?(?:\|\||\+)\s?['\"]?|[-._/\\^*~=|]+)(?=\w)")

_SMALL = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_NUMBERS = {word: number for number, word in enumerate(_SMALL)}
_TENS = {
    word: 10 * number
    for number, word in enumerate(("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"), 2)
}
_NUMBER_WORDS = re.compile(
    rf"\b(?:(?P<tens>{'|'.join(_TENS)})(?:[\s-]+(?P<unit>{'|'.join(_SMALL[1:10])}))?|(?P<small>{'|'.join(_SMALL)}))\b"
)


def plain_text(text: str) -> str:
    """Folds what is only typography: compatibility forms, invisible characters, accents, look-alikes, case, camels."""
    bounded = _PHRASE.sub(" ", text)
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", bounded))
    visible = "".join(_visible(character) for character in decomposed)
    latin = unicodedata.normalize("NFKC", visible).translate(_FOLD)
    words = " ".join(_SCRIPT_BORDER.sub(" ", _CAMEL.sub(" ", latin).casefold().translate(_FOLD)).split())
    return _LONG_WORD.sub(r"\1 ", _LONG_SIGNS.sub(r"\1 ", words))


def plain_words(text: str) -> str:
    """Words of a plain text with single spaces between them; underscores and punctuation part words."""
    return " ".join(re.findall(r"[^\W_]+", text))


def joined_letters(text: str) -> str:
    """Closes up words that are spelt letter by letter: `a d m i n`."""
    return _LETTER_BY_LETTER.sub(lambda spelt: re.sub(r"[\W_]", "", spelt[0]), text)


def joined_pieces(text: str) -> str:
    """Closes up words whose pieces a comment, an operator or a sign parts: `ad/**/min`, `'ad' || 'min'`."""
    return _TIE.sub("", text)


def letters_for_digits(text: str) -> str:
    """Reads digits inside words as the letters they stand for: `adm1n`."""
    return _MIXED.sub(lambda word: word[0].translate(_LEET), text)


def digits_for_words(text: str) -> str:
    """Writes numbers up to ninety-nine in digits."""
    return _NUMBER_WORDS.sub(_in_digits, text)


def _visible(character: str) -> str:
    """Drops format characters and accents; turns any script's digit into its ASCII twin and controls into spaces."""
    category = unicodedata.category(character)
    if category in {"Cf", "Mn", "Me"} or character in "\u115f\u1160\u3164\uffa0":
        return ""
    if category == "Cc":
        return " "
    return str(unicodedata.decimal(character)) if category == "Nd" else character


def _in_digits(match: re.Match[str]) -> str:
    if match["small"]:
        return str(_NUMBERS[match["small"]])
    return str(_TENS[match["tens"]] + (_NUMBERS[match["unit"]] if match["unit"] else 0))
