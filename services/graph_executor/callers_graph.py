"""How the tools come to the graph of their caller, and to what they may do there."""

from __future__ import annotations

from services.graph_executor.graphs import Graphs
from services.graph_executor.planning import Planner
from services.graph_executor.policy import Access, GraphPolicy
from services.graph_executor.store import GraphStore, KeptChange
from services.graph_executor.views import StoredView
from services.kit.identity.caller import Caller
from services.kit.tools.executor import ToolRefused


class CallersGraph:
    """The policy, and the graph, rights and plans of each caller under it."""

    def __init__(self, policy: GraphPolicy, graphs: Graphs, store: GraphStore) -> None:
        self.policy = policy
        self.store = store
        self._graphs = graphs

    def name(self, caller: Caller) -> str:
        """Returns the graph's name. Raises GraphUnnamed."""
        return self._graphs.of(caller)

    def access(self, caller: Caller) -> Access:
        """Returns what a caller may do."""
        return Access(self.policy, caller)

    def view(self, caller: Caller) -> StoredView:
        """Returns the graph as it is."""
        return StoredView(self.store, self.name(caller), self.policy.limits.node_edges)

    def planner(self, caller: Caller) -> Planner:
        """Returns what plans a caller's changes."""
        return Planner(self.policy, self.access(caller), self.view(caller))


async def find_changes(graph: CallersGraph, caller: Caller, run_id: str) -> list[KeptChange]:
    """Returns the changes of a run that a caller may see. Raises ToolRefused for another's run, and others' nodes."""
    kept, access = await graph.store.changes(graph.name(caller), run_id), graph.access(caller)
    if any(each.subject != caller.subject for each in kept) and not access.writes_all:
        raise ToolRefused("change_not_found", "The run is another caller's.")
    if not all(access.reads(each.change.labels) for each in kept):
        raise ToolRefused("label_refused", "The run changed nodes with labels that the caller may not read.")
    return kept
