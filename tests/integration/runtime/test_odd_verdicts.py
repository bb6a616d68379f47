"""A guard and an evaluator that answer what they never should: nothing is let through or approved, with a reason."""

from __future__ import annotations

import math
from typing import Any

import pytest
from signalbox.v1 import caller_pb2, data_chat_pb2, evaluator_pb2, guard_pb2, runs_pb2, sast_pb2, tools_pb2

from services.runtime.routing.calls import MOST_TOKENS
from tests.fixtures.code_readings import reading_of
from tests.fixtures.scripted_model import ModelRequest, Reply
from tests.integration.code_agents.conftest import draft
from tests.integration.runtime.odd_services import OddServices, output

pytestmark = pytest.mark.asyncio(loop_scope="module")

COMMIT = "a" * 40
FINDING = sast_pb2.Finding(
    fingerprint="f", rule_id="B608", message="m", location=sast_pb2.CodeLocation(file="a.py", first_line=3)
)
SOURCE = sast_pb2.CodeSource(repository="/r", commit=COMMIT)
QUESTION = runs_pb2.RunInput(data_chat=data_chat_pb2.DataChatInput(question="How many devices?"))
TRIAGE = runs_pb2.RunInput(sast_triage=sast_pb2.SastTriageInput(finding=FINDING, source=SOURCE))
INVESTIGATION = runs_pb2.RunInput(sast_investigation=sast_pb2.SastInvestigationInput(finding=FINDING, source=SOURCE))
FRAGMENT: dict[str, Any] = {
    "path": "a.py", "commit": COMMIT, "first_line": 1, "last_line": 3, "total_lines": 3, "lines": ["a", "b", "c"],
}  # fmt: skip
NO_EXAMPLES = output({"examples": [], "notes": []})
LARGEST = 2**63 - 1
ALLOW, BLOCK = guard_pb2.SCREEN_VERDICT_ALLOW, guard_pb2.SCREEN_VERDICT_BLOCK


@pytest.fixture
def odd(around_runtime: OddServices) -> OddServices:
    around_runtime.forget()
    around_runtime.answers = {
        "get_few_shot_examples": NO_EXAMPLES,
        "fetch_code": output({"fragments": [FRAGMENT]}, code_readings=[reading_of("a.py", "a\nb\nc\n")]),
        "read_file": output({"fragments": [FRAGMENT]}, code_readings=[reading_of("a.py", "a\nb\nc\n")]),
    }
    around_runtime.model.respond("agent", lambda _: Reply.text("There are 3."))
    around_runtime.model.respond("format", lambda _: Reply.text("There are 3."))
    around_runtime.model.respond("triage", lambda request: after_reading("analyze_issue", "fetch_code", request))
    around_runtime.model.respond("research", lambda request: after_reading("", "read_file", request))
    around_runtime.model.respond("analysis", lambda _: draft("FALSE_POSITIVE", CLAIM))
    return around_runtime


CLAIM = {"claim": "c", "file": "a.py", "first_line": 3, "last_line": 3, "quote": "c"}


def after_reading(tool: str, read: str, request: ModelRequest) -> Reply:
    """Reads the file, and then asks for the tool, or has read enough; hands in a verdict where one is asked for."""
    if "submit_verdict" in str(request.tools):
        return draft("FALSE_POSITIVE", CLAIM)
    if not any(message.get("role") == "tool" for message in request.messages):
        return Reply.tool_call(read, {"path": "a.py"})
    return Reply.tool_call(tool, {}) if tool else Reply.text("That is all.")


def state(run: runs_pb2.Run) -> tuple[str, str]:
    return runs_pb2.RunState.Name(run.state).removeprefix("RUN_STATE_"), run.stop_reason


def usage(input_tokens: int, output_tokens: int) -> caller_pb2.TokenUsage:
    return caller_pb2.TokenUsage(input_tokens=input_tokens, output_tokens=output_tokens)


@pytest.mark.parametrize("verdict", [0, 7, -1])
async def test_what_is_no_verdict_lets_nothing_through(odd: OddServices, verdict: Any) -> None:
    odd.screening = guard_pb2.ScreenResponse(verdict=verdict, reason="allowed")
    run = await odd.run(QUESTION, wall_time_s=2)
    assert state(run)[0] != "SUCCEEDED"
    assert run.stop_reason != "blocked"
    assert not odd.model.requests
    assert not odd.called


