"""Files of a batch of findings, from its items alone: a log with verdicts, a report, and a spreadsheet with scores."""

from __future__ import annotations

import gc
import json
import re
import tracemalloc
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from signalbox.v1 import batches_pb2, data_chat_pb2, outcome_pb2, runs_pb2, sast_pb2

from services.cli.batch_exports import (
    LONGEST_CELL,
    WRITERS,
    JudgedItems,
    scores_of,
    write_html,
    write_sarif,
    write_xlsx,
)
from services.cli.errors import CliError
from services.findings.sarif.documents import read_document
from services.findings.sarif.findings import read_results
from services.findings.sarif.paths import RepositoryPaths
from tests.fixtures.sarif_schema import violations

TRUE, FALSE = sast_pb2.VERDICT_TRUE_POSITIVE, sast_pb2.VERDICT_FALSE_POSITIVE
EVIL = '=HYPERLINK("http://evil") <script>alert(1)</script>'


def item(
    number: int,
    verdict: sast_pb2.Verdict,
    truth: sast_pb2.Verdict,
    rule: str = "B602",
    *,
    name: str = "",
    repository: str = "/srv/my portal",
    attempt: int = 0,
) -> batches_pb2.BatchItem:
    """An item that has ended."""
    finding = sast_pb2.Finding(
        fingerprint=name or f"f-{number}", rule_id=rule, message=EVIL,
        location=sast_pb2.CodeLocation(file="src/app.py", first_line=number),
    )  # fmt: skip
    asked = sast_pb2.SastInvestigationInput(
        finding=finding, source=sast_pb2.CodeSource(repository=repository, commit="0" * 40)
    )
    output = sast_pb2.SastInvestigationOutput(verdict=verdict, justification=EVIL)
    run = runs_pb2.Run(
        run_id=f"00000000-0000-7000-800{attempt}-{number:012d}",
        state=runs_pb2.RUN_STATE_SUCCEEDED,
        outcome=outcome_pb2.OUTCOME_TRUE_POSITIVE,
        output=runs_pb2.RunOutput(sast_investigation=output),
    )
    return batches_pb2.BatchItem(
        number=number, key=EVIL, state=batches_pb2.BATCH_ITEM_STATE_SUCCEEDED, run_id=run.run_id, run=run, truth=truth,
        input=runs_pb2.RunInput(sast_investigation=asked),
    )  # fmt: skip


GIVEN = ((1, TRUE, "B602"), (2, FALSE, "B602"), (3, TRUE, "B602"), (4, FALSE, "B101"))
ITEMS = tuple(item(number, TRUE if number < 3 else FALSE, truth, rule) for number, truth, rule in GIVEN)


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
    [provenance] = log["runs"][0]["versionControlProvenance"]
    assert provenance["repositoryUri"] == "my%20portal"
    await write_sarif(exported(), again, with_run_ids=False)
    assert "runId" not in again.read_text()


async def test_a_report_shows_scores_by_rule_and_runs_nothing_that_it_shows(tmp_path: Path) -> None:
    out = tmp_path / "out.html"
    await write_html(exported(), out, with_run_ids=True)
    page = out.read_text()
    assert "Precision 0.50" in page
    assert re.search(r"<td>B602</td><td class=\"n\">0.50</td>", page)
    assert "<script>alert" not in page
    assert 'class="tag severity' not in page


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


# One log of a repository twice, and another repository's, whose scanner counts its findings from 1 as well.
SEVERAL = (
    item(1, TRUE, TRUE, name="1"),
    item(2, FALSE, FALSE, name="1", repository="https://example.com/shop.git"),
    item(3, TRUE, FALSE, name="1"),
)


async def test_findings_of_several_logs_are_told_apart(tmp_path: Path) -> None:
    out = tmp_path / "out.sarif"
    await write_sarif(exported(SEVERAL), out, with_run_ids=True)
    log = json.loads(out.read_text())
    assert violations(log) == []
    told = [
        (run["versionControlProvenance"][0]["repositoryUri"], result["properties"]["signalbox"]["verdict"])
        for run in log["runs"]
        for result in run["results"]
    ]
    assert told == [
        ("my%20portal", "TRUE_POSITIVE"),
        ("my%20portal", "TRUE_POSITIVE"),
        ("https://example.com/shop.git", "FALSE_POSITIVE"),
    ]
    scores = scores_of([each async for each in JudgedItems(exported(SEVERAL))])
    assert scores is not None
    assert (scores.true_positives, scores.false_positives, scores.true_negatives) == (1, 1, 1)
    with pytest.raises(CliError, match="2 repositories or commits, and a report covers one"):
        await write_html(exported(SEVERAL), tmp_path / "out.html", with_run_ids=True)


