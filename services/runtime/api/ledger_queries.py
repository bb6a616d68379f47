"""The ledger as a source of answers, for RunService: decisions of many runs, and which rules fire."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from signalbox.v1 import runs_pb2

from services.kit.errors import FieldViolation, InvalidRequest
from services.kit.identity.caller import Caller
from services.kit.telemetry.names import ROLE_OPERATOR
from services.runtime.api.agent_directory import AgentDirectory
from services.runtime.api.page_tokens import ledger_place_of, ledger_token
from services.runtime.api.wire import decision_proto, moment_of, timestamp_proto
from services.runtime.engine.pages import fitting
from services.runtime.engine.search import DecisionFilter, DecisionSearch, Place

FILTERS = ("agent", "router", "rule", "destination", "subject", "correlation_id")
TIMES = ("since_time", "until_time")


class LedgerQueries:
    """Answers from the ledger: to callers about their own runs, to operators about all."""

    def __init__(self, search: DecisionSearch, directory: AgentDirectory) -> None:
        self._directory = directory
        self._search = search

    async def list(
        self, request: runs_pb2.ListDecisionsRequest, caller: Caller, *, limit: int
    ) -> runs_pb2.ListDecisionsResponse:
        """Lists decisions of many runs. Raises InvalidRequest."""
        await self._directory.check(request.agent)
        is_operator = ROLE_OPERATOR in caller.roles
        if request.subject and not is_operator and request.subject != caller.subject:
            return runs_pb2.ListDecisionsResponse()
        wanted = DecisionFilter(
            agent=request.agent,
            router=request.router,
            rule=request.rule,
            destination=request.destination,
            since=moment_of(request.since_time) if request.HasField("since_time") else None,
            until=moment_of(request.until_time) if request.HasField("until_time") else None,
            subject=request.subject or (None if is_operator else caller.subject),
            correlation_id=request.correlation_id,
        )
        place = ledger_place_of(request.page_token)
        found = await self._search.page(wanted, Place(*place) if place else Place(), limit)
        page = fitting(map(decision_proto, found.rows))
        after = found.after
        if len(page) < len(found.rows):
            last = found.rows[len(page) - 1]
            after = Place(last["run_id"], last["sequence"])
        token = ledger_token(after.run_id, after.sequence) if after else ""
        return runs_pb2.ListDecisionsResponse(decisions=page, next_page_token=token)

    async def count(self, request: runs_pb2.CountDecisionsRequest, caller: Caller) -> runs_pb2.CountDecisionsResponse:
        """Counts an agent's decisions by rule, those that never fired too. Raises InvalidRequest."""
        await self._directory.check(request.agent)
        wanted = DecisionFilter(
            agent=request.agent,
            since=moment_of(request.since_time) if request.HasField("since_time") else None,
            subject=None if ROLE_OPERATOR in caller.roles else caller.subject,
        )
        counted = await self._search.count(wanted, timedelta(hours=request.interval_hours))
        fired = {(row["router"], row["rule"], row["destination"]) for row in counted.rows}
        counts = [*map(_count, counted.rows), *self._never(request.agent, fired)]
        return runs_pb2.CountDecisionsResponse(
            counts=counts, decision_count=counted.count, is_partial=counted.is_partial
        )

    def _never(self, agent: str, fired: set[tuple[str, str, str]]) -> Iterator[runs_pb2.DecisionCount]:
        """Yields the ways of an agent's tables that no decision took."""
        graph = self._directory.here[agent].in_force if agent in self._directory.here else None
        for node, router in graph.tables if graph else ():
            for rule in router.rules:
                for destination in dict.fromkeys(rule.destinations):
                    if (router.name, rule.name, destination) not in fired:
                        yield runs_pb2.DecisionCount(
                            router=router.name, rule=rule.name, destination=destination, node=node
                        )


def refuse_filters(request: runs_pb2.ListDecisionsRequest) -> None:
    """Raises InvalidRequest for a request that names a run and something else: a run's decisions are listed whole."""
    given = [name for name in FILTERS if getattr(request, name)] + [name for name in TIMES if request.HasField(name)]
    if given:
        violations = [FieldViolation(name, "not together with run_id") for name in given]
        raise InvalidRequest("a run's decisions are listed whole", violations=violations)


def _count(row: Mapping[str, Any]) -> runs_pb2.DecisionCount:
    return runs_pb2.DecisionCount(
        router=row["router"],
        rule=row["rule"],
        destination=row["destination"],
        node=row["node"],
        count=row["count"],
        begin_time=timestamp_proto(row["begin_time"]),
        last_time=timestamp_proto(row["last_time"]),
    )
