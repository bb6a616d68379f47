"""MaintenanceService as the runtime serves it to the gateway."""

# ruff: noqa: N802 - method names are the proto's

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from signalbox.v1 import maintenance_pb2, maintenance_pb2_grpc, runs_pb2
from signalbox_routing.table import Router

from services.kit.errors import FieldViolation, InvalidRequest
from services.runtime.agents.limits_in_force import LimitSource
from services.runtime.api.callers import Callers, Context
from services.runtime.api.page_tokens import number_place_of, page_token
from services.runtime.api.policy_wire import limit_value
from services.runtime.api.wire import moment_of, spend_proto, struct_proto, timestamp_proto
from services.runtime.engine.ledger import Ledger
from services.runtime.engine.ledger_replay import LedgerReplay
from services.runtime.engine.limit_changes import ChangedLimit, LimitChange, LimitChanges
from services.runtime.engine.pages import fitting
from services.runtime.engine.retention import Pruner, Removal, RetainedData
from services.runtime.engine.verification import Disagreement, Verification
from services.runtime.routing.redeciding import Divergence, with_limits
from services.runtime.routing.state import NOTHING_SPENT, Spend, add_spend

# Batches of one call; a call that took minutes would outlast its caller.
BATCHES_PER_CALL = 10
DIVERGENCES = 100
# Divergences are looked up this many at a time, while the decisions stream by.
SPEND_PAGE = 500
LIMIT_CHANGES_PAGE = 50
_KINDS = {
    RetainedData.HISTORY: maintenance_pb2.RETAINED_KIND_HISTORY,
    RetainedData.CHECKPOINTS: maintenance_pb2.RETAINED_KIND_CHECKPOINTS,
    RetainedData.EVENTS: maintenance_pb2.RETAINED_KIND_EVENTS,
    RetainedData.QUESTIONS: maintenance_pb2.RETAINED_KIND_QUESTIONS,
    RetainedData.RUNS: maintenance_pb2.RETAINED_KIND_RUNS,
    RetainedData.DECISIONS: maintenance_pb2.RETAINED_KIND_DECISIONS,
    RetainedData.STORE: maintenance_pb2.RETAINED_KIND_STORE,
    RetainedData.LIMIT_CHANGES: maintenance_pb2.RETAINED_KIND_LIMIT_CHANGES,
}
_SOURCES = {
    LimitSource.RELEASE: maintenance_pb2.LIMIT_SOURCE_RELEASE,
    LimitSource.FILE: maintenance_pb2.LIMIT_SOURCE_FILE,
    LimitSource.SETTING: maintenance_pb2.LIMIT_SOURCE_SETTING,
    LimitSource.TABLE: maintenance_pb2.LIMIT_SOURCE_TABLE,
    LimitSource.CODE: maintenance_pb2.LIMIT_SOURCE_CODE,
}


