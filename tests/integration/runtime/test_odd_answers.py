"""Services that answer what they never should: a run ends with a reason, and believes nothing of it."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from google.protobuf import timestamp_pb2
from prometheus_client import REGISTRY
from signalbox.v1 import (
    data_chat_pb2,
    graph_editor_pb2,
    incident_investigation_pb2,
    runs_pb2,
    sast_pb2,
    table_pb2,
    tools_pb2,
)

from services.cli.explain import explanation
from services.cli.render import to_text
from tests.fixtures.code_readings import reading_of
from tests.fixtures.scripted_model import Reply
from tests.integration.runtime.odd_services import GIVEN_UP_S, OddServices, odd_services, output

pytestmark = pytest.mark.asyncio(loop_scope="module")

COMMIT = "a" * 40
FINDING = sast_pb2.Finding(
    fingerprint="f", rule_id="B608", message="m", location=sast_pb2.CodeLocation(file="a.py", first_line=3)
)
SOURCE = sast_pb2.CodeSource(repository="/r", commit=COMMIT)
QUESTION = runs_pb2.RunInput(data_chat=data_chat_pb2.DataChatInput(question="How many devices?", want_csv=True))
TRIAGE = runs_pb2.RunInput(sast_triage=sast_pb2.SastTriageInput(finding=FINDING, source=SOURCE))
INVESTIGATION = runs_pb2.RunInput(
    sast_investigation=sast_pb2.SastInvestigationInput(finding=FINDING, source=SOURCE)
)  # fmt: skip
FRAGMENT: dict[str, Any] = {
    "path": "a.py", "commit": COMMIT, "first_line": 1, "last_line": 3, "total_lines": 3, "lines": ["a", "b", "c"],
}  # fmt: skip
NO_EXAMPLES = output({"examples": [], "notes": []})


def incident() -> runs_pb2.RunInput:
    """An incident that nobody has asked about."""
    started_at = timestamp_pb2.Timestamp(seconds=1_700_000_000)
    given = incident_investigation_pb2.IncidentInvestigationInput(
        incident_id=uuid4().hex,
        title="t",
        service="s",
        started_at=started_at,
        severity="INCIDENT_SEVERITY_HIGH",
        text="x",
        source=SOURCE,
    )
    return runs_pb2.RunInput(incident_investigation=given)


def result(columns: Sequence[str], *rows: Sequence[str]) -> tools_pb2.CallToolResponse:
    """The result of a query."""
    table = table_pb2.Table(
        columns=[table_pb2.Column(name=name, type=table_pb2.COLUMN_TYPE_TEXT) for name in columns],
        rows=[table_pb2.Row(values=[table_pb2.Cell(text_value=text) for text in row]) for row in rows],
    )
    return output(table=table, sql_query="SELECT a, b FROM t", reads_tables=True)


def concluded(**evidence: Any) -> Reply:
    """An answer that rests on one piece of evidence."""
    claims = [{"claim": "it is so", **evidence}]
    return Reply.tool_call(
        "conclude", {"cause_found": True, "root_cause": "r", "confidence": 0.9, "evidence": claims}
    )  # fmt: skip


@pytest.fixture
def odd(around_runtime: OddServices) -> OddServices:
    around_runtime.forget()
    return around_runtime


@pytest_asyncio.fixture(loop_scope="module")
async def anew(tmp_path: Path, platform_dsn: str) -> AsyncIterator[OddServices]:
    """The services around a runtime that has not asked yet which tools there are."""
    async with odd_services(tmp_path, platform_dsn) as services:
        yield services


def check_failed(run: runs_pb2.Run, service: str) -> None:
    """Checks that a run says which service failed it, and nothing of what that answered."""
    assert runs_pb2.RunState.Name(run.state) == "RUN_STATE_FAILED"
    assert run.stop_reason == "node_failed"
    assert run.error.startswith(f"the {service} was asked to "), run.error
    assert run.error.endswith(", and its answer can't be read"), run.error


@pytest.mark.parametrize(
    "answer",
    [result(["a", "b"], ["1"]), result(["a"], ["1", "2"]), output(), tools_pb2.CallToolResponse(output={})],
    ids=["short row", "long row", "no table", "empty"],
)
async def test_a_question_is_not_answered_from_what_is_no_table(
    odd: OddServices, answer: tools_pb2.CallToolResponse
) -> None:
    odd.answers = {"get_few_shot_examples": NO_EXAMPLES, "execute_db_query": answer}
    odd.model.script("agent", [Reply.tool_call("execute_db_query", {"query": "SELECT a, b FROM t"})])
    odd.model.script("format", [Reply.text("There are 3.")])
    run = await odd.run(QUESTION)
    check_failed(run, "sql_executor")
    assert not run.output.data_chat.answer


@pytest.mark.parametrize(
    "answer", [{"examples": [{}]}, {"examples": 5}, {"notes": ["x"]}, {"examples": [], "score": math.nan}]
)
async def test_examples_that_are_none(odd: OddServices, answer: dict[str, Any]) -> None:
    odd.answers = {"get_few_shot_examples": output(answer)}
    check_failed(await odd.run(QUESTION), "sql_executor")


@pytest.mark.parametrize("schema", [{"type": 5}, {"type": "object", "x": math.inf}])
async def test_a_tool_whose_schema_is_none(anew: OddServices, schema: dict[str, Any]) -> None:
    tool = tools_pb2.Tool(name="execute_db_query")
    tool.input_schema.update(schema)
    anew.tools = [tool]
    check_failed(await anew.run(QUESTION), "sql_executor")


@pytest.mark.parametrize(
    "answer",
    [
        {"fragments": "x"}, {"definitions": [5]}, {"fragments": [{**FRAGMENT, "first_line": math.nan}]},
        {"fragments": [{"lines": ["a"]}]}, {"fragments": [{**FRAGMENT, "first_line": 3, "last_line": 1}]},
        {"fragments": [{**FRAGMENT, "last_line": 10**9, "total_lines": 10**9}]},
    ],
    ids=["no list", "no definition", "nan", "no place", "backwards", "more lines than there are"],
)  # fmt: skip
async def test_code_that_is_nowhere_is_not_read(odd: OddServices, answer: dict[str, Any]) -> None:
    odd.answers = {"fetch_code": output(answer), "read_file": output(answer)}
    odd.model.script("triage", [Reply.tool_call("fetch_code", {"path": "a.py"})])
    odd.model.script("research", [Reply.tool_call("read_file", {"path": "a.py"})])
    for given in (TRIAGE, INVESTIGATION):
        check_failed(await odd.run(given), "code_executor")


async def test_evidence_is_not_looked_up_in_rows_that_do_not_fit(odd: OddServices) -> None:
    odd.answers = {"execute_db_query": result(["a", "b"], ["1"])}
    odd.model.script("incident", [concluded(query={"query": "SELECT a, b FROM t", "row": {"a": "1"}})])
    check_failed(await odd.run(incident()), "sql_executor")


NODES = [{"label": "S", "key": "a"}, {"label": "S", "key": "b"}]
PATH = {"graph_path": {"nodes": NODES, "edges": [{"type": "D"}]}}
LINES = {"code": {"file": "a.py", "first_line": 1, "last_line": 2, "quote": "quoted = line"}}


@pytest.mark.parametrize(
    ("evidence", "answers", "holds"),
    [
        (PATH, {"query_graph": output({"results": [{"nodes": NODES, "edges": [{}]}]})}, True),
        (PATH, {"query_graph": output({"results": [{"nodes": NODES[:1], "edges": []}]})}, False),
        (PATH, {"query_graph": output({"results": [{"nodes": NODES[::-1], "edges": [{}]}]})}, False),
        (LINES, {"first_line": 1, "last_line": 2, "lines": ["quoted = line", "b"]}, True),
        (LINES, {"first_line": 2, "last_line": 3, "lines": ["quoted = line", "b"]}, False),
        (LINES, {"first_line": 3, "last_line": 3, "lines": ["quoted = line"]}, False),
    ],
)
async def test_evidence_holds_only_where_it_points(
    odd: OddServices, evidence: dict[str, Any], answers: dict[str, Any], holds: bool
) -> None:
    if evidence is LINES:
        reading = reading_of("a.py", "\n".join(answers["lines"]))
        answers = {"fetch_code": output({"fragments": [{**FRAGMENT, **answers}]}, code_readings=[reading])}
    odd.answers = answers
    odd.model.respond("incident", lambda _: concluded(**evidence))
    run = await odd.run(incident())
    assert [each.holds for each in run.output.incident_investigation.evidence] == [holds]
    assert (run.output.incident_investigation.confidence > 0.5) is holds


@pytest.mark.parametrize("answer", [{}, {"results": "x"}, {"results": [math.nan]}, {"results": [False]}])
async def test_a_path_that_is_none_is_no_evidence(odd: OddServices, answer: dict[str, Any]) -> None:
    odd.answers = {"query_graph": output(answer)}
    odd.model.script("incident", [concluded(**PATH)])
    check_failed(await odd.run(incident()), "graph_executor")


LONG = 50_000
# What holds no word, and what may take time that grows with its square.
MARK = "<|a|>"
WORDLESS = ["[" * LONG, "." * LONG, '{"a": ' * (LONG // 6), MARK * (LONG // 5), "\\" * LONG, "/" * LONG, "- " * LONG]
UNCLEAR = [
    {"content": None},
    {"content": "I think it is so."},
    {"content": None, "refusal": "I can't help with that."},
    {"content": '<tool_call>{"name": "read_file", "arguments": {"path'},
    {"content": None, "tool_calls": [{"id": "1", "function": {"name": "rm_rf", "arguments": "{}"}}]},
    {"content": None, "tool_calls": [{"id": "1", "function": {"name": "", "arguments": " " * LONG}}]},
]
GIVEN: dict[str, Any] = {
    "data_chat": lambda: QUESTION,
    "sast_triage": lambda: TRIAGE,
    "sast_investigation": lambda: INVESTIGATION,
    "incident_investigation": incident,
    "graph_editor": lambda: runs_pb2.RunInput(graph_editor=graph_editor_pb2.GraphEditorInput(goal="Find all tickets.")),
}
ROLES = ("agent", "format", "triage", "research", "analysis", "incident", "parse", "plan", "answer")


def said(message: dict[str, Any]) -> Reply:
    """An answer with this message."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    return Reply.raw(json.dumps({"choices": [choice]}))


