"""`signalbox batches`: many inputs of an agent, run by the platform at its own pace, whether anybody watches or not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text
from signalbox.v1 import batches_pb2

from services.cli.batch_client import OVER, UPLOADING, BatchClient, open_batches, share_note, when_interrupted
from services.cli.batch_results import FORMS, Form, form_of, state_name
from services.cli.client import Connection
from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode
from services.cli.invocation import Admin, As, AsJson, Roles, fail, terminal
from services.cli.listing import Listing
from services.cli.output_files import OutputFile
from services.cli.terminal import Terminal, escaped, run_command
from services.kit.text.printing import printable
from services.kit.text.words import moment, several

commands = typer.Typer()
batches_command = typer.Typer(no_args_is_help=True, help="Run many inputs of an agent as one batch.")
commands.add_typer(batches_command, name="batches")

BatchId = Annotated[str, typer.Argument(metavar="BATCH", help="Its id, the beginning of one, or `last`.")]
Watch = Annotated[bool, typer.Option("--watch/--no-watch", help="Follow it until it has ended.")]
# Forms of whole files, which are written by `batch_exports`.
FILE_FORMS = ("xlsx", "sarif", "html")
_FAILED = frozenset({batches_pb2.BATCH_ITEM_STATE_FAILED, batches_pb2.BATCH_ITEM_STATE_REFUSED})


@batches_command.command("create")
def create_command(
    context: typer.Context,
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="Agent; `signalbox agents` lists them.")],
    inputs: Annotated[
        Path, typer.Argument(metavar="FILE", help="Its inputs: JSON, one a line. `-` reads standard input.")
    ],
    name: Annotated[
        str, typer.Option(metavar="TEXT", help="What to call it; the same inputs under another name are another batch.")
    ] = "",
    max_runs: Annotated[int, typer.Option(min=0, max=1000, help="Most runs at once; 0: the platform's share.")] = 0,
    watch: Watch = True,
    subject: As = None,
    admin: Admin = False,
    roles: Roles = None,
) -> None:
    """Run an agent on many inputs.

    Run again with the same inputs and name, it goes on with the upload, or follows the batch that exists.
    """
    from services.cli.batch_inputs import read_inputs  # with YAML and JSON schemas, which few commands need

    try:
        items = read_inputs(agent, inputs)
    except CliError as error:
        raise fail(error) from error
    connection = context.obj.connection(subject, admin=admin, roles=roles, must_name=True)
    run_command(create(connection, items, terminal, name=name, max_runs=max_runs, watches=watch), terminal)


@batches_command.command("list")
def list_command(
    context: typer.Context,
    subject: As = None,
    roles: Roles = None,
    caller: Annotated[str, typer.Option(metavar="USER", help="Only batches of this caller. For operators.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Maximum number to show.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List batches, newest first."""
    connection = context.obj.connection(subject, roles=roles)
    run_command(list_batches(connection, terminal, caller=caller, limit=limit, as_json=as_json), terminal)


@batches_command.command("show")
def show_command(
    context: typer.Context, batch: BatchId, subject: As = None, roles: Roles = None, as_json: AsJson = False
) -> None:
    """Show how far a batch has come."""
    connection = context.obj.connection(subject, roles=roles)
    run_command(show(connection, batch, terminal, as_json=as_json), terminal)


@batches_command.command("watch")
def watch_command(context: typer.Context, batch: BatchId, subject: As = None, roles: Roles = None) -> None:
    """Follow a batch until it has ended."""
    connection = context.obj.connection(subject, roles=roles)
    run_command(follow(connection, batch, terminal), terminal)


@batches_command.command("cancel")
def cancel_command(context: typer.Context, batch: BatchId, subject: As = None, roles: Roles = None) -> None:
    """Stop a batch: its runs are cancelled, and no more begin."""
    connection = context.obj.connection(subject, roles=roles)
    run_command(cancel(connection, batch, terminal), terminal)


@batches_command.command("retry")
def retry_command(
    context: typer.Context,
    batch: BatchId,
    watch: Watch = True,
    subject: As = None,
    admin: Admin = False,
    roles: Roles = None,
) -> None:
    """Run again what failed, was refused or was cancelled of a batch."""
    connection = context.obj.connection(subject, admin=admin, roles=roles, must_name=True)
    run_command(retry(connection, batch, terminal, watches=watch), terminal)


