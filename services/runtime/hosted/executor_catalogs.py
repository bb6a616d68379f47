"""The tools of executors, as graphs that are loaded find them; an executor is asked once, when the first wants them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ParamSpec, Self, TypeVar

from services.kit.identity.caller import Caller, RunClaims
from services.kit.identity.run_tokens import RunTokenMinter
from services.kit.tools.names import OFFERED
from services.kit.wire.needs import needed
from services.runtime.calls.connections import Connections
from services.runtime.calls.peers import Executor
from services.runtime.calls.tool_client import ToolDescription
from services.runtime.errors import DependencyAway
from services.runtime.hosted.executor_tools import Catalog, CatalogNeeded, offering
from services.runtime.hosted.langgraph_json import InvalidAgentsError
from services.runtime.routing.run_context import NodeContext, RunContext

# No run's: it lists tools, and may call none.
LISTING = "listing"
P = ParamSpec("P")
T = TypeVar("T")


class ExecutorCatalogs:
    """What is known of the executors' tools, by the executor's name."""

    def __init__(
        self, connections: Connections | None, tokens: Callable[[], Awaitable[RunTokenMinter | None]] | None
    ) -> None:
        self.known: dict[str, Catalog] = {}
        self._connections = connections
        self._tokens = tokens

    @classmethod
    def of_names(cls) -> Self:
        """Returns them without any executor: names alone, which is enough to look at a graph."""
        made = cls(None, None)
        anything = {"type": "object", "properties": {}}
        made.known = {
            executor: {name: ToolDescription(name, name, "", anything) for name in names}
            for executor, names in OFFERED.items()
        }
        return made

    async def loading(self, load: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Returns what is loaded; anew, once the tools are known that it has asked for. Raises InvalidAgentsError."""
        while True:
            try:
                with offering(self.known):
                    return await load(*args, **kwargs)
            except CatalogNeeded as wanted:
                await self._ask(wanted.executor)

    async def _ask(self, executor: Executor) -> None:
        """Asks an executor for its tools; waits for one that is away."""
        wanted = f"a graph wants the tools of {executor.title}"
        if self._connections is None or not self._connections.settings.target_of(executor):
            raise InvalidAgentsError([f"{wanted}, and SIGNALBOX_{executor.name.upper()}_TARGET is not set"])
        tokens = await self._tokens() if self._tokens else None
        if tokens is None:
            raise InvalidAgentsError([f"{wanted}, and SIGNALBOX_RUN_TOKEN_PRIVATE_KEY_FILE is not set"])
        client = self._connections.tools(executor)
        claims = RunClaims(Caller("signalbox"), LISTING, "", frozenset(), 1)
        token = tokens.mint(claims, executor.audience)
        context = NodeContext(RunContext(LISTING, LISTING, claims.caller, 1, lambda _: token), LISTING)
        self.known[executor.name] = await needed(
            executor.title, lambda: client.catalog(context), absent=(DependencyAway,)
        )