@pytest.mark.parametrize("form", sorted(WRITERS))
async def test_the_same_results_are_the_same_bytes_whenever_they_are_written(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nothing is kept elsewhere than where the file is to be.
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    first, second = tmp_path / "first", tmp_path / "second"
    await WRITERS[form](exported(), first, with_run_ids=False)
    later = tuple(item(n, TRUE if n < 3 else FALSE, truth, rule, attempt=1) for n, truth, rule in GIVEN)

    await WRITERS[form](exported(later), second, with_run_ids=False)
    assert first.read_bytes() == second.read_bytes()
    if form == "xlsx":
        with zipfile.ZipFile(first) as book:
            assert "1980-01-01T00:00:00Z" in book.read("docProps/core.xml").decode(), "it tells the time of its writing"


@pytest.mark.parametrize(("form", "bytes_each"), [("sarif", 500), ("xlsx", 500), ("html", 5000)])
async def test_what_a_file_takes_to_write_does_not_grow_with_the_batch(
    tmp_path: Path, form: str, bytes_each: int
) -> None:
    async def many(count: int) -> AsyncIterator[batches_pb2.BatchItem]:
        for number in range(1, count + 1):
            yield item(number, TRUE, FALSE)

    async def most_bytes(count: int) -> int:
        tracemalloc.start()
        try:
            await WRITERS[form](many(count), tmp_path / "out", with_run_ids=True)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    few, more = 50, 550
    await most_bytes(few)
    assert await most_bytes(more) - await most_bytes(few) < (more - few) * bytes_each


async def test_cells_hold_what_a_spreadsheet_can_and_tell_where_that_is_not_all(tmp_path: Path) -> None:
    out = tmp_path / "out.xlsx"
    odd = item(1, TRUE, TRUE)
    odd.error = "a\x00b\x0b\ufffe\uffff\x7f_x0041_ ]]> <&"
    long = item(2, TRUE, TRUE)
    long.error = "\U0001f6f0" * 20_000
    [note] = await write_xlsx(exported((odd, long)), out, with_run_ids=True)
    assert note.startswith("1 cell ")
    with zipfile.ZipFile(out) as book:
        sheet = ElementTree.fromstring(book.read("xl/worksheets/sheet1.xml"))  # noqa: S314 - our own
    texts = [each.text or "" for each in sheet.iter("{http://schemas.openxmlformats.org/spreadsheetml/2006/main}t")]
    assert max(len(text.encode("utf-16-le")) // 2 for text in texts) <= LONGEST_CELL
    assert any(text.endswith(" …") for text in texts)


FILES = ("src/a b.py", "src/c#1.py", "src/d?e.py", "src/100%41.py", "schön/[x].py", "a:b.py")


async def test_paths_are_read_from_a_log_as_they_were(tmp_path: Path) -> None:
    items = []
    for number, file in enumerate(FILES, 1):
        items.append(item(number, TRUE, TRUE))
        items[-1].input.sast_investigation.finding.location.file = file
    await write_sarif(exported(tuple(items)), tmp_path / "out.sarif", with_run_ids=True)
    log = read_document(tmp_path / "out.sarif")
    assert violations(log) == []
    assert [result.finding.location.file for result in read_results(log, RepositoryPaths())] == list(FILES)


async def test_a_spreadsheet_without_room_is_one_error(recwarn: pytest.WarningsRecorder, tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        await write_xlsx(exported(), full, with_run_ids=True)
    gc.collect()
    assert [str(each.message) for each in recwarn if "Exception ignored" in str(each.message)] == []


async def test_what_has_not_ended_or_is_about_no_finding_is_told(tmp_path: Path) -> None:
    running = item(5, TRUE, TRUE)
    running.state = batches_pb2.BATCH_ITEM_STATE_RUNNING
    running.ClearField("run")
    other = batches_pb2.BatchItem(number=6, input=runs_pb2.RunInput(data_chat={"question": "how many?"}))
    for write, name in ((write_sarif, "out.sarif"), (write_html, "out.html")):
        notes = await write(exported((*ITEMS, running, other)), tmp_path / name, with_run_ids=True)
        assert [note.split(":")[1].split()[0] for note in notes] == ["1", "1"]


async def test_a_confidence_that_is_none_costs_no_file(tmp_path: Path) -> None:
    told = item(1, TRUE, TRUE)
    told.run.output.sast_investigation.confidence = float("nan")
    told.run.output.sast_investigation.confidence_calibrated = True
    await write_sarif(exported((told,)), tmp_path / "out.sarif", with_run_ids=True)
    await write_html(exported((told,)), tmp_path / "out.html", with_run_ids=True)
    [result] = json.loads((tmp_path / "out.sarif").read_text())["runs"][0]["results"]
    assert "confidence" not in result["properties"]["signalbox"]


async def test_a_batch_without_findings_is_a_spreadsheet_and_no_log(tmp_path: Path) -> None:
    asked = runs_pb2.RunInput(data_chat=data_chat_pb2.DataChatInput(question="how many?"))
    other = batches_pb2.BatchItem(number=1, state=batches_pb2.BATCH_ITEM_STATE_SUCCEEDED, input=asked)
    await write_xlsx(exported((other,)), tmp_path / "out.xlsx", with_run_ids=True)
    with pytest.raises(CliError, match="no finding that was judged"):
        await write_sarif(exported((other,)), tmp_path / "out.sarif", with_run_ids=True)
