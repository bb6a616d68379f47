"""`signalbox investigate`: all findings of a scanner's log, to verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from services.cli.client import Connection
from services.cli.exit_codes import ExitCode
from services.cli.findings_options import Commit, FailOn, Repository
from services.cli.invocation import As, AsJson, Roles, terminal
from services.cli.terminal import Terminal, run_command

if TYPE_CHECKING:
    from services.cli.investigation import Investigation

commands = typer.Typer()


@commands.command("investigate")
def investigate_command(
    context: typer.Context,
    log: Annotated[Path, typer.Argument(metavar="LOG", help="SARIF 2.1.0 log, Bandit's JSON, or a list of findings.")],
    repo: Repository,
    commit: Commit = "",
    known_fp: Annotated[Path | None, typer.Option(metavar="FILE", help="Known false positives (YAML).")] = None,
    decisions: Annotated[Path | None, typer.Option(metavar="FILE", help="What people decided (YAML).")] = None,
    earlier: Annotated[
        Path | None,
        typer.Option(metavar="LOG", help="Earlier log with verdicts, which are kept where the code is unchanged."),
    ] = None,
    truth: Annotated[Path | None, typer.Option(metavar="FILE", help="Ground truth (CSV or YAML).")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the log with its verdicts to this file.")
    ] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write an HTML report to this file.")] = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="Suppress false positives as accepted, not as under review.")
    ] = False,
    concurrency: Annotated[
        int, typer.Option(min=0, max=1000, help="Most findings at once; 0: the platform's share.")
    ] = 0,
    batch: Annotated[str, typer.Option(metavar="NAME", help="Start over, as a batch of this name.")] = "",
    fail_on: FailOn = None,
    again: Annotated[bool, typer.Option("--rerun-failed", help="Run failed findings again.")] = False,
    subject: As = None,
    roles: Roles = None,
    as_json: AsJson = False,
) -> None:
    """Investigate every finding of a static analyser's log: a verdict with evidence for each.

    The platform runs them as one batch, which goes on after Ctrl-C. Given again with the same files, the command
    follows that batch, and writes what it brings; `signalbox batches` shows and stops it.
    """
    from services.cli.findings_batch import BatchPolicy
    from services.cli.investigation import Investigation  # what it imports takes longer than most commands

    policy = BatchPolicy(max_runs=concurrency, rerun_failed=again, name=batch)
    wanted = Investigation(
        log,
        repo,
        commit,
        known_file=known_fp,
        decisions_file=decisions,
        earlier_file=earlier,
        truth_file=truth,
        out=out,
        html=html,
        as_json=as_json,
        fail_on=tuple(fail_on or ()),
        policy=policy,
        accept=accept,
    )
    run_command(investigate(context.obj.connection(subject, roles=roles), wanted, terminal), terminal)


async def investigate(connection: Connection, wanted: Investigation, terminal: Terminal) -> ExitCode:
    """Investigates every finding of a log, and shows what came of them. Raises CliError, FindingsError."""
    from services.cli.investigation import summarise

    summary = await summarise(connection, wanted, terminal)
    if summary.has(wanted.fail_on):
        return ExitCode.FOUND
    return ExitCode.RUN_FAILED if summary.failed else ExitCode.OK
