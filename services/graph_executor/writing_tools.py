"""The tools that write: what was planned is committed with the call's result, or begun again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf import struct_pb2
from signalbox.v1 import tools_pb2

from services.graph_executor.arguments import Arguments
from services.graph_executor.callers_graph import CallersGraph, find_changes
from services.graph_executor.cypher_tool import CypherReading
from services.graph_executor.elements import Change
from services.graph_executor.planning import Planned
from services.graph_executor.store import KeptChange, Record
from services.kit.tools.effects import Overtaken, WriteCall, plain
from services.kit.tools.executor import ToolRefused
from services.kit.tools.names import UNDO_CHANGE


class ChangingTool:
    """A tool that makes one planned change."""

    def __init__(self, name: str, description: str, arguments: Arguments, graph: CallersGraph) -> None:
        self.name = name
        self.description = description
        self.input_schema: Mapping[str, Any] = arguments.schema
        self._arguments = arguments
        self._graph = graph

    async def apply(self, arguments: struct_pb2.Struct, call: WriteCall) -> tools_pb2.CallToolResponse:
        """Plans the change and commits it. Raises ToolRefused, Overtaken."""
        checked = self._arguments.checked(arguments)
        planned = await self._graph.planner(call.caller).plans[self.name](checked)
        return await commit(self._graph, call, planned)


class UndoTool:
    """`undo_change`: takes one change of a run back, if nothing has changed since."""

    name = UNDO_CHANGE
    description = "Takes back what one operation of a run changed, if all of it is still as it was left."

    def __init__(self, arguments: Arguments, graph: CallersGraph) -> None:
        self.input_schema: Mapping[str, Any] = arguments.schema
        self._arguments = arguments
        self._graph = graph

    async def apply(self, arguments: struct_pb2.Struct, call: WriteCall) -> tools_pb2.CallToolResponse:
        """Plans the inverse and commits it. Raises ToolRefused, Overtaken."""
        checked = self._arguments.checked(arguments)
        found = await self._find(checked, call)
        if found.opaque:
            raise ToolRefused("not_undoable", "A Cypher query that wrote can't be undone.")
        try:
            planned = await self._graph.planner(call.caller).undo(found)
        except ToolRefused as refused:
            # Another undo may have been faster, after it was read that there was none.
            if (await self._find(checked, call)).undone != found.undone:
                raise Overtaken from refused
            raise
        turns = () if found.undone else (found.record, *found.turns)
        return await commit(self._graph, call, planned, turns)

    async def _find(self, checked: Mapping[str, Any], call: WriteCall) -> KeptChange:
        kept = await find_changes(self._graph, call.caller, checked["run_id"])
        found = next((each for each in kept if each.operation_id == checked["operation_id"]), None)
        if found is None:
            raise ToolRefused("change_not_found", "The run made no change by that operation.")
        return found


class CypherTool(CypherReading):
    """`cypher_query`: Cypher that reads, or, for those who may, writes."""

    def writes(self, arguments: struct_pb2.Struct) -> bool:
        """Tells whether a call says that it writes."""
        return plain(arguments).get("write") is True

    async def apply(self, arguments: struct_pb2.Struct, call: WriteCall) -> tools_pb2.CallToolResponse:
        """Runs a query that writes. Raises ToolRefused, Overtaken."""
        query, parameters = await self.read_arguments(plain(arguments), call.caller, write=True)
        graph = self.graph.name(call.caller)
        unknown = tools_pb2.ToolOutput(text="The query was applied; how much it wrote is not known any more.")
        unknown.data.update({"result": "applied", "undo": False})
        record = Record(call, tools_pb2.CallToolResponse(output=unknown), Change(), opaque=True)
        rows = await self.graph.store.write(graph, query.text, parameters, record)
        response = tools_pb2.CallToolResponse(output=self.written(query, rows, call.caller))
        seen = await self.graph.store.complete(graph, call, response)
        if seen.kept is None:
            raise Overtaken
        return seen.kept.response


async def commit(
    graph: CallersGraph, call: WriteCall, planned: Planned, turns: tuple[str, ...] = ()
) -> tools_pb2.CallToolResponse:
    """Makes a planned change, and keeps its result with it. Raises Overtaken."""
    output = tools_pb2.ToolOutput(text=planned.text)
    output.data.update({"result": planned.result, "change": planned.change.to_data(), **planned.data})
    response = tools_pb2.CallToolResponse(output=output)
    await graph.store.commit(graph.name(call.caller), Record(call, response, planned.change, turns=turns))
    return response
