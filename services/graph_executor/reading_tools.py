"""The tools that read: searches, and what runs have changed or would change."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf import struct_pb2
from signalbox.v1 import tools_pb2

from services.graph_executor.arguments import Arguments, ToolArguments
from services.graph_executor.callers_graph import CallersGraph, find_changes
from services.graph_executor.cypher_tool import CypherReading
from services.graph_executor.elements import KEY
from services.graph_executor.planning import Planned, Planner
from services.graph_executor.policy import Access
from services.graph_executor.store import Condition, FoundNode, FoundPath, KeptChange, Search, Step
from services.graph_executor.views import ChangedView
from services.kit.identity.caller import Caller
from services.kit.tools.executor import ToolRefused
from services.kit.tools.names import (
    CYPHER_QUERY,
    PREVIEW_CHANGES,
    QUERY_GRAPH,
    READ_CHANGES,
    UNDO_CHANGE,
)


class SearchTool:
    """`query_graph`: nodes of a label by their properties, and what edges lead to."""

    name = QUERY_GRAPH

    def __init__(self, arguments: Arguments, graph: CallersGraph, notes: str) -> None:
        self.description = (
            "Finds nodes of a label by conditions on their properties and key, and follows edges from them, one step "
            f"after another. Nothing found is an answer too. At most {graph.policy.limits.rows} results.\n\n{notes}"
        )
        self.input_schema: Mapping[str, Any] = arguments.schema
        self._arguments = arguments
        self._graph = graph

    async def call(self, arguments: struct_pb2.Struct, caller: Caller) -> tools_pb2.ToolOutput:
        """Searches. Raises ToolRefused."""
        search = self._search(self._arguments.checked(arguments), self._graph.access(caller))
        paths = await self._graph.store.search(self._graph.name(caller), search)
        return self._output(paths, search.rows)

    def _search(self, checked: Mapping[str, Any], access: Access) -> Search:
        steps = [
            Step(
                each["type"], each.get("direction", "out"), each["label"], self._conditions(each, each["label"], access)
            )
            for each in checked.get("follow", ())
        ]
        conditions = self._conditions(checked, checked["label"], access)
        rows = checked.get("limit", self._graph.policy.limits.rows)
        return Search(checked["label"], conditions, steps, rows, access.readable)

    def _conditions(self, given: Mapping[str, Any], label: str, access: Access) -> list[Condition]:
        if label not in access.readable:
            raise ToolRefused("label_refused", f"The caller may not read nodes of the label {label}.")
        known = {KEY, *self._graph.policy.labels[label].properties}
        conditions = []
        for each in given.get("where", ()):
            if each["property"] not in known:
                raise ToolRefused("unknown_property", f"{label} has no property {each['property']!r}.")
            conditions.append(Condition(each["property"], _operator(each), each["value"]))
        return conditions

    def _output(self, paths: Sequence[FoundPath], rows: int) -> tools_pb2.ToolOutput:
        limits = self._graph.policy.limits
        shown, size = [], 0
        for path in paths[:rows]:
            data = _path_data(path)
            size += len(json.dumps(data))
            if size > limits.result_bytes:
                break
            shown.append(data)
        cut = len(shown) < len(paths)
        lines = [_path_text(path) for path in paths[: min(len(shown), limits.text_rows)]]
        text = "\n".join(lines) or "Nothing found."
        if cut or len(shown) > limits.text_rows:
            text += f"\n[cut: {len(lines)} results are shown]"
        output = tools_pb2.ToolOutput(text=text, truncated=cut)
        output.data.update({"results": shown})
        return output


class ChangesTool:
    """`read_changes`: what a run has changed, operation by operation."""

    name = READ_CHANGES
    description = "Returns what the operations of a run have changed: before, after, and whether they can be undone."

    def __init__(self, arguments: Arguments, graph: CallersGraph) -> None:
        self.input_schema: Mapping[str, Any] = arguments.schema
        self._arguments = arguments
        self._graph = graph

    async def call(self, arguments: struct_pb2.Struct, caller: Caller) -> tools_pb2.ToolOutput:
        """Reads the changes of a run. Raises ToolRefused."""
        checked = self._arguments.checked(arguments)
        kept = await find_changes(self._graph, caller, checked["run_id"])
        output = tools_pb2.ToolOutput(text=f"The run made {len(kept)} changes.")
        changes: list[dict[str, Any]] = [
            {
                "operation_id": each.operation_id,
                "number": each.number,
                "tool": each.tool,
                "change": each.change.to_data(),
                "undo": not each.opaque,
                "undone": each.undone,
            }
            for each in kept
        ]
        output.data.update({"changes": changes})
        return output


class PreviewTool:
    """`preview_changes`: what operations would change, one after another; nothing is written."""

    name = PREVIEW_CHANGES
    description = "Returns what operations would change, each seeing what those before it would have done."

    def __init__(self, arguments: ToolArguments, graph: CallersGraph, cypher: CypherReading) -> None:
        self._cypher = cypher
        self.input_schema: Mapping[str, Any] = arguments.preview_changes.schema
        self._arguments = arguments
        self._graph = graph

    async def call(self, arguments: struct_pb2.Struct, caller: Caller) -> tools_pb2.ToolOutput:
        """Plans the operations over the graph as it is. Raises ToolRefused."""
        operations = self._arguments.preview_changes.checked(arguments)["operations"]
        view = ChangedView(self._graph.view(caller))
        planner = Planner(self._graph.policy, self._graph.access(caller), view)
        # Of a run that is undone, all is read once.
        kept: dict[str, list[KeptChange]] = {}
        previews: list[dict[str, Any]] = []
        for each in operations:
            try:
                planned = await self._plan(planner, each["tool"], each["arguments"], caller, kept)
            except ToolRefused as refused:
                previews.append({"tool": each["tool"], "reason": refused.reason, "message": refused.message})
                continue
            if planned is None:
                previews.append({"tool": each["tool"], "result": "no_preview"})
                continue
            view.apply(planned.change)
            previews.append(
                {
                    "tool": each["tool"],
                    "result": planned.result,
                    "text": planned.text,
                    "change": planned.change.to_data(),
                    "base": dict(planned.base),
                }
            )
        refused_count = sum("reason" in each for each in previews)
        output = tools_pb2.ToolOutput(text=f"{len(previews)} operations, of which {refused_count} would be refused.")
        output.data.update({"operations": previews, "refused": refused_count})
        return output

    async def _plan(
        self,
        planner: Planner,
        tool: str,
        arguments: Mapping[str, Any],
        caller: Caller,
        kept: dict[str, list[KeptChange]],
    ) -> Planned | None:
        if tool == UNDO_CHANGE:
            checked = self._arguments.undo_change.checked_values(arguments)
            run_id = checked["run_id"]
            if run_id not in kept:
                kept[run_id] = await find_changes(self._graph, caller, run_id)
            found = [each for each in kept[run_id] if each.operation_id == checked["operation_id"]]
            if not found or found[0].opaque:
                raise ToolRefused("not_undoable", "There is no change by that operation that can be undone.")
            return await planner.undo(found[0])
        if tool in planner.plans:
            known: Arguments = getattr(self._arguments, tool)
            return await planner.plans[tool](known.checked_values(arguments))
        if tool == CYPHER_QUERY:
            # What it would change nobody knows before; whether it would be refused is known.
            await self._cypher.read_arguments(arguments, caller, write=arguments.get("write") is True)
        return None


def _operator(condition: Mapping[str, Any]) -> str:
    operator, value = condition.get("operator", "eq"), condition["value"]
    fits = {"in": list, "exists": bool, "contains": str, "starts_with": str}
    if operator in fits and not isinstance(value, fits[operator]):
        raise ToolRefused("invalid_arguments", f"The operator {operator} takes a {fits[operator].__name__}.")
    return str(operator)


def _path_data(path: FoundPath) -> dict[str, Any]:
    nodes = [_node_data(node) for node in path.nodes]
    edges = [{"type": edge.type, "from": edge.start, "to": edge.end, **edge.state.to_data()} for edge in path.edges]
    return {"nodes": nodes, "edges": edges}


def _node_data(node: FoundNode) -> dict[str, Any]:
    return {"label": node.label, "key": node.key, **node.state.to_data()}


def _path_text(path: FoundPath) -> str:
    parts = [_node_text(path.nodes[0])]
    for edge, node in zip(path.edges, path.nodes[1:], strict=True):
        arrow = f"-[{edge.type}]->" if edge.start < edge.end else f"<-[{edge.type}]-"
        parts += [arrow, _node_text(node)]
    return " ".join(parts)


def _node_text(node: FoundNode) -> str:
    rest = {name: value for name, value in node.state.properties.items() if name != KEY}
    return f"({node.label} {node.key!r} {json.dumps(rest, ensure_ascii=False)})"
