"""Runs, answers and decisions as a terminal shows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from google.protobuf import json_format
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from signalbox.v1 import costs_pb2, data_chat_pb2, runs_pb2

from services.cli.exit_codes import ExitCode, exit_code_of
from services.cli.incident_view import incident
from services.cli.listing import Listing
from services.cli.output_view import rendered
from services.cli.tables import rows
from services.kit.outcome import Outcome
from services.kit.text.json_text import json_text
from services.kit.text.moods import Mood, mood
from services.kit.text.printing import printable
from services.kit.text.words import (
    costs_words,
    duration,
    elapsed,
    moment,
    several,
    shown_labels,
    state_name,
    struct_json,
    tokens,
)

_STYLES: Mapping[Mood, str] = {
    Mood.GOOD: "green",
    Mood.BAD: "red",
    Mood.WARN: "yellow",
    Mood.BLOCKED: "magenta",
    Mood.SOFT: "dim",
    Mood.LIVE: "cyan",
}


def state_text(run: runs_pb2.Run) -> Text:
    """A run's state, coloured by what came of it for its caller."""
    name = "BLOCKED" if exit_code_of(run) is ExitCode.BLOCKED else state_name(run.state)
    return Text(name, style=_STYLES[mood(run)])


def answer(run: runs_pb2.Run) -> Group:
    """What a run brought: answer, SQL, rows, tokens, and where to look further."""
    if run.state == runs_pb2.RUN_STATE_AWAITING_INPUT:
        return Group(question(run.input_request), _footer(run))
    if run.output.graph_editor.answer:
        return Group(Text(printable(run.output.graph_editor.answer), style="bold"), _footer(run))
    if run.output.HasField("incident_investigation"):
        return Group(incident(run.output.incident_investigation), _footer(run))
    if run.output.HasField("graph"):
        return Group(Text(struct_json(run.output.graph.output)), _footer(run))
    if run.output.WhichOneof("agent") not in (None, "data_chat"):
        return Group(rendered(getattr(run.output, run.output.WhichOneof("agent") or "")), _footer(run))
    parts: list[RenderableType] = [Text(_answer_text(run), style="bold")]
    output = run.output.data_chat
    if output.sql_query:
        parts += [Text(), Sql(output.sql_query)]
    if output.HasField("rows"):
        parts += [Text(), rows(output.rows)]
    if output.HasField("debug"):
        parts += [Text(), debug(output.debug)]
    return Group(*parts, _footer(run))


def question(request: runs_pb2.InputRequest) -> Text:
    """A question for a person, with the answers that it takes."""
    if len(request.interrupts) > 1:
        shown = Text(f"{len(request.interrupts)} questions, each to be answered by its id", style="bold")
        for each in request.interrupts:
            shown.append("\n\n").append_text(interrupt(each))
        return shown
    shown = Text(printable(request.question), style="bold")
    for option in request.options:
        shown.append(f"\n  - {printable(option)}", style="not bold cyan")
    if request.options and request.any_text:
        shown.append("\n  or in other words", style="not bold dim")
    return shown


def interrupt(asked: runs_pb2.Interrupt) -> Text:
    """One of several questions of a hosted graph, with its id and what an answer must look like."""
    payload = json_format.MessageToDict(asked.payload)
    said = printable(payload) if isinstance(payload, str) else json_text(payload)
    shown = Text.assemble((printable(asked.interrupt_id), "cyan"), "\n", (said, "bold"))
    if asked.HasField("answer_schema"):
        shown.append(f"\nan answer must look like {struct_json(asked.answer_schema)}", style="dim")
    return shown


def _footer(run: runs_pb2.Run) -> Text:
    return Text.assemble(
        "\n", state_text(run), (f"  {tokens(run.spend.token_usage)}  {elapsed(run)}\n", "dim"),
        ("why: ", "dim"), f"signalbox explain {printable(run.run_id)}",
    )  # fmt: skip


class Sql:
    """A statement: coloured and wrapped for a terminal, as it is for anything else."""

    def __init__(self, statement: str) -> None:
        self._statement = printable(statement)

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        if options.is_terminal:
            yield Syntax(self._statement, "sql", background_color="default", word_wrap=True)
        else:
            yield Text(self._statement)


def _answer_text(run: runs_pb2.Run) -> str:
    if run.output.data_chat.answer:
        return printable(run.output.data_chat.answer)
    if run.error:
        return f"The run failed: {printable(run.error)}"
    return f"The run is {state_name(run.state)} and has no answer."


def debug(record: data_chat_pb2.DataChatDebug) -> RenderableType:
    """Message history and model calls of a run."""
    calls = Listing("purpose", "model", "input", "output", "tokens", "time")
    for call in record.model_calls:
        words = (call.purpose, call.model, call.input_summary, call.output)
        calls.add(*words, tokens(call.token_usage), duration(call.elapsed_ms))
    messages = [
        Text.assemble((f"{printable(message.role)}: ", "bold"), printable(_message_text(message)))
        for message in record.messages
    ]
    title = Text(f"\nMessages ({record.iterations} iterations)", style="italic")
    return Group(Text("Model calls", style="italic"), calls, title, *messages)


def _message_text(message: data_chat_pb2.DebugMessage) -> str:
    tools = f"[calls {', '.join(message.tool_calls)}]" if message.tool_calls else ""
    return " ".join(part for part in (message.content, tools) if part)


