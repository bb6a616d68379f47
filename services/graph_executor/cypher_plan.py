"""What a caller's query would do, by the engine's own plan of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from falkordb.helpers import stringify_param_value

from services.graph_executor.falkor import Falkor
from services.kit.tools.executor import ToolRefused

# What begins at a label, and what works on rows that are there already. Whatever else an engine may come to do is not
# taken: All Node Scan and NodeByIdSeek come to nodes without a label, the bookkeeping's among them.
OPERATIONS: Final = frozenset(
    {
        "Results", "Project", "Aggregate", "Filter", "Sort", "Limit", "Skip", "Distinct", "Unwind", "Join", "EmptyRow",
        "Argument", "Argument List", "Apply", "Semi Apply", "Anti Semi Apply", "Or Apply Multiplexer",
        "OR Apply Multiplexer", "AND Apply Multiplexer", "Apply Multiplexer", "Optional", "Cartesian Product",
        "Value Hash Join", "Node By Label Scan", "Node By Index Scan", "Edge By Index Scan", "Conditional Traverse",
        "Optional Conditional Traverse", "Conditional Variable Length Traverse",
        "Conditional Variable Length Traverse (Expand Into)", "Expand Into", "All Shortest Paths", "ProcedureCall",
        "Create", "Merge", "MergeCreate", "Update", "Delete", "Foreach",
    }
)  # fmt: skip
_OPERATION: Final = re.compile(r"\s*(?P<name>[^|]*?)\s*(?:\|.*)?")
# Without it the plan of a bare count names nothing: the number is looked up, whatever nodes it counts.
_PROBE: Final = "WITH 1 AS signalbox_probe "


async def check_plan(falkor: Falkor, graph: str, query: str, parameters: Mapping[str, Any]) -> None:
    """Checks that a query comes to nodes by their labels only. Raises ToolRefused, GraphAway."""
    header = "".join(f"{name}={stringify_param_value(value)} " for name, value in parameters.items())
    for line in await falkor.plan(graph, f"CYPHER {header}{_PROBE}{query}" if header else _PROBE + query):
        match = _OPERATION.fullmatch(line.splitlines()[0] if line else "")
        name = match["name"] if match else line
        if name in ("All Node Scan", "NodeByIdSeek", "Node By Id Seek"):
            raise ToolRefused("unlabelled_node", "Every pattern must begin at a node with a label, such as (t:Ticket).")
        if name not in OPERATIONS:
            raise ToolRefused("unsupported", f"The query needs {name[:60]!r}, which is not supported.")
