"""A result as CSV."""

from __future__ import annotations

import csv
import io

from signalbox.v1 import table_pb2

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def as_csv(table: table_pb2.Table) -> str:
    """Returns a table as RFC 4180 CSV with a header line; NULL is an empty field.

    A text that a spreadsheet would take for a formula gets an apostrophe in front, by which it is shown as text.
    """
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(_as_text(column.name) for column in table.columns)
    for row in table.rows:
        writer.writerow(_plain(cell, column.type) for cell, column in zip(row.values, table.columns, strict=True))
    return text.getvalue()


def _plain(cell: table_pb2.Cell, kind: table_pb2.ColumnType) -> object:
    field = cell.WhichOneof("value")
    if field == "text_value" and kind != table_pb2.COLUMN_TYPE_NUMERIC:
        return _as_text(cell.text_value)
    return getattr(cell, field) if field else None


def _as_text(text: str) -> str:
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text
