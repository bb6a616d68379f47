"""What is really sent to models: bounded for every agent and role, in one form, and less where it is too long."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any, Final

import orjson
import pytest
from signalbox.v1 import code_reading_pb2, evaluator_pb2, graph_editor_pb2, runs_pb2, sast_pb2, tools_pb2

from services.kit.tools.effects import plain
from tests.fixtures.code_readings import reading_of
from tests.fixtures.scripted_model import ModelRequest, Reply
from tests.integration.runtime.odd_services import OddServices, output
from tests.integration.runtime.test_odd_answers import COMMIT, INVESTIGATION, QUESTION, TRIAGE, incident, result

pytestmark = pytest.mark.asyncio(loop_scope="module")

GOAL = runs_pb2.RunInput(graph_editor=graph_editor_pb2.GraphEditorInput(goal="Find all tickets, twenty times."))
INPUTS: Final[dict[str, Callable[[], runs_pb2.RunInput]]] = {
    "data_chat": lambda: QUESTION,
    "sast_triage": lambda: TRIAGE,
    "sast_investigation": lambda: INVESTIGATION,
    "graph_editor": lambda: GOAL,
    "incident_investigation": incident,
}
ROLES = ("agent", "format", "triage", "research", "analysis", "parse", "plan", "answer", "incident")
# The largest budget of a policy is 120,000 characters of code; words, schemas and what says that something was cut
# come on top of it.
MOST_BYTES: Final = 250_000
HUGE = "word " * 20_000
PAGE = 400
LINES = ['x = f("' + "y" * 180 + '")'] * PAGE


@cache
def reading() -> code_reading_pb2.CodeReading:
    """What is known of every stretch, as they are all alike."""
    return reading_of("a.py", "\n".join(LINES))


def code(request: Any) -> tools_pb2.CallToolResponse:
    """Another long stretch of a file for each call."""
    asked = int(dict(request.arguments).get("first_line") or 1)
    fragment = {
        "path": "a.py", "commit": COMMIT, "first_line": asked, "last_line": asked + PAGE - 1,
        "total_lines": 10_000_000, "lines": LINES,
    }  # fmt: skip
    return output({"fragments": [fragment]}, code_readings=[reading()], text=HUGE)


@pytest.fixture
def much(around_runtime: OddServices) -> OddServices:
    """Services whose tools return very much, and models that ask for more and say a lot besides."""
    around_runtime.forget()

    async def read(request: Any, _context: Any) -> tools_pb2.CallToolResponse:
        return code(request)

    async def foretell(request: Any, _context: Any) -> tools_pb2.CallToolResponse:
        told = {"result": "found", "text": HUGE, "change": {}}
        return output({"operations": [told] * len(plain(request.arguments)["operations"])})

    rows = result(["a", "b"], *(["v" * 500, str(number)] for number in range(2000)))
    rows.output.text = "\n".join("v" * 500 for _ in range(2000))
    around_runtime.answers = {
        "get_few_shot_examples": output({"examples": [], "notes": []}, text=HUGE),
        "execute_db_query": rows,
        "fetch_code": read,
        "read_file": read,
        "query_graph": output({"results": []}, text=HUGE),
        "preview_changes": foretell,
    }
    around_runtime.critique = evaluator_pb2.CritiqueVerdictResponse(
        outcome=evaluator_pb2.CRITIQUE_OUTCOME_NEEDS_RESEARCH, missing=[HUGE[:5000]] * 200, reason=HUGE
    )
    around_runtime.evaluation = evaluator_pb2.EvaluateInvestigationResponse(
        verdict=sast_pb2.VERDICT_NEEDS_REVIEW, exploration_gaps=[HUGE[:5000]] * 200, justification=HUGE
    )
    return around_runtime


def script(odd: OddServices, answered: Callable[[ModelRequest, Reply], Reply] = lambda _, reply: reply) -> None:
    """Has the models of all roles ask for as much as they can."""
    asked = iter(range(10_000))

    def read(**arguments: Any) -> dict[str, Any]:
        return {"path": "a.py", "first_line": 1 + next(asked) * PAGE, **arguments}

    draft = {"verdict": "TRUE_POSITIVE", "confidence": 0.9, "justification": HUGE[:7000], "claims": []}
    goal = {"intent": "find", "effect": "reads", "complexity": "complex", "confidence": 0.9, "in_scope": True}
    plan = {"operations": [{"tool": "query_graph", "arguments": {"label": "T"}}] * 5, "goal_reached": False}
    says: dict[str, Callable[[], Reply]] = {
        "agent": lambda: Reply.tool_call("get_few_shot_examples", {"question": HUGE}),
        "format": lambda: Reply.text("There are many."),
        "triage": lambda: Reply.tool_call("fetch_code", read(symbol=HUGE)),
        "research": lambda: Reply.all_tool_calls([("read_file", read()) for _ in range(8)]),
        "analysis": lambda: Reply.tool_call("submit_verdict", draft),
        "parse": lambda: Reply.tool_call("submit_goal", goal),
        "plan": lambda: Reply.tool_call("submit_plan", plan),
        "answer": lambda: Reply.text("There are some."),
        "incident": lambda: Reply.all_tool_calls([("query_graph", {"why": HUGE})] * 3 + [("read_file", read())]),
    }
    for role, say in says.items():
        odd.model.respond(role, lambda request, say=say: answered(request, say()))


def check_form(requests: list[ModelRequest]) -> None:
    """Holds calls to one system message at most, which is the first, and the same words and tools for each purpose."""
    first: dict[tuple[str, str], ModelRequest] = {}
    for request in requests:
        roles = [message["role"] for message in request.messages]
        assert "system" not in roles[1:]
        opening = request.messages[0]
        before = first.setdefault((request.model, opening["content"][:100]), request)
        if opening["role"] == "system":
            assert orjson.dumps(opening) == orjson.dumps(before.messages[0]), "another system message"
        if request.tools:
            assert orjson.dumps(request.body["tools"]) == orjson.dumps(before.body["tools"]), "other tools"
        elif before.tools:
            told = " ".join(str(message["content"]) for message in request.messages if message["role"] == "user")
            assert "no tool" in told, "a call without tools does not say so"


@pytest.mark.parametrize("agent", INPUTS)
async def test_every_prompt_is_bounded_and_in_one_form(much: OddServices, agent: str) -> None:
    script(much)
    run = await much.run(INPUTS[agent](), wall_time_s=50)
    assert runs_pb2.RunState.Name(run.state) in ("RUN_STATE_SUCCEEDED", "RUN_STATE_NEEDS_REVIEW"), run.error
    asked = [request for role in ROLES for request in much.model.requests_of(role)]
    sizes = {role: max((len(orjson.dumps(r.body)) for r in asked if r.model == role), default=0) for role in ROLES}
    assert max(sizes.values()) > 20_000, f"it was not much: {sizes}"
    assert max(sizes.values()) < MOST_BYTES, sizes
    check_form(asked)


@pytest.mark.parametrize("agent", INPUTS)
async def test_a_context_that_is_too_short_is_asked_with_less_once(much: OddServices, agent: str) -> None:
    refused: dict[str, int] = {}
    said = {"message": "This model's maximum context length is 9000 tokens.", "code": "context_length_exceeded"}

    def short(request: ModelRequest, reply: Reply) -> Reply:
        size = len(orjson.dumps(request.body))
        if size <= longest:
            return reply
        refused[request.model] = refused.get(request.model, 0) + 1
        return Reply.raw(json.dumps({"error": said}), status=400)

    # A quarter of each budget, with all that is not cut, is shorter; the whole budget is longer.
    longest = 30_000 if agent == "graph_editor" else 60_000
    script(much, short)
    run = await much.run(INPUTS[agent](), wall_time_s=50)
    assert runs_pb2.RunState.Name(run.state) in ("RUN_STATE_SUCCEEDED", "RUN_STATE_NEEDS_REVIEW"), run.error
    assert refused
    for role in refused:
        sizes = [len(orjson.dumps(request.body)) for request in much.model.requests_of(role)]
        asked = [*pairwise(sizes)]
        assert any(first > longest >= second for first, second in asked), f"{role} was not asked with less: {sizes}"
        tightened = [b for (a, b), (_, c) in pairwise(asked) if a > b > c and b > longest]
        assert not tightened, f"{role} was tightened twice: {sizes}"


@pytest.mark.parametrize("agent", ["sast_triage", "sast_investigation", "incident_investigation"])
async def test_what_was_gathered_outlives_a_conclusion_that_fails(much: OddServices, agent: str) -> None:
    calls: dict[str, int] = {}

    def refusing(request: ModelRequest, reply: Reply) -> Reply:
        calls[request.model] = calls.get(request.model, 0) + 1
        if request.model != "analysis" and calls[request.model] < 3:
            return reply
        return Reply.raw('{"error": {"message": "I will not."}}', status=400)

    script(much, refusing)
    run = await much.run(INPUTS[agent](), wall_time_s=50)
    assert runs_pb2.RunState.Name(run.state) == "RUN_STATE_NEEDS_REVIEW", run.error
