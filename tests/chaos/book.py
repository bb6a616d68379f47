"""Book-keeping after the harm: what callers were told, what the database holds and what the executor did agree."""

from __future__ import annotations

from collections.abc import Sequence

from signalbox.v1 import runs_pb2

from tests.chaos.deployment import Deployment, until
from tests.chaos.load import WatchedRun
from tests.chaos.script import ROUTE, answer_for

_EVENTS = """
    SELECT run_id::text, array_agg(sequence ORDER BY sequence), array_agg(kind ORDER BY sequence)
    FROM platform.run_events GROUP BY run_id
"""
_DECISIONS = """
    SELECT d.run_id::text, array_agg(d.sequence ORDER BY d.sequence),
        array_agg(d.node || ': ' || d.rule || ' -> ' || d.destination ORDER BY d.sequence),
        count(DISTINCT d.decision_id), count(DISTINCT d.checkpoint_id), count(c.checkpoint_id)
    FROM platform.decisions AS d
    LEFT JOIN platform.checkpoints AS c ON c.thread_id = d.run_id::text AND c.checkpoint_id = d.checkpoint_id
    GROUP BY d.run_id
"""
_RUNS = "SELECT run_id::text, state, owner, event_count, decision_count, model_calls, tool_calls FROM platform.runs"
_UNFINISHED = "SELECT run_id::text, state, owner FROM platform.runs WHERE state IN ('PENDING', 'RUNNING')"


async def check(deployment: Deployment, told: Sequence[WatchedRun]) -> None:
    """Checks that every run ended right, that no record has a gap or a repeat, and that each effect is there once."""
    await no_orphan(deployment)
    for one in told:
        check_watched(one)
    await check_database(deployment, told)
    check_effects(deployment, told)


async def no_orphan(deployment: Deployment) -> None:
    """Checks that all runs come to an end, also those whose caller is gone."""

    async def none_left() -> bool:
        return not await deployment.rows(_UNFINISHED)

    await until(none_left, "every run to end")


def check_watched(told: WatchedRun) -> None:
    """Checks what one caller was told: everything once, in order, and the right answer."""
    run = told.run
    assert run.state == runs_pb2.RUN_STATE_SUCCEEDED, (told.name, run.state, run.stop_reason, run.error)
    assert run.output.data_chat.answer == answer_for(told.name)
    assert [event.sequence for event in told.events] == list(range(1, len(told.events) + 1)), told.name
    decided = [event.decision for event in told.events if event.HasField("decision")]
    assert [f"{one.node}: {one.rule} -> {one.destination}" for one in decided] == ROUTE
    assert [one.sequence for one in decided] == list(range(1, len(ROUTE) + 1))


async def check_database(deployment: Deployment, told: Sequence[WatchedRun]) -> None:
    """Checks the platform's own tables, directly."""
    runs = {row[0]: row[1:] for row in await deployment.rows(_RUNS)}
    events = {row[0]: row[1:] for row in await deployment.rows(_EVENTS)}
    decisions = {row[0]: row[1:] for row in await deployment.rows(_DECISIONS)}
    for one in told:
        run_id = one.run.run_id
        state, owner, event_count, decision_count, model_calls, tool_calls = runs[run_id]
        assert (state, owner) == ("SUCCEEDED", None)
        assert (event_count, decision_count) == (len(one.events), len(ROUTE))
        assert (model_calls, tool_calls) == (4, 3)
        sequences, kinds = events[run_id]
        assert sequences == list(range(1, event_count + 1)), run_id
        assert kinds == [event.WhichOneof("event") for event in one.events], run_id
        numbers, route, ids, checkpoints, found = decisions[run_id]
        assert numbers == list(range(1, len(ROUTE) + 1)), run_id
        assert route == ROUTE
        assert ids == checkpoints == found == len(ROUTE), "each decision has a checkpoint of its own, which is there"


def check_effects(deployment: Deployment, told: Sequence[WatchedRun]) -> None:
    """Checks that each run's query took effect once, under one key."""
    effects = {
        row[0]: row[1:]
        for row in deployment.effects(
            "SELECT counter, count(*), sum(amount), min(run_id) FROM effects GROUP BY counter"
        )
    }
    counters = dict(deployment.effects("SELECT name, value FROM counters"))
    for one in told:
        assert effects[one.name] == (1, 1, one.run.run_id), one.name
        assert counters[one.name] == 1
    keys = deployment.effects(
        "SELECT run_id, count(DISTINCT checkpoint_id || '/' || tool_call_id)"
        " FROM attempts WHERE tool = 'execute_db_query' GROUP BY run_id"
    )
    assert {count for _, count in keys} <= {1}, "a repeated node gave its tool call another key"
