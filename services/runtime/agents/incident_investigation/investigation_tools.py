"""The tools of all three executors as the investigation has them: each only reads, and the source is the run's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from services.runtime.agents.code_review.code_tools import MAX_TOOL_CALL_ID, CodeTools, Source
from services.runtime.calls.tool_client import ToolClient, ToolDescription
from services.runtime.routing.run_context import NodeContext

EXECUTE_DB_QUERY: Final = "execute_db_query"
QUERY_GRAPH: Final = "query_graph"
CYPHER_QUERY: Final = "cypher_query"
SQL_TOOLS: Final = (EXECUTE_DB_QUERY,)
GRAPH_TOOLS: Final = (QUERY_GRAPH, CYPHER_QUERY)
CODE_TOOLS: Final = ("fetch_code", "read_file", "search_codebase", "list_directory", "find_file")
ALL_TOOLS: Final = (*SQL_TOOLS, *GRAPH_TOOLS, *CODE_TOOLS)
# The argument of `cypher_query` that makes it write.
_WRITE: Final = "write"
_CUT: Final = "\n[cut: the result is longer]"


@dataclass(frozen=True)
class ToolResult:
    """What a call gave, in words for the model; an error is a refusal."""

    text: str
    failed: bool = False


class InvestigationTools:
    """Calls the executors for an investigation."""

    def __init__(self, *, sql: ToolClient, graph: ToolClient, code: CodeTools, result_chars: int) -> None:
        self._sql = sql
        self._graph = graph
        self._code = code
        self._result_chars = result_chars

    async def functions(self, context: NodeContext, source: Source | None) -> list[dict[str, Any]]:
        """Returns the tools in the form that chat completions take; without a source, those of code are left out."""
        sql, graph = await self._sql.catalog(context), await self._graph.catalog(context)
        functions = [sql[name].as_function() for name in SQL_TOOLS if name in sql]
        functions += [_reading(graph[name]) for name in GRAPH_TOOLS if name in graph]
        return functions + (await self._code.functions(context, CODE_TOOLS) if source else [])

    async def notes(self, context: NodeContext) -> tuple[str, str]:
        """Returns what the executors say of the database's tables, and of the graph's labels."""
        sql, graph = await self._sql.catalog(context), await self._graph.catalog(context)
        tables = sql[EXECUTE_DB_QUERY].notes if EXECUTE_DB_QUERY in sql else ""
        return tables, graph[QUERY_GRAPH].notes if QUERY_GRAPH in graph else ""

    async def call(
        self, context: NodeContext, source: Source | None, tool: str, arguments: Mapping[str, Any], tool_call_id: str
    ) -> ToolResult:
        """Calls a tool. Raises what `ToolClient.call` does."""
        if tool in CODE_TOOLS and source:
            found = await self._code.call(context, source, tool, arguments, tool_call_id)
            return self._shortened(found.text, failed=bool(found.error))
        if tool in CODE_TOOLS:
            return ToolResult("error: no_source: this incident came without a repository", failed=True)
        if tool == CYPHER_QUERY and arguments.get(_WRITE):
            return ToolResult("error: write_refused: an investigation only reads", failed=True)
        if tool not in ALL_TOOLS:
            return ToolResult(f"error: unknown_tool: there are {', '.join(ALL_TOOLS)}", failed=True)
        client = self._sql if tool in SQL_TOOLS else self._graph
        answer = await client.call(context, tool, arguments, tool_call_id[:MAX_TOOL_CALL_ID])
        if answer.HasField("error"):
            return ToolResult(f"error: {answer.error.reason}: {answer.error.message}", failed=True)
        return self._shortened(answer.output.text, failed=False)

    def _shortened(self, text: str, *, failed: bool) -> ToolResult:
        most = self._result_chars
        return ToolResult(text if len(text) <= most else text[:most] + _CUT, failed)


def _reading(tool: ToolDescription) -> dict[str, Any]:
    """Returns a tool of the graph without the argument that makes it write."""
    described = tool.as_function()
    function = described["function"]
    schema = dict(function["parameters"])
    schema["properties"] = {name: each for name, each in schema.get("properties", {}).items() if name != _WRITE}
    schema.pop("$schema", None)
    return {**described, "function": {**function, "parameters": schema}}
