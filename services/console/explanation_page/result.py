"""What a run brought, in blocks that a page shows one below another: words, code, rows, claims, changes, messages.

Each block is bounded, and says what it leaves out. What it holds is as it came: the template makes it safe to show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from signalbox.v1 import data_chat_pb2, graph_editor_pb2, hosted_pb2, incident_investigation_pb2, runs_pb2, sast_pb2

from services.console.explanation_page.chart import NUMBERS, Chart, chart_of
from services.console.graph_changes import Change, changes_of
from services.kit.models.offline_rules import OFFLINE_RULES
from services.kit.text.json_text import json_text
from services.kit.text.words import cell, graph_path, moment

LONGEST_TEXT, LONGEST_CELL, LONGEST_JSON = 20_000, 1_000, 200_000
MOST_ROWS, MOST_ITEMS = 200, 100
COMMIT_DIGITS = 12
SastOutput = sast_pb2.SastTriageOutput | sast_pb2.SastInvestigationOutput
_WORDINGS: Mapping[int, str] = {
    data_chat_pb2.ANSWER_WORDING_PLAIN: "The result itself: the model gave no words for it.",
    data_chat_pb2.ANSWER_WORDING_PLAIN_AS_UNSUPPORTED: (
        "The result itself: the model's words claimed something that neither it nor the question says."
    ),
}
_GROUNDINGS: Mapping[int, str] = {
    data_chat_pb2.GROUNDING_UNANSWERABLE: "No query returned a result.",
    data_chat_pb2.GROUNDING_NOT_CHECKED: "No data supports this answer.",
}


def cut(text: str, most: int = LONGEST_TEXT) -> str:
    """Returns as much of a text as a page takes, and how much more there is."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} more characters)"


@dataclass(frozen=True)
class Words:
    """A text in somebody's words; `leads` says that it is what the run was for."""

    kind: ClassVar[str] = "words"
    title: str
    text: str
    leads: bool = False


@dataclass(frozen=True)
class Code:
    """A statement, or lines of a file."""

    kind: ClassVar[str] = "code"
    title: str
    text: str


@dataclass(frozen=True)
class Rows:
    """Rows of a result, how many more there are, and a chart where two columns make one; NULL is None."""

    kind: ClassVar[str] = "rows"
    title: str
    columns: Sequence[tuple[str, bool]]
    rows: Sequence[Sequence[str | None]]
    left_out: str
    chart: Chart | None


@dataclass(frozen=True)
class Claim:
    """What an outcome rests on: where it is from, what is quoted of that, and whether it was found there."""

    claim: str
    source: str = ""
    quote: str = ""
    holds: bool = True
    found: str = ""
    problem: str = ""


@dataclass(frozen=True)
class Claims:
    """What an outcome rests on, one after another."""

    kind: ClassVar[str] = "claims"
    title: str
    claims: Sequence[Claim]
    left_out: str = ""


@dataclass(frozen=True)
class Items:
    """Short texts, each with what stands before it."""

    kind: ClassVar[str] = "items"
    title: str
    items: Sequence[tuple[str, str]]
    left_out: str = ""


@dataclass(frozen=True)
class Changes:
    """What became of a graph."""

    kind: ClassVar[str] = "changes"
    title: str
    changes: Sequence[Change]
    left_out: str = ""


@dataclass(frozen=True)
class Messages:
    """Messages of a conversation: who said what, and asked for which tools."""

    kind: ClassVar[str] = "messages"
    title: str
    messages: Sequence[tuple[str, str]]
    left_out: str = ""


@dataclass(frozen=True)
class Json:
    """Values as JSON, as much of it as a page takes."""

    kind: ClassVar[str] = "json"
    title: str
    text: str
    left_out: str = ""


Block = Words | Code | Rows | Claims | Items | Changes | Messages | Json


@dataclass(frozen=True)
class Result:
    """The blocks of a result, and all of it as JSON for whoever wants to go on with it; empty while there is none."""

    blocks: Sequence[Block] = ()
    json: Json = field(default_factory=lambda: Json("", ""))


def result_of(run: runs_pb2.Run) -> Result:
    """Returns what a run brought."""
    agent = run.output.WhichOneof("agent")
    if agent is None:
        return Result()
    output = getattr(run.output, agent)
    blocks = _BLOCKS.get(type(output), _no_blocks)(output)
    return Result(tuple(blocks), json_block("", MessageToDict(output, preserving_proto_field_name=True)))


def json_block(title: str, values: Any) -> Json:
    """Returns values as JSON, as much of it as a page takes."""
    text = json_text(values)
    return Json(title, text[:LONGEST_JSON], left_out(len(text), LONGEST_JSON, "characters"))


def _no_blocks(_output: Message) -> Iterator[Block]:
    """Of an agent that the page knows nothing of it shows the JSON alone."""
    return iter(())


