"""Finds people in a question: by title and name, by given name, or by what they are to whoever asks.

A name is a person's where something is theirs ("Anna's devices", "readings of Maria Petrov") and not where it names a
thing ("Port Anna", "the Maria Stella"). About somebody who only wants to know ("my boss wants a report"), or for whom
something is made ("a summary for my colleagues"), nothing is asked, as long as no "his" or "they" comes back to them.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from services.guard.text import plain_text

_TITLE_AND_NAME = (
    r"\b(?:Mr|Mrs|Ms|Miss|Sir|Madam|Mister|Captain|Dr|Prof|Herrn?|Frau|Señora?|Sra?|Monsieur|Mme|Madame|Signora?|Sig|Pan|Pani)"
    r"\b\.?\s+[A-ZÀ-Þ][a-zà-ÿ]+"
)
_TITLED = re.compile(_TITLE_AND_NAME)
_HONOURED = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff](?:さん|さま|様|ちゃん|くん|先生)|[\uac00-\ud7af](?:씨|님)(?![\uac00-\ud7af])|(?:先生|女士)的"
)
_RELATIVES = (
    r"(?:wife|husband|spouse|partner|brothers?|sisters?|mother|father|mom|mum|dad|parents?|sons?|daughters?|kids?"
    r"|child(?:ren)?|uncle|aunt|cousins?|grandmother|grandfather|ex|girlfriend|boyfriend|fiance|roommates?|flatmates?"
    r"|landlord|landlady|tenants?|colleagues?|co-?\s?workers?|boss|manager|supervisor|team\s?mates?|neighbou?rs?|friends?"
    r"|predecessors?|competitors?|customers?|clients?)"
)
_MY_RELATIVE = rf"my\s+(?:\w+\s+)?{_RELATIVES}\b"
_KNOWN = re.compile(rf"\b{_MY_RELATIVE}(?!-)|\bnext\s+door\b|\b(?:the|our)\s+neighbou?rs?(?:\b|')|\bneighbou?r'?s'?\s")
_WORD = r"[^\W\d_]+"
_THINGS = (
    r"(?:devices?|sensors?|thermostats?|gateways?|meters?|readings?|data|measurements?|batter(?:y|ies)|temperatures?"
    r"|humidity|cabins?|boats?|ships?|locations?|rooms?|house|home|heating|accounts?|rows?|records?|things?|e-?mails?)"
)
_ASKS = (
    r"\s+(?:(?:also|just|really|has|have|had|is|are|was|were)\s+){0,2}(?:wants?|wanted|would\s+like|needs?|needed"
    r"|ask(?:s|ed|ing)?|request(?:s|ed|ing)?|requires?|required|wonder(?:s|ed|ing)?|expects?|expected)\b"
)
_MADE_FOR = (
    r"\b(?:summary|report|overview|chart|graph|plot|presentation|slides?|spreadsheet|export|file|copy|note|memo)"
    r"\s+for\s+"
)
_NOT_OF_THEIRS = rf"(?!['\w]|\s+(?:(?!(?:of|on|about|with|from|in)\b)\w+\s+)?{_THINGS}\b)"
# After these somebody who asks is also somebody to whom something belongs: "the devices of my boss asked".
_AFTER = "".join(
    rf"(?<!\b{word} )"
    for word in ("of", "by", "to", "from", "for", "at", "and", "or", "do", "does", "did", "has", "have", "what", "how")
)
_MERELY_ASKING = re.compile(rf"{_AFTER}\b{_MY_RELATIVE}{_ASKS}|{_MADE_FOR}{_MY_RELATIVE}{_NOT_OF_THEIRS}")
_TITLED_AND_ASKING = re.compile(
    rf"(?:^|[.,;:!?(]\s{{0,4}}|\b(?:because|since|but|so|if)\s){_TITLE_AND_NAME}(?:\s[A-ZÀ-Þ][a-zà-ÿ]+)?{_ASKS}"
    rf"|{_MADE_FOR}{_TITLE_AND_NAME}(?:\s[A-ZÀ-Þ][a-zà-ÿ]+)?{_NOT_OF_THEIRS}",
    re.MULTILINE,
)
_COMES_BACK = re.compile(r"\b(?:his|hers?|theirs?|he|she|they|him|whose|own)\b", re.IGNORECASE)
# What precedes a name that is a place's or a ship's.
_NOT_PEOPLE = frozenset(("the", "port", "saint", "st", "san", "santa", "queen", "king", "cape", "lake", "ss", "mv"))
_HIS = re.compile(rf"(?P<before>(?:\b{_WORD}\s){{0,2}})\b(?P<name>{_WORD})'s?\s+(?:\w+\s+)?{_THINGS}\b")
# The list of given names decides on `name`; what follows may be a family name.
_BELONGS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"\b{_THINGS}\s+(?:(?:that|which)\s+)?(?:of|from|by|for|belong(?:s|ing)?\s+to|owned\s+by)\s+(?P<name>{_WORD})\b",
        rf"\b(?:belong(?:s|ing)?|owned|registered|assigned|owns)\s+(?:to|by|for|of)?\s*(?P<name>{_WORD})\b",
        rf"\b(?:those|that|these|everything|anything|all|is\s+it)\s+(?:of|from|by|for)\s+(?P<name>{_WORD})\b",
        rf"\b(?:does|did|has|can|could|would|will)\s+(?P<name>{_WORD})(?:\s{_WORD})?\s+"
        r"(?:have|has|own|see|measure|installed?|get|got|use|register(?:ed)?|read)\b",
        rf"\b(?:that|which|what)\s+(?P<name>{_WORD})(?:\s{_WORD})?\s+"
        r"(?:has|had|owns?|owned|sees?|saw|measures?|measured|installed|uses?|used|registered|sent)\b",
        rf"\b(?:is\s+it|warm|hot|cold|warm\s+ist\s+es|kalt)\s+(?:at|of)\s+(?P<name>{_WORD})\b",
        rf"\b(?:{_THINGS}|what|was|wat|vad|que|quoi|cosa|co)\s+(?:has|have|had|a|does|did)\s+(?P<name>{_WORD})\b",
        rf"\b{_WORD}\s+of\s+(?P<name>{_WORD})\s*[?.!]*$",
    )
)
# Slavic languages say "devices of Ivan" without the "of".
_GENITIVE = re.compile(rf"\b{_THINGS}\s+(?P<name>{_WORD})\b")
_LEAST_STEM = 3


def named_person(question: str) -> bool:
    """Says whether a question, as it was typed, gives somebody's name with a title."""
    about = question if _COMES_BACK.search(question) else _TITLED_AND_ASKING.sub(" ", question)
    return _TITLED.search(about) is not None or _HONOURED.search(question) is not None


