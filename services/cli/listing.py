"""Rows of named values: a table where it fits, else a block of lines for each row. Nothing is cut in either."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from services.kit.text.printing import printable

INDENT = "    "
GAP = "  "
# Wider than any row: what a table measures against to say how wide it is.
UNBOUNDED = 1_000_000


class Listing:
    """Rows under column names. Values come as text to be made safe to print, or as ready `Text`."""

    def __init__(self, *columns: str, right: Collection[str] = ()) -> None:
        self._columns = columns
        self._right = right
        self._rows: list[Sequence[Text]] = []

    def add(self, *values: str | Text) -> None:
        """Adds a row, with a value for each column; an empty one is left out where rows are blocks."""
        self._rows.append([each if isinstance(each, Text) else Text(printable(each)) for each in values])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = self._table()
        unbounded = options.update(width=UNBOUNDED)
        if Measurement.get(console, unbounded, table).maximum <= options.max_width:
            yield table
            return
        for row in self._rows:
            yield from self._block(row, options.max_width)

    def _table(self) -> Table:
        table = Table(box=None, header_style="bold dim", pad_edge=False)
        for name in self._columns:
            table.add_column(Text(printable(name)), justify="right" if name in self._right else "left")
        for row in self._rows:
            table.add_row(*row)
        return table

    def _block(self, row: Sequence[Text], width: int) -> list[Text]:
        """The values of a row behind their names, as many to a line as fit; a longer one is folded, not cut."""
        lines: list[Text] = []
        for name, value in zip(self._columns, row, strict=True):
            if not value.plain:
                continue
            named = Text.assemble((printable(name), "dim"), " ", value) if name else value.copy()
            if lines and lines[-1].cell_len + len(GAP) + named.cell_len <= width:
                lines[-1].append(GAP).append_text(named)
            else:
                lines.append(Text(INDENT if lines else "").append_text(named))
        return lines
