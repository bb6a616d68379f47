"""Files of a batch of findings, from its items alone: a log with verdicts, a report, and a spreadsheet with scores."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from signalbox.v1 import batches_pb2, data_chat_pb2, outcome_pb2, runs_pb2, sast_pb2

from services.cli.batch_exports import write_html, write_sarif, write_xlsx
from services.cli.errors import CliError
from tests.fixtures.sarif_schema import violations

TRUE, FALSE = sast_pb2.VERDICT_TRUE_POSITIVE, sast_pb2.VERDICT_FALSE_POSITIVE
EVIL = '=HYPERLINK("http://evil") <script>alert(1)</script>'


def item(number: int, verdict: sast_pb2.Verdict, truth: sast_pb2.Verdict, rule: str = "B602") -> batches_pb2.BatchItem:
    """An item that has ended."""
    finding = sast_pb2.Finding(
        fingerprint=f"f-{number}", rule_id=rule, message=EVIL,
        location=sast_pb2.CodeLocation(file="src/app.py", first_line=number),
    )  # fmt: skip
    asked = sast_pb2.SastInvestigationInput(
        finding=finding, source=sast_pb2.CodeSource(repository="/srv/portal", commit="0" * 40)
    )
    output = sast_pb2.SastInvestigationOutput(verdict=verdict, justification=EVIL)
    run = runs_pb2.Run(
        run_id=f"00000000-0000-7000-8000-{number:012d}",
        state=runs_pb2.RUN_STATE_SUCCEEDED,
        outcome=outcome_pb2.OUTCOME_TRUE_POSITIVE,
        output=runs_pb2.RunOutput(sast_investigation=output),
    )
    return batches_pb2.BatchItem(
        number=number, key=EVIL, state=batches_pb2.BATCH_ITEM_STATE_SUCCEEDED, run_id=run.run_id, run=run, truth=truth,
        input=runs_pb2.RunInput(sast_investigation=asked),
    )  # fmt: skip


ITEMS = (item(1, TRUE, TRUE), item(2, TRUE, FALSE), item(3, FALSE, TRUE), item(4, FALSE, FALSE, "B101"))


async def exported(items: tuple[batches_pb2.BatchItem, ...] = ITEMS) -> AsyncIterator[batches_pb2.BatchItem]:
    """A batch as it is exported."""
    for each in items:
        yield each


async def test_a_log_with_verdicts_is_valid_and_the_same_bytes_without_ids_of_runs(tmp_path: Path) -> None:
    out, again = tmp_path / "out.sarif", tmp_path / "again.sarif"
    await write_sarif(exported(), out, with_run_ids=True)
    log = json.loads(out.read_text())
    assert violations(log) == []
    ours = [result["properties"]["signalbox"] for result in log["runs"][0]["results"]]
    assert [(each["fingerprint"], each["verdict"]) for each in ours] == [
        ("f-1", "TRUE_POSITIVE"), ("f-2", "TRUE_POSITIVE"), ("f-3", "FALSE_POSITIVE"), ("f-4", "FALSE_POSITIVE"),
    ]  # fmt: skip
    assert all(each["runId"] for each in ours)
    await write_sarif(exported(), again, with_run_ids=False)
    assert "runId" not in again.read_text()


async def test_a_report_shows_scores_by_rule_and_runs_nothing_that_it_shows(tmp_path: Path) -> None:
    out = tmp_path / "out.html"
    await write_html(exported(), out, with_run_ids=True)
    page = out.read_text()
    assert "Precision 0.50" in page
    assert re.search(r"<td>B602</td><td class=\"n\">0.50</td>", page)
    assert "<script>alert" not in page


async def test_a_spreadsheet_has_the_confusion_matrix_and_no_formulas(tmp_path: Path) -> None:
    out = tmp_path / "out.xlsx"
    await write_xlsx(exported(), out, with_run_ids=True)
    with zipfile.ZipFile(out) as book:
        sheets = {name: book.read(name).decode() for name in book.namelist() if "worksheets/sheet" in name}
    assert len(sheets) == 2
    assert not any("<f>" in sheet for sheet in sheets.values())
    scores = sheets["xl/worksheets/sheet2.xml"]
    matrix = re.findall(r"<c r=\"[BC][234]\"><v>(\d+)</v>", scores)
    assert matrix == ["1", "1", "1", "1", "0", "0"]
    assert re.search(r"<c r=\"B6\"><v>0.5</v>", scores)


async def test_a_batch_without_findings_is_a_spreadsheet_and_no_log(tmp_path: Path) -> None:
    asked = runs_pb2.RunInput(data_chat=data_chat_pb2.DataChatInput(question="how many?"))
    other = batches_pb2.BatchItem(number=1, state=batches_pb2.BATCH_ITEM_STATE_SUCCEEDED, input=asked)
    await write_xlsx(exported((other,)), tmp_path / "out.xlsx", with_run_ids=True)
    with pytest.raises(CliError, match="nothing of the batch is a finding"):
        await write_sarif(exported((other,)), tmp_path / "out.sarif", with_run_ids=True)