@pytest.mark.parametrize(
    ("verdict", "ended"), [(ALLOW, ("NEEDS_REVIEW", "plain_text")), (BLOCK, ("SUCCEEDED", "blocked"))]
)
async def test_a_reason_that_can_not_be_stored_is_one_that_can(
    odd: OddServices, verdict: Any, ended: tuple[str, str]
) -> None:
    odd.screening = guard_pb2.ScreenResponse(verdict=verdict, reason="x\0y")
    assert state(await odd.run(QUESTION)) == ended  # an answer that rests on no query is for review


@pytest.mark.parametrize(
    ("told", "counted"),
    [(usage(-(10**9), -5), (0, 0)), (usage(LARGEST, LARGEST), (MOST_TOKENS, MOST_TOKENS)), (usage(7, 3), (7, 3))],
)
@pytest.mark.parametrize("elapsed_ms", [math.nan, math.inf, -math.inf])
async def test_what_a_guard_s_model_can_not_have_taken(
    odd: OddServices, told: caller_pb2.TokenUsage, counted: tuple[int, int], elapsed_ms: float
) -> None:
    odd.screening = guard_pb2.ScreenResponse(
        verdict=BLOCK, reason="other_user", model="m\0", token_usage=told, model_elapsed_ms=elapsed_ms
    )
    run = await odd.run(QUESTION)
    assert state(run) == ("SUCCEEDED", "blocked")
    spent = run.output.data_chat.token_usage
    assert (spent.input_tokens, spent.output_tokens) == counted


@pytest.mark.parametrize("reason", ["r\0", "", "a\x1b"])
async def test_a_refusal_without_a_word_is_none(odd: OddServices, reason: str) -> None:
    odd.answers["execute_db_query"] = tools_pb2.CallToolResponse(
        error=tools_pb2.ToolError(reason=reason, message="m\0")
    )
    odd.model.respond("agent", lambda _: Reply.tool_call("execute_db_query", {"query": "SELECT 1"}))
    run = await odd.run(QUESTION)
    assert state(run) == ("FAILED", "node_failed")
    assert run.error == "the sql_executor was asked to run execute_db_query, and its answer can't be read"


Evaluated = evaluator_pb2.EvaluateInvestigationResponse
SURE: dict[str, Any] = {
    "is_final": True,
    "verdict": sast_pb2.VERDICT_FALSE_POSITIVE,
    "confidence": 0.5,
    "justification": "j",
}


@pytest.mark.parametrize(
    "odd_part", [{"verdict": 99}, {"confidence": math.nan}, {"confidence": 7.0}, {"confidence": -0.1}], ids=str
)
async def test_an_evaluation_that_is_none_makes_nothing_final(odd: OddServices, odd_part: dict[str, Any]) -> None:
    odd.evaluation = Evaluated(**{**SURE, **odd_part})
    odd.evaluation.model_call.CopyFrom(evaluator_pb2.EvaluationModelCall(model="judge", token_usage=usage(5000, 1)))
    run = await odd.run(TRIAGE)
    assert state(run) == ("FAILED", "node_failed")
    assert run.error == "the evaluator was asked to judge the verdict, and its answer can't be read"
    assert run.output.sast_triage.verdict == sast_pb2.VERDICT_NEEDS_REVIEW
    assert run.output.sast_triage.token_usage.input_tokens > 5000


async def test_what_an_evaluator_s_model_can_not_have_taken(odd: OddServices) -> None:
    made = evaluator_pb2.EvaluationModelCall(
        model="m\0", elapsed_ms=math.nan, calls=2**31 - 1, token_usage=usage(-5, LARGEST)
    )
    odd.evaluation = Evaluated(**SURE, model_call=made)
    run = await odd.run(TRIAGE)
    assert state(run) == ("SUCCEEDED", "")
    assert run.output.sast_triage.verdict == sast_pb2.VERDICT_FALSE_POSITIVE


@pytest.mark.parametrize("words", [{"justification": "x\0"}, {"exploration_gaps": ["\0"]}])
async def test_words_that_can_not_be_stored_as_text(odd: OddServices, words: dict[str, Any]) -> None:
    odd.evaluation = Evaluated(**{**SURE, **words})
    assert state(await odd.run(TRIAGE)) == ("SUCCEEDED", "")


async def test_a_critique_that_is_none_approves_nothing(odd: OddServices) -> None:
    odd.critique = evaluator_pb2.CritiqueVerdictResponse(outcome=99)  # type: ignore[arg-type]
    run = await odd.run(INVESTIGATION)
    assert state(run) == ("FAILED", "node_failed")
    assert run.error == "the evaluator was asked to judge the verdict, and its answer can't be read"
    assert run.output.sast_investigation.verdict == sast_pb2.VERDICT_NEEDS_REVIEW
