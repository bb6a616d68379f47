"""Results of a batch as the text of a file, an item at a time: the same results are the same text."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.json_format import MessageToDict
from signalbox.v1 import batches_pb2, sast_pb2

from services.kit.outcome import Outcome

COLUMNS: Final = (
    "number", "key", "state", "settled_by", "truth", "outcome", "stop_reason", "error", "run_id", "output",
)  # fmt: skip
FORMS: Final = ("json", "csv")
_STATE: Final = "BATCH_ITEM_STATE_"
# With what a spreadsheet begins a formula (https://owasp.org/www-community/attacks/CSV_Injection).
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001 - as wide letters, too


@dataclass(frozen=True)
class Form:
    """How results are written: what comes first, and what each item is."""

    head: str
    line: Callable[[batches_pb2.BatchItem], str]


def form_of(name: str, *, with_run_ids: bool) -> Form:
    """Returns a form of FORMS: JSON, an item a line, or CSV (RFC 4180)."""
    columns = columns_of(with_run_ids=with_run_ids)

    def as_row(item: batches_pb2.BatchItem) -> str:
        result = result_of(item)
        return _row([_safe(cell_of(result[column])) for column in columns])

    def as_json(item: batches_pb2.BatchItem) -> str:
        result = result_of(item)
        return json.dumps({column: result[column] for column in columns}, ensure_ascii=False, sort_keys=True) + "\n"

    return Form(_row(columns), as_row) if name == "csv" else Form("", as_json)


def columns_of(*, with_run_ids: bool) -> list[str]:
    """Returns the columns of results, with or without ids of runs."""
    return [column for column in COLUMNS if with_run_ids or column != "run_id"]


def result_of(item: batches_pb2.BatchItem) -> dict[str, Any]:
    """Returns what came of an item, by column; `output` is what its agent brought, by its name, as JSON has it."""
    run = item.run
    outcome = Outcome.of(run.outcome)
    return {
        "number": item.number,
        "key": item.key,
        "state": state_name(item.state),
        "settled_by": _word(batches_pb2.SettledBy.Name(item.settled_by), "SETTLED_BY_"),
        "truth": _word(sast_pb2.Verdict.Name(item.truth), "VERDICT_"),
        "outcome": outcome.value if outcome else "",
        "stop_reason": run.stop_reason,
        "error": item.error or run.error,
        "run_id": item.run_id,
        "output": MessageToDict(run.output, preserving_proto_field_name=True) if run.HasField("output") else None,
    }


def state_name(state: batches_pb2.BatchItemState) -> str:
    """Returns the state of an item as results name it."""
    return batches_pb2.BatchItemState.Name(state).removeprefix(_STATE).lower()


def _word(name: str, prefix: str) -> str:
    """Returns the word of an enum's value; empty for what is unspecified."""
    word = name.removeprefix(prefix).lower()
    return "" if word == "unspecified" else word


def _row(cells: list[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerow(cells)
    return text.getvalue()


def cell_of(value: Any) -> str:
    """Returns a value of a result as the text of a cell."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


def _safe(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) else text
