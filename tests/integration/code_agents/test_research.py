"""Research of `sast_investigation`: what its model is told, what is recorded of it, and where it ends."""

from __future__ import annotations

import pytest

from services.kit.models.prompts import read_data
from tests.fixtures.prefixes import check_prefixes
from tests.fixtures.scripted_model import Reply
from tests.integration.code_agents.conftest import FLAGGED, Bench, MakeBench, critique
from tests.integration.code_agents.scripted_investigation import DRAFTED, ENOUGH, READ, numbered


def line_by_line(number: int) -> Reply:
    """Reads another line of the file each time."""
    return Reply.tool_call("read_file", {"path": "app/db.py", "first_line": number + 1, "last_line": number + 1})


async def test_research_is_in_the_spend_and_in_the_steps(bench: Bench) -> None:
    bench.model.script("research", [READ, ENOUGH])
    bench.model.script("analysis", [DRAFTED])
    bench.model.script("judge", [critique("approved")])
    ended = await bench.investigate()
    assert (ended.run.spend.model_calls, ended.run.spend.tool_calls) == (4, 1)
    assert ended.output.token_usage.total_tokens == 4 * 15
    assert sorted(ended.calls) == [
        ("analysis", "model", "analysis", "ok"),
        ("evaluation", "evaluator", "critique_verdict", "approved"),
        ("evaluation", "model", "judge", "ok"),
        ("research", "model", "research", "ok"),
        ("research", "model", "research", "ok"),
        ("research", "tool", "read_file", "ok"),
    ]


async def test_research_prompts_are_built_anew_each_time(bench: Bench) -> None:
    missing = Reply.tool_call("read_file", {"path": "app/nothing.py"})
    bench.model.script(
        "research", [Reply.all_tool_calls([("read_file", {"path": "app/db.py"})]), missing, ENOUGH, ENOUGH]
    )
    bench.model.script("analysis", [DRAFTED, DRAFTED])
    bench.model.script("judge", [critique("needs_research", "read app/web.py"), critique("approved")])
    await bench.investigate()
    check_prefixes(bench.model.requests_of("research"))
    first, _, third, second_round = bench.model.requests_of("research")
    for request in (first, third, second_round):
        assert {message["role"] for message in request.messages} == {"system", "user"}
        assert request.tools == ["fetch_code", "read_file", "search_codebase", "list_directory", "find_file"]
        assert read_data(request.messages[0]["content"])["checklist"]["title"] == "SQL injection"
    told, again = (read_data(request.last_text) for request in (third, second_round))
    read, failed = told["tool_calls"]
    assert read == {"tool": "read_file", "arguments": {"path": "app/db.py"}, "new_lines": 10}
    assert (failed["arguments"], "failed" in failed) == ({"path": "app/nothing.py"}, True)
    assert "feedback" not in told
    assert again["feedback"]["missing"] == ["read app/web.py"]
    for known in (told, again):
        assert any(
            line.startswith(f"{FLAGGED} |     return connection.execute") for line in known["code_bank"][0]["code"]
        )


async def test_tools_that_do_not_exist_and_broken_arguments_are_told_to_the_model(bench: Bench) -> None:
    bench.model.script(
        "research",
        [
            Reply.all_tool_calls([("run_shell", {"command": "id"}), ("read_file", {"path": "app/db.py"})]),
            Reply.broken_tool_call("read_file", '{"path": '),
            ENOUGH,
        ],
    )
    bench.model.script("analysis", [DRAFTED])
    bench.model.script("judge", [critique("approved")])
    ended = await bench.investigate()
    assert ended.rules == ["approved"]
    told = "\n".join(message["content"] for message in bench.model.requests_of("research")[2].messages)
    assert 'there is no tool \\"run_shell\\"' in told
    assert "invalid_arguments" in told


async def test_research_leaves_room_in_the_budget_for_a_verdict(bench: Bench) -> None:
    bench.model.respond("research", numbered(lambda n: READ if n == 0 else line_by_line(n % 10)))
    bench.model.script("analysis", [DRAFTED])
    bench.model.script("judge", [critique("approved")])
    ended = await bench.investigate(model_calls=5)
    assert len(bench.model.requests_of("research")) == 3
    assert (ended.state, ended.verdict, ended.run.spend.model_calls) == ("SUCCEEDED", "TRUE_POSITIVE", 5)


HALF_OF_A_CALL = Reply.text('<tool_call>{"name": "read_file", "arguments": {"path')


@pytest.mark.parametrize("every", [100, 2])
async def test_research_ends_at_its_model_call_limit_and_analysis_goes_ahead(bench: Bench, every: int) -> None:
    """Calls that are told what was wrong with the last are calls."""
    read = numbered(lambda n: HALF_OF_A_CALL if n % every == 1 else line_by_line(n % 10) if n else READ)
    bench.model.respond("research", read)
    bench.model.script("analysis", [DRAFTED])
    bench.model.script("judge", [critique("approved")])
    ended = await bench.investigate()
    assert len(bench.model.requests_of("research")) == 15
    assert (ended.state, ended.rules) == ("SUCCEEDED", ["approved"])
    assert f"{FLAGGED} |     return connection.execute" in bench.model.requests_of("analysis")[0].last_text


async def test_research_cut_at_its_step_limit_keeps_what_it_gathered(make_bench: MakeBench) -> None:
    async with make_bench(policies="sast_investigation: {research_steps: 7}") as bench, bench.runtime():
        bench.model.respond("research", numbered(lambda n: READ if n == 0 else line_by_line(n % 10)))
        bench.model.script("analysis", [DRAFTED])
        bench.model.script("judge", [critique("approved")])
        ended = await bench.investigate()
        assert 3 <= len(bench.model.requests_of("research")) <= 4
        assert (ended.state, ended.verdict, ended.rules) == ("SUCCEEDED", "TRUE_POSITIVE", ["approved"])
        assert list(ended.output.fetched_files) == ["app/db.py"]
        assert f"{FLAGGED} |     return connection.execute" in bench.model.requests_of("analysis")[0].last_text
