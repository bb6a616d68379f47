"""`cypher_query`: Cypher, kept to what its caller may read and write."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from google.protobuf import struct_pb2
from signalbox.v1 import tools_pb2

from services.graph_executor.arguments import Arguments
from services.graph_executor.callers_graph import CallersGraph
from services.graph_executor.cypher.statement import Statement, checked_statement
from services.graph_executor.store import Rows
from services.graph_executor.turns import Turns
from services.kit.identity.caller import Caller
from services.kit.tools.effects import plain
from services.kit.tools.executor import ToolRefused
from services.kit.tools.names import CYPHER_QUERY


class CypherReading:
    """The reading half of `cypher_query`."""

    name = CYPHER_QUERY

    def __init__(self, arguments: Arguments, graph: CallersGraph) -> None:
        self.graph = graph
        self.input_schema: Mapping[str, Any] = arguments.schema
        limits = graph.policy.limits
        self.description = (
            "Runs one openCypher query and returns its rows. Every node of a pattern has a label, as in (t:Ticket); "
            f"nodes are known by label and the property key. At most {limits.rows} rows and paths of "
            f"{limits.path_length} edges. "
            "Reading unless `write` is true, which needs a role, an approval, and has neither preview nor undo.\n\n"
            + schema_summary(graph)
        )
        self._arguments = arguments
        self._turns = Turns()

    async def call(self, arguments: struct_pb2.Struct, caller: Caller) -> tools_pb2.ToolOutput:
        """Runs a query that reads. Raises ToolRefused."""
        query, parameters = await self.read_arguments(plain(arguments), caller, write=False)
        async with self._turns.turn(caller.subject):
            rows = await self.graph.store.read(self.graph.name(caller), query.text, parameters)
        return self._output(query, rows, caller, {})

    async def read_arguments(
        self, arguments: Mapping[str, Any], caller: Caller, *, write: bool
    ) -> tuple[Statement, dict[str, Any]]:
        """Returns a query that may be run, and its parameters. Raises ToolRefused."""
        checked = self._arguments.checked_values(arguments)
        access = self.graph.access(caller)
        if write and not access.writes_cypher:
            raise ToolRefused("write_refused", "The caller may not write with Cypher: use the other tools instead.")
        parameters = checked.get("parameters", {})
        # In a thread: the first query pays for the parser's tables, and a long one for some milliseconds.
        query = await asyncio.to_thread(
            checked_statement, checked["query"], parameters, self.graph.policy, access, write=write
        )
        return query, parameters

    def written(self, query: Statement, rows: Rows, caller: Caller) -> tools_pb2.ToolOutput:
        """Returns what a writing query gave."""
        counts = {name: count for name, count in rows.counts.items() if count}
        told = ", ".join(f"{name.replace('_', ' ')}: {count}" for name, count in counts.items()) or "nothing changed"
        result = {"result": "applied" if counts else "unchanged", "counts": counts, "undo": False}
        output = self._output(query, rows, caller, result)
        output.text = f"The query was applied ({told}); it can't be undone.\n{output.text}".strip()
        return output

    def _output(self, query: Statement, rows: Rows, caller: Caller, data: Mapping[str, Any]) -> tools_pb2.ToolOutput:
        limits = self.graph.policy.limits
        if not self.graph.access(caller).reads(rows.labels):
            raise ToolRefused("label_refused", "The query found nodes with labels that the caller may not read.")
        shown, size = [], 0
        for row in rows.rows[: limits.rows]:
            size += len(json.dumps(row))
            if size > limits.result_bytes:
                break
            shown.append(row)
        cut = len(shown) < len(rows.rows)
        lines = [json.dumps(dict(zip(query.columns, row, strict=True)), ensure_ascii=False) for row in shown]
        text = "\n".join(lines[: limits.text_rows]) or ("" if not query.columns else "No rows.")
        if cut or len(lines) > limits.text_rows:
            text += f"\n[cut: {min(len(lines), limits.text_rows)} rows are shown]"
        output = tools_pb2.ToolOutput(text=text, truncated=cut)
        output.data.update({"columns": list(query.columns), "rows": shown, **data})
        return output


def schema_summary(graph: CallersGraph) -> str:
    """Returns labels and edge types in words for the model."""
    policy = graph.policy
    labels = [
        f"({label}: key, {', '.join(f'{name} {rule.type}' for name, rule in rules.properties.items())})".replace(
            ", )", ")"
        )
        for label, rules in policy.labels.items()
    ]
    edges = [f"({'|'.join(rule.start)})-[{kind}]->({'|'.join(rule.end)})" for kind, rule in policy.edges.items()]
    return "Labels: " + "; ".join(labels) + "\nEdges: " + ("; ".join(edges) or "none")