@batches_command.command("export")
def export_command(
    context: typer.Context,
    batch: BatchId,
    form: Annotated[
        str,
        typer.Option(
            "--format", metavar="FORMAT", help="`json` (an item a line), `csv` or `xlsx`; of findings `sarif`, `html`."
        ),
    ] = "json",
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", dir_okay=False, help="Write to this file; JSON also goes to standard output."),
    ] = None,
    results_only: Annotated[
        bool, typer.Option("--results-only", help="Leave ids of runs out: the same results are the same bytes.")
    ] = False,
    subject: As = None,
    roles: Roles = None,
) -> None:
    """Write the results of a batch, in the order of its items."""
    if form not in (*FORMS, *FILE_FORMS):
        known = ", ".join((*FORMS, *FILE_FORMS))
        raise typer.BadParameter(f"{form!r} is no format; there are {known}", param_hint="--format")
    if form != "json" and output is None:
        raise typer.BadParameter(f"{form} is written to a file: name it", param_hint="--output")
    connection = context.obj.connection(subject, roles=roles)
    if form in FILE_FORMS and output is not None:
        writing = export_file(connection, batch, form, output, terminal, with_run_ids=not results_only)
        run_command(writing, terminal)
        return
    written = form_of(form, with_run_ids=not results_only)
    run_command(export(connection, batch, written, output, terminal), terminal)


@batches_command.command("delete")
def delete_command(context: typer.Context, batch: BatchId, subject: As = None, roles: Roles = None) -> None:
    """Delete a batch of yours that has ended, with its results; its runs stay."""
    connection = context.obj.connection(subject, roles=roles, must_name=True)
    run_command(delete(connection, batch, terminal), terminal)


async def create(
    connection: Connection, items: list[batches_pb2.NewBatchItem], terminal: Terminal, *, name: str, max_runs: int,
    watches: bool,
) -> ExitCode:  # fmt: skip
    """Uploads a batch and starts it. Raises CliError."""
    async with open_batches(connection) as batches:
        with when_interrupted(terminal, UPLOADING):
            batch = await batches.upload(items, name=name, max_runs=max_runs)
        if batch.item_count != len(items):
            told = f"batch {batch.batch_id} was cancelled with {batch.item_count} of these {len(items)} inputs uploaded"
            raise CliError(told, hint="--name NAME makes another batch of them", code=ExitCode.REFUSED)
        terminal.err.print(Text(f"batch {batch.batch_id}: {len(items)} items"))
        if note := share_note(batch, max_runs):
            terminal.err.print(Text(note), soft_wrap=True)
        if not watches:
            terminal.out.print(batch.batch_id, markup=False)
            return ExitCode.OK
        return await _follow(batches, batch.batch_id, terminal)


async def follow(connection: Connection, batch_name: str, terminal: Terminal) -> ExitCode:
    """Says how a batch goes until it has ended. Raises CliError."""
    async with open_batches(connection) as batches:
        batch_id = await batches.named(batch_name)
        return await _follow(batches, batch_id, terminal)


async def show(connection: Connection, batch_name: str, terminal: Terminal, *, as_json: bool) -> ExitCode:
    """Shows a batch. Raises CliError."""
    async with open_batches(connection) as batches:
        batch_id = await batches.named(batch_name)
        batch = await batches.get(batch_id)
    if as_json:
        terminal.json(batch)
    else:
        terminal.out.print(_table([batch]))
        if batch.pace:
            terminal.out.print(Text(f"{batch.pace} of {batch.max_runs} at once"))
        if batch.HasField("scores"):
            terminal.out.print(_scores(batch.scores))
        if batch.held_up_by:
            terminal.out.print(Text(f"held up by {printable(batch.held_up_by)}"), soft_wrap=True)
    return ExitCode.OK


async def list_batches(
    connection: Connection, terminal: Terminal, *, caller: str, limit: int, as_json: bool
) -> ExitCode:
    """Lists batches. Raises CliError."""
    async with open_batches(connection) as batches:
        found = await batches.listed(caller, limit)
    if as_json:
        terminal.json_list(found)
    else:
        terminal.out.print(_table(found))
    return ExitCode.OK


async def cancel(connection: Connection, batch_name: str, terminal: Terminal) -> ExitCode:
    """Cancels a batch. Raises CliError."""
    async with open_batches(connection) as batches:
        batch_id = await batches.named(batch_name)
        batch = await batches.cancel(batch_id)
    terminal.out.print(_state(batch), markup=False)
    return ExitCode.OK


async def retry(connection: Connection, batch_name: str, terminal: Terminal, *, watches: bool) -> ExitCode:
    """Runs items again. Raises CliError."""
    async with open_batches(connection) as batches:
        batch_id = await batches.named(batch_name)
        count = await batches.retry(batch_id)
        terminal.err.print(Text(f"{several(count, 'item')} to run again"))
        return await _follow(batches, batch_id, terminal) if watches else ExitCode.OK


