"""One set of words for what came of a run, from the contract to the table."""

from __future__ import annotations

import pytest
from signalbox.v1 import outcome_pb2

from services.kit.outcome import Outcome
from services.runtime.agents.registry import definitions


def test_words_are_those_of_the_contract() -> None:
    named = {name.removeprefix("OUTCOME_").lower() for name, value in outcome_pb2.Outcome.items() if value}
    assert {*Outcome} == named
    assert [Outcome.of(outcome.proto) for outcome in Outcome] == [*Outcome]


@pytest.mark.parametrize("number", [outcome_pb2.OUTCOME_UNSPECIFIED, 99])
def test_what_is_not_known_is_none(number: int) -> None:
    assert Outcome.of(number) is None


def test_what_is_no_outcome_is_told() -> None:
    with pytest.raises(ValueError, match="'green' is not an outcome; there are: done, partly"):
        Outcome.parse("green")
    assert Outcome.parse("Not-Answered") is Outcome.NOT_ANSWERED


@pytest.mark.parametrize("agent", definitions())
def test_an_agent_comes_to_outcomes_of_its_own(agent: str) -> None:
    begun = {"status": "failed", "spend": {}, "error": "it broke"}
    assert definitions()[agent].outcome(begun) in definitions()[agent].outcomes
