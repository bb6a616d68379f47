"""Results of nodes that a graph takes from its cache: the step is this run's own, and cost nothing.

What a node returns may rest on who asks (their store, tools that act for them), and its decision on the limits that its
run is pinned to. So results are kept by caller and limits, beside LangGraph's own key; a replay has no cache.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

import orjson
from langgraph.cache.base import BaseCache, FullKey, Namespace
from opentelemetry import trace

from services.kit.telemetry.tracing import trace_ids
from services.runtime.hosted.session import current_session
from services.runtime.routing.digest import policy_version
from services.runtime.routing.recorder import DECISIONS, DecidedRecord, DecisionRecord, StepRecord

CACHED: Final = "the node's result is from the graph's cache"
Writes = Sequence[tuple[str, Any]]


class StepCache(BaseCache[Writes]):
    """A graph's cache, which keeps what nodes write with the records of their steps: here without what those cost."""

    def __init__(self, cache: BaseCache[Writes], steps_channel: str, agent: str) -> None:
        super().__init__(serde=cache.serde)
        self._cache = cache
        self._channel = steps_channel
        self._agent = agent

    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, Writes]:
        """Returns what is kept, with records of this run's own."""
        own = _own(keys)
        return {own[key]: self._renewed(writes) for key, writes in self._cache.get([*own]).items()} if own else {}

    async def aget(self, keys: Sequence[FullKey]) -> dict[FullKey, Writes]:
        """Returns what is kept, with records of this run's own."""
        own = _own(keys)
        return (
            {own[key]: self._renewed(writes) for key, writes in (await self._cache.aget([*own])).items()} if own else {}
        )

    def set(self, pairs: Mapping[FullKey, tuple[Writes, int | None]]) -> None:
        """Keeps what nodes have written."""
        if kept := self._pairs(pairs):
            self._cache.set(kept)

    async def aset(self, pairs: Mapping[FullKey, tuple[Writes, int | None]]) -> None:
        """Keeps what nodes have written."""
        if kept := self._pairs(pairs):
            await self._cache.aset(kept)

    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """Forgets all, or what this caller has of some namespaces."""
        self._cache.clear(None if namespaces is None else _own_namespaces(namespaces))

    async def aclear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """Forgets all, or what this caller has of some namespaces."""
        await self._cache.aclear(None if namespaces is None else _own_namespaces(namespaces))

    def _pairs(self, pairs: Mapping[FullKey, tuple[Writes, int | None]]) -> dict[FullKey, tuple[Writes, int | None]]:
        own = _own(pairs)
        return {mine: (self._kept(pairs[key][0]), pairs[key][1]) for mine, key in own.items()}

    def _kept(self, writes: Writes) -> Writes:
        return [(channel, _without_cost(value) if channel == self._channel else value) for channel, value in writes]

    def _renewed(self, writes: Writes) -> Writes:
        return [(channel, self._of_now(value) if channel == self._channel else value) for channel, value in writes]

    def _of_now(self, kept: StepRecord) -> StepRecord:
        decision = kept["decision"]
        made = decision and self._made_anew(decision)
        return StepRecord(**{**kept, "ended_at": time.time(), "decision": made, "cached": True})

    def _made_anew(self, kept: DecisionRecord) -> DecisionRecord:
        """Returns a decision as this run's: a ledger has none twice."""
        DECISIONS.labels(self._agent, kept["router"], kept["rule"], kept["destination"]).inc()
        trace_id, span_id = trace_ids(trace.get_current_span())
        decided = kept["decided"]
        remark = "; ".join(filter(None, (decided.get("remark"), CACHED)))
        made = DecisionRecord(**{**kept, "decision_id": uuid4().hex, "trace_id": trace_id, "span_id": span_id})
        made["decided"] = DecidedRecord(**{**decided, "remark": remark})
        return made


def _without_cost(record: StepRecord) -> StepRecord:
    kept = StepRecord(**{**record, "calls": [], "elapsed_ms": 0.0})
    # It is no task of a run that takes it, and that run's store has nothing of it.
    kept.pop("task", None)
    kept.pop("stored", None)
    return kept


def _own(keys: Iterable[FullKey]) -> dict[FullKey, FullKey]:
    """Returns keys as they are for this run, each with what it is for LangGraph; none where nothing may be kept."""
    scope = _scope()
    return {((*namespace, *scope), key): (namespace, key) for namespace, key in keys} if scope else {}


def _own_namespaces(namespaces: Iterable[Namespace]) -> list[Namespace]:
    scope = _scope()
    return [(*namespace, *scope) for namespace in namespaces] if scope else []


def _scope() -> tuple[str, ...]:
    session = current_session()
    if session is None or session.run is None or session.replayed is not None:
        return ()
    caller = session.run.caller
    who = [caller.subject, sorted(caller.roles), sorted(caller.claims.items()), policy_version(session.limits)]
    # One word of letters and digits: some caches join namespaces to a key, and look them up by patterns.
    return (hashlib.sha256(orjson.dumps(who)).hexdigest(),)
