"""What a question asks, taken apart: comparisons, time window, top N, names and numbers, and the words that remain."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from services.offline_model.data_questions.words import content_words
from services.offline_model.vocabulary import Vocabulary

Operator = Literal["gt", "ge", "lt", "le", "eq", "ne", "between", "in"]

_NUMBER = r"(-?\d+(?:\.\d+)?)"
_UNIT = r"(?:\s*(?:°\s*c?\b|%|degrees?(?: celsius)?\b|percent\b|hpa\b|c\b))?"
_THAN = r"\s+than"
_PATTERNS: tuple[tuple[Operator, str], ...] = (
    ("between", rf"\b(?:between|from)\s+{_NUMBER}{_UNIT}\s*(?:and|to|-)\s*{_NUMBER}{_UNIT}"),
    ("ge", rf"{_NUMBER}{_UNIT}\s+(?:or|and)\s+(?:more|above|higher|greater|over|hotter|warmer|up|later|newer)\b"),
    ("le", rf"{_NUMBER}{_UNIT}\s+(?:or|and)\s+(?:less|below|lower|fewer|under|colder|cooler|earlier|older)\b"),
    (
        "ge",
        r"(?:>=|=>|≥|\bat least|\bsince|\bno (?:less|lower|fewer) than|\bnot (?:less|lower|below|under)(?: than)?"
        rf"|\b(?:greater|more|higher|hotter|warmer)\s+than\s+or\s+equal\s+to)\s*{_NUMBER}{_UNIT}",
    ),
    (
        "le",
        r"(?:<=|=<|≤|\bat most|\bup to|\bno (?:more|higher|greater) than|\bnot (?:more|higher|above|over)(?: than)?"
        rf"|\b(?:less|lower|fewer|colder|cooler)\s+than\s+or\s+equal\s+to)\s*{_NUMBER}{_UNIT}",
    ),
    ("ne", rf"(?:!=|<>|≠|\bnot equal to|\bother than)\s*{_NUMBER}{_UNIT}"),
    (
        "gt",
        r"(?:>|\babove|\bover|\bexceed(?:s|ed|ing)?|\bbeyond|\bafter"
        rf"|\b(?:greater|more|higher|larger|bigger|hotter|warmer|newer|later){_THAN})\s*{_NUMBER}{_UNIT}",
    ),
    (
        "lt",
        r"(?:<|\bbelow|\bunder|\bbefore"
        rf"|\b(?:less|lower|fewer|smaller|colder|cooler|older|earlier){_THAN})\s*{_NUMBER}{_UNIT}",
    ),
    ("in", r"\b(?:in|during)\s+((?:19|20)\d\d)\b"),
    ("eq", rf"(?:==?|\bequals?(?:\s+to)?|\bexactly)\s*{_NUMBER}{_UNIT}"),
)
_COMPARISONS = tuple((operator, re.compile(pattern, re.IGNORECASE)) for operator, pattern in _PATTERNS)
COMPARISONS = tuple(pattern for _, pattern in _COMPARISONS)
WINDOW = re.compile(
    r"\b(?:(?:over|in|during|within|for|from|of|since)\s+)?(?:the\s+)?(?:last|past|previous)\s+(?:(\d+)\s*)?"
    r"(minute|hour|day|week|month|year|h|d)s?\b",
    re.IGNORECASE,
)
_SUPERLATIVE = (
    r"(?:highest|lowest|hottest|coldest|warmest|coolest|newest|oldest|latest|most|least|largest|smallest|greatest|biggest"
    r"|strongest|weakest|maximum|minimum)"
)
_TOP = (
    re.compile(r"\b(?P<word>top|bottom|first|last)\s+(\d+)\b", re.IGNORECASE),
    re.compile(rf"\b(\d+)(?=\s+(?:most\s+|least\s+)?{_SUPERLATIVE}\b)", re.IGNORECASE),
    re.compile(
        rf"\b(\d+)(?=\s+\w+\s+(?:with|having|have|had|has|are|were|by|that have)\s+(?:the\s+)?{_SUPERLATIVE}\b)",
        re.IGNORECASE,
    ),
)
# "Which device has the lowest battery?", "the hottest ship": one is asked for.
_ONE = re.compile(
    rf"\b(?:which|what)\s+of\s+my\s+\w+s\s+(?:has|had|is|was|shows?)\s+(?:the\s+)?{_SUPERLATIVE}\b"
    rf"|\b(?:which|what)(?:\s+is\s+(?:my|the))?\s+(?:\w+\s+)?\w+(?<!s)\s+(?:has|had|is|was|shows?|carries|holds|with)\s+(?:the\s+)?{_SUPERLATIVE}\b"
    rf"|^\W*(?:the\s+)?\w+(?<!s)\s+with\s+(?:the\s+)?{_SUPERLATIVE}\b"
    r"|(?:^\W*|\b(?:the|my)\s+)(?:hottest|coldest|warmest|coolest|oldest|newest)\s+\w+(?<!s)\b(?!\s+\w+s\b)",
    re.IGNORECASE,
)
QUOTE_BEFORE, QUOTE_BEHIND = r"(?:(?<!\w)[\"'\u201c\u2018\u00ab])", r"(?:[\"'\u201d\u2019\u00bb](?!\w))"
_QUOTED = re.compile(rf"{QUOTE_BEFORE}([^\"'\u201d\u2019\u00bb]{{1,200}}){QUOTE_BEHIND}")
_CODE = re.compile(r"\b(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[A-Za-z0-9]+(?:[-_][A-Za-z0-9]+)*\b")
NAME = re.compile(r"(?<![.!?]\s)(?<!^)\b[A-ZÀ-ÖØ-Þ][a-zß-öø-ÿ]+(?:\s+[A-ZÀ-ÖØ-Þ][a-zß-öø-ÿ]+)*\b")
_LONE_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w])")
_LAST_WORD = re.compile(r"([^\W\d_]+)(?:\s+(?:id|no|nr|number))?\W{0,3}$", re.IGNORECASE)
_DIGITS = {
    word: str(number)
    for number, word in enumerate(
        ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"), 2
    )
}
_NUMBER_WORD = re.compile(r"\b(?:" + "|".join(_DIGITS) + r")\b", re.IGNORECASE)
_UNITS = {"h": "hour", "d": "day"}


@dataclass(frozen=True)
class Comparison:
    """A bound on some quantity; `near` holds the words around it, nearest first, of which one may name a column."""

    operator: Operator
    values: tuple[str, ...]
    near: tuple[str, ...]


@dataclass(frozen=True)
class Window:
    """A span of time up to now."""

    amount: int
    unit: str


@dataclass(frozen=True)
class Number:
    """A number that stands for something by its id, and the word before it: `device 36`."""

    value: str
    noun: str


@dataclass(frozen=True)
class QuestionReading:
    """A question taken apart; `rest` is the text without what the other parts hold.

    `superlative` is what `top 5` and `bottom 5` are of: the most, or the least.
    """

    comparisons: tuple[Comparison, ...]
    window: Window | None
    top: int | None
    names: tuple[str, ...]
    numbers: tuple[Number, ...]
    superlative: str
    text: str
    rest: str


class _Text:
    """A question being taken apart: each pattern takes its matches out and leaves a blank."""

    def __init__(self, text: str) -> None:
        self.text = text

    def take(
        self, pattern: re.Pattern[str], keep: Callable[[re.Match[str]], bool] = lambda _: True
    ) -> list[re.Match[str]]:
        """Takes out all matches that are to be kept, in order."""
        found = [match for match in pattern.finditer(self.text) if keep(match)]
        for match in reversed(found):
            self.text = self.text[: match.start()] + " " * (match.end() - match.start()) + self.text[match.end() :]
        return found


def read_question(question: str, vocabulary: Vocabulary) -> QuestionReading:
    """Takes a question apart; never fails, at worst everything is words."""
    said = _NUMBER_WORD.sub(lambda word: _DIGITS[word[0].lower()], " ".join(question.split()))
    text = _Text(said)
    names = [(match.start(), match[1]) for match in text.take(_QUOTED)]
    window = next((_window(match) for match in text.take(WINDOW)), None)
    top, superlative = _take_top(text)
    whole = text.text
    comparisons = [
        (match.start(), _comparison(operator, match, whole, vocabulary))
        for operator, pattern in _COMPARISONS
        for match in text.take(pattern)
    ]
    names += [(match.start(), match[0]) for match in text.take(_CODE)]
    names += [(match.start(), match[0]) for match in text.take(NAME, keep=lambda match: _is_name(match[0], vocabulary))]
    whole = text.text
    numbers = [Number(match[0], _noun_before(whole[: match.start()], vocabulary)) for match in text.take(_LONE_NUMBER)]
    return QuestionReading(
        comparisons=tuple(comparison for _, comparison in sorted(comparisons, key=lambda found: found[0])),
        window=window,
        top=top,
        names=tuple(name for _, name in sorted(names)),
        numbers=tuple(numbers),
        superlative=superlative,
        text=said,
        rest=text.text.lower(),
    )


def _take_top(text: _Text) -> tuple[int | None, str]:
    """Takes out how many are asked for; `top 5` and `bottom 5` also say of what."""
    if _ONE.search(text.text):
        return 1, ""
    for pattern in _TOP:
        for match in text.take(pattern):
            word = (match.groupdict().get("word") or "").lower()
            return int(match.groups()[-1]), {"top": "most", "bottom": "least"}.get(word, "")
    return None, ""


def _is_name(text: str, vocabulary: Vocabulary) -> bool:
    """A capitalised word is a name unless it is an ordinary word that somebody capitalised."""
    word = text.lower()
    return " " in text or (content_words(text, vocabulary) == [word] and word not in vocabulary.rows.values())


def _window(match: re.Match[str]) -> Window:
    unit = match[2].lower()
    return Window(int(match[1] or 1), _UNITS.get(unit, unit))


def _comparison(operator: Operator, match: re.Match[str], text: str, vocabulary: Vocabulary) -> Comparison:
    own = [column for unit, column in vocabulary.units.items() if unit in match[0].lower()]
    own += content_words(re.sub(r"\d", " ", match[0]), vocabulary)
    before = content_words(text[: match.start()], vocabulary)[::-1]
    after = content_words(text[match.end() :], vocabulary)[:2]
    return Comparison(operator, match.groups(), (*own, *before, *after))


def _noun_before(text: str, vocabulary: Vocabulary) -> str:
    word = _LAST_WORD.search(text)
    found = content_words(word[1], vocabulary) if word else []
    return found[-1] if found else ""
