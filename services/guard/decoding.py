"""What a question says once its encodings are undone: a question that hides behind one is still that question."""

from __future__ import annotations

import base64
import codecs
import html
import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Final
from urllib.parse import unquote

# A longer question is not read backwards or by another alphabet: that is the model's to see through.
_LONGEST_RIDDLE = 1000
# Two of these, and a text read backwards or by another alphabet was meant to be.
_WORDS = (
    "a account admin all and answer are as been customer data device devices do does every everyone from get give has "
    "have how id ignore in instructions is it list many me measured my not number of on people previous readings rules "
    "select sensors show table tables tell that the their these this to user users was were what where which who with"
)
_TELLING = frozenset(_WORDS.split())
# A run holds at least eight letters of text; shorter ones are words.
_RUNS: Final[tuple[tuple[re.Pattern[str], Callable[[str], bytes]], ...]] = (
    (re.compile(r"(?<![0-9A-Za-z])(?:0x)?((?:[0-9A-Fa-f]{2}){8,1000})(?![0-9A-Za-z])"), bytes.fromhex),
    (re.compile(r"(?<![A-Z2-7a-z0-9])([A-Z2-7]{16,2000}={0,6})(?![A-Za-z0-9])"), lambda run: _b32(run)),
    (re.compile(r"(?<![\w+/-])([A-Za-z0-9+/_-]{12,2000}={0,2})(?![\w+/=-])"), lambda run: _b64(run)),
)
_ESCAPE = re.compile(
    r"\\u\{?([0-9A-Fa-f]{2,6})\}?|\\U([0-9A-Fa-f]{8})|\\x([0-9A-Fa-f]{2})|\\\+([0-9A-Fa-f]{6})|\\([0-9A-Fa-f]{4})"
)
_CHR = re.compile(r"\b(?:chr|char|nchar)\s{0,4}\(\s{0,4}(\d{1,6})\s{0,4}\)", re.IGNORECASE)
_SQL_TIE = re.compile(r"['\"]?\s{0,4}(?:\|\||\+)\s{0,4}['\"]?")
_LETTERS_APART = re.compile(r"(?<!\S)(?:\S ){3,}\S(?!\S)")
_WIDE_GAP = re.compile(r"\s{2,}")
_TAGGED = re.compile("[\U000e0020-\U000e007e]+")
_TAGS = {number: chr(number - 0xE0000) for number in range(0xE0020, 0xE007F)}


def readings(question: str) -> list[str]:
    """Returns the question and what it says decoded, each once: at most seven, none much longer than the question."""
    return list(dict.fromkeys(reading for reading in _decoded(question) if reading))


def _decoded(question: str) -> Iterator[str]:
    yield question
    written = _unescaped(question)
    yield written
    meant = _unhidden(written)
    yield meant
    yield _unhidden(meant)
    if len(written) <= _LONGEST_RIDDLE:
        yield from filter(_reads_like_a_question, (written[::-1], codecs.encode(written, "rot13")))
    if _WIDE_GAP.search(written):
        yield _LETTERS_APART.sub(lambda spelt: spelt[0].replace(" ", ""), _WIDE_GAP.sub("  ", written))


def _unescaped(text: str) -> str:
    """Undoes percent signs, character references, escapes, `chr(…)` and tag characters, twice where they are nested."""
    for _ in range(2):
        before = text
        text = _TAGGED.sub(lambda run: f" {run[0].translate(_TAGS)} ", text)
        if "%" in text:
            text = unquote(text, errors="replace")
        if "&" in text:
            text = html.unescape(text)
        text = _ESCAPE.sub(_escaped, text)
        if _CHR.search(text):
            text = _SQL_TIE.sub("", _CHR.sub(lambda call: _character(int(call[1])), text))
        if text == before:
            break
    return text


def _escaped(match: re.Match[str]) -> str:
    return _character(int(next(group for group in match.groups() if group), 16))


def _character(number: int) -> str:
    return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else "?"


def _unhidden(text: str) -> str:
    """Puts what runs of the usual alphabets stand for in their place, where that is text."""
    for pattern, decode in _RUNS:
        text = pattern.sub(lambda run, decode=decode: _meant(run, decode), text)  # type: ignore[misc]
    return text


def _meant(run: re.Match[str], decode: Callable[[str], bytes]) -> str:
    try:
        meant = decode(run[1]).decode("utf-8")
    except ValueError:  # binascii's own error is one
        return run[0]
    return f" {meant} " if _reads_like_text(meant) else run[0]


def _b64(run: str) -> bytes:
    plain = run.rstrip("=").replace("-", "+").replace("_", "/")
    return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)


def _b32(run: str) -> bytes:
    plain = run.rstrip("=")
    return base64.b32decode(plain + "=" * (-len(plain) % 8))


def _reads_like_a_question(riddle: str) -> bool:
    return len(_TELLING.intersection(re.findall(r"[a-z]+", riddle.lower()))) > 1


def _reads_like_text(meant: str) -> bool:
    return all(unicodedata.category(character)[0] != "C" or character in "\t\r\n" for character in meant)
