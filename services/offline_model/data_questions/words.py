"""Words of a question, brought to a common form so that two ways of asking the same look alike.

The words of every world are here; those of one world are its vocabulary.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from services.offline_model.vocabulary import Vocabulary


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Words that say nothing about what is asked.
_STOP = _listed(
    """
    a an the of in on at to for from by with without within into out up about since is are was were be been am do does
    did has have had having me my mine our i we you your it its this that these those there their they and or but as
    please can could would will all any some only just too very really currently now right present moment tell want see
    know need across what which who when where whose whom how also so than then still not value data degree degrees
    celsius hpa got whats whose anything
    """
)
# Different words for one thing; several words become one first.
_PHRASES = (
    (re.compile(r"\b(?:how many|(?:total |the )?(?:number|count|amount) of)\b"), " count "),
    (re.compile(r"\b(?:most recent|newest|latest|most recently)\b"), " latest "),
    (re.compile(r"\b(?:(?:grouped|split|broken down|sorted|ordered) )?by\b"), " per "),
    (re.compile(r"\b(?:in total|in all|on average(?= of))\b"), " "),
    (re.compile(r"\bdaily\b"), " per day "),
    (re.compile(r"\bhourly\b"), " per hour "),
)
_SYNONYMS = {
    **dict.fromkeys(_listed("show list display give find get return fetch print name enumerate"), ""),
    **dict.fromkeys(_listed("average mean avg"), "average"),
    **dict.fromkeys(_listed("maximum max highest greatest largest biggest strongest most"), "most"),
    **dict.fromkeys(_listed("minimum min lowest smallest least weakest fewest"), "least"),
    **dict.fromkeys(_listed("per each every"), "per"),
    **dict.fromkeys(_listed("oldest earliest"), "earliest"),
    **dict.fromkeys(_listed("belong assigned own owned belonging"), "own"),
    "counted": "count",
    "counting": "count",
    "total": "sum",
}
# Words that ask for nothing more.
NEUTRAL = _listed(
    """
    work works working run running carry carries came come report sent
    overview summary quick quickly thank thanks hello hi hey here there altogether exactly actually overall
    """
)
# Words that are as they should be, whatever a question is about.
KNOWN = frozenset((*_STOP, *_SYNONYMS, *NEUTRAL)) | _listed(
    """
    count number amount total hour day week month year last past previous above below under over between before after
    since more less fewer higher lower greater smaller larger bigger equal exactly exceed exceeded percent first bottom
    those these other others except without never neither either versus than daily hourly recent newest
    yesterday today tomorrow low high user users table installed built recorded ever state ago during grouped sorted
    three seven eight
    """
)
_WORD = re.compile(r"[^\W\d_]+")


def stem(word: str) -> str:
    """Drops the ending of a plural."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 3 and word.endswith(("sses", "shes", "ches", "xes")):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def row_words(tables: Iterable[str], vocabulary: Vocabulary) -> dict[str, str]:
    """Maps tables to what one row of them is called: those that the vocabulary lists first, in its order."""
    found = dict.fromkeys(tables, "")
    listed = {table: row for table, row in vocabulary.rows.items() if table in found}
    return {**listed, **{table: stem(table.split("_")[-1]) for table in found if table not in listed}}


def plain_words(text: str) -> list[str]:
    """Stemmed words of a text in order, synonyms and stop words untouched."""
    return ["a" if word == "an" else stem(word) for word in _WORD.findall(text.lower())]


def content_words(text: str, vocabulary: Vocabulary) -> list[str]:
    """The words that say what is asked, in their common form, in order."""
    text = text.lower().replace("'s", " ").replace("\N{RIGHT SINGLE QUOTATION MARK}s", " ")
    for pattern, replacement in _PHRASES:
        text = pattern.sub(replacement, text)
    for phrase, meaning in vocabulary.phrases.items():
        text = re.sub(rf"\b{re.escape(phrase)}\b", f" {meaning} ", text)
    found: list[str] = []
    for word in _WORD.findall(text):
        if word in _STOP:
            continue
        found.extend(_common(word, vocabulary).split())
    return found


def _common(word: str, vocabulary: Vocabulary) -> str:
    for form in (word, stem(word)):
        if (meaning := vocabulary.meanings.get(form, _SYNONYMS.get(form))) is not None:
            return meaning
    return stem(word)


def column_words(columns: Iterable[str], vocabulary: Vocabulary) -> dict[str, str]:
    """Maps a question's word to the column it names: the column's own name, or its telling part."""
    mapping: dict[str, str] = {}
    for column in columns:
        parts = [part for part in column.lower().split("_") if part not in _GENERIC_PARTS]
        if column.lower().endswith(("_id", "_at")) or len(parts) != 1:
            continue
        mapping.setdefault(_common(parts[0], vocabulary), column.lower())
    return mapping


_GENERIC_PARTS = _listed("level value pct percent current c name id kind status")
