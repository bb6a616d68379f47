"""Results of a batch as whole files: a spreadsheet of any, a log with verdicts and a report of one of findings."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import xlsxwriter
from google.protobuf.json_format import MessageToDict
from signalbox.v1 import batches_pb2, sast_pb2
from xlsxwriter.exceptions import FileCreateError

from services.cli.batch_results import cell_of, columns_of, result_of
from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode
from services.cli.output_files import write_text
from services.findings.investigation.items import finding_of, item_outcome
from services.findings.investigation.repository import SourceCode
from services.findings.investigation.scores import Scores, score
from services.findings.investigation.summary import Judged, Summary
from services.findings.investigation.truth import Truth
from services.findings.sarif.annotate import annotate
from services.findings.sarif.documents import write_json
from services.findings.sarif.finding_list import as_sarif
from services.findings.sarif.outcome import Source
from services.findings.sarif.paths import RepositoryPaths
from services.kit.confusion import Confusion

# What a cell of a spreadsheet holds at most (https://support.microsoft.com/office/excel-specifications-and-limits).
LONGEST_CELL: Final = 32_767
CUT: Final = " …"
OF_ANY: Final = "json, csv and xlsx can be written of any batch"
# When a spreadsheet says that it was made: the same results are the same bytes.
MADE: Final = datetime.datetime(1980, 1, 1, tzinfo=datetime.UTC)
SHARES: Final = ("precision", "recall", "f1")


@dataclass(frozen=True)
class JudgedItem:
    """A finding of a batch and what came of it; truth: whether it is a weakness, None where nobody knows.

    Its number tells it from all others; its fingerprint only from those of its log.
    """

    number: int
    source: SourceCode
    judged: Judged
    truth: bool | None


@dataclass
class JudgedItems:
    """The findings of a batch, and what came of each, taken from its items one after another."""

    items: list[JudgedItem] = field(default_factory=list)

    def add(self, item: batches_pb2.BatchItem) -> None:
        """Takes an item; one that is about no finding is left out, and so is what has not ended."""
        asked = finding_of(item.input)
        under_way = (batches_pb2.BATCH_ITEM_STATE_PENDING, batches_pb2.BATCH_ITEM_STATE_RUNNING)
        if asked is None or item.state in under_way:
            return
        truth = item.truth == sast_pb2.VERDICT_TRUE_POSITIVE if item.truth else None
        source = SourceCode(asked.source.repository, asked.source.commit)
        judged = Judged(asked.finding, item_outcome(asked.finding.fingerprint, item))
        self.items.append(JudgedItem(item.number, source, judged, truth))

    @property
    def scores(self) -> Scores | None:
        """How good the verdicts are; None where nothing is known to be so. A person's say nothing about the models."""
        labels = {str(each.number): each.truth for each in self.items if each.truth is not None}
        rules = {str(each.number): each.judged.finding.rule_id for each in self.items}
        outcomes = [
            replace(each.judged.outcome, fingerprint=str(each.number))
            for each in self.items
            if each.judged.outcome.source is not Source.PERSON
        ]
        return score(outcomes, Truth(labels, ()), rules) if labels else None

    @property
    def by_source(self) -> dict[SourceCode, list[Judged]]:
        """The findings by where their code is. Raises CliError where the batch is of no findings."""
        if not self.items:
            raise CliError("the batch has no finding that was judged", hint=OF_ANY, code=ExitCode.USAGE)
        by_source: dict[SourceCode, list[Judged]] = {}
        for each in self.items:
            by_source.setdefault(each.source, []).append(each.judged)
        return by_source


async def write_sarif(items: AsyncIterator[batches_pb2.BatchItem], path: Path, *, with_run_ids: bool) -> None:
    """Writes the findings of a batch as a SARIF log with their verdicts, a run for each commit. Raises CliError."""
    found = await _read(items)
    logs = [_log_of(source, judged) for source, all_of in found.by_source.items() for judged in _told_apart(all_of)]
    log = {**logs[0], "runs": [run for log in logs for run in log["runs"]]}
    write_text(path, write_json(log if with_run_ids else without_run_ids(log)))


def _log_of(source: SourceCode, judged: Sequence[Judged]) -> dict[str, Any]:
    listed = [MessageToDict(each.finding, preserving_proto_field_name=True) for each in judged]
    provenance = {"repositoryUri": source.uri, "revisionId": source.commit}
    return annotate(as_sarif(listed), [each.outcome for each in judged], RepositoryPaths(), provenance=provenance)


