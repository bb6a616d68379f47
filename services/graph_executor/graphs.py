"""Which graph a caller has."""

from __future__ import annotations

from urllib.parse import quote

from signalbox.v1 import tools_pb2

from services.graph_executor.elements import Change
from services.graph_executor.errors import GraphUnnamed
from services.graph_executor.store import GraphStore, Record
from services.kit.identity.caller import Caller
from services.kit.tools.effects import Seen, WriteCall

SUBJECT_CLAIM = "sub"


class Graphs:
    """Names graphs: one for all callers, or one for each value of a claim of their tokens."""

    def __init__(self, name: str, claim: str) -> None:
        self._name = name
        self._claim = claim

    def of(self, caller: Caller) -> str:
        """Returns the name of a caller's graph. Raises GraphUnnamed."""
        if not self._claim:
            return self._name
        value = caller.subject if self._claim == SUBJECT_CLAIM else caller.claims.get(self._claim, "")
        if not value:
            raise GraphUnnamed(f"the caller's token has no claim {self._claim!r}, which names their graph")
        # Two values never give one name, and none gives the name of another key of the server.
        return f"{self._name}:{quote(value, safe='')}"


class GraphJournal:
    """What is kept of calls, in the graph of their caller."""

    def __init__(self, graphs: Graphs, store: GraphStore) -> None:
        self._graphs = graphs
        self._store = store

    async def look_up(self, call: WriteCall) -> Seen:
        """Returns what is known of a call."""
        return await self._store.look_up(self._graphs.of(call.caller), call)

    async def keep(self, call: WriteCall, response: tools_pb2.CallToolResponse) -> None:
        """Keeps the result of a call that has no effect. Raises Overtaken."""
        await self._store.commit(self._graphs.of(call.caller), Record(call, response, Change()))

    async def fence(self, call: WriteCall) -> None:
        """Keeps the epoch of a call, if it is higher than its run's so far."""
        await self._store.fence(self._graphs.of(call.caller), call)
