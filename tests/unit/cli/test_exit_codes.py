"""Exit statuses: the contract with scripts."""

from pathlib import Path

import pytest
from signalbox.v1 import runs_pb2

from services.cli.exit_codes import MEANINGS, ExitCode, exit_code_of
from tests.unit.cli.runs import run

README = Path(__file__).parents[3] / "services" / "cli" / "README.md"


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (runs_pb2.RUN_STATE_SUCCEEDED, 0),
        (runs_pb2.RUN_STATE_FAILED, 1),
        (runs_pb2.RUN_STATE_NEEDS_REVIEW, 4),
        (runs_pb2.RUN_STATE_CANCELLED, 7),
        (runs_pb2.RUN_STATE_AWAITING_INPUT, 8),
        (runs_pb2.RUN_STATE_RUNNING, 0),
        (runs_pb2.RUN_STATE_PENDING, 0),
    ],
)
def test_a_status_tells_how_a_run_ended(state: runs_pb2.RunState, code: int) -> None:
    assert exit_code_of(run(state=state)) == code


def test_every_state_that_ends_a_run_has_a_status_of_its_own() -> None:
    ends = [runs_pb2.RUN_STATE_SUCCEEDED, runs_pb2.RUN_STATE_FAILED, runs_pb2.RUN_STATE_CANCELLED,
            runs_pb2.RUN_STATE_NEEDS_REVIEW, runs_pb2.RUN_STATE_AWAITING_INPUT]  # fmt: skip
    codes = [exit_code_of(run(state=state)) for state in ends]
    assert len(set(codes)) == len(ends)


def test_a_blocked_question_has_its_own_status_though_the_run_succeeded() -> None:
    assert exit_code_of(run(stop_reason="blocked")) == 3


def test_a_guard_without_a_verdict_is_neither_a_block_nor_any_other_failure() -> None:
    failed = runs_pb2.RUN_STATE_FAILED
    assert exit_code_of(run(state=failed, stop_reason="guard_unavailable")) == 11
    assert exit_code_of(run(state=failed, stop_reason="node_failed")) == 1


def test_a_breaker_that_still_left_an_answer_is_no_failure() -> None:
    assert exit_code_of(run(stop_reason="iteration_limit")) == 0


def test_every_status_is_documented_in_help_and_readme() -> None:
    assert set(MEANINGS) == set(ExitCode)
    readme = README.read_text(encoding="utf-8")
    for code, meaning in MEANINGS.items():
        assert f"| {code.value} | {meaning} |" in readme
