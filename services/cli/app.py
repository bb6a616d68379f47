"""The `signalbox` command: its options and arguments. What the commands do is in the modules named after them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from signalbox.v1 import runs_pb2

from services.cli import runs as run_commands
from services.cli.agent_commands import agent_commands
from services.cli.ask import Presentation, Question
from services.cli.ask import ask as ask_command
from services.cli.connection import Identity, development_token
from services.cli.console_commands import console_commands
from services.cli.endpoint import read_endpoint
from services.cli.errors import CliError, not_running
from services.cli.exit_codes import ExitCode, as_help
from services.cli.graph_commands import graph_commands
from services.cli.invocation import (
    Admin,
    As,
    AsJson,
    Gateway,
    Invocation,
    Roles,
    RunId,
    Since,
    Timeout,
    Until,
    fail,
    takeable,
    terminal,
)
from services.cli.labels import WantedLabels, parse_labels
from services.cli.ledger_commands import ledger_commands
from services.cli.operator_commands import operator_commands
from services.cli.pin import pin as pin_command
from services.cli.question_commands import question_commands
from services.cli.sql_policy import sql_policy as sql_policy_command
from services.cli.terminal import run_command
from services.cli.thread_commands import thread_commands
from services.findings.sarif.outcome import Verdict
from services.kit.text.words import parse_state
from services.local.settings import DSN_VARIABLE

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="**Exit status**\n\n" + as_help(),
)
app.add_typer(agent_commands)
app.add_typer(thread_commands)
app.add_typer(ledger_commands)
app.add_typer(graph_commands)
app.add_typer(question_commands)
app.add_typer(console_commands)
app.add_typer(operator_commands)
Repository = Annotated[str, typer.Option("--repo", metavar="PATH", help="Git repository of the code: path or URL.")]
Commit = Annotated[str, typer.Option(metavar="COMMIT", help="Commit that was analysed; HEAD when left out.")]
RerunFailed = Annotated[bool, typer.Option("--rerun-failed", help="Run what failed before once more.")]
ServiceSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="SERVICE.NAME=VALUE", help="Set a setting of one service (docs/settings.md); repeatable."
    ),
]
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
    settings: ServiceSettings = None,
) -> None:
    """Start the whole platform on this machine and keep it running until Ctrl-C."""
    from services.cli.up import up as up_command  # what it imports comes with the extra `local` only

    command = up_command(
        context.obj.settings,
        terminal,
        replicas=replicas,
        listen=listen,
        data_dir=data,
        code_roots=code_root or (),
        service_settings=settings or (),
    )
    run_command(command, terminal)


@app.command()
def demo(context: typer.Context) -> None:
    """Start the platform, ask it four questions, have it edit a graph, investigate findings, and stop it."""
    from services.cli.demo import demo as demo_command  # what it imports comes with the extra `local` only

    run_command(demo_command(context.obj.settings, terminal), terminal)


@app.command("check-model")
def check_model(
    context: typer.Context,
    timeout: Annotated[
        float, typer.Option(min=1, metavar="SECONDS", help="Most that one call may take.", callback=takeable)
    ] = 60,
    settings: ServiceSettings = None,
    as_json: AsJson = False,
) -> None:
    """Try the models of OPENAI_BASE_URL: key, names, tools, structured output, the guard's verdict, speed.

    The exit status is 1 when a model does not do what the platform needs of it.
    """
    from services.cli.check_model import check_model as check_model_command  # starts a guard: the extra `local`

    command = check_model_command(
        context.obj.settings, terminal, timeout_s=timeout, service_settings=settings or (), as_json=as_json
    )
    run_command(command, terminal)


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
    connection = context.obj.connection(subject, admin=admin, roles=roles, must_name=True)
    asked = Question(question, thread_id=thread, want_debug=debug, want_csv=csv is not None)
    run_command(ask_command(connection, asked, Presentation(as_json, csv), terminal, timeout_s=timeout), terminal)


@app.command()
def runs(
    context: typer.Context,
    subject: As = None,
    admin: Admin = False,
    roles: Roles = None,
    agent: Annotated[str, typer.Option(metavar="AGENT", help="Only runs of this agent.")] = "",
    state: Annotated[str, typer.Option(metavar="STATE", help="Only runs in this state, such as failed.")] = "",
    thread: Annotated[str, typer.Option(metavar="ID", help="Only runs of this conversation.")] = "",
    since: Since = None,
    until: Until = None,
    caller: Annotated[str, typer.Option(metavar="USER", help="Only runs of this caller. For operators.")] = "",
    labels: WantedLabels = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="At most so many.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List runs, newest first."""
    try:
        wanted = parse_labels(labels or ())
    except CliError as error:
        raise fail(error) from error
    request = runs_pb2.ListRunsRequest(
        agent=agent, thread_id=thread, subject=caller, labels=wanted, since_time=since, until_time=until
    )
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
def explain(
    context: typer.Context,
    run: RunId,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", dir_okay=False, help="Write it here, as a page to look at.")
    ] = None,
    subject: As = None,
    roles: Roles = None,
) -> None:
    """Show why a run went where it went: its decisions as a tree, with the numbers they rest on."""
    connection = context.obj.connection(subject, roles=roles)
    run_command(run_commands.explain(connection, run, terminal, html=html), terminal)


