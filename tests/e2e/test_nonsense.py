"""A model that talks nonsense: every run ends where a user would want it, and the ledger says what was wrong."""

from __future__ import annotations

import json

import pytest
from signalbox.v1 import caller_pb2, runs_pb2

from tests.fixtures.client import Asked, RunClient
from tests.fixtures.ledger import check_ledger, plain
from tests.fixtures.prefixes import check_prefixes
from tests.fixtures.script import ANSWER, Script, examples, query
from tests.fixtures.scripted_model import Reply
from tests.fixtures.stack import Deployed

COUNT = "SELECT count(*) AS devices FROM devices"
QUESTION = "How many devices do I have?"
ALLOWED = "screen_question: allowed -> agent"
ASKED_TOOLS = "agent: tool_calls -> tools"
QUERIED = "tools: query_executed -> format_answer"
UNKNOWN = Reply.tool_call("drop_everything", {"now": True})


@pytest.fixture
def caller(signalbox: Deployed) -> RunClient:
    return signalbox.caller("27")


def raw_calls(*calls: tuple[str | None, str, str]) -> Reply:
    """Tool calls exactly as given: id, name, arguments."""
    asked = [
        {"id": key, "type": "function", "function": {"name": name, "arguments": text}} for key, name, text in calls
    ]
    return Reply(tool_calls=tuple(asked), finish_reason="tool_calls")


def check_answered(asked: Asked) -> None:
    """Checks that a run went on to its answer."""
    assert (asked.state, asked.run.stop_reason, asked.run.error) == ("SUCCEEDED", "", "")
    assert asked.output.answer == ANSWER
    assert len(asked.values) == 1
    check_ledger(asked)


def check_unanswered(asked: Asked, stop_reason: str, *words: str) -> None:
    """Checks that a run ended at a breaker and says what went wrong."""
    assert (asked.state, asked.run.stop_reason) == ("NEEDS_REVIEW", stop_reason)
    assert asked.output.answer.startswith("I could not find an answer")
    for word in words:
        assert word in asked.output.answer
    assert not asked.output.HasField("rows")
    check_ledger(asked)


async def test_neither_text_nor_tool_call_is_an_error_attempt(caller: RunClient, script: Script) -> None:
    script.agent(Reply.empty(), query(COUNT))
    asked = await caller.ask(QUESTION)

    assert asked.route == [ALLOWED, "agent: no_action -> agent", ASKED_TOOLS, QUERIED]
    assert plain(asked.decision("tool_calls").facts)["error_attempts"] == 1
    check_answered(asked)


async def test_an_answer_cut_short_is_an_error_attempt(caller: RunClient, script: Script) -> None:
    script.agent(Reply.text("You have thirt", finish_reason="length"), query(COUNT))
    asked = await caller.ask(QUESTION)

    assert asked.route == [ALLOWED, "agent: no_action -> agent", ASKED_TOOLS, QUERIED]
    # It is told so: servers refuse a talk that ends with the model's own words.
    assert [message["role"] for message in script.agent_requests[-1].messages][-2:] == ["assistant", "user"]
    check_prefixes(script.agent_requests, goes_on=True)
    check_answered(asked)


async def test_saying_nothing_for_ever_ends_at_the_iteration_limit(caller: RunClient, script: Script) -> None:
    script.agent_always(Reply.empty())
    asked = await caller.ask(QUESTION)

    assert asked.route == [ALLOWED, *["agent: no_action -> agent"] * 2, "agent: iteration_limit -> format_answer"]
    assert plain(asked.decision("iteration_limit").grounds) == {"iteration_count": 3, "max_iterations": 3}
    assert script.asked == ["guard", "agent", "agent", "agent"]
    check_unanswered(asked, "iteration_limit", "more rounds")


async def test_asking_for_examples_for_ever_ends_at_the_iteration_limit(caller: RunClient, script: Script) -> None:
    script.agent_always(examples("devices"))
    asked = await caller.ask(QUESTION)

    round_trip = [ASKED_TOOLS, "tools: examples_only -> agent"]
    assert asked.route == [ALLOWED, *round_trip * 2, "agent: iteration_limit -> format_answer"]
    check_unanswered(asked, "iteration_limit", "more rounds")