class MaintenanceServicer(maintenance_pb2_grpc.MaintenanceServiceServicer):
    """Serves operators."""

    def __init__(
        self,
        callers: Callers,
        pruner: Pruner,
        ledger: Ledger,
        routers: Mapping[str, Router[Any, Any]],
        limit_changes: LimitChanges,
    ) -> None:
        self._callers = callers
        self._pruner = pruner
        self._ledger = ledger
        self._routers = routers
        self._limit_changes = limit_changes

    async def Prune(self, request: maintenance_pb2.PruneRequest, context: Context) -> maintenance_pb2.PruneResponse:
        """Removes what is due, or says what would be removed."""
        self._callers.operator(context)
        if request.dry_run:
            return maintenance_pb2.PruneResponse(pruned=_pruned(await self._pruner.due()))
        removals: list[Removal] = []
        more = True
        for _ in range(BATCHES_PER_CALL):
            batch = await self._pruner.prune(wait=True)
            removals += batch.removals if batch else []
            if more := batch is not None and batch.more:
                continue
            break
        return maintenance_pb2.PruneResponse(pruned=_pruned(removals), more=more)

    async def EraseStore(
        self, request: maintenance_pb2.EraseStoreRequest, context: Context
    ) -> maintenance_pb2.EraseStoreResponse:
        """Deletes what stores hold of a caller."""
        self._callers.operator(context)
        return maintenance_pb2.EraseStoreResponse(item_count=await self._pruner.erase_store(request.subject))

    async def ReplayDecisions(
        self, request: maintenance_pb2.ReplayDecisionsRequest, context: Context
    ) -> maintenance_pb2.ReplayDecisionsResponse:
        """Decides stored decisions under other limits."""
        self._callers.operator(context)
        router = self._router(request.router)
        replay = LedgerReplay(self._ledger, router, with_limits(router.policy, request.limits))
        since = moment_of(request.since_time) if request.HasField("since_time") else None
        response = maintenance_pb2.ReplayDecisionsResponse(policy_version=replay.policy_version)
        total, found = NOTHING_SPENT, list[Divergence]()
        async for divergence in replay.divergences(since):
            found.append(divergence)
            if len(found) >= SPEND_PAGE:
                total = await self._add(response, total, found, request.max_divergences or DIVERGENCES)
                found = []
        total = await self._add(response, total, found, request.max_divergences or DIVERGENCES)
        response.run_count, response.decision_count = replay.run_count, replay.decision_count
        response.skipped_count = replay.skipped_count
        response.spent_after.CopyFrom(spend_proto(total))
        return response

    async def VerifyDecisions(
        self, request: maintenance_pb2.VerifyDecisionsRequest, context: Context
    ) -> maintenance_pb2.VerifyDecisionsResponse:
        """Decides stored decisions by the policies that they were made by."""
        self._callers.operator(context)
        verification = Verification(self._ledger, self._routers)
        since = moment_of(request.since_time) if request.HasField("since_time") else None
        response = maintenance_pb2.VerifyDecisionsResponse()
        async for found in verification.disagreements(since):
            response.disagreement_count += 1
            if len(response.disagreements) < (request.max_disagreements or DIVERGENCES):
                response.disagreements.append(_disagreement(found))
        response.decision_count, response.skipped_count = verification.decision_count, verification.skipped_count
        return response

    async def ListLimitChanges(
        self, request: maintenance_pb2.ListLimitChangesRequest, context: Context
    ) -> maintenance_pb2.ListLimitChangesResponse:
        """Lists changes of agents' limits, newest first."""
        self._callers.operator(context)
        limit, before = request.page_size or LIMIT_CHANGES_PAGE, number_place_of(request.page_token)
        found = await self._limit_changes.list(request.agent, before, limit + 1)
        page = fitting(map(_limit_change, found[:limit]))
        token = page_token(str(found[len(page) - 1].change_id)) if len(page) < len(found) else ""
        return maintenance_pb2.ListLimitChangesResponse(changes=page, next_page_token=token)

    def _router(self, name: str) -> Router[Any, Any]:
        if name not in self._routers:
            known = ", ".join(sorted(self._routers))
            raise InvalidRequest(
                f"there is no router {name!r}", violations=[FieldViolation("router", f"one of: {known}")]
            )
        return self._routers[name]

    async def _add(
        self, response: maintenance_pb2.ReplayDecisionsResponse, total: Spend, found: list[Divergence], most: int
    ) -> Spend:
        spent = await self._ledger.spent_after(found) if found else {}
        for divergence in found:
            after = spent.get(divergence.run_id, NOTHING_SPENT)
            total = add_spend(total, after)
            response.diverged_count += 1
            if len(response.divergences) < most:
                response.divergences.append(_divergence(divergence, spend_proto(after)))
        return total


def _pruned(removals: list[Removal]) -> list[maintenance_pb2.PrunedData]:
    rows, sizes = Counter[tuple[RetainedData, str]](), Counter[tuple[RetainedData, str]]()
    for removal in removals:
        rows[removal.kind, removal.agent] += removal.row_count
        sizes[removal.kind, removal.agent] += removal.size_bytes
    return [
        maintenance_pb2.PrunedData(
            kind=_KINDS[kind], agent=agent, row_count=rows[kind, agent], size_bytes=sizes[kind, agent]
        )
        for kind, agent in sorted(rows)
    ]


def _disagreement(found: Disagreement) -> maintenance_pb2.Disagreement:
    decided = found.recorded.decided
    return maintenance_pb2.Disagreement(
        run_id=decided.run_id,
        sequence=decided.sequence,
        decide_time=timestamp_proto(decided.decided_at),
        router=found.recorded.router,
        policy_version=found.recorded.policy_version,
        facts=struct_proto(decided.facts),
        rule=decided.rule,
        destination=decided.destination,
        other_rule=found.rule,
        other_destination=found.destination,
    )


def _limit_change(change: LimitChange) -> maintenance_pb2.LimitChange:
    return maintenance_pb2.LimitChange(
        agent=change.agent,
        change_time=timestamp_proto(change.changed_at),
        limits=map(_changed_limit, change.limits),
        policy_version=change.policy_version,
        graph_version=change.graph_version,
        release=change.release,
        revision=change.revision,
        changed_by=change.changed_by,
        reason=change.reason,
    )


def _changed_limit(changed: ChangedLimit) -> maintenance_pb2.ChangedLimit:
    return maintenance_pb2.ChangedLimit(
        name=changed.name,
        old_value=None if changed.old is None else limit_value(changed.old),
        new_value=None if changed.new is None else limit_value(changed.new),
        source=_SOURCES[changed.source] if changed.source else None,
        routers=changed.routers,
    )


def _divergence(divergence: Divergence, spent_after: runs_pb2.Spend) -> maintenance_pb2.Divergence:
    return maintenance_pb2.Divergence(
        run_id=divergence.run_id,
        sequence=divergence.sequence,
        decide_time=timestamp_proto(divergence.decided_at),
        rule=divergence.rule,
        destination=divergence.destination,
        other_rule=divergence.other_rule,
        other_destination=divergence.other_destination,
        spent_after=spent_after,
    )
