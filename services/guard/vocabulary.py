"""Questions in other languages, brought to the English words that the checks look for; everything else stays."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from services.guard.text import UNSPACED, plain_text

# Vowel signs of Indian scripts are no letters to `\w`.
_WORD = re.compile(r"[^\W_](?:[^\W_]|[\u0900-\u0dff])*")
_STEM_LEAST, _STEM_MOST = 3, 20
# Verbs that follow what they are about: Japanese, Korean and Turkish put "the instructions" before "ignore".
_PHRASES = {
    "tu so": "pretend", "tun wir so": "pretend", "fais comme si": "pretend", "faites comme si": "pretend",
    "fai finta": "pretend", "haz como si": "pretend", "finge que": "pretend", "faz de conta": "pretend",
    "doe alsof": "pretend", "ich bin": "i am", "je suis": "i am", "yo soy": "i am", "ahora soy": "i am",
    "sono l": "i am the", "io sono": "i am", "eu sou": "i am", "ik ben": "i am", "jestem": "i am",
    "jag ar": "i am", "أنا": "i am",
    "actua como": "act as", "actue como": "act as", "agis comme": "act as", "agisci come": "act as",
    "handle als": "act as", "antworte als": "answer as", "yok say": "ignored", "gormezden gel": "ignored",
    "mot de passe": "passwords", "mots de passe": "passwords",
}  # fmt: skip
# "I am", with a "now" between the words or none, in scripts without spaces.
_I_AM = re.compile(r"我\w{0,3}是|私\w{0,3}は|나\w?는")


def in_english(text: str) -> str:
    """Returns a plain text with the words of the vocabulary in English, at a cost that grows with its length."""
    spaced = _unspaced().sub(lambda found: f" {_words()[0][found[0]]} ", _I_AM.sub(" i am ", text))
    phrased = _phrases().sub(lambda found: _plain_phrases()[found[0]], spaced)
    return " ".join(_WORD.sub(_translated, phrased).split())


def _translated(match: re.Match[str]) -> str:
    word = match[0]
    whole, stems = _words()
    if word in whole:
        return whole[word]
    for length in range(min(len(word), _STEM_MOST), _STEM_LEAST - 1, -1):
        if word[:length] in stems:
            return stems[word[:length]]
    return word


@cache
def _words() -> tuple[dict[str, str], dict[str, str]]:
    """The vocabulary as plain text spells it: whole words, and stems."""
    whole: dict[str, str] = {}
    stems: dict[str, str] = {}
    for line in files(__package__).joinpath("vocabulary.txt").read_text(encoding="utf-8").splitlines():
        english, _, foreign = line.partition(":")
        if line.startswith("#") or not foreign:
            continue
        for word in foreign.split():
            spelt = plain_text(word.rstrip("*"))
            (stems if word.endswith("*") else whole).setdefault(spelt, english)
    return whole, stems


@cache
def _unspaced() -> re.Pattern[str]:
    """The words that are found inside others, the longest first."""
    found = sorted((word for word in _words()[0] if UNSPACED.search(word)), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, found)))


@cache
def _plain_phrases() -> dict[str, str]:
    return {plain_text(phrase): english for phrase, english in _PHRASES.items()}


@cache
def _phrases() -> re.Pattern[str]:
    return re.compile(r"\b(?:" + "|".join(map(re.escape, _plain_phrases())) + r")\b")
