"""Runs read from the gateway to the end of their pages, as the page that explains one needs them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message
from signalbox.v1 import runs_pb2, runs_pb2_grpc

from services.console.explained import Explained
from services.kit.wire.pages import listed, pages

ResponseT = TypeVar("ResponseT", bound=Message)
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
        request = runs_pb2.ListDecisionsRequest(run_id=run_id)
        return await listed(self._called(self._runs.ListDecisions), request, "decisions")

    async def explanation(self, run_id: str) -> Explanation:
        """Returns a run's decisions in words, and its story; a platform of an earlier release lacks one or both."""
        found = Explanation()
        try:
            request = runs_pb2.ExplainRunRequest(run_id=run_id)
            async for page in pages(self._called(self._runs.ExplainRun), request, "explanations"):
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

    def _called(self, method: Callable[..., Awaitable[ResponseT]]) -> Callable[[Any], Awaitable[ResponseT]]:
        return partial(method, metadata=self._metadata, timeout=self._timeout_s)


def traffic_of(counted: runs_pb2.CountDecisionsResponse) -> Mapping[tuple[str, str], int]:
    """Returns the decisions that were counted by the edge that they led along; edges that none took are there too."""
    traffic = Counter[tuple[str, str]]()
    for each in counted.counts:
        for destination in each.destination.split(", "):  # of a hosted graph, a decision may lead to several
            traffic[each.node, destination] += each.count
    return traffic
