"""Finds restricted tables in a question, however they are spelt.

A name of several words (`user_device_assignment`) is the table wherever its words stand together. A name of one
ordinary word (`admin`) is the table when it stands for itself or in front of a word for data ("the admin table", "admin
emails", "list the admins", `public.admin`), and is not when it qualifies another noun ("the admin deck"): such a
question goes on to the model, and the executor refuses the table in any case.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from services.guard.text import joined_letters, joined_pieces, letters_for_digits, plain_text, plain_words

# After a one-word name these show that the name itself was meant: words that end its phrase …
_CLOSING = (
    "a about after all also am an and are as at be before but by did do does else except for from group had has have "
    "having how i if in into is it join left limit me my no not now of on only or order out per please so such than "
    "that the their then there these this those to too union until up use using was we were what when where which who "
    "whose why will with within without you your"
)
# … and words for what a table holds.
_DATA = (
    "access account accounts api columns contents count credential credentials data database details dump email emails "
    "entries entry field fields hash hashes id ids info information key keys list login logins name names note notes "
    "passwd password passwords people permission permissions privileges record records relation right rights role "
    "roles row rows schema secret secrets table tables token tokens user users username usernames value values view"
)
_DATA_WORDS = frozenset(_DATA.split())
_AFTER = _DATA_WORDS.union(_CLOSING.split())
_BEFORE = frozenset(("from", "join", "table", "tables", "relation", "into", "update", "public"))
# How a thing's name is spelt may be asked, of things that are nobody's login.
_SPELT = frozenset(["start", "starts", "starting", "begin", "begins", "beginning", "end", "ends", "ending"])
_NAMED_THINGS = frozenset(["device", "devices", "sensor", "sensors", "gateway", "gateways", "ship", "ships"])
_CALLED = frozenset(("name", "names"))
_TABLES_TOO = _DATA_WORDS - {"name", "names", "list"} | {"accounts", "people", "operators", "owners", "admins"}


class RestrictedTables:
    """The tables that nobody may ask about."""

    def __init__(self, names: Sequence[str]) -> None:
        spelt = [plain_words(plain_text(name)) for name in names]
        self._phrases = [_phrase(name.split()) for name in spelt if " " in name]
        self._words = [name for name in spelt if " " not in name]
        self._quoted = [re.compile(_QUOTED.format(name=re.escape(name))) for name in self._words]

    def named_in(self, text: str) -> bool:
        """Says whether a plain text names one of the tables."""
        joined = joined_letters(text)
        for reading in dict.fromkeys((text, joined, letters_for_digits(joined), joined_pieces(text))):
            words = plain_words(reading)
            if any(phrase.search(words) for phrase in self._phrases):
                return True
            if any(pattern.search(reading) for pattern in self._quoted):
                return True
            if any(_stands_for_itself(name, words.split()) for name in self._words):
                return True
        return False


# "admin", 'admin', [admin], public.admin, admin.login, admin_id, admin's
_QUOTED = r"[\"'\[.]\s*{name}\s*[\"'\].]|\b\w+\.{name}\b|\b{name}(?:\.|_|'s\b)\s?\w|\b{name}\s*[*;(]"


def _phrase(words: Sequence[str]) -> re.Pattern[str]:
    """The words together, each in singular or plural, also run together or tied by `to`, `and`, `of`."""
    tie = r"\s?(?:(?:to|and|of|the|s)\s)?"
    return re.compile(r"\b" + tie.join(f"{re.escape(word)}(?:e?s)?" for word in words) + r"\b")


def _stands_for_itself(name: str, words: Sequence[str]) -> bool:
    for index, word in enumerate(words):
        if word in {f"{name}s", f"{name}es"}:
            return True
        if word != name or _is_part_of_a_name(words, index):
            continue
        before = words[index - 1] if index else ""
        after = words[index + 1] if index + 1 < len(words) else ""
        if not after or after in _AFTER or before in _BEFORE:
            return True
    return False


def _is_part_of_a_name(words: Sequence[str], index: int) -> bool:
    """Whether it says how a thing is called: "devices whose name starts with admin"."""
    if words[index - 1 : index] != ["with"] or not _SPELT.intersection(words[max(index - 2, 0) : index]):
        return False
    before, around = set(words[:index]), {*words[:index], *words[index + 1 :]}
    return bool(before & _NAMED_THINGS and before & _CALLED) and around.isdisjoint(_TABLES_TOO)
