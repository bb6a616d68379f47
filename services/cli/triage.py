"""`signalbox triage`: one finding, to a verdict with evidence."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

import typer
from rich.console import Group
from rich.text import Text
from signalbox.v1 import runs_pb2, sast_pb2

from services.cli.client import Connection, open_gateway
from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode
from services.cli.findings_options import Commit, FailOn, Repository
from services.cli.following import follow
from services.cli.invocation import As, AsJson, Roles, terminal
from services.cli.progress import progress_on
from services.cli.terminal import Terminal, run_command
from services.findings.sarif.outcome import Outcome, Verdict
from services.kit.text.printing import printable

if TYPE_CHECKING:
    from services.findings.sarif.findings import LogResult

commands = typer.Typer()


@commands.command("triage")
def triage_command(
    context: typer.Context,
    finding: Annotated[Path, typer.Option(metavar="FILE", dir_okay=False, help="The finding: JSON, or a SARIF log.")],
    repo: Repository,
    commit: Commit = "",
    fingerprint: Annotated[str, typer.Option(metavar="ID", help="Which finding, when the file has several.")] = "",
    fail_on: FailOn = None,
    subject: As = None,
    roles: Roles = None,
    as_json: AsJson = False,
) -> None:
    """Investigate one finding of a static analyser: a verdict with evidence."""
    wanted = Triage(finding, repo, commit, fingerprint, as_json, tuple(fail_on or ()))
    run_command(triage(context.obj.connection(subject, roles=roles), wanted, terminal), terminal)


@dataclass(frozen=True)
class Triage:
    """What to look at: the only finding of a file, or the one of a fingerprint."""

    finding_file: Path
    repository: str
    commit: str = ""
    fingerprint: str = ""
    as_json: bool = False
    fail_on: tuple[Verdict, ...] = ()


async def triage(connection: Connection, wanted: Triage, terminal: Terminal) -> ExitCode:
    """Brings one finding to a verdict and shows it. Raises CliError, FindingsError."""
    from services.findings.investigation.outcomes import outcome_of  # what these import takes longer than most commands
    from services.findings.investigation.repository import check_readable, open_source
    from services.findings.investigation.snippets import with_checked_snippets
    from services.findings.sarif.documents import analysed_commits, read_document
    from services.findings.sarif.findings import read_results
    from services.findings.sarif.paths import RepositoryPaths

    document = read_document(wanted.finding_file)
    source = await open_source(wanted.repository, wanted.commit, analysed_commits(document))
    check_readable(source, connection.code_roots)
    paths = RepositoryPaths(root=source.repository if source.is_local else "", files=source.files)
    picked = _pick(await with_checked_snippets(read_results(document, paths), source), wanted)
    if picked.problem:
        raise CliError(
            f"the finding can't be used: {picked.problem}",
            hint="name the commit that was analysed",
            code=ExitCode.USAGE,
        )
    finding = picked.finding
    code = sast_pb2.CodeSource(repository=source.repository, commit=source.commit)
    request = runs_pb2.CreateRunRequest(input=triage_input(finding, code), request_id=str(uuid4()))
    async with open_gateway(connection) as gateway:
        with progress_on(terminal.err, silent=wanted.as_json) as progress:
            ended = await follow(gateway, request, progress, terminal, timeout_s=None)
    outcome = outcome_of(finding.fingerprint, ended)
    if wanted.as_json:
        terminal.json_value(asdict(outcome))
    else:
        terminal.out.print(_shown(outcome))
    return _exit_code(outcome, wanted)


def triage_input(finding: sast_pb2.Finding, source: sast_pb2.CodeSource) -> runs_pb2.RunInput:
    """The input of a run of `sast_triage`."""
    return runs_pb2.RunInput(sast_triage=sast_pb2.SastTriageInput(finding=finding, source=source))


def _pick(results: list[LogResult], wanted: Triage) -> LogResult:
    located = [result for result in results if result.located]
    if wanted.fingerprint:
        located = [result for result in located if result.fingerprint == wanted.fingerprint]
    if len(located) == 1:
        return located[0]
    known = "".join(
        f"\n  {result.fingerprint}  {result.finding.rule_id} "
        f"{result.finding.location.file}:{result.finding.location.first_line}"
        for result in results[:20]
    )
    raise CliError(
        f"{wanted.finding_file} has {len(located)} such findings with a place, not one{known}",
        hint="name one with --fingerprint; `signalbox investigate` takes all",
        code=ExitCode.USAGE,
    )


def _exit_code(outcome: Outcome, wanted: Triage) -> ExitCode:
    if outcome.error:
        return ExitCode.RUN_FAILED
    if outcome.verdict in wanted.fail_on:
        return ExitCode.FOUND
    return ExitCode.NEEDS_REVIEW if outcome.verdict is Verdict.NEEDS_REVIEW else ExitCode.OK


def _shown(outcome: Outcome) -> Group:
    from services.findings.investigation.batch_progress import COLOURS

    sure = f"  {outcome.decided_by}" if outcome.decided_by else ""
    sure = sure if outcome.confidence is None else f"  confidence {outcome.confidence:.2f}"
    head = Text.assemble((outcome.verdict, f"bold {COLOURS[outcome.verdict]}"), sure)
    lines = [Text(printable(outcome.error or outcome.justification))]
    for proof in outcome.evidence:
        lines.append(Text(f"  {printable(proof.file)}:{proof.first_line}-{proof.last_line}  {printable(proof.claim)}"))
        if proof.quote:
            lines.append(Text(f"    {printable(proof.quote)}", style="dim"))
    if outcome.open_question:
        lines.append(Text(f"open: {printable(outcome.open_question)}"))
    if outcome.read:
        lines.append(Text(f"read: {printable(', '.join(outcome.read))}"))
    lines += [Text(f"note: {printable(note)}", style="yellow") for note in outcome.notes]
    if outcome.stop_reason:
        lines.append(Text(f"ended by {outcome.stop_reason}"))
    lines.append(Text(f"run {outcome.run_id}; `signalbox explain {outcome.run_id}` shows how it came about"))
    return Group(head, *lines)
