"""What runs brought that ended before they were done: their output, from the last checkpoint that they came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from langgraph.checkpoint.serde.base import SerializerProtocol
from psycopg_pool import AsyncConnectionPool

from services.runtime.agents.agent import Agent
from services.runtime.agents.offered import Offered
from services.runtime.engine.history import CheckpointHistory
from services.runtime.engine.queries import query
from services.runtime.engine.records import RunRecord


class BrokenOffRuns:
    """Runs that were cancelled, or failed outside of a node: nobody looked at their state then.

    Their output is made when it is first asked for, and kept, since checkpoints go before runs do.
    """

    def __init__(
        self, pool: AsyncConnectionPool[Any], serde: SerializerProtocol, agents: Mapping[str, Offered]
    ) -> None:
        self._pool = pool
        self._history = CheckpointHistory(pool, serde)
        self._agents = agents

    async def with_output(self, run: RunRecord) -> RunRecord:
        """Returns a run with what it brought, if it has ended, its agent tells of that and checkpoints are there."""
        agent = self._agents.get(run.agent)
        if run.output is not None or not run.state.ended or not isinstance(agent, Agent):
            return run
        if not agent.definition.tells_broken_off:
            return run
        found = await self._history.load(run.run_id, "", None)
        if found is None or "spend" not in found.checkpoint["channel_values"]:
            return run
        output = agent.output(found.checkpoint["channel_values"], run.input)
        async with self._pool.connection() as connection:
            await connection.execute(query("keep_output"), {"run_id": run.run_id, "output": output})
        return replace(run, output=output)
