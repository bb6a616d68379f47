"""What operators set: every mistake in a policy file is named, and what it sets has an origin."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.runtime.agents.policies import FILE, InvalidPoliciesError, bounds_of, load_policies, restored, set_limits
from services.runtime.agents.registry import built_in_limits, definitions

BUILT_IN = built_in_limits()


def problems(text: str, folder: Path) -> list[str]:
    file = folder / "policies.yaml"
    file.write_text(text)
    with pytest.raises(InvalidPoliciesError) as refused:
        load_policies(file, BUILT_IN)
    return refused.value.problems


def test_what_it_sets_and_what_it_leaves(tmp_path: Path) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text("data_chat:\n  max_iterations: 5\n  node_timeout_s: 60\n  budget: {model_calls: 20}\n")
    limits = load_policies(file, BUILT_IN)
    policy, budget = limits["data_chat"].policy, limits["data_chat"].budget
    assert (policy.max_iterations, policy.node_timeout_s, policy.max_error_attempts) == (5, 60.0, 3)  # type: ignore[attr-defined]
    assert budget == {**BUILT_IN["data_chat"].budget, "model_calls": 20}
    assert limits["data_chat"].origins == dict.fromkeys(
        ["max_iterations", "node_timeout_s", "budget.model_calls"], FILE
    )
    assert limits["sast_triage"] == BUILT_IN["sast_triage"]


def test_an_empty_file_sets_nothing(tmp_path: Path) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text("# nothing yet\n")
    assert load_policies(file, BUILT_IN) == BUILT_IN


def test_all_that_is_wrong_is_named_at_once(tmp_path: Path) -> None:
    found = problems(
        """
weather: {max_iterations: 3}
sast_triage: 15
sast_investigation: {budget: much}
data_chat:
  max_iteration: 3
  max_iterations: 0
  top_k: "20"
  max_error_attempts: true
  turns_remembered: 5.5
  node_timeout_s: 1e9
  budget: {model_calls: -1, money: 3}
""",
        tmp_path,
    )
    expected = [
        "weather: there is no such agent; there are data_chat, graph_editor, incident_investigation,",
        "sast_triage: limits are given by name",
        "sast_investigation.budget: what a run may spend is given by name",
        "data_chat.max_iteration: there is no such limit; there are context_characters,",
        "data_chat.max_iterations is 0: input should be greater than or equal to 1",
        "data_chat.top_k is '20': input should be a valid integer",
        "data_chat.max_error_attempts is True: input should be a valid integer",
        "data_chat.turns_remembered is 5.5: input should be a valid integer",
        "data_chat.node_timeout_s is '1e9': input should be a valid number",
        "data_chat.budget.model_calls is -1: input should be greater than or equal to 0",
        "data_chat.budget.money: there is no such limit; there are model_calls, tokens, tool_calls, wall_time_s",
    ]
    assert len(found) == len(expected)
    for words, begins in zip(found, expected, strict=True):
        assert words.startswith(begins)


@pytest.mark.parametrize("text", ["- data_chat", "data_chat: [", "\tx: 1", "5"])
def test_what_is_no_file_of_limits(text: str, tmp_path: Path) -> None:
    assert len(problems(text, tmp_path)) == 1


@pytest.mark.parametrize("agent", sorted(definitions()))
def test_every_limit_has_bounds_and_is_within_them(agent: str) -> None:
    policy = definitions()[agent].policy
    assert all(hasattr(hint, "__metadata__") for hint in bounds_of(policy).values())
    limits = BUILT_IN[agent].pin.limits
    assert set_limits({agent: dict(limits)}, BUILT_IN)[agent].policy == policy()


def test_where_a_limit_came_from_is_part_of_what_a_run_is_pinned_to() -> None:
    same = set_limits({"data_chat": {"max_iterations": 3}}, BUILT_IN)["data_chat"]
    assert same.pin.policy_version == BUILT_IN["data_chat"].pin.policy_version
    assert same.pin.policy_id != BUILT_IN["data_chat"].pin.policy_id


def test_bounds_hold_for_what_is_set_and_not_for_what_a_run_began_with() -> None:
    policy = definitions()["data_chat"].policy
    assert restored(policy, {"max_iterations": 1000}).max_iterations == 1000  # type: ignore[attr-defined]