def _told_apart(judged: Sequence[Judged]) -> list[list[Judged]]:
    """Returns findings in as few lists as have each fingerprint once, as each of their logs had."""
    lists: list[list[Judged]] = []
    seen: Counter[str] = Counter()
    for each in judged:
        fingerprint = each.finding.fingerprint
        if seen[fingerprint] == len(lists):
            lists.append([])
        lists[seen[fingerprint]].append(each)
        seen[fingerprint] += 1
    return lists


async def write_html(items: AsyncIterator[batches_pb2.BatchItem], path: Path, *, with_run_ids: bool) -> None:
    """Writes a report of the findings of a batch, with the lines that verdicts cite as they quote them.

    Nothing is read of the repository, and how bad findings are is not known. Raises CliError.
    """
    from services.findings.investigation.report import render_report  # the template engine is for this alone

    found = await _read(items)
    (source, judged), *others = found.by_source.items()
    if others:
        told = f"the batch is of {len(others) + 1} repositories or commits, and a report covers one"
        raise CliError(told, hint=f"sarif has a run for each; {OF_ANY}", code=ExitCode.USAGE)
    if not with_run_ids:
        judged = [replace(each, outcome=replace(each.outcome, run_id="")) for each in judged]
    summary = Summary(source.repository, source.commit, tuple(judged), {}, found.scores)
    write_text(path, await render_report(summary, source))


async def write_xlsx(items: AsyncIterator[batches_pb2.BatchItem], path: Path, *, with_run_ids: bool) -> None:
    """Writes the results of a batch as a spreadsheet, with a sheet of scores where truth is known. Raises CliError."""
    columns, found = columns_of(with_run_ids=with_run_ids), JudgedItems()
    # Rows go to the file one after another; and nothing in them becomes a formula, a number or a link.
    options = {"constant_memory": True, "strings_to_formulas": False, "strings_to_urls": False, "in_memory": False}
    try:
        with xlsxwriter.Workbook(str(path), options) as book:
            book.set_properties({"created": MADE})
            sheet, bold = book.add_worksheet("Results"), book.add_format({"bold": True})
            sheet.freeze_panes(1, 0)
            for column, name in enumerate(columns):
                sheet.write_string(0, column, name, bold)
            row = 0
            async for item in items:
                row += 1
                result = result_of(item)
                sheet.write_number(row, 0, result["number"])
                for column, name in enumerate(columns[1:], 1):
                    sheet.write_string(row, column, _cut(cell_of(result[name])))
                found.add(item)
            if scores := found.scores:
                _write_scores(book.add_worksheet("Scores"), scores, bold)
    except FileCreateError as error:
        hint = "name a file that can be written"
        raise CliError(f"can't write {path}: {error}", hint=hint, code=ExitCode.USAGE) from error


async def _read(items: AsyncIterator[batches_pb2.BatchItem]) -> JudgedItems:
    found = JudgedItems()
    async for item in items:
        found.add(item)
    return found


def _write_scores(sheet: Any, scores: Scores, bold: Any) -> None:
    """The confusion matrix, what follows from it, and the same by rule."""
    rows: list[tuple[Any, ...]] = [
        ("", "is a weakness", "is none"),
        ("called a weakness", scores.true_positives, scores.false_positives),
        ("called none", scores.false_negatives, scores.true_negatives),
        ("left for review", scores.review_vulnerable, scores.review_harmless),
        (),
        *((name, getattr(scores, name)) for name in (*SHARES, "recall_with_review")),
        (),
        ("rule", *_COUNTS, *SHARES),
        *((rule, *_row_of(confusion)) for rule, confusion in scores.by_rule.items()),
    ]
    for row, values in enumerate(rows):
        for column, value in enumerate(values):
            if isinstance(value, str):
                sheet.write_string(row, column, _cut(value), bold if column == 0 or row in (0, 10) else None)
            elif value is not None:
                sheet.write_number(row, column, value)


_COUNTS: Final = (
    "true_positives", "false_positives", "true_negatives", "false_negatives", "review_vulnerable", "review_harmless",
)  # fmt: skip


def _row_of(confusion: Confusion) -> tuple[Any, ...]:
    return tuple(getattr(confusion, name) for name in (*_COUNTS, *SHARES))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_CELL else text[: LONGEST_CELL - len(CUT)] + CUT


def without_run_ids(value: Any) -> Any:
    """Returns a log without what names a run."""
    if isinstance(value, Mapping):
        return {name: without_run_ids(each) for name, each in value.items() if name != "runId"}
    return [without_run_ids(each) for each in value] if isinstance(value, list) else value


WRITERS: Final = {"sarif": write_sarif, "html": write_html, "xlsx": write_xlsx}