def run_list(runs: Iterable[runs_pb2.Run]) -> Listing:
    """Runs."""
    names = (
        "run",
        "title",
        "agent",
        "caller",
        "state",
        "outcome",
        "stop reason",
        "tokens",
        "time",
        "created",
        "labels",
    )
    shown = Listing(*names, right=("tokens", "time"))
    for run in runs:
        state = state_text(run)
        shown.add(
            run.run_id, run.title, run.agent, run.caller.subject, state,
            Text((Outcome.of(run.outcome) or "").replace("_", " "), style=state.style), run.stop_reason,
            f"{run.spend.token_usage.total_tokens:,}", elapsed(run), moment(run.create_time),
            shown_labels(run.labels),
        )  # fmt: skip
    return shown


def run_details(run: runs_pb2.Run, costs: costs_pb2.Costs | None = None) -> Group:
    """Everything about one run but its decisions."""
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    for name, value in (*_details(run), ("cost", costs_words(costs) if costs else "")):
        if value:
            facts.add_row(name, value if isinstance(value, Text) else Text(printable(value)))
    return Group(facts, Text(), answer(run))


def begun_from(made_of: runs_pb2.ForkedFrom) -> str:
    """What a run goes on from."""
    changed = f", {', '.join(map(printable, made_of.changed_fields))} changed" if made_of.changed_fields else ""
    by = f" as by {printable(made_of.as_node)}" if changed and made_of.as_node else ""
    return f"from step {made_of.step} of {printable(made_of.run_id)}{changed}{by}"


def rolled_back(run: runs_pb2.Run) -> str:
    """Which run took a run's steps out of their thread, and what that leaves as it is; empty where none has."""
    if not run.rolled_back_by:
        return ""
    stays = f"; what its {several(run.spend.tool_calls, 'tool call')} did is not undone" if run.spend.tool_calls else ""
    return f"by {printable(run.rolled_back_by)}, whose thread goes on from the state before it{stays}"


def _details(run: runs_pb2.Run) -> Iterable[tuple[str, str | Text]]:
    yield "run", run.run_id
    yield "agent", f"{run.agent} {run.graph_version}".strip()
    yield "caller", f"{run.caller.subject} {' '.join(run.caller.roles)}".strip()
    yield "state", state_text(run)
    yield "outcome", Outcome.of(run.outcome) or ""
    yield "question", run.input.data_chat.question
    yield "goal", run.input.graph_editor.goal
    yield "undoes", run.input.graph_editor.undo_run_id
    yield "incident", run.input.incident_investigation.incident_id
    yield "title", run.input.incident_investigation.title
    yield "stop reason", run.stop_reason
    yield "thread", run.thread_id
    yield "begins", begun_from(run.forked_from) if run.HasField("forked_from") else ""
    yield "rolled back", rolled_back(run)
    yield "correlation", run.correlation_id
    yield "labels", shown_labels(run.labels)
    yield "recorded", "yes" if run.recorded else ""
    yield "trace", run.trace_id
    yield "claims", f"{run.epoch} (taken over)" if run.epoch > 1 else ""
    yield "spent", _spent(run.spend)
    yield "created", moment(run.create_time)
    yield "ended", moment(run.end_time)


def _spent(spend: runs_pb2.Spend) -> str:
    model_calls, tool_calls = several(spend.model_calls, "model call"), several(spend.tool_calls, "tool call")
    return f"{model_calls}, {tokens(spend.token_usage)}, {tool_calls}"


def decision_list(decisions: Sequence[runs_pb2.Decision]) -> Listing:
    """Routing decisions."""
    names = ("#", "node", "router", "rule", "destination", "node time", "decided")
    shown = Listing(*names, right=("#", "node time"))
    for decision in decisions:
        shown.add(
            str(decision.sequence), decision.node, decision.router, Text(printable(decision.rule), style="bold"),
            decision.destination, duration(decision.node_elapsed_ms), moment(decision.decide_time),
        )  # fmt: skip
    return shown


def found_decisions(decisions: Sequence[runs_pb2.Decision]) -> Listing:
    """Routing decisions of several runs."""
    shown = Listing("run", "#", "router", "rule", "destination", "decided", right=("#",))
    for decision in decisions:
        shown.add(
            decision.run_id, str(decision.sequence), decision.router, Text(printable(decision.rule), style="bold"),
            decision.destination, moment(decision.decide_time),
        )  # fmt: skip
    return shown


def decision_counts(counted: runs_pb2.CountDecisionsResponse) -> Listing:
    """How often rules fired; those that never did stand out."""
    shown = Listing("from", "router", "rule", "destination", "fired", "last", right=("fired",))
    for each in counted.counts:
        shown.add(
            moment(each.begin_time), each.router, Text(printable(each.rule), style="bold" if each.count else "dim"),
            each.destination, Text(f"{each.count:,}" if each.count else "never", style="" if each.count else "yellow"),
            moment(each.last_time),
        )  # fmt: skip
    return shown


def to_text(renderable: RenderableType, *, width: int = 120) -> str:
    """What a terminal of a width would show, without colours."""
    console = Console(width=width, color_system=None, force_terminal=False, legacy_windows=False)
    with console.capture() as capture:
        console.print(renderable)
    return capture.get()