async def test_a_query_refused_for_ever_ends_with_what_was_wrong(caller: RunClient, script: Script) -> None:
    script.agent_always(query("DELETE FROM devices"))
    asked = await caller.ask(QUESTION)

    round_trip = [ASKED_TOOLS, "tools: query_failed -> agent"]
    assert asked.route == [ALLOWED, *round_trip * 2, "agent: iteration_limit -> format_answer"]
    check_unanswered(asked, "iteration_limit", "The last attempt failed")


async def test_arguments_deeper_than_anybody_reads_are_told_to_the_model(caller: RunClient, script: Script) -> None:
    deep = '{"query": ' + "[" * 400 + "]" * 400 + "}"
    script.agent(Reply.broken_tool_call("execute_db_query", deep), query(COUNT))
    asked = await caller.ask(QUESTION)

    check_answered(asked)


async def test_an_answer_in_somebody_elses_name_is_the_models(caller: RunClient, script: Script) -> None:
    function = {"name": "execute_db_query", "arguments": json.dumps({"query": COUNT})}
    said = {"role": "model", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": function}]}
    script.agent(Reply.raw(json.dumps({"choices": [{"message": said, "finish_reason": ["tool_calls"]}]})))
    asked = await caller.ask(QUESTION)

    check_answered(asked)


async def test_an_unknown_tool_is_told_to_the_model(caller: RunClient, script: Script) -> None:
    script.agent(UNKNOWN, query(COUNT))
    asked = await caller.ask(QUESTION)

    assert "drop_everything" in plain(asked.decisions[2].facts)["error"]
    assert plain(asked.decisions[3].facts)["error_attempts"] == 1
    assert "unknown_tool" in script.agent_requests[1].last_text
    assert asked.calls("tool")[-1] == ("execute_db_query", "ok")  # nothing was called for the unknown one
    assert len(asked.calls("tool")) == 2
    check_answered(asked)


async def test_three_error_attempts_end_the_run(caller: RunClient, script: Script) -> None:
    unknown = [("drop_everything", {"number": number}) for number in range(3)]
    script.agent(Reply.all_tool_calls(unknown), Reply.empty())
    asked = await caller.ask(QUESTION)

    limit = asked.decisions[-1]
    assert (limit.rule, limit.destination) == ("error_limit", "format_answer")
    assert plain(limit.grounds) == {"error_attempts": 3, "max_error_attempts": 3}
    check_unanswered(asked, "error_limit", "Too many attempts", "drop_everything")


BROKEN_ARGUMENTS = [
    '{"query": "SELECT',
    "",
    "[1, 2]",
    '"SELECT 1"',
    "null",
    '{"sql": "SELECT 1"}',
    '{"query": NaN}',
    '{"query": -Infinity}',
    f'{{"query": 1{"0" * 400}}}',
    f'{{"query": {"[" * 120}{"]" * 120}}}',
]


@pytest.mark.parametrize("arguments", BROKEN_ARGUMENTS, ids=lambda arguments: arguments[:20])
async def test_broken_arguments_are_mended(caller: RunClient, script: Script, arguments: str) -> None:
    script.agent(Reply.broken_tool_call("execute_db_query", arguments), query(COUNT))
    asked = await caller.ask(QUESTION)

    assert asked.route == [ALLOWED, ASKED_TOOLS, "tools: query_failed -> agent", ASKED_TOOLS, QUERIED]
    assert "invalid_arguments" in plain(asked.decision("query_failed").facts)["error"]
    check_answered(asked)


async def test_several_calls_at_once_are_all_answered(caller: RunClient, script: Script) -> None:
    calls = [("get_few_shot_examples", {"question": "hot"}), ("execute_db_query", {"query": "SELECT nonsense"})]
    script.agent(Reply.all_tool_calls(calls), query(COUNT))
    asked = await caller.ask(QUESTION)

    told = script.agent_requests[1].messages
    assert [message["role"] for message in told] == ["system", "user", "assistant", "tool", "tool"]
    assert [message["tool_call_id"] for message in told[3:]] == [call["id"] for call in told[2]["tool_calls"]]
    check_answered(asked)


async def test_calls_without_ids_or_with_the_same_get_their_own(caller: RunClient, script: Script) -> None:
    lookup = '{"question": "devices"}'
    script.agent(
        raw_calls(*((key, "get_few_shot_examples", lookup) for key in (None, "", "twin", "twin"))), query(COUNT)
    )
    asked = await caller.ask(QUESTION)

    told = script.agent_requests[1].messages
    ids = [message["tool_call_id"] for message in told if message["role"] == "tool"]
    assert len(set(ids)) == len(ids) == 4
    assert all(ids)
    assert ids == [call["id"] for call in told[2]["tool_calls"]]
    check_answered(asked)


@pytest.mark.parametrize("text", ["with a gap \x00 inside", "half of a pair \ud83d here", "\u202e backwards"])
async def test_strange_characters_do_no_harm(caller: RunClient, script: Script, text: str) -> None:
    arguments = json.dumps({"query": f"SELECT count(*) AS devices, '{text}' AS words FROM devices"})  # noqa: S608 - a model's words
    script.agent(Reply.broken_tool_call("execute_db_query", arguments), query(COUNT))
    asked = await caller.ask(QUESTION)
    assert (asked.state, asked.output.answer) == ("SUCCEEDED", ANSWER)
    check_ledger(asked)

    message = {"role": "assistant", "content": text}
    script.agent(Reply.raw(json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})))
    asked = await caller.ask(QUESTION)
    assert asked.state == "NEEDS_REVIEW"
    assert asked.output.answer.split()[-1] == text.split()[-1]
    check_ledger(asked)