@pytest.mark.parametrize("agent", GIVEN)
async def test_no_model_is_asked_in_the_same_words_again(odd: OddServices, agent: str) -> None:
    read = output({"fragments": [FRAGMENT]}, code_readings=[reading_of("a.py", "a\nb\nc\n")])
    for message in UNCLEAR:
        odd.forget()
        odd.answers = {"get_few_shot_examples": NO_EXAMPLES, "fetch_code": read, "read_file": read}
        for role in ROLES:
            odd.model.respond(role, lambda _, message=message: said(message))
        run = await odd.run(GIVEN[agent](), wall_time_s=20)
        assert run.state in (runs_pb2.RUN_STATE_NEEDS_REVIEW, runs_pb2.RUN_STATE_FAILED), message
        assert run.stop_reason not in ("", "node_failed", "internal_error"), (message, run.error)
        asked = Counter((request.model, json.dumps(request.messages)) for request in odd.model.requests)
        assert max(asked.values()) == 1, (message, [model for (model, _), times in asked.items() if times > 1])


async def test_nor_is_one_that_says_nothing_where_what_fails_is_repeated(tmp_path: Path, platform_dsn: str) -> None:
    async with odd_services(tmp_path, platform_dsn, model_retries=2) as odd:
        for agent, given in GIVEN.items():
            odd.forget()
            odd.answers = {"get_few_shot_examples": NO_EXAMPLES}
            for role in ROLES:
                odd.model.respond(role, lambda _: said({"content": None}))
            run = await odd.run(given(), wall_time_s=60)
            assert run.state in (runs_pb2.RUN_STATE_NEEDS_REVIEW, runs_pb2.RUN_STATE_FAILED), (agent, run)
            asked = Counter((request.model, json.dumps(request.messages)) for request in odd.model.requests)
            assert len(asked) > 2, agent
            assert max(asked.values()) == 1, (agent, [model for (model, _), times in asked.items() if times > 1])
            assert run.spend.token_usage.total_tokens > 0, agent


