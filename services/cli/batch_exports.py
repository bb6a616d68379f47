"""Results of a batch as whole files: a spreadsheet of any, a log with verdicts and a report of one of findings.

What a file is made of waits in the folder that it is in.
"""

from __future__ import annotations

import datetime
import io
import json
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

import xlsxwriter
from google.protobuf.json_format import MessageToDict
from signalbox.v1 import batches_pb2, sast_pb2

from services.cli.batch_results import cell_of, columns_of, result_of
from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode
from services.findings.investigation.items import finding_of, item_outcome
from services.findings.investigation.repository import SourceCode
from services.findings.investigation.scores import Scores, score
from services.findings.investigation.summary import Judged, Summary
from services.findings.investigation.truth import Truth
from services.findings.sarif.annotate import annotate
from services.findings.sarif.finding_list import as_sarif
from services.findings.sarif.outcome import Source
from services.findings.sarif.paths import RepositoryPaths
from services.kit.confusion import Confusion
from services.kit.text.words import several

# What a cell of a spreadsheet holds at most (https://support.microsoft.com/office/excel-specifications-and-limits).
LONGEST_CELL: Final = 32_767
CUT: Final = " …"
OF_ANY: Final = "json, csv and xlsx can be written of any batch"
# When a spreadsheet says that it was made: the same results are the same bytes.
MADE: Final = datetime.datetime(1980, 1, 1, tzinfo=datetime.UTC)
SHARES: Final = ("precision", "recall", "f1")
# How far in a log its runs stand.
RUN_INDENT: Final = 4
# What there is to say of a file, to whoever asked for it.
Notes: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class JudgedItem:
    """A finding of a batch and what came of it; truth: whether it is a weakness, None where nobody knows.

    Its number tells it from all others; its fingerprint only from those of its log.
    """

    number: int
    source: SourceCode
    judged: Judged
    truth: bool | None
    item: batches_pb2.BatchItem


@dataclass(frozen=True)
class _Kept(Judged):
    """What is counted of a finding; all of it is in a file."""

    offset: int = 0
    size: int = 0


class JudgedItems:
    """What came of each finding of a batch, one after another; what is left out is told in `notes` at the end.

    Raises CliError where there is none at all.
    """

    def __init__(self, items: AsyncIterator[batches_pb2.BatchItem]) -> None:
        self._items = items
        self._under_way = self._others = 0

    async def __aiter__(self) -> AsyncIterator[JudgedItem]:
        any_found = False
        async for item in self._items:
            if found := _judged(item):
                any_found = True
                yield found
            elif finding_of(item.input):
                self._under_way += 1
            else:
                self._others += 1
        if not any_found:
            raise CliError("the batch has no finding that was judged", hint=OF_ANY, code=ExitCode.USAGE)

    @property
    def notes(self) -> Notes:
        """What is not in a file of those, in words."""
        under_way = f"not in it: {several(self._under_way, 'finding')} under way or waiting; the batch goes on"
        others = f"not in it: {several(self._others, 'item')} about no finding"
        return (*([under_way] if self._under_way else ()), *([others] if self._others else ()))


def _judged(item: batches_pb2.BatchItem) -> JudgedItem | None:
    asked = finding_of(item.input)
    under_way = (batches_pb2.BATCH_ITEM_STATE_PENDING, batches_pb2.BATCH_ITEM_STATE_RUNNING)
    if asked is None or item.state in under_way:
        return None
    truth = item.truth == sast_pb2.VERDICT_TRUE_POSITIVE if item.truth else None
    source = SourceCode(asked.source.repository, asked.source.commit)
    judged = Judged(asked.finding, item_outcome(asked.finding.fingerprint, item))
    return JudgedItem(item.number, source, judged, truth, item)


def _kept(judged: Judged, offset: int, size: int) -> _Kept:
    finding, told = judged.finding, judged.outcome
    location = sast_pb2.CodeLocation(file=finding.location.file, first_line=finding.location.first_line)
    counted = sast_pb2.Finding(
        fingerprint=finding.fingerprint, rule_id=finding.rule_id, cwe=finding.cwe, location=location
    )
    # Whether it failed is counted, too, and not by what.
    outcome = replace(
        told, justification="", evidence=(), error=told.error[:1], read=(), open_question="", notes=(), run_id=""
    )
    return _Kept(counted, outcome, judged.severity, offset, size)


def scores_of(items: Iterable[JudgedItem]) -> Scores | None:
    """Returns how good verdicts are; None where no truth is known. A person's say nothing about the models."""
    labels = {str(each.number): each.truth for each in items if each.truth is not None}
    counted = [each for each in items if each.judged.outcome.source is not Source.PERSON]
    rules = {str(each.number): each.judged.finding.rule_id for each in counted}
    outcomes = [replace(each.judged.outcome, fingerprint=str(each.number)) for each in counted]
    return score(outcomes, Truth(labels, ()), rules) if labels else None


