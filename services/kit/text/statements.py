"""What a wording states that stands nowhere in what it words: a number, a date, a name, a link.

It holds whatever wrote the words, and asks no model. What may be stated is what stands in the material: as it stands
there, rounded, as a percentage, in words, in another customary form; or how many of something there are. A sum or a
difference is neither. Names are known by capitals, digits, quotes and tables; in German, where all nouns have
capitals, those without digits, quotes or a table are not known for names. In every language and case those are that
stand in a list with a name of the material, or in the place of one.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Final, NamedTuple

from services.kit.text.moments import WEEKDAYS, Clock, Day, moments_in
from services.kit.text.number_words import SCALES, numbers_in_words

LONGEST_WORDING: Final = 20_000
MOST_TOLD: Final = 5
_LONGEST_NAME: Final = 200
_LONGEST_NUMBER: Final = 60
Value = str | int | float | bool | Decimal | None
_LINK: Final = re.compile(
    r"(?:[a-z][a-z0-9+.-]{1,20}://|www\.|mailto:|tel:|javascript:|data:)[^\s<>\"'`|)\]]+"
    r"|(?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+"
    r"|(?<![\w@./-])(?:[\w-]{2,}\.)+[a-z]{2,24}(?:/[^\s<>\"'`|)\]]*)?(?![\w-])",
    re.IGNORECASE,
)
# A point that is written so that no program takes it for one, as readers are used to.
_POINT: Final = re.compile(
    r"(?<=\w)(?:\s?[\[({]\s?(?:\.|dot|punkt|punto)\s?[\])}]\s?(?=\w)"
    r"|\s(?:dot|\.)\s(?=(?:app|com|de|dev|es|eu|info|io|net|org)\b))",
    re.IGNORECASE,
)
_LINK_TARGET: Final = re.compile(r"\]\(\s*<?([^)\s>]+)")
_NUMBER: Final = re.compile(
    r"\d{1,3}(?:[,.]\d{3})+(?:[.,]\d+)?(?!\d)|\d{1,3}(?:['\u2019\u00a0\u202f ]\d{3})+(?:[.,]\d+)?(?!\d)|\d+(?:[.,]\d+)?"
)
_DIGITS_AND_LETTERS: Final = re.compile(r"\w+(?:[-_./:#]\w+)*")
_AMOUNT: Final = re.compile(r"\d+(?:[.,]\d+)*(?:[-/:]\d+(?:[.,]\d+)*)*(?:-?[^\W\d_]{1,4}|(?:-[^\W\d_]+)+)?")
# And addresses; not with thousands parted by points.
_VERSION: Final = re.compile(r"(?!\d{1,3}(?:\.\d{3})+$)\d+(?:\.\d+){2,}")
_COUNTED: Final = re.compile(r"(?:top|pre|post|mid|sub|non|under|over|ca|nr|no|max|min)[-.#]?\d+(?:[.,]\d+)*")
_QUARTER: Final = re.compile(r"q([1-4])")
_UNITS: Final = frozenset({"m2", "m3", "km2", "km3", "co2", "h2o", "ipv4", "ipv6", "utf-8", "p95", "p99", "p50"})
_LIST_NUMBER: Final = re.compile(r"^[ \t>*-]*(\d{1,3})[.)](?=\s)", re.MULTILINE)
_PERCENT: Final = re.compile(r"\s?(?:%|percent|prozent|por ciento)")
_PLURALS: Final = {
    "dozens": 12, "tens": 10, "hundreds": 100, "thousands": 1000, "tens of thousands": 10**4,
    "hundreds of thousands": 10**5, "millions": 10**6, "tens of millions": 10**7, "dutzende": 12, "hunderte": 100,
    "tausende": 1000, "zehntausende": 10**4, "hunderttausende": 10**5, "millionen": 10**6, "docenas": 12, "decenas": 10,
    "cientos": 100, "miles": 1000, "decenas de miles": 10**4, "cientos de miles": 10**5,
}  # fmt: skip
_FRACTIONS: Final = {
    "half": Decimal("0.5"), "third": Decimal(1) / 3, "thirds": Decimal(2) / 3, "quarter": Decimal("0.25"),
    "quarters": Decimal("0.75"), "double": Decimal(2), "triple": Decimal(3),
}  # fmt: skip
_FRACTION: Final = re.compile(
    r"\b(?:(?P<half>half(?! past)|h\u00e4lfte|mitad)|(?P<third>(?:a|one) third|ein drittel|un tercio)"
    r"|(?P<thirds>two thirds|zwei drittel|dos tercios)|(?P<quarters>three quarters|drei viertel|tres cuartos)"
    r"|(?P<quarter>(?:a|one) quarter(?! (?:past|to))|ein viertel|un cuarto)"
    r"|(?P<double>twice|doubled?|doppelt|verdoppelt|doble)"
    r"|(?P<triple>tripled?|dreifach|verdreifacht|triple))\b"
)
_SCALE: Final = re.compile(rf"[\s-]?({'|'.join(SCALES)}|mio|mrd|k|m|bn|b)\b\.?")
_SCALED: Final = re.compile(rf"(?:{_NUMBER.pattern})(?:{_SCALE.pattern})?")
_SHORT_SCALES: Final = {"mio": 10**6, "mrd": 10**9, "k": 1000, "m": 10**6, "bn": 10**9, "b": 10**9}
_ABOUT: Final = re.compile(
    r"(?:about|approximately|approx\.?|around|roughly|nearly|almost|over|under|some|more than|less than"
    r"|at least|at most|ungefähr|etwa|rund|circa|ca\.|fast|knapp|über|mehr als|weniger als|aproximadamente"
    r"|alrededor de|unos|unas|casi|más de|menos de|cerca de|~|≈|>|<|≥|≤)\s*$"
)
_BELOW: Final = re.compile(r"\b(?:minus|below|negative|under|unter|negativ|menos|bajo|dropp?ed|fell|decrease|loss)\b")
_QUOTED: Final = re.compile(r"[\"“„«`]([^\"“”„«»`\n]{2,80})[\"”“»`]|(?<!\w)'([^'\n]{2,80})'(?!\w)")
_NAME: Final = re.compile(r"[^\W\d_][\w\u2019'-]*")
# In German nouns are written together: of two with a space between the second names the first.
_CAPITAL: Final = r"(?=[A-Z\u00c4\u00d6\u00dc])"
_NAMED: Final = re.compile(rf"(?<!\S){_CAPITAL}([\w-]+)\.? {_CAPITAL}({_NAME.pattern})")
_BEFORE_NOUNS_TEXT: Final = """
sie ihr ihre ihrer ihren ihrem ihres ihnen anzahl zahl summe prozent grad stück hundert
tausend million millionen milliarde milliarden dutzend
"""
_BEFORE_NOUNS: Final = frozenset(_BEFORE_NOUNS_TEXT.split())
_BEGINS: Final = re.compile(r"(?:^|[.!?:;|\n•\u2013\u2014>\"“„«'`])[\s*_#>|\"“„«'`-]*$")
_LABEL: Final = re.compile(r"^(?![ \t]*(?:[-*•+]|\d{1,3}[.)])[ \t])([ \t*_#>]*[^\n|:]{1,40}):", re.MULTILINE)
_ITEM: Final = re.compile(r"[ \t]*(?:[-*•+]|\d{1,3}[.)])[ \t]+([^\n|:]{1,60}):")
_RULE: Final = re.compile(r"[ \t]*\|?(?:[ \t]*:?-{2,}:?[ \t]*\|?)+")
_POSSESSIVE: Final = r"['\u2019]s?$"
# What follows a name with which a sentence begins, and an ordinary word less often.
_SAYS: Final = re.compile(r"[*_]*(?:['\u2019]s)? (?:is|has|was|had|owns|are|have|were|holds|leads|tiene|es|fue|son)\b")
_DIGIT: Final = re.compile(r"\d")
# What is joined to a name of the material in a list is a name too, and so is what stands in the place of one.
# What it begins with is bounded: from each place within, it would be read again.
_JOINT: Final = re.compile(r"[*_`]{0,4}(?P<and>,?\s{1,40}(?:and|or|und|oder|sowie|y|e|o|u|et)\s+|\s{0,4},\s*)[*_`]*")
_ENDS: Final = re.compile(r"[*_`]*(?:\s*(?:[.!?;:,)\n]|$)|\s+(?:and|or|und|oder|sowie|y|et)\s)")
_STANDS_FOR: Final = re.compile(
    r"\b(?:\w+(?:ed|en|un|wn|lt|pt) by|belongs? to|assigned to|called|named|hei\u00df(?:en|t)|namens"
    r"|geh\u00f6r(?:t|en)(?: zu)?|se llaman?|pertenecen? a|\w+[ai]d[oa]s? (?:por|a))"
    rf"\s+[*_`]*(?P<name>[^\W\d_][\w'-]*+)(?={_ENDS.pattern})",
    re.IGNORECASE,
)
_IN_QUOTES: Final = re.compile(
    r"'([^'\n]{1,80})'|\"([^\"\n]{1,80})\"|[:=][ \t]*([^\W\d_][^,{}\n]{0,80}?)[ \t]*(?=[,}])"
)
_LONGEST_VALUE: Final = 80
_MOST_WORDS: Final = 6
_MARKS: Final = "*_`'\"()\u201c\u201d\u201e\u00ab\u00bb"
_NONE: Final = re.compile(
    r"\b(?:no|not any|none|zero|nothing|kein\w*|nichts|ning[u\u00fa]n\w*|nada|no hay|no tienes?)\b", re.IGNORECASE
)
_NEGATIVE: Final = re.compile(rf"(?<!\w)[-\u2212]({_NUMBER.pattern})")
_WORD: Final = re.compile(r"[^\W_]+")
_GERMAN_TEXT: Final = """
der das und ist sind eine ein mit für von im den dem hat haben ihre nicht es gibt wurde auf zu liegt beträgt
insgesamt sie ihr höchste keine am aus bei wird
"""
_GERMAN: Final = frozenset(_GERMAN_TEXT.split())
_ENGLISH_TEXT: Final = """
the is are and of in has have had you your with for there that this to on by from it was were at which
"""
_ENGLISH: Final = frozenset(_ENGLISH_TEXT.split())
_SPANISH_TEXT: Final = """
el la los las y es son de en con tiene tienen su sus hay que por un una del fue más tienes usted según está están al
lo tu tus mi mis desde hasta cada
"""
_SPANISH: Final = frozenset(_SPANISH_TEXT.split())
# The last of them begin sentences, and head cells and lists.
_NO_NAMES_TEXT: Final = """
i i'm i've id ids sql csv json utc gmt cet null n/a na ok celsius fahrenheit kelvin volt volts watt watts hertz
pascal usd eur mr mrs ms postgres postgresql url ip api am pm yes no true false data table total note english
german spanish the this that these those there it its he she they we you your our my all each every both none
some any most many here nothing everything everyone nobody which what who average mean median sum maximum max
minimum min highest lowest number count result results answer value values range latest earliest newest oldest
first last status name time day date unit question query row rows column and of in on at for with per by a an el
la los las su sus hay de anzahl gesamt summe durchschnitt mittelwert wert werte ergebnis höchste niedrigste
höchster niedrigster größte kleinste zeit tag datum und der die das promedio máximo mínimo número resultado
valor fecha y ja nein unknown usted ustedes tú du sie ihr wir
"""
_NO_NAMES: Final = frozenset(_NO_NAMES_TEXT.split())
# What goes on with a list, or stands for a name, and is none.
_REST_TEXT: Final = """
others other another more rest also then so etc only just even still now currently therefore however thus andere
anderen anderes weitere weiteren dann auch zwar noch nur jetzt usw otros otras otro otra resto además también luego
solo ahora me him her us them myself themselves default far hand itself who whom dir mir ihm ihnen uns euch dazu mí ti
él ella ellos ellas nosotros nadie niemand niemandem anyone no someone yours mine theirs one everybody eins ein eine
un uno una genauso ebenso igualmente asimismo both neither either todos todas ambos ambas beide alle
"""
_REST: Final = frozenset(_REST_TEXT.split())
_STOP: Final = "\0"


class UnsupportedStatement(NamedTuple):
    """What of a wording does not stand in the material: its kind (number, date, name, link) and the words."""

    kind: str
    words: str


class Material:
    """What may be stated: values of results, texts such as the question, and how many of something there are.

    `labels` are names of columns and the like, which may be spoken of, and vouch for no number and no link.
    """

    def __init__(
        self,
        *,
        rows: Sequence[Sequence[Value]] = (),
        texts: Iterable[str] = (),
        counts: Iterable[int] = (),
        labels: Iterable[str] = (),
    ) -> None:
        self._numbers: set[Decimal] = set()
        self._days: set[Day] = set()
        self._clocks: set[Clock] = set()
        self._tokens: set[str] = set()
        self._words: set[str] = set()
        self._squeezed: list[str] = []
        self._values: set[str] = set()
        read = [text for row in rows for value in row if (text := self._take_value(value))]
        # One text, whose parts nothing reads across.
        self._take_text("\n\n".join([*read, *texts]))
        for label in labels:
            self._take_words(_plain(label))
        self._counts = {*counts, *_counts(rows)} if rows else {*counts, 0}
        self._numbers |= {Decimal(count) for count in self._counts}
        self._ordered = sorted(self._numbers)
        self._parts = self._days | {Day(d.year, d.month, 0) for d in self._days}
        self._parts |= {Day(0, d.month, d.day) for d in self._days} | {Day(0, d.month, 0) for d in self._days}
        self._weekdays = {day.weekday() for day in map(_as_date, self._days) if day}
        self._text = " ".join(self._squeezed)

    def _take_value(self, value: Value) -> str:
        """Takes a number; returns anything else, to be read as a text."""
        if isinstance(value, bool) or value is None:
            return ""
        number = _decimal(str(value)) if len(str(value)) <= _LONGEST_NUMBER else None
        if number is not None:
            self._numbers.add(number)
        if isinstance(value, str) and len(value) <= _LONGEST_VALUE:
            self._values.add(" ".join(_plain(value).split()))
        return value if isinstance(value, str) else ""

    def _take_text(self, text: str) -> None:
        plain = _plain(text)
        self._take_words(plain)
        self._squeezed.append(" ".join(plain.split()))
        self._tokens.update(map(_bare, _LINK.findall(plain)))
        self._values.update(next(filter(None, found)) for found in _IN_QUOTES.findall(plain))
        between, end = [], 0
        for found in sorted(moments_in(plain), key=lambda each: each.start):
            # What may be a word is no month that anything could be said of.
            self._days.update(day for day in found.days if day.day or not found.doubtful)
            self._numbers.update(Decimal(day.year) for day in found.days if day.year)
            if found.clock:
                self._clocks.add(found.clock)
            between.append(plain[end : found.start])
            end = found.end
        rest = " ".join([*between, plain[end:]])
        # Each only once: much of what is long says the same again and again.
        for token in {*_DIGITS_AND_LETTERS.findall(plain)}:
            if not token.isdecimal() and _DIGIT.search(token):
                self._tokens.update(_pieces(token))
        for said in {*_NUMBER.findall(rest)}:
            self._numbers.update(value for value, _ in _readings(said))
        for said in {*_NEGATIVE.findall(rest)}:
            self._numbers.update(-value for value, _ in _readings(said))
        self._numbers.update(map(Decimal, numbers_in_words(rest)))

    def _take_words(self, plain: str) -> None:
        self._words.update(map(_stem, {*_WORD.findall(plain), *_NAME.findall(plain)}))

    def holds_number(self, number: Decimal, unit: Decimal) -> bool:
        """Tells whether a number stands here, or one that is it once it is rounded to `unit`."""
        least = number - unit / 2
        at = bisect_left(self._ordered, least)
        return at < len(self._ordered) and self._ordered[at] <= number + unit / 2

    def holds_above(self, least: int) -> bool:
        """Tells whether a number stands here that is counted in `least`: in hundreds, in thousands."""
        return any(least <= number < least * 1000 for number in self._ordered)

    def holds_day(self, day: Day) -> bool:
        """Tells whether a day stands here, or one of which as much was said."""
        return day in self._parts

    def holds_clock(self, clock: Clock) -> bool:
        """Tells whether a time stands here, to the minute or second that was said."""
        said = [at for at, part in enumerate(clock) if part >= 0]
        return any(all(each[at] == clock[at] for at in said) for each in self._clocks)

    def holds_weekday(self, weekday: int) -> bool:
        """Tells whether a day of this name stands here."""
        return weekday in self._weekdays or any(
            _stem(name) in self._words for name, at in WEEKDAYS.items() if at == weekday
        )

    def holds_token(self, token: str) -> bool:
        """Tells whether a name with digits, or a link, stands here as a whole."""
        return token in self._tokens

    def holds_quarter(self, quarter: int) -> bool:
        """Tells whether a day of a quarter stands here."""
        return any((day.month - 1) // 3 + 1 == quarter for day in self._days)

    def holds_word(self, word: str) -> bool:
        """Tells whether a word stands here, in whatever case and number."""
        return _stem(word) in self._words

    def holds_words(self, words: str) -> bool:
        """Tells whether words stand here one after another, or each of them does."""
        plain = " ".join(words.split())
        return plain in self._text or all(self.holds_word(word) for word in _WORD.findall(plain))

    def holds_value(self, words: Sequence[str]) -> bool:
        """Tells whether words are all of a value."""
        return " ".join(words) in self._values

    @property
    def longest_list(self) -> int:
        """How many of something there are at most."""
        return max(self._counts, default=0)


def unsupported(
    wording: str, material: Material, *, most: int | None = MOST_TOLD, rounds: bool = True
) -> list[UnsupportedStatement]:
    """Returns what a wording states that does not stand in the material, at most `most`; empty when all does.

    Where nothing `rounds`, a number has to stand there as it is.
    """
    if len(wording) > LONGEST_WORDING:
        return [UnsupportedStatement("number", f"({len(wording)} characters, which are too many to be checked)")]
    text = _shown(wording)
    return list(dict.fromkeys(_Check(text, material, rounds=rounds).problems()))[:most]


class _Check:
    """One look at a wording: what one step has read, the next does not see."""

    def __init__(self, text: str, material: Material, *, rounds: bool) -> None:
        self._shown = text
        self._rounds = rounds
        self._rest = text.lower() if len(text.lower()) == len(text) else text
        self._material = material
        self._language = _language(self._rest)

    def problems(self) -> Iterator[UnsupportedStatement]:
        yield from self._links()
        yield from self._moments()
        yield from self._tokens()
        yield from self._numbers()
        yield from self._names()

    def _blank(self, start: int, end: int, by: str = " ") -> None:
        self._rest = self._rest[:start] + by * (end - start) + self._rest[end:]

    def _links(self) -> Iterator[UnsupportedStatement]:
        for match in [*_LINK_TARGET.finditer(self._rest)]:
            if not self._material.holds_token(_bare(match[1])):
                yield UnsupportedStatement("link", match[1])
            self._blank(*match.span(1))
        for match in [*_LINK.finditer(self._rest)]:
            link = _bare(match[0])
            if _ends_a_sentence(self._shown[match.start() : match.end()]):
                continue
            if not self._material.holds_token(link):
                yield UnsupportedStatement("link", link)
            self._blank(*match.span())

    def _moments(self) -> Iterator[UnsupportedStatement]:
        for found in [*moments_in(self._rest)]:
            said = self._shown[found.start : found.end]
            if found.doubtful and not any(map(self._material.holds_day, found.days)):
                continue  # and read as a number
            if found.days and not any(map(self._material.holds_day, found.days)):
                yield UnsupportedStatement("date", said)
            if found.clock and not self._material.holds_clock(found.clock):
                yield UnsupportedStatement("date", said)
            if found.weekday is not None and not self._material.holds_weekday(found.weekday):
                yield UnsupportedStatement("date", said)
            if found.relative and not self._material.holds_words(said.lower()):
                yield UnsupportedStatement("date", said)
            self._blank(found.start, found.end)

    def _tokens(self) -> Iterator[UnsupportedStatement]:
        for match in [*_DIGITS_AND_LETTERS.finditer(self._rest)]:
            token = match[0]
            if token.isdecimal() or not any(map(str.isdigit, token)):
                continue
            if not any(map(str.isalpha, token)) and _AMOUNT.fullmatch(token) and not _VERSION.fullmatch(token):
                continue
            if not self._material.holds_token(token):
                is_amount = _AMOUNT.fullmatch(token) and not _VERSION.fullmatch(token)
                if is_amount or _COUNTED.fullmatch(token) or self._is_counted(match):
                    continue
                quarter = _QUARTER.fullmatch(token)
                held = self._material.holds_quarter(int(quarter[1])) if quarter else token in _UNITS
                if not held:
                    yield UnsupportedStatement("name", self._shown[match.start() : match.end()])
            self._blank(*match.span())

    def _is_counted(self, match: re.Match[str]) -> bool:
        """Tells whether a thing and its number are written together, as in `device-13`."""
        thing, _, number = re.sub("#", "-", match[0]).partition("-")
        shown = self._shown[match.start() : match.end()]
        return number.isdecimal() and shown[: len(thing)].islower() and self._material.holds_word(thing)

    def _numbers(self) -> Iterator[UnsupportedStatement]:
        for start, end in _list_numbers(self._rest, self._material.longest_list):
            self._blank(start, end)
        below = _BELOW.search(self._rest) is not None
        for match in [*_NUMBER.finditer(self._rest)]:
            if not self._holds(match, below=below):
                yield UnsupportedStatement("number", self._shown[match.start() : match.end()])
        words = _PERCENT.sub(_STOP, _SCALED.sub(_STOP, self._rest))
        shares = [*_PERCENT.finditer(self._rest)]
        for number in map(Decimal, numbers_in_words(words)):
            unit = Decimal(int(self._rounds))
            held = self._material.holds_number(number, unit)
            if not held and not (shares and self._material.holds_number(number / 100, unit / 100)):
                yield UnsupportedStatement("number", str(number))
        for plural, least in _PLURALS.items():
            if re.search(rf"\b{plural} (?:of|von|de)\b", words) and not self._material.holds_above(least):
                yield UnsupportedStatement("number", plural)
        for match in _FRACTION.finditer(words):
            value = _FRACTIONS[next(name for name, said in match.groupdict().items() if said)]
            unit = Decimal("0.01") * int(self._rounds)
            held = any(self._material.holds_number(value * by, unit * by) for by in (1, 100))
            if not held and not self._material.holds_words(match[0]):
                yield UnsupportedStatement("number", match[0])

    def _holds(self, match: re.Match[str], *, below: bool) -> bool:
        before, after = self._rest[: match.start()], self._rest[match.end() :]
        is_percent = _PERCENT.match(after) is not None
        scaled = _SCALE.match(after)
        scale = Decimal(1)
        if scaled and not is_percent:
            scale = Decimal({**SCALES, **_SHORT_SCALES}[scaled[1]])
        negative = _is_negative(self._rest, match.start())
        about = _ABOUT.search(before[-24:]) is not None
        for value, step_of in _readings(match[0], about=about, is_english=self._language.is_english):
            unit = step_of if self._rounds else Decimal(0)
            # Metres, kelvin, bytes; but `13k` is thousands.
            is_unit = scaled and scaled[1] in ("m", "k", "b") and self._shown[match.end() : match.end() + 1] != "k"
            for factor in (scale, Decimal(1)) if is_unit else (scale,):
                number, step = value * factor, unit * factor
                signs = (-1,) if negative else (1, -1) if below else (1,)
                if any(self._material.holds_number(sign * number, step) for sign in signs):
                    return True
                if is_percent and any(self._material.holds_number(sign * number / 100, step / 100) for sign in signs):
                    return True
        # Numbers one after another, and no thousands.
        parts = re.split("[ ,]", match[0])
        return len(parts) > 1 and all(
            number is not None and self._material.holds_number(number, Decimal(0)) for number in map(_decimal, parts)
        )

    def _names(self) -> Iterator[UnsupportedStatement]:
        for match in _QUOTED.finditer(self._shown):
            words = (match[1] or match[2]).strip(" .,;:!?*_")
            if not self._holds_words(words):
                yield UnsupportedStatement("name", words)
        yield from self._cells()
        yield from self._joined()
        if not self._language.has_names_in_capitals:
            yield from self._named()
            return
        labels = [match.span(1) for match in _LABEL.finditer(self._shown)]
        for match in _NAME.finditer(self._shown):
            word = re.sub(_POSSESSIVE, "", match[0])
            if len(word) < 2 or not word[0].isupper() or self._rest[match.start()] == " " or self._known(word):
                continue
            if any(start <= match.start() < end for start, end in labels):
                continue
            if not self._begins(match.start()) or _SAYS.match(self._shown[match.end() :]):
                yield UnsupportedStatement("name", word)

    def _joined(self) -> Iterator[UnsupportedStatement]:
        """Yields the words, in whatever case, that a list or a verb puts in the place of a name and are none."""
        for match in _STANDS_FOR.finditer(self._shown):
            if self._is_no_name(match["name"]):
                yield UnsupportedStatement("name", match["name"])
        for joint in _JOINT.finditer(self._shown):
            before, after = self._shown[: joint.start()], self._shown[joint.end() :]
            last = _NAME.match(after)
            if last and self._is_no_name(last[0]) and self._ends_with_value(before):
                behind = after[last.end() :]
                # What is between commas may be a remark, and no part of a list.
                following = _JOINT.match(behind) if joint["and"].strip() == "," else None
                is_listed = (
                    self._begins_with_value(behind[following.end() :])
                    if following
                    else (joint["and"].strip() != "," and _ENDS.match(behind))
                )
                is_capital = last[0][0].isupper() and not self._begins_with_value(behind)
                if is_listed or is_capital or _SAYS.match(behind):
                    yield UnsupportedStatement("name", last[0])

    def _ends_with_value(self, text: str) -> bool:
        words = [word.strip(_MARKS) for word in _plain(text[-2 * _LONGEST_VALUE :]).split()][-_MOST_WORDS:]
        return any(self._material.holds_value(words[at:]) for at in range(len(words)))

    def _begins_with_value(self, text: str) -> bool:
        """Tells whether a number or a value comes next; what stands before it then says what it is of."""
        start = text[:_LONGEST_VALUE].lstrip(f" :{_MARKS}")
        words = [word.strip(f".,;:!?{_MARKS}") for word in _plain(start).split()][:_MOST_WORDS]
        return re.match(r"-?\d", start) is not None or any(
            self._material.holds_value(words[:at]) for at in range(1, len(words) + 1)
        )

    def _is_no_name(self, word: str) -> bool:
        plain = re.sub(_POSSESSIVE, "", _plain(word))
        is_number = next(numbers_in_words(plain), None) is not None
        return len(plain) > 1 and plain not in _REST and not is_number and not self._known(plain)

    def _named(self) -> Iterator[UnsupportedStatement]:
        for match in _NAMED.finditer(self._shown):
            names = match[1].lower() not in _BEFORE_NOUNS and not self._begins(match.start())
            if names and self._rest[match.start(2)] != " " and not self._known(match[2]):
                yield UnsupportedStatement("name", match[2])

    def _cells(self) -> Iterator[UnsupportedStatement]:
        """Yields what stands in a table, or before a colon in a list, and is no word of the material."""
        is_table = False
        for line in self._rest.splitlines():
            if _RULE.fullmatch(line):
                is_table = True
                continue
            is_table = is_table and "|" in line
            item = _ITEM.match(line)
            said = line.strip(" |").split("|") if is_table else [item[1]] if item else []
            for words in (each.strip(" *_`") for each in said):
                if words and not self._holds_words(words):
                    yield UnsupportedStatement("name", words)

    def _holds_words(self, words: str) -> bool:
        """Tells whether words stand in the material; numbers among them are looked at elsewhere."""
        rest = [word for word in _WORD.findall(_plain(words)) if word.isalpha()]
        return self._material.holds_words(_plain(words)) or all(map(self._known, rest))

    def _known(self, word: str) -> bool:
        plain = _plain(word)
        return plain in _NO_NAMES or self._material.holds_word(plain)

    def _begins(self, start: int) -> bool:
        return _BEGINS.search(self._shown[max(0, start - 40) : start]) is not None or start == 0


def denies(wording: str, asked: Material) -> bool:
    """Tells whether a wording says that there is none, and nothing beyond what was asked."""
    return _NONE.search(wording) is not None and not unsupported(wording, asked, most=1)


def _counts(rows: Sequence[Sequence[Value]]) -> Iterator[int]:
    """Yields how many rows there are, how many different values, and how many rows hold the same one."""
    yield len(rows)
    for column in zip(*rows, strict=True):
        held = Counter(value for value in column if not isinstance(value, float))
        yield len(held)
        if len(held) < len(rows):
            yield from held.values()


def _readings(said: str, *, about: bool = False, is_english: bool = False) -> Iterator[tuple[Decimal, Decimal]]:
    """Yields what a number as it was written may mean, each with the unit that it was rounded to.

    A point or a comma before three digits says one thing in English, and in other languages the other.
    """
    joined = re.sub(r"['\u2019\u00a0\u202f ]", "", said)
    marks = [mark for mark in joined if mark in ",."]
    ways = set()
    if not marks:
        ways.add(joined)
    elif len({*marks}) == 2:
        thousands, point = marks[0], marks[-1]
        ways.add(joined.replace(thousands, "").replace(point, "."))
    else:
        is_grouped = re.fullmatch(r"\d{1,3}(?:[,.]\d{3})+", joined) is not None
        if is_grouped and not (is_english and marks == ["."]):
            ways.add(re.sub("[,.]", "", joined))
        if len(marks) == 1 and not (is_grouped and (joined.endswith("000") or (is_english and marks == [","]))):
            ways.add(joined.replace(",", "."))
    for way in ways:
        value = _decimal(way) if len(way) <= _LONGEST_NUMBER else None
        if value is not None:
            decimals = len(way.partition(".")[2])
            zeros = len(way) - len(way.rstrip("0")) if about and not decimals and value else 0
            yield value, Decimal(10) ** (zeros - decimals)


def _list_numbers(text: str, most: int) -> Iterator[tuple[int, int]]:
    """Yields where the lines of a list are numbered: from 1 on, and no further than there is something to list."""
    expected = 1
    for match in _LIST_NUMBER.finditer(text):
        number = int(match[1])
        if number == 1:
            expected = 1
        if number == expected and number <= max(most, 3):
            expected += 1
            yield match.span(1)


def _is_negative(text: str, start: int) -> bool:
    return start > 0 and text[start - 1] in "-\u2212" and (start == 1 or not (text[start - 2].isalnum()))


def _pieces(token: str) -> Iterator[str]:
    """Yields a name and the names in it that are written together: of `a/b-1` also `b-1`."""
    yield token
    if len(token) > _LONGEST_NAME:
        return
    at = [0, *(match.end() for match in re.finditer(r"[-_./:#]", token))][:12]
    ends = [*(match.start() for match in re.finditer(r"[-_./:#]", token)), len(token)][:12]
    for start in at:
        for end in ends:
            if start < end:
                yield token[start:end]


def _ends_a_sentence(said: str) -> bool:
    """Tells whether what looks like a host is the end of a sentence without a space behind it: `devices.The`."""
    head, _, last = said.rpartition(".")
    return "/" not in said and "@" not in said and "." not in head and last[:1].isupper() and last[1:].islower()


def _bare(link: str) -> str:
    return link.lower().rstrip(".,;:!?*_'\"")


def _as_date(day: Day) -> date | None:
    try:
        return date(*day)
    except ValueError:
        return None


def _decimal(text: str) -> Decimal | None:
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _stem(word: str) -> str:
    """Returns a word without what its number or case adds to it, in any of the three languages."""
    bare = re.sub(r"['\u2019]s?$", "", word)
    return re.sub(r"(?:es|en|er|e|s|n)$", "", bare) if len(bare) > 4 else bare.rstrip("s") if len(bare) > 2 else bare


class _Language(NamedTuple):
    """How many words of each language a text has that hardly any sentence does without."""

    english: int
    german: int
    spanish: int

    @property
    def is_english(self) -> bool:
        """Whether a comma parts thousands."""
        return self.english > self.german + self.spanish

    @property
    def has_names_in_capitals(self) -> bool:
        """Whether few words but names have capitals."""
        return self.english + self.spanish > self.german


def _language(plain: str) -> _Language:
    words = Counter(_WORD.findall(plain))
    return _Language(*(sum(words[each] for each in known) for known in (_ENGLISH, _GERMAN, _SPANISH)))


def _shown(text: str) -> str:
    """Returns a text as a reader sees it: without what is not shown, and with digits and letters of one form."""
    text = _POINT.sub(".", text)
    if text.isascii():
        return text
    plain = unicodedata.normalize("NFKC", text.replace("²", "2").replace("³", "3"))
    return "".join(each for each in plain if unicodedata.category(each) != "Cf")


def _plain(text: str) -> str:
    shown = _shown(text)
    lower = shown.lower()
    return lower if len(lower) == len(shown) else shown
