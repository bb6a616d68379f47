"""Every rule of `data_chat`'s routers, from the state that makes it hold."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from signalbox_routing.table import END, Router

from services.runtime.agents.data_chat.policy import DataChatPolicy
from services.runtime.agents.data_chat.routing import make_routers
from services.runtime.routing.state import NOTHING_SPENT

AFTER_SCREEN, AFTER_AGENT, AFTER_TOOLS = make_routers(DataChatPolicy())
CALL = {"name": "execute_db_query", "args": {"query": "SELECT 1"}, "id": "c1"}
BROKEN = {"name": "execute_db_query", "args": "{", "id": "c1", "error": "not JSON", "type": "invalid_tool_call"}
ASKS = AIMessage("", tool_calls=[CALL])
SAYS = AIMessage("There are three.")
NOTHING = AIMessage("")
SPENT = {
    "spend": {**NOTHING_SPENT, "model_calls": 5},
    "budget": {"model_calls": 5, "tool_calls": 9, "tokens": 9, "wall_time_s": 9.0},
}
FAILED = {"last_tool": "execute_db_query", "last_error": "error: unparsable: no"}


def agent(*messages: Any, **state: Any) -> dict[str, Any]:
    """State after the agent node."""
    return {"messages": [HumanMessage("How many?"), *messages], "iteration_count": 1, **state}


CASES: list[tuple[Router[Any, Any], dict[str, Any], str, str]] = [
    (AFTER_SCREEN, {"screening": "unscreened"}, "guard_unavailable", END),
    (AFTER_SCREEN, {"screening": "blocked"}, "blocked", END),
    (AFTER_SCREEN, {}, "blocked", END),
    (AFTER_SCREEN, {"screening": "something new"}, "blocked", END),
    (AFTER_SCREEN, {"screening": "allowed"}, "allowed", "agent"),
    (AFTER_SCREEN, {"screening": "admin_bypass"}, "admin_bypass", "agent"),
    (AFTER_AGENT, agent(ASKS, answer="Three.", iteration_count=3), "already_answered", "format_answer"),
    (AFTER_AGENT, agent(ASKS, iteration_count=3), "iteration_limit", "format_answer"),
    (AFTER_AGENT, agent(ASKS, **SPENT), "budget_exhausted", "format_answer"),
    (AFTER_AGENT, agent(ASKS, rows=b""), "tool_calls", "tools"),
    (AFTER_AGENT, agent(AIMessage("", invalid_tool_calls=[BROKEN])), "tool_calls", "tools"),
    (AFTER_AGENT, agent(SAYS, rows=b"", sql_query="SELECT 1"), "have_result", "format_answer"),
    (AFTER_AGENT, agent(SAYS, sql_query="SELECT 1"), "query_already_executed", "format_answer"),
    (AFTER_AGENT, agent(SAYS, error_attempts=3), "plain_text", "format_answer"),
    (AFTER_AGENT, agent(NOTHING, error_attempts=3), "error_limit", "format_answer"),
    (AFTER_AGENT, agent(AIMessage("  \n"), error_attempts=2), "no_action", "agent"),
    (AFTER_TOOLS, {"rows": b"", "iteration_count": 3, **FAILED}, "query_executed", "format_answer"),
    (AFTER_TOOLS, {"iteration_count": 1, **FAILED, **SPENT}, "budget_exhausted", "format_answer"),
    (AFTER_TOOLS, {"iteration_count": 2, **FAILED}, "query_failed", "agent"),
    (AFTER_TOOLS, {"iteration_count": 2, "last_tool": "get_few_shot_examples"}, "examples_only", "agent"),
    (AFTER_TOOLS, {"iteration_count": 3, **FAILED}, "iteration_limit", "format_answer"),
    (AFTER_TOOLS, {"iteration_count": 3, "last_tool": "get_few_shot_examples"}, "iteration_limit", "format_answer"),
]


@pytest.mark.parametrize(("router", "state", "rule", "destination"), CASES)
def test_the_rule_that_holds(router: Router[Any, Any], state: dict[str, Any], rule: str, destination: str) -> None:
    decision = router.decide(state)
    assert (decision.rule, decision.destination) == (rule, destination)
    assert list(router.rules)[len(decision.rejected)].name == rule


def test_every_rule_has_a_case() -> None:
    tried = {(router.name, rule) for router, _, rule, _ in CASES}
    assert tried == {
        (router.name, rule.name) for router in (AFTER_SCREEN, AFTER_AGENT, AFTER_TOOLS) for rule in router.rules
    }


@pytest.mark.parametrize("breaker", ["iteration_limit", "budget_exhausted", "error_limit"])
def test_breakers_say_so_in_state(breaker: str) -> None:
    router, state = next((router, state) for router, state, rule, _ in CASES if rule == breaker)
    assert router.decide(state).update == {"stop_reason": breaker}


def test_a_guard_without_a_verdict_fails_the_run() -> None:
    decided = AFTER_SCREEN.decide({"screening": "unscreened", "screening_reason": "timeout"})
    assert decided.update == {"status": "failed", "stop_reason": "guard_unavailable"}


def test_nothing_done_counts_as_an_error_attempt() -> None:
    assert AFTER_AGENT.decide(agent(NOTHING)).update == {"error_attempts": 1}


def test_only_the_last_message_counts() -> None:
    answered = agent(ASKS, ToolMessage("rows: 1", tool_call_id="c1"), SAYS)
    assert AFTER_AGENT.decide(answered).rule == "plain_text"