async def export(
    connection: Connection, batch_name: str, form: Form, output: Path | None, terminal: Terminal
) -> ExitCode:
    """Writes results, item after item. Raises CliError, OSError."""
    wanted = OutputFile(output) if output else None
    if wanted is not None:
        wanted.check()
        wanted.remove_older()
    async with open_batches(connection) as batches:
        batch_id = await batches.named(batch_name)
        if wanted is None:
            async for item in batches.items(batch_id):
                terminal.raw(escaped(form.line(item)))
            return ExitCode.OK
        with wanted.written_whole() as part, part.open("w", encoding="utf-8", newline="") as file:
            file.write(form.head)
            async for item in batches.items(batch_id):
                file.write(form.line(item))
    terminal.err.print(Text(f"written: {output}"))
    return ExitCode.OK


async def export_file(
    connection: Connection, batch_name: str, form: str, output: Path, terminal: Terminal, *, with_run_ids: bool
) -> ExitCode:
    """Writes results as a file of one of `FILE_FORMS`. Raises CliError, OSError."""
    from services.cli.batch_exports import WRITERS  # what it imports takes longer than most commands

    wanted = OutputFile(output)
    wanted.check()
    wanted.remove_older()
    async with open_batches(connection) as batches:
        batch_id = await batches.named(batch_name)
        with wanted.written_whole(spooled=True) as part:
            notes = await WRITERS[form](batches.items(batch_id, with_inputs=True), part, with_run_ids=with_run_ids)
    for note in notes:
        terminal.err.print(Text(note), soft_wrap=True)
    terminal.err.print(Text(f"written: {output}"))
    return ExitCode.OK


async def delete(connection: Connection, batch_name: str, terminal: Terminal) -> ExitCode:
    """Deletes a batch. Raises CliError."""
    async with open_batches(connection) as batches:
        batch_id = await batches.named(batch_name)
        await batches.delete(batch_id)
    terminal.out.print("deleted", markup=False)
    return ExitCode.OK


async def _follow(batches: BatchClient, batch_id: str, terminal: Terminal) -> ExitCode:
    last = batches_pb2.Batch()
    try:
        async for told in batches.watch(batch_id):
            if told.HasField("batch") and _progress(told.batch) != _progress(last):
                last = told.batch
                terminal.err.print(Text(_progress(last)), soft_wrap=True)
    finally:
        if last.state not in OVER:
            go_on = f"the batch goes on without you: `signalbox batches watch {batch_id}` follows it"
            terminal.err.print(Text(f"{go_on}, `signalbox batches cancel {batch_id}` stops it"), soft_wrap=True)
    terminal.out.print(_table([last]))
    if last.state == batches_pb2.BATCH_STATE_CANCELLED:
        return ExitCode.CANCELLED
    counts = {each.state for each in last.counts}
    if counts & _FAILED:
        return ExitCode.RUN_FAILED
    return ExitCode.NEEDS_REVIEW if batches_pb2.BATCH_ITEM_STATE_NEEDS_REVIEW in counts else ExitCode.OK


def _progress(batch: batches_pb2.Batch) -> str:
    held_up = f"; held up by {printable(batch.held_up_by)}" if batch.held_up_by else ""
    pace = f", {batch.pace} at once" if batch.pace else ""
    return f"{_state(batch)}: {_counts(batch) or 'nothing yet'}{pace}{held_up}"


def _table(batches: list[batches_pb2.Batch]) -> Listing:
    listing = Listing("batch", "name", "state", "items", "", "created", right=("items",))
    for batch in batches:
        listing.add(
            batch.batch_id, batch.name, _state(batch), str(batch.item_count), _counts(batch), moment(batch.create_time)
        )
    return listing


def _scores(scores: batches_pb2.BatchScores) -> Listing:
    right = ("precision", "recall", "F1", "found", "missed", "false", "review")
    listing = Listing("rule", *right, right=right)
    for each in (scores.total, *scores.by_rule):
        shares = (
            f"{getattr(each, name):.2f}" if each.HasField(name) else "n/a" for name in ("precision", "recall", "f1")
        )
        counts = each.true_positives, each.false_negatives, each.false_positives
        review = each.review_vulnerable + each.review_harmless
        listing.add(printable(each.rule_id) or "(all)", *shares, *map(str, counts), str(review))
    return listing


def _counts(batch: batches_pb2.Batch) -> str:
    return " · ".join(f"{each.count} {state_name(each.state).replace('_', ' ')}" for each in batch.counts)


def _state(batch: batches_pb2.Batch) -> str:
    return batches_pb2.BatchState.Name(batch.state).removeprefix("BATCH_STATE_").lower()
