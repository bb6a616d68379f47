"""Result tables as a terminal shows them."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text
from signalbox.v1 import table_pb2

from services.cli.listing import Listing
from services.kit.text.printing import printable
from services.kit.text.words import cell

_NUMBERS = frozenset((table_pb2.COLUMN_TYPE_INT, table_pb2.COLUMN_TYPE_DOUBLE, table_pb2.COLUMN_TYPE_NUMERIC))


def rows(table: table_pb2.Table) -> RenderableType:
    """A result table, and whether it was cut."""
    numbers = [column.name for column in table.columns if column.type in _NUMBERS]
    shown = Listing(*(column.name for column in table.columns), right=numbers)
    for row in table.rows:
        shown.add(*(Text(cell(value), style="" if value.WhichOneof("value") else "dim") for value in row.values))
    if not table.truncated:
        return shown
    note = f"cut by the {printable(table.truncated_by) or 'limit'}: there are more rows"
    return Group(shown, Text(note, style="yellow"))
