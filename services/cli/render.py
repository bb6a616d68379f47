"""Runs, answers and decisions as a terminal shows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from google.protobuf.json_format import MessageToJson
from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from signalbox.v1 import data_chat_pb2, runs_pb2, table_pb2

from services.cli.exit_codes import ExitCode, exit_code_of
from services.cli.words import cell, duration, elapsed, moment, printable, state_name, tokens

_STYLES = {
    ExitCode.OK: "green",
    ExitCode.BLOCKED: "yellow",
    ExitCode.NEEDS_REVIEW: "yellow",
    ExitCode.AWAITING_INPUT: "cyan",
    ExitCode.CANCELLED: "yellow",
    ExitCode.RUN_FAILED: "red",
}
_NUMBERS = frozenset((table_pb2.COLUMN_TYPE_INT, table_pb2.COLUMN_TYPE_DOUBLE, table_pb2.COLUMN_TYPE_NUMERIC))


def state_text(run: runs_pb2.Run) -> Text:
    """A run's state, coloured by how well it went."""
    code = exit_code_of(run)
    name = "BLOCKED" if code is ExitCode.BLOCKED else state_name(run.state)
    return Text(name, style=_STYLES.get(code, ""))


def answer(run: runs_pb2.Run) -> Group:
    """What a run brought: answer, SQL, rows, tokens, and where to look further."""
    parts: list[RenderableType] = [Text(_answer_text(run), style="bold")]
    output = run.output.data_chat
    if output.sql_query:
        parts += [Text(), Syntax(printable(output.sql_query), "sql", background_color="default", word_wrap=True)]
    if output.HasField("rows"):
        parts += [Text(), rows(output.rows)]
    if output.HasField("debug"):
        parts += [Text(), debug(output.debug)]
    footer = Text.assemble(
        "\n", state_text(run), (f"  {tokens(run.spend.token_usage)}  {elapsed(run)}\n", "dim"),
        ("why: ", "dim"), f"signalbox explain {printable(run.run_id)}",
    )  # fmt: skip
    return Group(*parts, footer)


def _answer_text(run: runs_pb2.Run) -> str:
    if run.output.data_chat.answer:
        return printable(run.output.data_chat.answer)
    if run.output.WhichOneof("agent") not in (None, "data_chat"):
        return printable(MessageToJson(run.output, preserving_proto_field_name=True, ensure_ascii=False))
    if run.error:
        return f"The run failed: {printable(run.error)}"
    if run.HasField("input_request"):
        return printable(run.input_request.question)
    return f"The run is {state_name(run.state)} and has no answer."


def rows(table: table_pb2.Table) -> RenderableType:
    """A result table, and whether it was cut."""
    shown = Table(box=None, header_style="bold dim", pad_edge=False)
    for column in table.columns:
        shown.add_column(Text(printable(column.name)), justify="right" if column.type in _NUMBERS else "left")
    for row in table.rows:
        shown.add_row(*(Text(cell(value), style="" if value.WhichOneof("value") else "dim") for value in row.values))
    if not table.truncated:
        return shown
    note = f"cut by the {printable(table.truncated_by) or 'limit'}: there are more rows"
    return Group(shown, Text(note, style="yellow"))


def debug(record: data_chat_pb2.DataChatDebug) -> RenderableType:
    """Message history and model calls of a run."""
    calls = Table(title="Model calls", title_justify="left", box=None, header_style="bold dim", pad_edge=False)
    for name in ("purpose", "model", "input", "output", "tokens", "time"):
        calls.add_column(name, overflow="fold")
    for call in record.model_calls:
        words = (call.purpose, call.model, call.input_summary, call.output)
        calls.add_row(*(Text(printable(word)) for word in words), tokens(call.token_usage), duration(call.elapsed_ms))
    messages = [
        Text.assemble((f"{printable(message.role)}: ", "bold"), printable(_message_text(message)))
        for message in record.messages
    ]
    return Group(calls, Text(f"\nMessages ({record.iterations} iterations)", style="italic"), *messages)


def _message_text(message: data_chat_pb2.DebugMessage) -> str:
    asked = f"[calls {', '.join(message.tool_calls)}]" if message.tool_calls else ""
    return " ".join(part for part in (message.content, asked) if part)


def run_list(runs: Iterable[runs_pb2.Run]) -> Table:
    """Runs, one a line."""
    table = Table(box=None, header_style="bold dim", pad_edge=False)
    for name in ("run", "agent", "caller", "state", "stop reason", "tokens", "time", "created"):
        justify: JustifyMethod = "right" if name in ("tokens", "time") else "left"
        table.add_column(name, justify=justify, no_wrap=name in ("run", "state"))
    for run in runs:
        table.add_row(
            printable(run.run_id), printable(run.agent), printable(run.caller.subject), state_text(run),
            printable(run.stop_reason), f"{run.spend.token_usage.total_tokens:,}", elapsed(run),
            moment(run.create_time),
        )  # fmt: skip
    return table


def run_details(run: runs_pb2.Run) -> Group:
    """Everything about one run but its decisions."""
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim")
    facts.add_column()
    for name, value in _details(run):
        if value:
            facts.add_row(name, value if isinstance(value, Text) else Text(printable(value)))
    return Group(facts, Text(), answer(run))


def _details(run: runs_pb2.Run) -> Iterable[tuple[str, str | Text]]:
    yield "run", run.run_id
    yield "agent", f"{run.agent} {run.graph_version}".strip()
    yield "caller", f"{run.caller.subject} {' '.join(run.caller.roles)}".strip()
    yield "state", state_text(run)
    yield "question", run.input.data_chat.question
    yield "stop reason", run.stop_reason
    yield "thread", run.thread_id
    yield "correlation", run.correlation_id
    yield "trace", run.trace_id
    yield "claims", f"{run.epoch} (taken over)" if run.epoch > 1 else ""
    yield "spent", _spent(run.spend)
    yield "created", moment(run.create_time)
    yield "ended", moment(run.end_time)


def _spent(spend: runs_pb2.Spend) -> str:
    return f"{spend.model_calls} model calls, {tokens(spend.token_usage)}, {spend.tool_calls} tool calls"


def decision_list(decisions: Sequence[runs_pb2.Decision]) -> Table:
    """Routing decisions, one a line."""
    table = Table(box=None, header_style="bold dim", pad_edge=False)
    for name in ("#", "node", "router", "rule", "destination", "node time", "decided"):
        table.add_column(name, justify="right" if name in ("#", "node time") else "left")
    for decision in decisions:
        table.add_row(
            str(decision.sequence), printable(decision.node), printable(decision.router),
            Text(printable(decision.rule), style="bold"), printable(decision.destination),
            duration(decision.node_elapsed_ms), moment(decision.decide_time),
        )  # fmt: skip
    return table


def to_text(renderable: RenderableType, *, width: int = 120) -> str:
    """What a terminal of a width would show, without colours."""
    console = Console(width=width, color_system=None, force_terminal=False, legacy_windows=False)
    with console.capture() as capture:
        console.print(renderable)
    return capture.get()
