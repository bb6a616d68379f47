"""All findings of a scanner's log, brought to verdicts on a platform."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.text import Text
from signalbox.v1 import sast_pb2

from services.cli.agents import graph_version
from services.cli.batch_client import when_interrupted
from services.cli.client import Connection
from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode
from services.cli.findings_batch import BatchPolicy, investigate_batch
from services.cli.output_files import OutputFile
from services.cli.summary_tables import as_tables
from services.cli.terminal import Terminal
from services.findings.investigation.decisions import FindingDecision, decided_outcomes, read_decisions
from services.findings.investigation.earlier import WrittenVerdict, carried_outcomes, read_earlier
from services.findings.investigation.known import KnownFalsePositive, known_outcomes, read_known
from services.findings.investigation.outcomes import unlocated, unusable
from services.findings.investigation.repository import SourceCode, check_readable, open_source
from services.findings.investigation.snippets import with_checked_snippets
from services.findings.investigation.summary import Judged, Summary, as_data, scores_of
from services.findings.investigation.truth import TruthEntry, match_truth, read_truth
from services.findings.sarif.annotate import annotate
from services.findings.sarif.documents import analysed_commits, read_document, repository_uri, write_json
from services.findings.sarif.findings import LogResult, read_results
from services.findings.sarif.outcome import Outcome, Verdict
from services.findings.sarif.paths import RepositoryPaths

WRITTEN_AGAIN = "the batch keeps its verdicts: the same command given again writes what is not there"


@dataclass(frozen=True)
class Investigation:
    """What to investigate, and what to bring back."""

    log: Path
    repository: str
    commit: str = ""
    known_file: Path | None = None
    decisions_file: Path | None = None
    earlier_file: Path | None = None
    truth_file: Path | None = None
    out: Path | None = None
    html: Path | None = None
    as_json: bool = False
    fail_on: tuple[Verdict, ...] = ()
    policy: BatchPolicy = field(default_factory=BatchPolicy)
    accept: bool = False


@dataclass(frozen=True)
class _Material:
    """What an investigation starts from, read and checked before anything is spent."""

    document: dict[str, Any]
    results: list[LogResult]
    source: SourceCode
    paths: RepositoryPaths
    known: tuple[KnownFalsePositive, ...]
    decisions: tuple[FindingDecision, ...]
    earlier: Mapping[str, WrittenVerdict]
    truth: tuple[TruthEntry, ...] | None

    @property
    def findings(self) -> list[LogResult]:
        """The results that are findings."""
        return [result for result in self.results if not result.skipped]


async def summarise(connection: Connection, wanted: Investigation, terminal: Terminal) -> Summary:
    """Investigates every finding of a log, shows what came of them, and returns it. Raises CliError, FindingsError."""
    with when_interrupted(terminal, "nothing was uploaded; give the command again"):
        material = await _read(connection, wanted)
    out, html = (OutputFile(path) if path else None for path in (wanted.out, wanted.html))
    for file in (out, html):
        if file is not None and file.path.resolve() != wanted.log.resolve():
            file.remove_older()
    outcomes = await _judge(connection, wanted, material, terminal)
    with when_interrupted(terminal, WRITTEN_AGAIN):
        summary = _sum_up(material, outcomes)
        await _write(wanted, material, summary, terminal, out=out, html=html)
    return summary


async def _read(connection: Connection, wanted: Investigation) -> _Material:
    _check_outputs(wanted)
    document = read_document(wanted.log)
    known = read_known(wanted.known_file) if wanted.known_file else ()
    decisions = read_decisions(wanted.decisions_file) if wanted.decisions_file else ()
    earlier = read_earlier(wanted.earlier_file) if wanted.earlier_file else {}
    truth = read_truth(wanted.truth_file) if wanted.truth_file else None
    source = await open_source(wanted.repository, wanted.commit, analysed_commits(document))
    check_readable(source, connection.code_roots)
    paths = RepositoryPaths(root=source.repository if source.is_local else "", files=source.files)
    results = await with_checked_snippets(read_results(document, paths), source)
    return _Material(document, results, source, paths, known, decisions, earlier, truth)


def _check_outputs(wanted: Investigation) -> None:
    """Raises CliError for what could not be written at the end, or would overwrite what is read or written too."""
    inputs = [wanted.known_file, wanted.decisions_file, wanted.earlier_file, wanted.truth_file, wanted.log]
    taken = {path.resolve() for path in inputs if path is not None}
    if wanted.out is not None:
        # The log itself may be written anew, with its verdicts.
        taken.discard(wanted.log.resolve())
    for path in (wanted.out, wanted.html):
        if path is None:
            continue
        OutputFile(path).check()
        if path.resolve() in taken:
            raise CliError(f"{path} is used twice", hint="name a file of its own", code=ExitCode.USAGE)
        taken.add(path.resolve())


async def _judge(
    connection: Connection, wanted: Investigation, material: _Material, terminal: Terminal
) -> dict[str, Outcome]:
    today = datetime.datetime.now(tz=datetime.UTC).date()
    usable = [result for result in material.findings if not result.problem]
    located = [result.finding for result in usable if result.located]
    outcomes = {result.fingerprint: unusable(result) for result in material.findings if result.problem}
    outcomes |= {result.fingerprint: unlocated(result) for result in usable if not result.located}
    results = {result.fingerprint: result.result for result in usable}
    settled = known_outcomes(located, material.known, results, today)
    settled |= decided_outcomes(located, material.decisions, results)
    missing = [finding for finding in located if finding.fingerprint not in settled]
    if material.earlier and missing:
        rules = await graph_version(connection, "sast_investigation")
        settled |= await carried_outcomes(missing, material.earlier, material.source, rules)
    truth = match_truth(material.truth, located, results).labels if material.truth is not None else {}
    source = sast_pb2.CodeSource(repository=material.source.repository, commit=material.source.commit)
    outcomes |= await investigate_batch(
        connection, located, source, wanted.policy, terminal, settled=settled, truth=truth
    )
    noted = {result.fingerprint: result.notes for result in usable if result.notes}
    return outcomes | {
        fingerprint: replace(outcomes[fingerprint], notes=tuple(dict.fromkeys(notes + outcomes[fingerprint].notes)))
        for fingerprint, notes in noted.items()
    }


def _sum_up(material: _Material, outcomes: dict[str, Outcome]) -> Summary:
    judged = tuple(
        Judged(result.finding, outcomes[result.fingerprint], result.severity) for result in material.findings
    )
    scores = None
    if material.truth is not None:
        places = {result.fingerprint: result.result for result in material.findings}
        truth = match_truth(material.truth, [each.finding for each in judged], places)
        scores = scores_of(judged, truth)
    return Summary(
        repository=material.source.repository,
        commit=material.source.commit,
        judged=judged,
        skipped=dict(Counter(result.skipped for result in material.results if result.skipped)),
        scores=scores,
    )


async def _write(
    wanted: Investigation, material: _Material, summary: Summary, terminal: Terminal, *, out: OutputFile | None,
    html: OutputFile | None,
) -> None:  # fmt: skip
    if out:
        provenance = {"repositoryUri": material.source.uri, "revisionId": material.source.commit}
        judged = annotate(
            material.document, summary.outcomes, material.paths, accept=wanted.accept, provenance=provenance
        )
        out.write_text(write_json(judged), WRITTEN_AGAIN)
    if html:
        from services.findings.investigation.report import render_report  # the template engine is for this alone

        report = render_report(summary, material.source, repository_uri(material.document))
        await html.write_pieces(report, WRITTEN_AGAIN)
    if wanted.as_json:
        terminal.json_value(as_data(summary))
    else:
        terminal.out.print(as_tables(summary))
    for file in (out, html):
        if file:
            terminal.err.print(Text(f"written: {file.path}"))
