"""Results as files: in the contract's names, and harmless to spreadsheets."""

from __future__ import annotations

import csv
import io
import json

import pytest
from signalbox.v1 import batches_pb2, data_chat_pb2, outcome_pb2, runs_pb2

from services.cli.batch_results import COLUMNS, form_of


def item(key: str = "first", answer: str = "Six.", error: str = "") -> batches_pb2.BatchItem:
    """An item that was answered, or with an error one that was refused."""
    if error:
        return batches_pb2.BatchItem(number=7, key=key, error=error, state=batches_pb2.BATCH_ITEM_STATE_REFUSED)
    run = runs_pb2.Run(
        run_id="r-1",
        outcome=outcome_pb2.OUTCOME_ANSWERED,
        output=runs_pb2.RunOutput(data_chat=data_chat_pb2.DataChatOutput(answer=answer)),
    )
    state = batches_pb2.BATCH_ITEM_STATE_SUCCEEDED
    return batches_pb2.BatchItem(number=7, key=key, state=state, run_id="r-1", run=run)


def row_of(given: batches_pb2.BatchItem) -> dict[str, str]:
    form = form_of("csv", with_run_ids=True)
    [row] = csv.DictReader(io.StringIO(form.head + form.line(given), newline=""))
    return row


def test_an_item_is_a_line_of_json() -> None:
    line = form_of("json", with_run_ids=True).line(item())
    assert line.endswith("\n")
    told = json.loads(line)
    assert set(told) == set(COLUMNS)
    assert told["output"]["data_chat"]["answer"] == "Six."
    assert (told["number"], told["state"], told["outcome"], told["run_id"]) == (7, "succeeded", "answered", "r-1")


def test_a_row_holds_lines_quotes_and_other_scripts() -> None:
    answer = 'six, "or"\r\nseven; шесть \U0001f6f0'
    row = row_of(item(key="ä,b", answer=answer))
    assert row["key"] == "ä,b"
    assert json.loads(row["output"])["data_chat"]["answer"] == answer


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"])  # noqa: RUF001
def test_what_a_spreadsheet_would_take_for_a_formula_is_text(begin: str) -> None:
    row = row_of(item(key=f"{begin}1+1", error=f"{begin}HYPERLINK()"))
    assert row["key"] == f"'{begin}1+1"
    assert row["error"] == f"'{begin}HYPERLINK()"


def test_an_item_without_a_run_has_its_error_alone() -> None:
    told = json.loads(form_of("json", with_run_ids=False).line(item(error="no such agent")))
    assert (told["state"], told["error"], told["outcome"], told["output"]) == ("refused", "no such agent", "", None)
    assert "run_id" not in told