NO_ANSWER = {
    "no JSON": Reply.raw("<html>Bad gateway</html>"),
    "empty object": Reply.raw("{}"),
    "no choice": Reply.raw('{"choices": []}'),
    "no message": Reply.raw('{"choices": [{"index": 0, "message": null}]}'),
    "a list": Reply.raw("[]"),
}


@pytest.mark.parametrize(("name", "cause"), [("no JSON", "not_json"), ("no message", "not_the_apis_form")])
async def test_answers_that_are_none_are_waited_out_and_then_fail_the_run(
    caller: RunClient, script: Script, name: str, cause: str
) -> None:
    script.agent_always(NO_ANSWER[name])
    asked = await caller.ask(QUESTION, budget=caller_pb2.Budget(wall_time_s=2))

    assert (asked.state, asked.run.stop_reason) == ("FAILED", "node_failed")
    assert asked.run.error == f"the model scripted-agent is away ({cause}); try again later"
    assert asked.route == [ALLOWED, "agent: node_failed -> __end__"]
    assert plain(asked.decisions[-1].facts) == {
        "error_reason": "DEPENDENCY_AWAY",
        "dependency": "model scripted-agent",
        "cause": cause,
    }
    assert asked.calls("model")[-1] == ("scripted-agent", "DEPENDENCY_AWAY")
    assert asked.calls("wait") == [("model scripted-agent", cause)]
    check_ledger(asked)


async def test_what_a_model_says_no_to_is_told_in_its_words(caller: RunClient, script: Script) -> None:
    script.agent_always(Reply.http_error(400, "context length exceeded"))
    asked = await caller.ask(QUESTION)

    assert asked.run.error == "the model 'scripted-agent' refused the request (http_400): context length exceeded"
    assert asked.route == [ALLOWED, "agent: node_failed -> __end__"]
    assert plain(asked.decisions[-1].facts) == {"error_reason": "MODEL_REFUSED"}
    check_ledger(asked)


@pytest.mark.parametrize(
    "broken",
    [Reply.http_error(500), Reply.http_error(429), Reply.drop(), query(COUNT).cut(), *NO_ANSWER.values()],
    ids=["500", "429", "dropped", "cut", *NO_ANSWER],
)
async def test_a_passing_failure_of_the_model_is_mended(caller: RunClient, script: Script, broken: Reply) -> None:
    script.agent(broken, query(COUNT))
    asked = await caller.ask(QUESTION)

    assert asked.route == [ALLOWED, ASKED_TOOLS, QUERIED]
    assert asked.calls("model")[1] == ("scripted-agent", "ok")
    check_answered(asked)


async def test_an_empty_wording_falls_back_to_the_result(caller: RunClient, script: Script) -> None:
    script.agent(query(COUNT))
    script.format(Reply.empty())
    asked = await caller.ask(QUESTION)

    assert asked.run.state == runs_pb2.RUN_STATE_SUCCEEDED
    assert str(asked.values[0][0]) in asked.output.answer
    check_ledger(asked)
