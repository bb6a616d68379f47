"""Names in a wording: by capitals, digits, quotes and tables, and by standing in the place of one.

In German, where all nouns have capitals, those without digits, quotes or a table are not known for names. In every
language and case those are that stand in a list with a name of the material, or in the place of one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from services.kit.statements.material import DIGITS_AND_LETTERS, Material
from services.kit.statements.readable import MARKS, NAME, NO_NAMES, POSSESSIVE, WORD, Wording, plain
from services.kit.statements.tables import LONGEST_VALUE
from services.kit.text.number_words import numbers_in_words

_AMOUNT: Final = re.compile(r"\d+(?:[.,]\d+)*(?:[-/:]\d+(?:[.,]\d+)*)*(?:-?[^\W\d_]{1,4}|(?:-[^\W\d_]+)+)?")
# And addresses; not with thousands parted by points.
_VERSION: Final = re.compile(r"(?!\d{1,3}(?:\.\d{3})+$)\d+(?:\.\d+){2,}")
_COUNTED: Final = re.compile(r"(?:top|pre|post|mid|sub|non|under|over|ca|nr|no|max|min)[-.#]?\d+(?:[.,]\d+)*")
_QUARTER: Final = re.compile(r"q([1-4])")
_UNITS: Final = frozenset({"m2", "m3", "km2", "km3", "co2", "h2o", "ipv4", "ipv6", "utf-8", "p95", "p99", "p50"})
_QUOTED: Final = re.compile(r"[\"“„«`]([^\"“”„«»`\n]{2,80})[\"”“»`]|(?<!\w)'([^'\n]{2,80})'(?!\w)")
# In German nouns are written together: of two with a space between the second names the first.
_CAPITAL: Final = r"(?=[A-Z\u00c4\u00d6\u00dc])"
_NAMED: Final = re.compile(rf"(?<!\S){_CAPITAL}([\w-]+)\.? {_CAPITAL}({NAME.pattern})")
_BEFORE_NOUNS_TEXT: Final = """
sie ihr ihre ihrer ihren ihrem ihres ihnen anzahl zahl summe prozent grad stück hundert tausend million millionen
milliarde milliarden dutzend
"""
_BEFORE_NOUNS: Final = frozenset(_BEFORE_NOUNS_TEXT.split())
_BEGINS: Final = re.compile(r"(?:^|[.!?:;|\n•\u2013\u2014>\"“„«'`])[\s*_#>|\"“„«'`-]*$")
_LABEL: Final = re.compile(r"^(?![ \t]*(?:[-*•+]|\d{1,3}[.)])[ \t])([ \t*_#>]*[^\n|:]{1,40}):", re.MULTILINE)
_ITEM: Final = re.compile(r"(?:[-*•+]|\d{1,3}[.)]) ([^\n|:]{1,60}):")
# What follows a name with which a sentence begins, and an ordinary word less often.
_SAYS: Final = re.compile(r"[*_]*(?:['\u2019]s)? (?:is|has|was|had|owns|are|have|were|holds|leads|tiene|es|fue|son)\b")
# What is joined to a name of the material in a list is a name too, and so is what stands in the place of one.
_JOINT: Final = re.compile(r"[*_`]{0,4}(?P<and>,?\s(?:and|or|und|oder|sowie|y|e|o|u|et)\s|\s?,\s?)[*_`]*")
_ENDS: Final = re.compile(r"[*_`]*(?:\s?(?:[.!?;:,)\n]|$)|\s(?:and|or|und|oder|sowie|y|et)\s)")
_STANDS_FOR: Final = re.compile(
    r"\b(?:\w+(?:ed|en|un|wn|lt|pt) by|belongs? to|assigned to|called|named|hei\u00df(?:en|t)|namens"
    r"|geh\u00f6r(?:t|en)(?: zu)?|se llaman?|pertenecen? a|\w+[ai]d[oa]s? (?:por|a))"
    rf"\s[*_`]*(?P<name>[^\W\d_][\w'-]*+)(?={_ENDS.pattern})",
    re.IGNORECASE,
)
_MOST_WORDS: Final = 6
# What goes on with a list, or stands for a name, and is none.
_REST_TEXT: Final = """
others other another more rest also then so etc only just even still now currently therefore however thus andere
anderen anderes weitere weiteren dann auch zwar noch nur jetzt usw otros otras otro otra resto además también luego
solo ahora me him her us them myself themselves default far hand itself who whom dir mir ihm ihnen uns euch dazu mí ti
él ella ellos ellas nosotros nadie niemand niemandem anyone no someone yours mine theirs one everybody eins ein eine
un uno una genauso ebenso igualmente asimismo both neither either todos todas ambos ambas beide alle
"""
_REST: Final = frozenset(_REST_TEXT.split())


class NameCheck:
    """One look at the names of a wording, whose links and days were taken out."""

    def __init__(self, wording: Wording, material: Material) -> None:
        self._wording = wording
        self._material = material

    def with_digits(self) -> Iterator[str]:
        """Yields names with digits that do not stand in the material; what is no amount is taken out."""
        for match in [*DIGITS_AND_LETTERS.finditer(self._wording.rest)]:
            token = match[0]
            if token.isdecimal() or not any(map(str.isdigit, token)):
                continue
            is_amount = _AMOUNT.fullmatch(token) and not _VERSION.fullmatch(token)
            if is_amount and not any(map(str.isalpha, token)):
                continue
            if not self._material.holds_token(token):
                if is_amount or _COUNTED.fullmatch(token) or self._is_counted(match):
                    continue
                quarter = _QUARTER.fullmatch(token)
                held = self._material.holds_quarter(int(quarter[1])) if quarter else token in _UNITS
                if not held:
                    yield self._wording.said(match)
            self._wording.blank(*match.span())

    def _is_counted(self, match: re.Match[str]) -> bool:
        """Tells whether a thing and its number are written together, as in `device-13`."""
        thing, _, number = re.sub("#", "-", match[0]).partition("-")
        shown = self._wording.said(match)
        return number.isdecimal() and shown[: len(thing)].islower() and self._material.holds_word(thing)

    def in_words(self) -> Iterator[str]:
        """Yields names without digits that do not stand in the material."""
        shown, rest = self._wording.shown, self._wording.rest
        for match in _QUOTED.finditer(shown):
            words = (match[1] or match[2]).strip(" .,;:!?*_")
            if not self._holds_words(words):
                yield words
        yield from self._cells()
        yield from self._joined()
        if not self._wording.has_names_in_capitals:
            yield from self._named()
            return
        labels = [match.span(1) for match in _LABEL.finditer(shown)]
        for match in NAME.finditer(shown):
            word = re.sub(POSSESSIVE, "", match[0])
            if len(word) < 2 or not word[0].isupper() or rest[match.start()] == " " or self._known(word):
                continue
            if any(start <= match.start() < end for start, end in labels):
                continue
            if not self._begins(match.start()) or _SAYS.match(shown, match.end()):
                yield word

    def _joined(self) -> Iterator[str]:
        """Yields the words, in whatever case, that a list or a verb puts in the place of a name and are none."""
        shown = self._wording.shown
        for match in _STANDS_FOR.finditer(shown):
            if self._is_no_name(match["name"]):
                yield match["name"]
        for joint in _JOINT.finditer(shown):
            last = NAME.match(shown, joint.end())
            if last and self._is_no_name(last[0]) and self._ends_with_value(joint.start()):
                end, is_comma = last.end(), joint["and"].strip() == ","
                # What is between commas may be a remark, and no part of a list.
                following = _JOINT.match(shown, end) if is_comma else None
                is_listed = (
                    self._begins_with_value(following.end())
                    if following
                    else (not is_comma and _ENDS.match(shown, end))
                )
                is_capital = last[0][0].isupper() and not self._begins_with_value(end)
                if is_listed or is_capital or _SAYS.match(shown, end):
                    yield last[0]

    def _ends_with_value(self, end: int) -> bool:
        text = self._wording.shown[max(0, end - 2 * LONGEST_VALUE) : end]
        words = [word.strip(MARKS) for word in plain(text).split()][-_MOST_WORDS:]
        return any(self._material.holds_value(words[at:]) for at in range(len(words)))

    def _begins_with_value(self, start: int) -> bool:
        """Tells whether a number or a value comes next; what stands before it then says what it is of."""
        text = self._wording.shown[start : start + LONGEST_VALUE].lstrip(f" :{MARKS}")
        words = [word.strip(f".,;:!?{MARKS}") for word in plain(text).split()][:_MOST_WORDS]
        return re.match(r"-?\d", text) is not None or any(
            self._material.holds_value(words[:at]) for at in range(1, len(words) + 1)
        )

    def _is_no_name(self, word: str) -> bool:
        bare = re.sub(POSSESSIVE, "", plain(word))
        is_number = next(numbers_in_words(bare), None) is not None
        return len(bare) > 1 and bare not in _REST and not is_number and not self._known(bare)

    def _named(self) -> Iterator[str]:
        for match in _NAMED.finditer(self._wording.shown):
            names = match[1].lower() not in _BEFORE_NOUNS and not self._begins(match.start())
            if names and self._wording.rest[match.start(2)] != " " and not self._known(match[2]):
                yield match[2]

    def _cells(self) -> Iterator[str]:
        """Yields what stands in a table, or before a colon in a list, and is no word of the material."""
        is_table = False
        for line in self._wording.rest.splitlines():
            if is_rule(line):
                is_table = True
                continue
            is_table = is_table and "|" in line
            item = _ITEM.match(line)
            said = line.strip(" |").split("|") if is_table else [item[1]] if item else []
            for words in (each.strip(" *_`") for each in said):
                if words and not self._holds_words(words):
                    yield words

    def _holds_words(self, words: str) -> bool:
        """Tells whether words stand in the material; numbers among them are looked at elsewhere."""
        rest = [word for word in WORD.findall(plain(words)) if word.isalpha()]
        return self._material.holds_words(plain(words)) or all(map(self._known, rest))

    def _known(self, word: str) -> bool:
        bare = plain(word)
        return bare in NO_NAMES or self._material.holds_word(bare)

    def _begins(self, start: int) -> bool:
        return _BEGINS.search(self._wording.shown[max(0, start - 40) : start]) is not None or start == 0


def is_rule(line: str) -> bool:
    """Tells whether a line parts a table's head from its rows."""
    return "--" in line and not line.strip(" \t|:-")