NO_CALL: dict[str, Reply] = {
    "half of a call": said({"content": '<tool_call>{"name": "read_file", "arguments": {"path'}),
    "a call among words": said({"content": "Moment.\n<tool_call>{}</tool_call>\nGleich."}),
    "a call that its endpoint could not read": Reply.raw(
        json.dumps({"error": {"message": "Failed to call a function.", "code": "tool_use_failed"}}), status=400
    ),
}
# Who is asked first, and what it then does, of each agent.
STEPS: dict[str, tuple[str, Reply]] = {
    "data_chat": ("agent", Reply.tool_call("execute_db_query", {"query": "SELECT a, b FROM t"})),
    "sast_triage": ("triage", Reply.tool_call("fetch_code", {"path": "a.py"})),
    "sast_investigation": ("research", Reply.tool_call("read_file", {"path": "a.py"})),
    "incident_investigation": ("incident", Reply.tool_call("execute_db_query", {"query": "SELECT a, b FROM t"})),
    "graph_editor": ("parse", Reply.tool_call("submit_goal", {})),
}


@pytest.mark.parametrize("agent", GIVEN)
async def test_a_call_that_cannot_be_read_costs_one_more_that_is_told_so(odd: OddServices, agent: str) -> None:
    role, step = STEPS[agent]
    for what, answer in NO_CALL.items():
        odd.forget()
        odd.answers = {"get_few_shot_examples": NO_EXAMPLES, "execute_db_query": result(["a", "b"], ["1", "2"])}
        odd.model.script(role, [answer, step])
        run = await odd.run(GIVEN[agent](), wall_time_s=20)
        first, second, *_ = odd.model.requests_of(role)
        assert "problem" in json.dumps(second.messages[len(first.messages) :]) or "went_wrong" in second.last_text, what
        assert run.spend.model_calls >= 2, what
        if agent != "graph_editor":
            assert any(tool != "get_few_shot_examples" for tool, _ in odd.called), (what, run)


