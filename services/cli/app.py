"""The `signalbox` command: its options and arguments. What the commands do is in the modules named after them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from signalbox.v1 import runs_pb2

from services.cli import runs as run_commands
from services.cli.ask import Presentation, Question
from services.cli.ask import ask as ask_command
from services.cli.connection import Identity, development_token
from services.cli.console import run_command
from services.cli.endpoint import read_endpoint
from services.cli.errors import CliError, not_running
from services.cli.exit_codes import ExitCode, as_help
from services.cli.investigate import Investigation
from services.cli.investigate import investigate as investigate_command
from services.cli.investigation.batch import BatchPolicy
from services.cli.invocation import (
    Admin,
    As,
    AsJson,
    Gateway,
    Invocation,
    Roles,
    RunId,
    Timeout,
    fail,
    terminal,
)
from services.cli.operator_commands import operator_commands
from services.cli.sarif.outcome import Verdict
from services.cli.settings import DSN_VARIABLE
from services.cli.sql_policy import sql_policy as sql_policy_command
from services.cli.thread_commands import thread_commands
from services.cli.triage import Triage
from services.cli.triage import triage as triage_command
from services.cli.words import parse_state

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="**Exit status**\n\n" + as_help(),
)
app.add_typer(thread_commands)
app.add_typer(operator_commands)
Repository = Annotated[str, typer.Option("--repo", metavar="PATH", help="Git repository of the code: path or URL.")]
Commit = Annotated[str, typer.Option(metavar="COMMIT", help="Commit that was analysed; HEAD when left out.")]
RerunFailed = Annotated[bool, typer.Option("--rerun-failed", help="Run what failed before once more.")]
FailOn = Annotated[
    list[Verdict] | None,
    typer.Option(case_sensitive=False, help="Exit with status 10 when a finding has this verdict; repeatable."),
]


@app.callback()
def root(context: typer.Context, gateway: Gateway = "") -> None:
    """Runs agents as services, and says why every run went where it went."""
    context.obj = Invocation(gateway)


@app.command()
def up(
    context: typer.Context,
    replicas: Annotated[int, typer.Option(min=1, max=16, help="Replicas of the runtime.")] = 1,
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Address of the gateway.")] = "127.0.0.1:0",
    data: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep the database here.")] = None,
    code_root: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR", exists=True, file_okay=False, help="Let agents read the git repositories here; repeatable."
        ),
    ] = None,
) -> None:
    """Start the whole platform on this machine and keep it running until Ctrl-C."""
    from services.cli.up import up as up_command  # what it imports comes with the extra `local` only

    command = up_command(
        context.obj.settings, terminal, replicas=replicas, listen=listen, data_dir=data, code_roots=code_root or ()
    )
    run_command(command, terminal)


@app.command()
def demo(context: typer.Context) -> None:
    """Start the platform, ask it four questions, let it investigate a scanner's findings, and stop it."""
    from services.cli.demo import demo as demo_command  # what it imports comes with the extra `local` only

    run_command(demo_command(context.obj.settings, terminal), terminal)


@app.command()
def ask(
    context: typer.Context,
    question: Annotated[str, typer.Argument(help="The question, in natural language.")],
    subject: As = None,
    admin: Admin = False,
    roles: Roles = None,
    thread: Annotated[str, typer.Option(metavar="ID", help="Conversation to start or continue.")] = "",
    debug: Annotated[bool, typer.Option("--debug", help="Show messages and model calls too.")] = False,
    as_json: AsJson = False,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", dir_okay=False, help="Write the rows as CSV.")] = None,
    timeout: Timeout = None,
) -> None:
    """Ask a question to the database, and show the answer.

    The exit status tells how it ended; `signalbox --help` lists them.
    """
    connection = context.obj.connection(subject, admin=admin, roles=roles)
    asked = Question(question, thread_id=thread, want_debug=debug, want_csv=csv is not None)
    run_command(ask_command(connection, asked, Presentation(as_json, csv), terminal, timeout_s=timeout), terminal)


