"""Policies in shadow: what was decided under one is decided by another as well, to no effect.

A version that was in force before, or limits that somebody wants to try, decide the ledger's decisions once more; what
comes out is which runs would have left their way, and what they spent after that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from google.protobuf.struct_pb2 import Value
from google.protobuf.timestamp_pb2 import Timestamp
from signalbox.v1 import agents_pb2, maintenance_pb2, policy_pb2, runs_pb2

from services.console.errors import ConsoleError, NotFound
from services.console.gateway import Gateway
from services.console.settings import ConsoleSettings

DIVERGENCES = 5


@dataclass(frozen=True)
class Version:
    """A version of an agent's policy, among the newest decisions: how many it made, when, and one of their runs.

    `limits` are those of that run; None where it is no longer kept.
    """

    policy_version: str
    decision_count: int
    first_time: Timestamp
    last_time: Timestamp
    run_id: str
    limits: Mapping[str, policy_pb2.Limit] | None


@dataclass(frozen=True)
class Shadow:
    """What a router would have decided: the gateway's answer, or why there is none."""

    router: str
    replayed: maintenance_pb2.ReplayDecisionsResponse | None
    error: ConsoleError | None = None


class Shadows:
    """Reads versions, and has them decide."""

    def __init__(self, gateway: Gateway, settings: ConsoleSettings) -> None:
        self._gateway = gateway
        self._settings = settings

    async def versions(self, agent: str, since: Timestamp) -> Sequence[Version]:
        """Returns the versions that the newest decisions since a time were made by, the latest first.

        Raises ConsoleError.
        """
        request = runs_pb2.ListDecisionsRequest(
            agent=agent, since_time=since, page_size=self._settings.decisions_sampled
        )
        found = await self._gateway.call(self._gateway.runs.ListDecisions, request)
        made: dict[str, list[runs_pb2.Decision]] = {}
        for decision in found.decisions:
            made.setdefault(decision.policy_version, []).append(decision)
        newest = sorted(made.items(), key=lambda each: -_latest(each[1]).ToNanoseconds())
        return [await self._version(*each) for each in newest[: self._settings.versions_shown]]

    async def cast(self, agent: agents_pb2.Agent, limits: Mapping[str, str], since: Timestamp) -> Sequence[Shadow]:
        """Has limits decide what an agent's routers decided since a time. Routers that fail say so, each."""
        at_once = asyncio.Semaphore(self._settings.shadow_concurrency)

        async def cast(router: str) -> Shadow:
            request = maintenance_pb2.ReplayDecisionsRequest(
                router=router, limits=limits, since_time=since, max_divergences=DIVERGENCES
            )
            async with at_once:
                try:
                    replayed = await self._gateway.call(
                        self._gateway.maintenance.ReplayDecisions,
                        request,
                        timeout_s=self._settings.shadow_timeout_s,
                    )
                except ConsoleError as error:
                    return Shadow(router, None, error)
            return Shadow(router, replayed)

        return await asyncio.gather(*map(cast, agent.routers))

    async def _version(self, policy_version: str, decisions: Sequence[runs_pb2.Decision]) -> Version:
        first = min(decisions, key=lambda each: each.decide_time.ToNanoseconds())
        run_id = decisions[0].run_id
        limits: Mapping[str, policy_pb2.Limit] | None = None
        try:
            run = (await self._gateway.call(self._gateway.runs.GetRun, runs_pb2.GetRunRequest(run_id=run_id))).run
            # A run that an earlier release has begun is pinned to no policy.
            if run.policy.version == policy_version:
                limits = {limit.name: limit for limit in run.policy.limits}
        except NotFound:
            limits = None
        return Version(policy_version, len(decisions), first.decide_time, _latest(decisions), run_id, limits)


def changed_limits(limits: Mapping[str, policy_pb2.Limit], in_force: policy_pb2.Policy) -> Mapping[str, str]:
    """Returns the limits that are another than those in force, as texts that the gateway reads."""
    now = {limit.name: limit.value for limit in in_force.limits}
    return {name: plain_text(limit.value) for name, limit in limits.items() if name in now and limit.value != now[name]}


def plain_text(value: Value) -> str:
    """Returns a limit as it is written down: `5`, `0.7`, `true`, or its text."""
    match value.WhichOneof("kind"):
        case "string_value":
            return value.string_value
        case "bool_value":
            return "true" if value.bool_value else "false"
        case _:
            return str(int(value.number_value)) if value.number_value.is_integer() else repr(value.number_value)


def _latest(decisions: Sequence[runs_pb2.Decision]) -> Timestamp:
    return max((each.decide_time for each in decisions), key=lambda each: each.ToNanoseconds())