@dataclass
class _Run:
    """A run of a log: all but its results, of which it knows where they are in a file, and how long."""

    frame: dict[str, Any] = field(default_factory=dict)
    extensions: dict[str, Any] = field(default_factory=dict)
    results: list[tuple[int, int]] = field(default_factory=list)

    def add(self, run: dict[str, Any], offset: int, size: int) -> None:
        """Takes the run of one result; what decided any of them is among the extensions of the tool."""
        for extension in run["tool"].get("extensions", ()):
            self.extensions[json.dumps(extension)] = extension
        self.frame = {**run, "results": []}
        if self.extensions:
            self.frame["tool"] = {**run["tool"], "extensions": list(self.extensions.values())}
        self.results.append((offset, size))

    def write(self, results: IO[bytes], file: IO[bytes]) -> None:
        """Writes it as a value of a list, with its results out of their file."""
        before, after = _indented(self.frame, RUN_INDENT).split('"results": []')
        file.write(f'{before}"results": ['.encode())
        for number, (offset, size) in enumerate(self.results):
            results.seek(offset)
            file.write((b",\n" if number else b"\n") + results.read(size))
        file.write(f"\n{' ' * (RUN_INDENT + 2)}]{after}".encode())


async def write_sarif(items: AsyncIterator[batches_pb2.BatchItem], path: Path, *, with_run_ids: bool) -> Notes:
    """Writes the findings of a batch as a SARIF log with their verdicts, a run for each commit. Raises CliError.

    Those that share a fingerprint, which each of their logs had once, are in runs of their own. Results wait in a file.
    """
    runs: dict[tuple[SourceCode, int], _Run] = {}
    sources: dict[SourceCode, SourceCode] = {}
    seen: Counter[tuple[SourceCode, str]] = Counter()
    log: dict[str, Any] = {}
    judged = JudgedItems(items)
    with tempfile.TemporaryFile(dir=path.parent) as results:
        async for each in judged:
            source, fingerprint = sources.setdefault(each.source, each.source), each.judged.finding.fingerprint
            log = _log_of(source, each.judged)
            [run] = log["runs"]
            [result] = run["results"]
            # Either all results of a run have some, be they none, or none has any (SARIF 3.27.23).
            result.setdefault("suppressions", [])
            text = _indented(result if with_run_ids else without_run_ids(result), RUN_INDENT + 4).encode()
            seen[source, fingerprint] += 1
            runs.setdefault((source, seen[source, fingerprint]), _Run()).add(run, results.tell(), len(text))
            results.write(text)
        order = {source: place for place, source in enumerate(sources)}
        before, after = _indented({**log, "runs": []}, 0).split("[]")
        with path.open("wb") as file:
            file.write(f"{before}[".encode())
            for place, name in enumerate(sorted(runs, key=lambda run: (order[run[0]], run[1]))):
                file.write(b",\n" if place else b"\n")
                runs[name].write(results, file)
            file.write(f"\n  ]{after}\n".encode())
    return judged.notes


def _log_of(source: SourceCode, judged: Judged) -> dict[str, Any]:
    listed = [MessageToDict(judged.finding, preserving_proto_field_name=True)]
    provenance = {"repositoryUri": source.uri, "revisionId": source.commit}
    return annotate(as_sarif(listed), [judged.outcome], RepositoryPaths(), provenance=provenance)