def left_out(count: int, most: int, what: str = "") -> str:
    """Says how many of so many are not shown; nothing where all are."""
    return f"{count - most:,} more {what}".rstrip() + " not shown here." if count > most else ""


def _items(title: str, items: Sequence[tuple[str, str]], count: int) -> Items:
    return Items(title, items, left_out(count, MOST_ITEMS))


def _data_chat(output: data_chat_pb2.DataChatOutput) -> Iterator[Block]:
    if output.answer:
        yield Words("", cut(output.answer), leads=True)
    for told in filter(None, (_GROUNDINGS.get(output.grounding), _WORDINGS.get(output.wording))):
        yield Words("", told)
    if output.HasField("rows"):
        yield rows_block("Rows", output.rows)
    if output.sql_query:
        yield Code("SQL", cut(output.sql_query))
    for number, earlier in enumerate(output.earlier_results[:MOST_ITEMS], start=1):
        yield rows_block(f"Rows of query {number} before it", earlier.rows)
        yield Code(f"SQL of query {number} before it", cut(earlier.sql_query))
    if told := left_out(len(output.earlier_results), MOST_ITEMS, "queries"):
        yield Words("", told)
    if output.HasField("debug"):
        messages = [
            (each.role, _with_tools(cut(each.content), each.tool_calls)) for each in output.debug.messages[:MOST_ITEMS]
        ]
        yield Messages("Messages", messages, left_out(len(output.debug.messages), MOST_ITEMS))


def _with_tools(text: str, tools: Sequence[str]) -> str:
    return "\n".join(filter(None, (text, f"asks for {', '.join(tools)}" if tools else "")))


def rows_block(title: str, table: Any) -> Rows:
    """Returns a table as rows, as many as a page takes."""
    shown = [
        [None if value.WhichOneof("value") is None else cut(cell(value), LONGEST_CELL) for value in row.values]
        for row in table.rows[:MOST_ROWS]
    ]
    told = []
    if len(table.rows) > MOST_ROWS:
        told.append(f"The JSON has {len(table.rows) - MOST_ROWS:,} more rows.")
    if table.truncated:
        caps = {"row_cap": "rows", "byte_cap": "bytes"}
        told.append(f"The query found more: a result ends at so many {caps.get(table.truncated_by, 'rows')}.")
    columns = [(column.name, column.type in NUMBERS) for column in table.columns]
    return Rows(f"{title} · {len(table.rows):,}", columns, shown, " ".join(told), chart_of(table))


def _graph_editor(output: graph_editor_pb2.GraphEditorOutput) -> Iterator[Block]:
    if output.answer:
        yield Words("", cut(output.answer), leads=True)
    if changes := changes_of(output.change_set):
        yield Changes("Changes", changes[:MOST_ROWS], left_out(len(changes), MOST_ROWS))
    if output.steps:
        steps = [
            (
                each.result.replace("_", " "),
                cut(each.text or f"{each.tool} {json_text(MessageToDict(each.arguments))}"),
            )
            for each in output.steps[:MOST_ITEMS]
        ]
        yield _items("Operations", steps, len(output.steps))


def _incident(output: incident_investigation_pb2.IncidentInvestigationOutput) -> Iterator[Block]:
    yield Words("", cut(output.root_cause) or "No root cause was found.", leads=True)
    if output.root_cause:
        sure = OFFLINE_RULES if output.offline_model_calls else f"confidence {output.confidence:.2f}"
        yield Words("", f"{sure}, {'confirmed by validation' if output.validated else 'not confirmed by validation'}")
    if output.problems:
        problems = [("", cut(each)) for each in output.problems[:MOST_ITEMS]]
        yield _items("What validation found against it", problems, len(output.problems))
    if output.explanation:
        yield Words("Explanation", cut(output.explanation))
    if output.evidence:
        claims = [_incident_claim(each) for each in output.evidence[:MOST_ITEMS]]
        yield Claims("Evidence", claims, left_out(len(output.evidence), MOST_ITEMS))
    if output.timeline:
        events = [(moment(each.time), cut(each.event)) for each in output.timeline[:MOST_ITEMS]]
        yield _items("Timeline", events, len(output.timeline))
    if output.recommendations:
        to_do = [("", cut(each)) for each in output.recommendations[:MOST_ITEMS]]
        yield _items("What to do", to_do, len(output.recommendations))


def _incident_claim(evidence: incident_investigation_pb2.IncidentEvidence) -> Claim:
    source, quote = "", ""
    match evidence.WhichOneof("source"):
        case "query":
            row = sorted(evidence.query.row.items())
            source = f"a row of the query with {', '.join(f'{name} = {value}' for name, value in row)}"
            quote = evidence.query.query
        case "graph_path":
            source, quote = "a path in the service graph", graph_path(evidence.graph_path)
        case "code":
            source, quote = _place(evidence.code), evidence.code.quote
        case "tool":
            arguments = json_text(MessageToDict(evidence.tool.arguments))
            source, quote = f"what the tool {evidence.tool.tool} gave", arguments
    return Claim(
        cut(evidence.claim), cut(source), cut(quote), evidence.holds, cut(evidence.found), cut(evidence.problem)
    )


