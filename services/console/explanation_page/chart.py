"""A bar for each row of a result with a column of labels and one of numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from signalbox.v1 import table_pb2

from services.kit.text.words import cell

NUMBERS = frozenset((table_pb2.COLUMN_TYPE_INT, table_pb2.COLUMN_TYPE_DOUBLE, table_pb2.COLUMN_TYPE_NUMERIC))
LABELS = frozenset((table_pb2.COLUMN_TYPE_TEXT, table_pb2.COLUMN_TYPE_DATE, table_pb2.COLUMN_TYPE_TIMESTAMP))
FEWEST, MOST, LONGEST_LABEL = 2, 40, 60


@dataclass(frozen=True)
class ChartBar:
    """A bar: its label and number as texts, and where it is drawn, in percent of the width."""

    label: str
    number: str
    x: float
    width: float


@dataclass(frozen=True)
class Chart:
    """Bars from one zero."""

    title: str
    bars: Sequence[ChartBar]


def chart_of(table: table_pb2.Table) -> Chart | None:
    """Returns a chart of a result; None where it has other columns, too few or too many rows, or what is no number."""
    kinds = [column.type for column in table.columns]
    if len(kinds) != 2 or not FEWEST <= len(table.rows) <= MOST:
        return None
    at = next((place for place in (0, 1) if kinds[place] in NUMBERS and kinds[1 - place] in LABELS), None)
    if at is None:
        return None
    numbers = [_number(row.values[at]) for row in table.rows]
    labels = [cell(row.values[1 - at]) for row in table.rows]
    known = [each for each in numbers if each is not None]
    if len(known) < len(numbers) or len({*labels}) < len(labels):
        return None
    least, most = min(0.0, *known), max(0.0, *known)
    extent = most - least or 1.0
    zero = -least / extent * 100
    bars = [
        ChartBar(
            label if len(label) <= LONGEST_LABEL else f"{label[: LONGEST_LABEL - 1]}…",
            cell(row.values[at]),
            zero + min(0.0, value) / extent * 100,
            abs(value) / extent * 100,
        )
        for label, value, row in zip(labels, known, table.rows, strict=True)
    ]
    return Chart(f"{table.columns[at].name} by {table.columns[1 - at].name}", bars)


def _number(value: table_pb2.Cell) -> float | None:
    try:
        number = float(cell(value)) if value.WhichOneof("value") else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) and abs(number) < 1e300 else None