def _indented(value: Any, indent: int) -> str:
    """Returns JSON as it stands within more of it."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    return " " * indent + text.replace("\n", "\n" + " " * indent)


async def write_html(items: AsyncIterator[batches_pb2.BatchItem], path: Path, *, with_run_ids: bool) -> Notes:
    """Writes a report of the findings of a batch, with the lines that verdicts cite as they quote them.

    Nothing is read of the repository, and how bad findings are is not known. Raises CliError.
    """
    from services.findings.investigation.report import render_report  # the template engine is for this alone

    batch, found, sources = JudgedItems(items), list[JudgedItem](), dict[SourceCode, SourceCode]()
    with tempfile.TemporaryFile(dir=path.parent) as kept:
        async for each in batch:
            content = each.item.SerializeToString()
            judged = _kept(each.judged, kept.tell(), len(content))
            source = sources.setdefault(each.source, each.source)
            found.append(replace(each, source=source, judged=judged, item=batches_pb2.BatchItem()))
            kept.write(content)
        if len(sources) > 1:
            told = f"the batch is of {len(sources)} repositories or commits, and a report covers one"
            raise CliError(told, hint=f"sarif has a run for each; {OF_ANY}", code=ExitCode.USAGE)

        def whole(judged: Judged) -> Judged:
            assert isinstance(judged, _Kept), "the summary is of those"  # noqa: S101 - an invariant
            kept.seek(judged.offset)
            read = _judged(batches_pb2.BatchItem.FromString(kept.read(judged.size)))
            assert read is not None, "it was judged before"  # noqa: S101 - an invariant
            if with_run_ids:
                return read.judged
            return replace(read.judged, outcome=replace(read.judged.outcome, run_id=""))

        summary = Summary(source.repository, source.commit, tuple(each.judged for each in found), {}, scores_of(found))
        with path.open("w", encoding="utf-8", newline="") as file:
            async for piece in render_report(summary, source, whole=whole):
                file.write(piece)
    return batch.notes


class _Noting(io.FileIO):
    """A file that takes what there is no room for, and keeps the error: a library that can't write can't close, too."""

    error: OSError | None = None

    def write(self, data: Any, /) -> int:
        """Writes all of it, or notes why not."""
        left = memoryview(data).cast("B")
        size = len(left)
        try:
            while left and self.error is None:
                left = left[super().write(left) :]
        except OSError as error:
            self.error = error
        return size


async def write_xlsx(items: AsyncIterator[batches_pb2.BatchItem], path: Path, *, with_run_ids: bool) -> Notes:
    """Writes the results of a batch as a spreadsheet, with a sheet of scores where truth is known. Raises CliError.

    Returns what was cut because a cell could not hold it.
    """
    columns, by_rule = columns_of(with_run_ids=with_run_ids), dict[str, Confusion]()
    # Rows go to the file one after another; and nothing in them becomes a formula, a number or a link.
    options = {
        "constant_memory": True, "strings_to_formulas": False, "strings_to_urls": False, "in_memory": False,
        "tmpdir": str(path.parent),
    }  # fmt: skip
    row = cut = 0
    with _Noting(path, "wb") as file:
        with xlsxwriter.Workbook(file, options) as book:
            book.set_properties({"created": MADE})
            sheet, bold = book.add_worksheet("Results"), book.add_format({"bold": True})
            sheet.freeze_panes(1, 0)
            for column, name in enumerate(columns):
                sheet.write_string(0, column, name, bold)
            async for item in items:
                row += 1
                result = result_of(item)
                sheet.write_number(row, 0, result["number"])
                for column, name in enumerate(columns[1:], 1):
                    text = cell_of(result[name])
                    sheet.write_string(row, column, _cut(text))
                    cut += not _fits(text)
                found = _judged(item)
                if scores := scores_of([found]) if found else None:
                    for rule, confusion in scores.by_rule.items():
                        by_rule[rule] = by_rule.get(rule, Confusion()) + confusion
            if by_rule:
                _write_scores(book.add_worksheet("Scores"), by_rule, bold)
        if file.error:
            raise file.error
    told = f"{several(cut, 'cell')} had no room for all of what is in json and csv: such a cell ends with{CUT}"
    return (told,) if cut else ()


def _write_scores(sheet: Any, by_rule: Mapping[str, Confusion], bold: Any) -> None:
    """The confusion matrix, what follows from it, and the same by rule, those with the most findings first."""
    scores = sum(by_rule.values(), Confusion())
    rules = sorted(by_rule.items(), key=lambda each: (-each[1].labelled, each[0]))
    rows: list[tuple[Any, ...]] = [
        ("", "is a weakness", "is none"),
        ("called a weakness", scores.true_positives, scores.false_positives),
        ("called none", scores.false_negatives, scores.true_negatives),
        ("left for review", scores.review_vulnerable, scores.review_harmless),
        (),
        *((name, getattr(scores, name)) for name in (*SHARES, "recall_with_review")),
        (),
        ("rule", *_COUNTS, *SHARES),
        *((rule, *_row_of(confusion)) for rule, confusion in rules),
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


def _fits(text: str) -> bool:
    """Whether a cell can hold a text: spreadsheets count in UTF-16."""
    return len(text) <= LONGEST_CELL // 2 or len(text.encode("utf-16-le")) <= 2 * LONGEST_CELL


def _cut(text: str) -> str:
    if _fits(text):
        return text
    return text.encode("utf-16-le")[: 2 * (LONGEST_CELL - len(CUT))].decode("utf-16-le", "ignore") + CUT


def without_run_ids(value: Any) -> Any:
    """Returns a log without what names a run."""
    if isinstance(value, Mapping):
        return {name: without_run_ids(each) for name, each in value.items() if name != "runId"}
    return [without_run_ids(each) for each in value] if isinstance(value, list) else value


WRITERS: Final = {"sarif": write_sarif, "html": write_html, "xlsx": write_xlsx}
