"""Where a value is from: from a table, or from the query; and what several such values are together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from enum import Enum, auto
from typing import Final

from postgast import pg_query_pb2 as pb


class Origin(Enum):
    """Where a value is from, and of a literal what it can do to what it stands beside."""

    READ = auto()
    # Read, with a literal in it that can't take its place, but may tell how long it is, or of how many parts.
    MIXED = auto()
    # NULL, false, 0, and texts without a letter or a digit. `coalesce(sum(x), 0)` stays read by it: that there is
    # nothing to add up, and that it adds up to nothing, are the same finding.
    NOTHING = auto()
    # 1 and true: what `sum(CASE WHEN … THEN 1 ELSE 0 END)` counts with.
    ONE = auto()
    # A factor between two units: a power of ten, 60, 1024. Any other would put its own digits into the value.
    UNIT = auto()
    # What may divide. A fraction may not: to divide by it is to multiply by another number.
    NUMBER = auto()
    STATED = auto()

    @property
    def is_read(self) -> bool:
        """Whether it may be shown as read from a table."""
        return self in _SHOWN


_SHOWN: Final = frozenset({Origin.READ, Origin.MIXED})
_UNITS: Final = frozenset(map(Decimal, (8, 24, 60, 1440, 3600, 86400, *(1024**power for power in range(1, 5)))))
_SAYS_NOTHING: Final = re.compile(r"[\s!-/:-@\[-`{-~]*")


def of_literal(constant: pb.A_Const) -> Origin:
    """Returns what a literal can do to what it stands beside."""
    kind = constant.WhichOneof("val")
    if constant.isnull or kind is None:
        return Origin.NOTHING
    if kind == "boolval":
        return Origin.ONE if constant.boolval.boolval else Origin.NOTHING
    if kind == "sval":
        return Origin.NOTHING if _SAYS_NOTHING.fullmatch(constant.sval.sval) else Origin.STATED
    try:
        number = Decimal(constant.ival.ival if kind == "ival" else constant.fval.fval)
    except InvalidOperation:  # a bit string, or one of the other ways to write a number
        return Origin.STATED
    if number in (0, 1):
        return Origin.ONE if number else Origin.NOTHING
    is_power_of_ten = number > 0 and number.normalize().as_tuple().digits == (1,)
    if is_power_of_ten or number in _UNITS:
        return Origin.UNIT
    return Origin.NUMBER if number > 1 else Origin.STATED


def any_of(origins: Sequence[Origin]) -> Origin:
    """Returns the origin of what may be any of some values of columns."""
    return kept(origins) if _SHOWN.issuperset(origins) else Origin.STATED


def kept(parts: Sequence[Origin]) -> Origin:
    """Returns the origin of what may be any of its parts, or is made of all of them."""
    if not _SHOWN.intersection(parts) or not all(part in _SHOWN or part is Origin.NOTHING for part in parts):
        return Origin.STATED
    return Origin.READ if set(parts) == {Origin.READ} else Origin.MIXED


def mixed(parts: Sequence[Origin]) -> Origin:
    """Returns the origin of what is made of all of its parts, and is as long as there are parts."""
    return Origin.MIXED if kept(parts).is_read else Origin.STATED


def measured(parts: Sequence[Origin]) -> Origin:
    """Returns the origin of what is found out about its parts, whatever that is."""
    return Origin.READ if set(parts) == {Origin.READ} else Origin.STATED


def found(parts: Sequence[Origin]) -> Origin:
    """Returns the origin of what is found out about its parts: true or false, by what is stored."""
    return Origin.READ if _SHOWN.intersection(parts) else Origin.STATED


def every(parts: Sequence[Origin]) -> Origin:
    """Returns the origin of what is true or false by all of its parts."""
    return Origin.READ if parts and _SHOWN.issuperset(parts) else Origin.STATED


def first(parts: Sequence[Origin]) -> Origin:
    """Returns the origin of what is the first of its parts, or nothing."""
    return parts[0] if parts else Origin.STATED


def last(parts: Sequence[Origin]) -> Origin:
    """Returns the origin of what is the last of its parts."""
    return parts[-1] if parts else Origin.STATED
