"""How long the values are that a query builds, and how much work they make, as far as its tree tells.

Some functions never look at the time limit or at a cancel request while they work on one value, and a value that is
built out of itself grows to a gigabyte in a few lines. So what is built is bounded, and functions whose work is the
product of two lengths only take short ones. Lengths are in characters.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from postgast import pg_query_pb2 as pb

from services.kit.tools.executor import ToolRefused

# What a stored value is taken to have, where two lengths are multiplied; and on average, where many rows are collected.
STORED_LENGTH: Final = 1_000_000
STORED_MEAN: Final = 100
# What a stored value is taken to have where it is only read through: nobody makes it longer by asking.
READ_LENGTH: Final = 10_000
MAX_SERIES: Final = 1_000_000
# The longest text of a number with all its digits, and what numbers have that are not made to be long.
LONG_NUMBER: Final = 150_000
_VALUE_LENGTH: Final = 40
_LENGTH_OF_TYPE: Final = re.compile(r"(?:character varying|character|numeric|bit varying)\((\d+)")
_FIXED_TYPES: Final = re.compile(
    r"(smallint|integer|bigint|real|double precision|numeric|boolean|date|time|interval|uuid|oid|money|inet|cidr)"
)
# A number with an exponent of three digits or more, and no part of a word, as of a UUID.
_EXPONENT: Final = re.compile(r"(?<![0-9A-Za-z])\d+(?:\.\d*)?[eE]\+?[0_]*\d[\d_]{2,9}(?![0-9A-Za-z-])")
_STEP: Final = re.compile(r"\s*\d*\s*(hour|day|week|month|year)s?\s*", re.IGNORECASE)
_YEAR: Final = re.compile(r"\s*(\d{4})-")


class Size(NamedTuple):
    """The most that a value has: characters, copies of stored values, and copies of what a recursion made before.

    `texts` is not 0 where a text is, or was, part of it: as a number it may have more digits than it has characters.
    """

    fixed: float = 0
    stored: float = 0
    recursive: float = 0
    texts: float = 0

    def times(self, factor: float) -> Size:
        """Returns the size of so many of them."""
        return Size(*(part * factor if part else 0 for part in self))

    @property
    def length(self) -> float:
        """The characters that it is taken to have."""
        return self.fixed + (self.stored + self.recursive) * STORED_LENGTH

    @property
    def read(self) -> float:
        """The characters that reading it through passes."""
        return self.fixed + (self.stored + self.recursive) * READ_LENGTH

    @property
    def is_number(self) -> bool:
        """Whether it has all of its digits already, if it is a number at all."""
        return not self.texts and not self.stored and not self.recursive

    @property
    def is_value(self) -> bool:
        """Whether it is a number, a date or as short as one."""
        return self.is_number and self.fixed <= _VALUE_LENGTH


VALUE: Final = Size(_VALUE_LENGTH)


def longest(sizes: Iterable[Size]) -> Size:
    """Returns what is as long as the longest of some."""
    found = list(sizes)
    if len(found) == 1:
        return found[0]
    return Size(*(max(parts) for parts in zip(*found, strict=True))) if found else Size()


def together(sizes: Iterable[Size]) -> Size:
    """Returns what is as long as all of them."""
    found = list(sizes)
    return Size(*(sum(parts) for parts in zip(*found, strict=True))) if found else Size()


def size_of_type(kind: str) -> Size:
    """Returns the size of a stored value by its type, as the database writes it."""
    if kind.endswith("]"):
        return Size(stored=1)
    if declared := _LENGTH_OF_TYPE.match(kind):
        return Size(int(declared[1]) + 2, texts=0 if kind.startswith("numeric") else 1)
    return VALUE if _FIXED_TYPES.match(kind) else Size(stored=1)


def spelled_out(text: str) -> Size:
    """Returns the size of a literal text, its numbers with all the digits that they have as a number or as JSON."""
    return Size(len(text) + LONG_NUMBER * len(_EXPONENT.findall(text)), texts=1)


def parsed(size: Size) -> Size:
    """Returns the size of JSON, or of numbers, made from a text that the statement has put together.

    Each eight characters may be a number such as 1e131000. What is only stored is no longer by being asked for.
    """
    built = size.fixed + (max(size.stored - 1, 0) + size.recursive) * STORED_MEAN
    return size._replace(fixed=size.fixed + built // 8 * LONG_NUMBER)


def whole_number(node: pb.Node) -> int | None:
    """Returns the value of a literal whole number."""
    constant = node.a_const if node.WhichOneof("node") == "a_const" else None
    if constant is None or constant.isnull:
        return None
    if constant.WhichOneof("val") == "ival":
        return int(constant.ival.ival)
    text = constant.fval.fval if constant.WhichOneof("val") == "fval" else ""
    return int(text) if text.lstrip("-").isdigit() and len(text) < 40 else None


def literal(node: pb.Node) -> str | None:
    """Returns the text of a string literal, with or without a type."""
    if node.WhichOneof("node") == "type_cast":
        node = node.type_cast.arg
    constant = node.a_const if node.WhichOneof("node") == "a_const" else None
    return constant.sval.sval if constant is not None and constant.WhichOneof("val") == "sval" else None


def is_literal(node: pb.Node) -> bool:
    """Tells whether an expression is a literal, with or without a type."""
    inner = node.type_cast.arg if node.WhichOneof("node") == "type_cast" else node
    return bool(inner.WhichOneof("node") == "a_const")


def series_rows(nodes: Sequence[pb.Node]) -> float:
    """Returns how many rows a generate_series has at most. Raises ToolRefused when they are too many."""
    numbers = [whole_number(node) for node in nodes]
    if len(numbers) >= 2 and numbers[0] is not None and numbers[1] is not None:
        step = numbers[2] if len(numbers) > 2 else 1
        count = abs(numbers[1] - numbers[0]) / (abs(step) if step else 1) + 1
        if count > MAX_SERIES:
            raise ToolRefused("too_large", f"generate_series makes {count:.0f} rows; at most {MAX_SERIES} are made.")
        return count
    texts = [literal(node) or "" for node in nodes[:3]]
    years = [_YEAR.match(text) for text in texts[:2]]
    if len(texts) == 3 and all(years) and _STEP.fullmatch(texts[2]):
        first, last = (int(year[1]) for year in years if year)
        return (abs(last - first) + 1) * 8784
    return math.inf


# What `format` is told of a value: its place, whether it goes to the left, and how wide it has to be, as a number or by
# another value.
_WIDTHS = re.compile(r"%(?:\d+\$)?-*(\*|\d+)?")
Rule = Callable[[Sequence[Size], Sequence[pb.Node]], Size]


def _times_literal(sizes: Sequence[Size], nodes: Sequence[pb.Node]) -> Size:
    count = whole_number(nodes[1]) if len(nodes) > 1 else None
    return sizes[0].times(max(count, 0)) if count is not None else Size(math.inf)


def _padded(_sizes: Sequence[Size], nodes: Sequence[pb.Node]) -> Size:
    count = whole_number(nodes[1]) if len(nodes) > 1 else None
    return Size(max(count, 0), texts=1) if count is not None else Size(math.inf)


def _replaced(sizes: Sequence[Size], nodes: Sequence[pb.Node]) -> Size:
    if len(sizes) < 3:
        return together(sizes)
    if sizes[2].stored or sizes[2].recursive:
        return Size(math.inf)
    shortest = len(literal(nodes[1]) or "x")
    return sizes[0].times(max(1, math.ceil(sizes[2].fixed / max(shortest, 1))))


def _by_expression(sizes: Sequence[Size], nodes: Sequence[pb.Node]) -> Size:
    replacement = literal(nodes[2]) if len(nodes) > 2 else None
    return sizes[0].times(len(replacement) + 1) if replacement is not None else Size(math.inf)


def _formatted(sizes: Sequence[Size], nodes: Sequence[pb.Node]) -> Size:
    pattern = literal(nodes[0]) if nodes else None
    if pattern is None or any(width for width in _WIDTHS.findall(pattern.replace("%%", ""))):
        return Size(math.inf)
    uses = pattern.count("%")
    return together([sizes[0], longest(sizes[1:]).times(2 * uses)]) if len(sizes) > 1 else sizes[0]


def _as_json(sizes: Sequence[Size], _nodes: Sequence[pb.Node]) -> Size:
    whole = together(sizes)
    # Control characters take six characters each; of stored values, few are.
    return Size(whole.fixed * 6 + 8 * len(sizes), whole.stored * 2, whole.recursive * 2, texts=1)


def _escaped(sizes: Sequence[Size], _nodes: Sequence[pb.Node]) -> Size:
    return together([*sizes, Size(8)]).times(2)


def _separated(sizes: Sequence[Size], _nodes: Sequence[pb.Node]) -> Size:
    # It has no more members than characters; the others come between them, and in the place of NULL.
    added = together(sizes[1:])
    return together([sizes[0], sizes[0].times(added.fixed + (added.stored + added.recursive) * STORED_MEAN)])


def _sum(sizes: Sequence[Size], _nodes: Sequence[pb.Node]) -> Size:
    return together([*sizes, Size(8 * len(sizes))])


def _indented(sizes: Sequence[Size], _nodes: Sequence[pb.Node]) -> Size:
    # Brackets in brackets, each pair on two lines: as many spaces as the square. Stored ones are as deep as they are.
    whole = sizes[0] if sizes else Size()
    return Size(whole.fixed * whole.fixed, whole.stored * 4, whole.recursive * 4, texts=1)


def _with_separator(sizes: Sequence[Size], _nodes: Sequence[pb.Node]) -> Size:
    return together([*sizes, sizes[0].times(len(sizes))]) if sizes else Size()


BUILT: Final[dict[str, Rule]] = {
    **dict.fromkeys(["array_append", "array_prepend", "array_cat", "array_replace", "overlay", "concat"], _sum),
    **dict.fromkeys(["jsonb_set", "jsonb_insert", "to_number"], _sum),
    **dict.fromkeys(
        ["json_build_object", "jsonb_build_object", "json_build_array", "jsonb_build_array", "to_json", "to_jsonb",
         "row_to_json", "array_to_json", "json_object"], _as_json,
    ),
    **dict.fromkeys(["power", "exp"], lambda _sizes, _nodes: Size(LONG_NUMBER)),
    **dict.fromkeys(["like_escape", "similar_to_escape", "quote_literal", "quote_nullable"], _escaped),
    "concat_ws": _with_separator,
    "jsonb_pretty": _indented,
    "replace": _replaced,
    "repeat": _times_literal,
    "lpad": _padded,
    "rpad": _padded,
    "format": _formatted,
    "array_to_string": _separated,
    "to_char": lambda sizes, _: together([VALUE, sizes[-1].times(10)]),
    "regexp_replace": _by_expression,
}  # fmt: skip


def _cut(sizes: Sequence[Size], nodes: Sequence[pb.Node], place: int) -> Size:
    count = whole_number(nodes[place]) if len(nodes) > place else None
    return longest(sizes[:1]) if count is None or count < 0 else Size(count, texts=1)


def _rounded(sizes: Sequence[Size], nodes: Sequence[pb.Node]) -> Size:
    places = whole_number(nodes[1])
    digits = LONG_NUMBER if places is None else min(_VALUE_LENGTH + abs(places), LONG_NUMBER)
    return longest([sizes[0], Size(digits)])


def shortened(name: str, sizes: Sequence[Size], nodes: Sequence[pb.Node]) -> Size:
    """Returns the size of a result that is no longer than its arguments, or has as many places as they say."""
    if name in ("left", "right"):
        return _cut(sizes, nodes, 1)
    if name in ("substring", "substr"):
        return _cut(sizes, nodes, 2)
    if name in ("round", "trunc") and len(nodes) > 1:
        return _rounded(sizes, nodes)
    return longest(sizes)


def sorted_length(sizes: Sequence[Size]) -> float:
    """Returns how long the values are that an aggregate sorts; numbers and dates are as good as nothing."""
    long = [size for size in sizes if not size.is_value]
    return sum(size.fixed + (size.stored + size.recursive) * STORED_MEAN for size in long)


def collected(name: str, sizes: Sequence[Size], rows: float) -> Size:
    """Returns the size of what an aggregate collects from so many rows."""
    one = together([*sizes, Size(8)])
    if name.startswith("json"):
        one = _as_json(sizes, ())
    return Size((one.fixed + (one.stored + one.recursive) * STORED_MEAN) * rows, texts=1)
