"""Runs read from the gateway to the end of their pages, as the page that explains one needs them."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

import grpc
from signalbox.v1 import runs_pb2, runs_pb2_grpc

from services.console.explained import Explained

PAGE = 1000
Metadata = tuple[tuple[str, str], ...]


@dataclass
class Explanation:
    """A run's decisions in words, by sequence, and the story of the run, where the platform tells it."""

    told: dict[int, runs_pb2.DecisionExplanation] = field(default_factory=dict)
    story: runs_pb2.RunExplanation | None = None


class RunReader:
    """Reads runs as one caller. Every method raises grpc.aio.AioRpcError."""

    def __init__(self, runs: runs_pb2_grpc.RunServiceAsyncStub, metadata: Metadata, timeout_s: float) -> None:
        self._runs = runs
        self._metadata = metadata
        self._timeout_s = timeout_s

    async def run(self, run_id: str) -> runs_pb2.Run:
        """Returns a run."""
        request = runs_pb2.GetRunRequest(run_id=run_id)
        return (await self._runs.GetRun(request, metadata=self._metadata, timeout=self._timeout_s)).run

    async def decisions(self, run_id: str) -> list[runs_pb2.Decision]:
        """Returns all decisions of a run."""
        request = runs_pb2.ListDecisionsRequest(run_id=run_id, page_size=PAGE)
        decisions: list[runs_pb2.Decision] = []
        while True:
            page = await self._runs.ListDecisions(request, metadata=self._metadata, timeout=self._timeout_s)
            decisions.extend(page.decisions)
            if not page.next_page_token:
                return decisions
            request.page_token = page.next_page_token

    async def explanation(self, run_id: str) -> Explanation:
        """Returns a run's decisions in words, and its story; a platform of an earlier release lacks one or both."""
        found = Explanation()
        try:
            async for page in self._explanation_pages(run_id):
                found.told.update((each.sequence, each) for each in page.explanations)
                found.story = page.run if page.HasField("run") else found.story
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                raise
        return found

    async def traffic(self, agent: str) -> Mapping[tuple[str, str], int]:
        """Returns how often decisions of an agent's runs led along each edge, as far as one count looks."""
        request = runs_pb2.CountDecisionsRequest(agent=agent)
        counted = await self._runs.CountDecisions(request, metadata=self._metadata, timeout=self._timeout_s)
        return traffic_of(counted)

    async def explained(self, run_id: str) -> Explained | None:
        """Returns all that the page of a run shows; None where the platform is too old to tell it."""
        explanation = await self.explanation(run_id)
        if explanation.story is None:
            return None
        run, decisions = await self.run(run_id), await self.decisions(run_id)
        return Explained(run, decisions, explanation.told, explanation.story, await self.traffic(run.agent))

    async def _explanation_pages(self, run_id: str) -> AsyncIterator[runs_pb2.ExplainRunResponse]:
        request = runs_pb2.ExplainRunRequest(run_id=run_id, page_size=PAGE)
        while True:
            page = await self._runs.ExplainRun(request, metadata=self._metadata, timeout=self._timeout_s)
            yield page
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token


def traffic_of(counted: runs_pb2.CountDecisionsResponse) -> Mapping[tuple[str, str], int]:
    """Returns the decisions that were counted by the edge that they led along; edges that none took are there too."""
    traffic = Counter[tuple[str, str]]()
    for each in counted.counts:
        traffic[each.node, each.destination] += each.count
    return traffic
