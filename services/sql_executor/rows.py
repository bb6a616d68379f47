"""Rows as the database writes them, to the typed table of the wire."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

import psycopg
from psycopg.adapt import AdaptersMap, Buffer, Loader
from psycopg.postgres import types
from signalbox.v1 import table_pb2

from services.sql_executor.policy import Limits

_LONGEST_SHOWN = 1000
ROW_CAP, BYTE_CAP = "row_cap", "byte_cap"

_TYPES = {
    **dict.fromkeys(["bool"], table_pb2.COLUMN_TYPE_BOOL),
    **dict.fromkeys(["int2", "int4", "int8"], table_pb2.COLUMN_TYPE_INT),
    **dict.fromkeys(["float4", "float8"], table_pb2.COLUMN_TYPE_DOUBLE),
    **dict.fromkeys(["numeric"], table_pb2.COLUMN_TYPE_NUMERIC),
    **dict.fromkeys(["text", "varchar", "bpchar", "name"], table_pb2.COLUMN_TYPE_TEXT),
    # A timestamp without a time zone is no instant; it goes as the database's text form.
    **dict.fromkeys(["timestamptz"], table_pb2.COLUMN_TYPE_TIMESTAMP),
    **dict.fromkeys(["date"], table_pb2.COLUMN_TYPE_DATE),
}
_TYPE_OF_OID = {types[name].oid: kind for name, kind in _TYPES.items()}
_INSTANT = re.compile(r"(\d{4,}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?)([+-]\d\d)(?::?(\d\d))?")


class _TextLoader(Loader):
    """Leaves a value as the database writes it."""

    def load(self, data: Buffer) -> str:
        return bytes(data).decode()


class TextResults:
    """A psycopg context in which every value arrives as text: what the wire needs, with no value lost on the way."""

    connection = None

    def __init__(self, adapters: AdaptersMap) -> None:
        self.adapters = adapters


@cache
def text_results() -> TextResults:
    """Returns the context; made once, for connections share it."""
    adapters = AdaptersMap(psycopg.adapters)
    adapters.register_loader(0, _TextLoader)
    for info in types:
        adapters.register_loader(info.oid, _TextLoader)
        if info.array_oid:
            adapters.register_loader(info.array_oid, _TextLoader)
    return TextResults(adapters)


class Described(Protocol):
    """A result column."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def type_code(self) -> int:
        """The OID of its type."""


@dataclass
class ResultTable:
    """A result as it grows, within the row cap and the byte cap."""

    columns: Sequence[tuple[str, int]]
    limits: Limits
    rows: list[Sequence[str | None]] = field(default_factory=list)
    truncated_by: str = ""
    _size_bytes: int = 0

    @classmethod
    def of(cls, description: Sequence[Described], limits: Limits) -> ResultTable:
        """Returns an empty table with a result's columns."""
        kinds = [
            (column.name, _TYPE_OF_OID.get(column.type_code, table_pb2.COLUMN_TYPE_OTHER)) for column in description
        ]
        return cls(kinds, limits)

    def add(self, row: Sequence[str | None], *, was_sent: bool = True) -> bool:
        """Adds a row, unless it is too large to be sent; returns False, and remembers why, when a cap leaves it out."""
        if len(self.rows) >= self.limits.row_cap:
            self.truncated_by = ROW_CAP
            return False
        size = sum(len(value.encode()) for value in row if value is not None)
        if not was_sent or self._size_bytes + size > self.limits.byte_cap:
            self.truncated_by = BYTE_CAP
            return False
        self._size_bytes += size
        self.rows.append(row)
        return True

    def to_proto(self) -> table_pb2.Table:
        """Returns the table of the wire."""
        fill = [_FILL.get(kind, _fill_text) for _, kind in self.columns]
        table = table_pb2.Table(truncated=bool(self.truncated_by), truncated_by=self.truncated_by)
        for name, kind in self.columns:
            table.columns.add(name=name, type=kind)
        for row in self.rows:
            cells = table.rows.add().values
            for write, value in zip(fill, row, strict=True):
                cell = cells.add()
                if value is not None:
                    write(cell, value)
        return table

    def to_text(self, most_rows: int) -> str:
        """Returns the table as text for the model: how many rows, what cut them, a header, a line per row."""
        shown = self.rows[:most_rows]
        lines = [f"rows: {len(self.rows)}"]
        if self.truncated_by == ROW_CAP:
            lines.append(f"truncated: row_cap ({self.limits.row_cap} rows; aggregate or filter to see all)")
        elif self.truncated_by == BYTE_CAP:
            lines.append(f"truncated: byte_cap ({self.limits.byte_cap} bytes; select fewer columns or rows)")
        elif len(shown) < len(self.rows):
            lines.append(f"truncated: text (only the first {len(shown)} rows are shown here)")
        lines.append(" | ".join(_shown(name) for name, _ in self.columns))
        lines += [" | ".join("NULL" if value is None else _shown(value) for value in row) for row in shown]
        return "\n".join(lines)


def _shown(value: str) -> str:
    """Returns a value or a name on one line, and no longer than helps to word an answer; the table has it whole.

    Both may be whatever a query says. Characters that are not seen could hide what is read, or look like lines of ours.
    """
    start = value[:_LONGEST_SHOWN]
    line = start if start.isprintable() else "".join(filter(str.isprintable, " ".join(start.split())))
    return line if start is value else f"{line}… ({len(value)} characters)"


def _fill_bool(cell: table_pb2.Cell, value: str) -> None:
    cell.bool_value = value == "t"


def _fill_int(cell: table_pb2.Cell, value: str) -> None:
    cell.int_value = int(value)


def _fill_double(cell: table_pb2.Cell, value: str) -> None:
    cell.double_value = float(value)


def _fill_text(cell: table_pb2.Cell, value: str) -> None:
    cell.text_value = value


def _fill_instant(cell: table_pb2.Cell, value: str) -> None:
    found = _INSTANT.fullmatch(value)
    if found is None:  # infinity, or before Christ: RFC 3339 has no such instants
        cell.text_value = value
        return
    date, time, hours, minutes = found.groups()
    zone = "Z" if hours == "+00" and not minutes else f"{hours}:{minutes or '00'}"
    cell.text_value = f"{date}T{time}{zone}"


_FILL: dict[int, Callable[[Any, str], None]] = {
    table_pb2.COLUMN_TYPE_BOOL: _fill_bool,
    table_pb2.COLUMN_TYPE_INT: _fill_int,
    table_pb2.COLUMN_TYPE_DOUBLE: _fill_double,
    table_pb2.COLUMN_TYPE_TIMESTAMP: _fill_instant,
}