@app.command()
def pin(
    context: typer.Context,
    run: RunId,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", dir_okay=False, help="Write it here, not on standard output.")
    ] = None,
    subject: As = None,
    roles: Roles = None,
) -> None:
    """Write a recorded run as a test case: `signalbox replay --case FILE` decides it again without model or executor.

    The file holds what the run's nodes heard, which is as personal as its output.
    """
    connection = context.obj.connection(subject, roles=roles)
    run_command(pin_command(connection, run, terminal, output=output), terminal)


@app.command()
def cancel(context: typer.Context, run: RunId, subject: As = None, roles: Roles = None) -> None:
    """Ask a run to stop at its next step."""
    connection = context.obj.connection(subject, roles=roles)
    run_command(run_commands.cancel(connection, run, terminal), terminal)


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
    from services.cli.triage import Triage  # what it imports takes longer than most commands
    from services.cli.triage import triage as triage_command
    from services.findings.investigation.batch import BatchPolicy

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
    accept: Annotated[
        bool, typer.Option("--accept", help="Suppress false positives as accepted, not as under review.")
    ] = False,
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
    from services.cli.investigate import Investigation  # what it imports takes longer than most commands
    from services.cli.investigate import investigate as investigate_command
    from services.findings.investigation.batch import BatchPolicy

    policy = BatchPolicy(concurrency=concurrency, rerun_failed=again, label=batch)
    wanted = Investigation(log, repo, commit, known_fp, truth, out, html, as_json, tuple(fail_on or ()), policy, accept)
    run_command(investigate_command(context.obj.connection(subject, roles=roles), wanted, terminal), terminal)


@app.command("sql-policy")
def sql_policy(
    action: Annotated[str, typer.Argument(metavar="plan|apply|verify|init|try", help="What to do.")],
    query: Annotated[str, typer.Argument(metavar="[SQL]", help="For `try`: a query.")] = "",
    policy: Annotated[
        Path | None, typer.Option(metavar="FILE", exists=True, dir_okay=False, help="Policy file (YAML).")
    ] = None,
    users: Annotated[str, typer.Option(metavar="TABLE", help="For `init`: the table of the users who own rows.")] = "",
    subject: Annotated[str, typer.Option("--as", metavar="USER", help="For `try`: the caller.")] = "",
    roles: Roles = None,
    dsn_env: Annotated[
        str, typer.Option(metavar="NAME", help="Environment variable with the DSN of the tables' owner.")
    ] = DSN_VARIABLE,
) -> None:
    """Show, apply or check what a policy file needs in its database: roles, grants, row-level security.

    `apply` also reads SIGNALBOX_CALLER_SECRET and, if set, SIGNALBOX_READER_PASSWORD. `init` drafts a policy file from
    foreign keys. `try --as 27 "SELECT …"` shows what a caller sees, or why a query is refused; it reads
    SIGNALBOX_CALLER_SECRET, and its DSN is the reader's.
    """
    options = {"--policy": str(policy or ""), "--users": users, "--as": subject}
    arguments = [part for name, value in options.items() if value for part in (name, value)]
    arguments += [part for role in roles or () for part in ("--role", role)]
    arguments += ["--", query] if query else []
    run_command(sql_policy_command(action, *arguments, dsn_env=dsn_env), terminal)


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