def _place(lines: Any) -> str:
    last = f"-{lines.last_line}" if lines.last_line > lines.first_line else ""
    commit = f" at {lines.commit[:COMMIT_DIGITS]}" if lines.commit else ""
    return f"{lines.file}:{lines.first_line}{last}{commit}"


VERDICTS: Mapping[int, str] = {
    sast_pb2.VERDICT_TRUE_POSITIVE: "True positive: a weakness",
    sast_pb2.VERDICT_FALSE_POSITIVE: "False positive: no weakness",
    sast_pb2.VERDICT_NEEDS_REVIEW: "Undecided: a person has to look",
}


def _sast(output: SastOutput) -> Iterator[Block]:
    yield Words("", VERDICTS.get(output.verdict, "No verdict"), leads=True)
    if output.offline_model_calls:
        yield Words("", OFFLINE_RULES)
    elif output.confidence_calibrated:
        yield Words("", f"confidence {output.confidence:.2f}, as measured for the models behind it")
    if output.justification:
        yield Words("Why", cut(output.justification))
    if output.evidence:
        claims = [Claim(cut(each.claim), _place(each), cut(each.quote)) for each in output.evidence[:MOST_ITEMS]]
        yield Claims("Cited code", claims, left_out(len(output.evidence), MOST_ITEMS))
    if output.open_question:
        yield Words("Open question", cut(output.open_question))
    if output.read:
        files = [("", f"{each.file}:{each.first_line}-{each.last_line or each.first_line}") for each in output.read]
        yield _items("What was read", files[:MOST_ITEMS], len(files))
    if output.notes:
        notes = [("", cut(each)) for each in output.notes[:MOST_ITEMS]]
        yield _items("What is wrong in the report", notes, len(output.notes))


def _graph(output: hosted_pb2.GraphOutput) -> Iterator[Block]:
    values = MessageToDict(output.output)
    messages = messages_of(values.get("messages"))
    if messages:
        yield messages_block(values["messages"], messages)
        values = {name: value for name, value in values.items() if name != "messages"}
    if values:
        yield json_block("Output", values)


def state_blocks(values: Mapping[str, Any]) -> list[Block]:
    """Returns a state's messages as such, and what else is in it as JSON."""
    messages = messages_of(values.get("messages"))
    if not messages:
        return [json_block("State", values)]
    others = {name: each for name, each in values.items() if name != "messages"}
    return [messages_block(values["messages"], messages), json_block("State", others)]


def messages_block(value: Sequence[Any], messages: Sequence[tuple[str, str]]) -> Messages:
    """Returns the messages of a value, with how many before them are not shown."""
    return Messages("Messages", messages, left_out(len(value), MOST_ITEMS, "before them"))


def messages_of(value: Any) -> Sequence[tuple[str, str]]:
    """Returns messages as who said what, newest last; none where a value holds no messages."""
    if not isinstance(value, list) or not value:
        return ()
    found = [message_of(each) for each in value[-MOST_ITEMS:]]
    return [each for each in found if each] if all(found) else ()


def message_of(value: Any) -> tuple[str, str] | None:
    """Returns who said what in a message as LangChain dumps one, or as a state shows it; None where it is none."""
    if not isinstance(value, dict) or not isinstance(role := value.get("role", value.get("type")), str):
        return None
    content = value.get("content") or ""
    if isinstance(content, list):
        content = "\n".join(map(_part, content))
    calls = [each for each in tool_calls_of(value) if isinstance(each, dict)]
    asked = [f"{each.get('name', 'a tool')} {json_text(each.get('args', {}), indent=None)}" for each in calls]
    return role, _with_tools(cut(str(content)), asked)


def _part(part: Any) -> str:
    if not isinstance(part, dict):
        return str(part)
    text = part.get("text")
    return text if text and isinstance(text, str) else json_text(part)


def tool_calls_of(message: Mapping[str, Any]) -> Sequence[Any]:
    """Returns what a message names as its tool calls; none where that is no list."""
    calls = message.get("tool_calls")
    return calls if isinstance(calls, list) else ()


_BLOCKS: Mapping[type[Message], Callable[[Any], Iterator[Block]]] = {
    data_chat_pb2.DataChatOutput: _data_chat,
    graph_editor_pb2.GraphEditorOutput: _graph_editor,
    incident_investigation_pb2.IncidentInvestigationOutput: _incident,
    sast_pb2.SastTriageOutput: _sast,
    sast_pb2.SastInvestigationOutput: _sast,
    hosted_pb2.GraphOutput: _graph,
}
