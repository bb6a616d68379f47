"""Tables, of which something may be said."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final, NamedTuple

Value = str | int | float | bool | Decimal | None
# What is longer is no value that anybody names.
LONGEST_VALUE: Final = 80


class Table(NamedTuple):
    """Rows of a result, and what their columns are called."""

    rows: Sequence[Sequence[Value]]
    columns: Sequence[str] = ()
