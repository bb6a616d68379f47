"""The root cause of an incident, and what it rests on, for people to read."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text
from signalbox.v1 import incident_investigation_pb2

from services.kit.models.offline_rules import OFFLINE_RULES
from services.kit.text.printing import printable
from services.kit.text.words import graph_path, moment, struct_json

Output = incident_investigation_pb2.IncidentInvestigationOutput
INDENT = 2


def incident(output: Output) -> Group:
    """What an investigation came to."""
    return Group(*_parts(output))


def _parts(output: Output) -> Iterator[RenderableType]:
    if output.root_cause:
        yield Text(printable(output.root_cause), style="bold")
        checked = ", validated" if output.validated else ", not confirmed"
        sure = OFFLINE_RULES if output.offline_model_calls else f"confidence {output.confidence:.2f}"
        yield Text(f"{sure}{checked}", style="dim")
    else:
        yield Text("No root cause was found.", style="bold")
    if output.explanation:
        yield Text(printable(output.explanation))
    yield from (Text(f"  - {printable(each)}", style="red") for each in output.problems)
    if output.evidence:
        yield Text("\nEvidence", style="italic")
        yield from (Padding.indent(_evidence(each), INDENT) for each in output.evidence)
    if output.timeline:
        yield Text("\nTimeline", style="italic")
        yield from (Text(f"  {moment(each.time)}  {printable(each.event)}") for each in output.timeline)
    if output.recommendations:
        yield Text("\nRecommendations", style="italic")
        yield from (Text(f"  - {printable(each)}") for each in output.recommendations)


def _evidence(evidence: incident_investigation_pb2.IncidentEvidence) -> Group:
    mark, style = ("✓", "green") if evidence.holds else ("✗", "red")
    head = Text.assemble((mark, style), " ", printable(evidence.claim))
    lines = [head, Text(f"  {printable(_source(evidence))}", style="dim")]
    if evidence.problem:
        lines.append(Text(f"  {printable(evidence.problem)}", style="red"))
    return Group(*lines)


def _source(evidence: incident_investigation_pb2.IncidentEvidence) -> str:
    kind = evidence.WhichOneof("source")
    if kind == "query":
        row = ", ".join(f"{name} = {value}" for name, value in sorted(evidence.query.row.items()))
        return f"{row}, of: {evidence.query.query}"
    if kind == "graph_path":
        return graph_path(evidence.graph_path)
    if kind == "tool":
        return f"{struct_json(evidence.tool.arguments)}: {evidence.found}"
    lines = evidence.code
    last = f"-{lines.last_line}" if lines.last_line > lines.first_line else ""
    return f"{lines.file}:{lines.first_line}{last}: {lines.quote}"