def somebody_known(text: str, own: frozenset[str]) -> bool:
    """Says whether a plain text is about somebody the caller knows, or a name, not their own, that something is of."""
    about = text if _COMES_BACK.search(text) else _MERELY_ASKING.sub(" ", text)
    if _KNOWN.search(about) or any(_is_his(match) for match in _HIS.finditer(text)):
        return True
    if any(_is_slavic(match["name"]) for match in _GENITIVE.finditer(text)):
        return True
    callers = {word for name in own for word in re.findall(_WORD, name)}
    named = (match["name"] for pattern in _BELONGS for match in pattern.finditer(text))
    return any(name not in callers and is_given_name(name) for name in named)


def _is_his(match: re.Match[str]) -> bool:
    """Whether the one or two words in front of an apostrophe are a person's name."""
    before = match["before"].split()
    if before and is_given_name(before[-1]):
        return before[-2:-1] != ["the"]
    return is_given_name(match["name"]) and not _NOT_PEOPLE.intersection(before[-1:])


def is_given_name(word: str) -> bool:
    """Says whether a word of a plain text is a common given name; of Slavic ones, in any case."""
    return word in _names()[0] or _is_slavic(word)


def _is_slavic(word: str) -> bool:
    stems = _names()[1]
    return any(word[:length] in stems for length in range(_LEAST_STEM, len(word) + 1))


@cache
def _names() -> tuple[frozenset[str], frozenset[str]]:
    listed: set[str] = set()
    stems: set[str] = set()
    for line in files(__package__).joinpath("given_names.txt").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            for name in line.split():
                (listed if name.isascii() else stems).add(plain_text(name))
    return frozenset(listed), frozenset(stems)
