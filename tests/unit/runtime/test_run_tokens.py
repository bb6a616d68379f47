"""The tokens of a claim: one for each service and purpose, renewed, and none once the claim has ended."""

from __future__ import annotations

import itertools

import pytest

from services.kit.identity.caller import Caller
from services.runtime.engine.run_tokens import RunTokens
from services.runtime.errors import ClaimLost
from services.runtime.routing.run_context import RunContext


def tokens(*, renewed_every_s: float = 60) -> RunTokens:
    numbers = itertools.count(1)
    return RunTokens(
        lambda audience, writes: f"{audience} {next(numbers)}{' writes' if writes else ''}",
        renewed_every_s=renewed_every_s,
    )


def test_each_service_has_its_own_token_for_a_while() -> None:
    give = tokens().reading
    assert [give("guard"), give("evaluator"), give("guard")] == ["guard 1", "evaluator 2", "guard 1"]


def test_a_token_for_writing_is_another() -> None:
    given = tokens()
    assert [given.reading("graph"), given.acting("graph"), given.reading("graph")] == [
        "graph 1", "graph 2 writes", "graph 1",
    ]  # fmt: skip


def test_only_a_node_that_acts_has_a_way_to_tokens_for_writing() -> None:
    given = tokens()
    run = RunContext("run", "correlation", Caller("27"), 1, given.reading, [], given.acting)
    reading, acting = run.of_node(acts=False), run.of_node(acts=True)
    assert (reading.token("graph"), acting.token("graph")) == ("graph 1", "graph 2 writes")
    assert (reading.acting_token, acting.acting_token) == (None, None)


def test_a_token_is_renewed() -> None:
    give = tokens(renewed_every_s=-1).reading
    assert [give("guard"), give("guard")] == ["guard 1", "guard 2"]


def test_no_token_outlives_its_claim_here() -> None:
    given = tokens()
    given.reading("guard")
    given.end()
    for give in (given.reading, given.acting):
        with pytest.raises(ClaimLost):
            give("guard")
