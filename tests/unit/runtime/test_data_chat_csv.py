"""Rows as CSV: what a program reads back, and what a spreadsheet must not run."""

import csv
import io

import pytest
from signalbox.v1 import table_pb2

from services.runtime.agents.data_chat.table_csv import as_csv

TEXT, NUMERIC = table_pb2.COLUMN_TYPE_TEXT, table_pb2.COLUMN_TYPE_NUMERIC


def written(*cells: table_pb2.Cell, name: str = "name", kind: table_pb2.ColumnType = TEXT) -> list[list[str]]:
    table = table_pb2.Table(columns=[table_pb2.Column(name=name, type=kind)])
    for cell in cells:
        table.rows.add().values.append(cell)
    return list(csv.reader(io.StringIO(as_csv(table))))


@pytest.mark.parametrize("text", ["plain", "a,b", 'say "so"', "two\nlines", "\u00fc \u5f20", "1 = 1", "a-b", ""])
def test_a_text_reads_back_as_it_was(text: str) -> None:
    assert written(table_pb2.Cell(text_value=text), table_pb2.Cell()) == [["name"], [text], [""]]


@pytest.mark.parametrize("text", ["=HYPERLINK(1)", "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_text_that_a_spreadsheet_would_run_is_marked_as_text(text: str) -> None:
    assert written(table_pb2.Cell(text_value=text), name=text) == [["'" + text], ["'" + text]]


def test_a_negative_number_is_one() -> None:
    assert written(table_pb2.Cell(text_value="-12.50"), kind=NUMERIC) == [["name"], ["-12.50"]]
    assert written(table_pb2.Cell(int_value=-3), kind=table_pb2.COLUMN_TYPE_INT) == [["name"], ["-3"]]