async def test_a_query_that_is_written_down_is_told_to_be_no_call(odd: OddServices) -> None:
    odd.answers = {"get_few_shot_examples": NO_EXAMPLES, "execute_db_query": result(["a", "b"], ["1", "2"])}
    for text in ("```sql\nSELECT a, b FROM t;\n```", "Here is the query:\n\nselect a, b\nfrom t"):
        odd.model.forget()
        odd.model.script("agent", [said({"content": text}), STEPS["data_chat"][1]])
        odd.model.script("format", [Reply.text("It is 1, and 2.")])
        run = await odd.run(QUESTION, wall_time_s=20)
        assert run.state == runs_pb2.RUN_STATE_SUCCEEDED, run


async def test_a_text_that_looks_like_a_call_to_the_last_is_an_answer(odd: OddServices) -> None:
    odd.answers = {"get_few_shot_examples": NO_EXAMPLES}
    odd.model.script("agent", [NO_CALL["half of a call"]], repeat="last")
    run = await odd.run(QUESTION)
    assert (run.state, run.stop_reason) == (runs_pb2.RUN_STATE_NEEDS_REVIEW, "plain_text")
    assert (len(odd.model.requests_of("agent")), run.spend.model_calls) == (3, 3)
    odd.model.forget()
    odd.model.script("agent", [NO_CALL["half of a call"]], repeat="last")
    run = await odd.run(QUESTION, model_calls=2)
    assert len(odd.model.requests_of("agent")) == 2
    assert run.stop_reason


async def test_an_answer_without_a_word_is_looked_at_in_passing(odd: OddServices) -> None:
    odd.answers = {"get_few_shot_examples": NO_EXAMPLES}
    for text in WORDLESS:
        odd.model.script("agent", [said({"content": text})], repeat="last")
        run = await odd.run(QUESTION, wall_time_s=5)
        # Without its marks it is empty, and asked for again.
        ends = "iteration_limit" if text.startswith(MARK) else "plain_text"
        assert (run.state, run.stop_reason) == (runs_pb2.RUN_STATE_NEEDS_REVIEW, ends)


async def test_who_answered_in_the_place_of_a_model_that_is_away_is_told(tmp_path: Path, platform_dsn: str) -> None:
    def fallbacks() -> float:
        name = "signalbox_model_fallbacks_total"
        return REGISTRY.get_sample_value(name, {"role": "agent", "cause": "http_503"}) or 0

    before = fallbacks()
    models = {"agent": {"model": "dead", "fallbacks": ["second"]}}
    async with odd_services(tmp_path, platform_dsn, models=models) as odd:
        odd.answers = {"get_few_shot_examples": NO_EXAMPLES, "execute_db_query": result(["a", "b"], ["1", "2"])}
        odd.model.script("dead", [Reply.http_error(503)], repeat="last")
        odd.model.script("second", [Reply.tool_call("execute_db_query", {"query": "SELECT a, b FROM t"})])
        odd.model.script("format", [Reply.text("1 and 2.")])
        run = await odd.run(QUESTION, wall_time_s=60)
        asked = runs_pb2.ListDecisionsRequest(run_id=run.run_id, page_size=100)
        decisions = (await odd.stub.ListDecisions(asked, metadata=odd.auth, timeout=GIVEN_UP_S)).decisions
    assert run.state == runs_pb2.RUN_STATE_SUCCEEDED
    [step] = [decision for decision in decisions if decision.node == "agent"]
    asked_for = [(call.name, call.outcome) for call in step.calls if call.kind == "model"]
    assert asked_for == [("dead", "http_503"), ("second", "ok")]
    told = to_text(explanation(run, decisions), width=200)
    assert all(f"model {name} {outcome} " in told for name, outcome in asked_for)
    assert fallbacks() == before + 1