@app.command()
def runs(
    context: typer.Context,
    subject: As = None,
    admin: Admin = False,
    roles: Roles = None,
    state: Annotated[str, typer.Option(metavar="STATE", help="Only runs in this state, such as failed.")] = "",
    thread: Annotated[str, typer.Option(metavar="ID", help="Only runs of this conversation.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="At most so many.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List runs, newest first."""
    request = runs_pb2.ListRunsRequest(thread_id=thread)
    if state:
        try:
            request.state = parse_state(state)
        except ValueError as error:
            raise fail(CliError(str(error), hint="name one of those", code=ExitCode.USAGE)) from error
    connection = context.obj.connection(subject, admin=admin, roles=roles)
    run_command(run_commands.list_runs(connection, request, terminal, limit=limit, as_json=as_json), terminal)


@app.command()
def show(context: typer.Context, run: RunId, subject: As = None, roles: Roles = None, as_json: AsJson = False) -> None:
    """Show a run; the exit status tells how it ended."""
    connection = context.obj.connection(subject, roles=roles)
    run_command(run_commands.show(connection, run, terminal, as_json=as_json), terminal)


@app.command()
def explain(context: typer.Context, run: RunId, subject: As = None, roles: Roles = None) -> None:
    """Show why a run went where it went: its decisions as a tree, with the numbers they rest on."""
    connection = context.obj.connection(subject, roles=roles)
    run_command(run_commands.explain(connection, run, terminal), terminal)


@app.command()
def decisions(
    context: typer.Context, run: RunId, subject: As = None, roles: Roles = None, as_json: AsJson = False
) -> None:
    """List the routing decisions of a run."""
    connection = context.obj.connection(subject, roles=roles)
    run_command(run_commands.list_decisions(connection, run, terminal, as_json=as_json), terminal)


@app.command()
def cancel(context: typer.Context, run: RunId, subject: As = None, roles: Roles = None) -> None:
    """Ask a run to stop at its next step."""
    connection = context.obj.connection(subject, roles=roles)
    run_command(run_commands.cancel(connection, run, terminal), terminal)


@app.command()
def resume(
    context: typer.Context,
    run: RunId,
    answer: Annotated[str, typer.Argument(help="Answer to the run's question.")],
    subject: As = None,
    roles: Roles = None,
    timeout: Timeout = None,
) -> None:
    """Answer the question of a run that awaits input, and follow it to its end."""
    connection = context.obj.connection(subject, roles=roles)
    run_command(run_commands.resume(connection, run, answer, terminal, timeout_s=timeout), terminal)


@app.command()
def triage(
    context: typer.Context,
    finding: Annotated[Path, typer.Option(metavar="FILE", dir_okay=False, help="The finding: JSON, or a SARIF log.")],
    repo: Repository,
    commit: Commit = "",
    fingerprint: Annotated[str, typer.Option(metavar="ID", help="Which finding, when the file has several.")] = "",
    fail_on: FailOn = None,
    again: RerunFailed = False,
    subject: As = None,
    roles: Roles = None,
    as_json: AsJson = False,
) -> None:
    """Bring one finding of a static analyser to a verdict, with evidence."""
    policy = BatchPolicy(concurrency=1, rerun_failed=again)
    wanted = Triage(finding, repo, commit, fingerprint, as_json, tuple(fail_on or ()), policy)
    run_command(triage_command(context.obj.connection(subject, roles=roles), wanted, terminal), terminal)


@app.command()
def investigate(
    context: typer.Context,
    log: Annotated[Path, typer.Argument(metavar="LOG", help="SARIF 2.1.0 log, Bandit's JSON, or a list of findings.")],
    repo: Repository,
    commit: Commit = "",
    known_fp: Annotated[Path | None, typer.Option(metavar="FILE", help="Known false positives (YAML).")] = None,
    truth: Annotated[Path | None, typer.Option(metavar="FILE", help="Ground truth (CSV or YAML).")] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the log here, with verdicts.")] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a report here.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, max=256, help="Findings at once.")] = 8,
    batch: Annotated[str, typer.Option(metavar="NAME", help="Start over under a new name.")] = "",
    fail_on: FailOn = None,
    again: RerunFailed = False,
    subject: As = None,
    roles: Roles = None,
    as_json: AsJson = False,
) -> None:
    """Bring every finding of a static analyser's log to a verdict, with evidence.

    Each finding is a run of its own. Given again within a day, the same command finds the runs that there are, follows
    those under way and starts what is missing.
    """
    policy = BatchPolicy(concurrency=concurrency, rerun_failed=again, label=batch)
    wanted = Investigation(log, repo, commit, known_fp, truth, out, html, as_json, tuple(fail_on or ()), policy)
    run_command(investigate_command(context.obj.connection(subject, roles=roles), wanted, terminal), terminal)


@app.command("sql-policy")
def sql_policy(
    action: Annotated[str, typer.Argument(metavar="plan|apply|verify", help="What to do.")],
    policy: Annotated[Path, typer.Option(metavar="FILE", exists=True, dir_okay=False, help="Policy file (YAML).")],
    dsn_env: Annotated[
        str, typer.Option(metavar="NAME", help="Environment variable with the DSN of the tables' owner.")
    ] = DSN_VARIABLE,
) -> None:
    """Show, apply or check what a policy file needs in its database: roles, grants, row-level security.

    `apply` also reads SIGNALBOX_CALLER_SECRET and, if set, SIGNALBOX_READER_PASSWORD.
    """
    run_command(sql_policy_command(action, policy, dsn_env=dsn_env), terminal)


@app.command()
def token(
    context: typer.Context,
    subject: Annotated[str, typer.Option("--as", metavar="USER", help="User the token names.")],
    admin: Admin = False,
    roles: Roles = None,
    ttl: Annotated[int, typer.Option(min=1, max=86400, metavar="SECONDS", help="How long it is valid.")] = 3600,
) -> None:
    """Print a development token for the platform of `signalbox up`."""
    try:
        endpoint = read_endpoint(context.obj.settings.runtime_dir)
        if endpoint is None:
            raise not_running()
        minted = development_token(endpoint, Identity.of(subject, admin=admin, roles=roles or ()), ttl_s=ttl)
    except CliError as error:
        raise fail(error) from error
    terminal.raw(minted + "\n")
