"""Routers of `data_chat`."""

from __future__ import annotations

from dataclasses import dataclass

from langchain_core.messages import AIMessage

from services.runtime.agents.data_chat.policy import DataChatPolicy
from services.runtime.agents.data_chat.state import ADMIN_BYPASS, ALLOWED
from services.runtime.routing.state import budget_spent
from services.runtime.routing.table import END, Router, Rule, State, StateUpdate, always

EXECUTE_DB_QUERY = "execute_db_query"
GET_FEW_SHOT_EXAMPLES = "get_few_shot_examples"


@dataclass(frozen=True)
class ScreenFacts:
    """What is known once the question has been screened."""

    screening: str
    reason: str


@dataclass(frozen=True)
class AgentFacts:
    """What is known once the model has spoken."""

    already_answered: bool
    iteration_count: int
    budget_spent: str
    tool_count: int
    have_result: bool
    query_executed: bool
    have_text: bool
    error_attempts: int


@dataclass(frozen=True)
class ToolFacts:
    """What is known once the tools have run."""

    have_result: bool
    iteration_count: int
    budget_spent: str
    query_failed: bool
    error: str


def screen_facts(state: State) -> ScreenFacts:
    """Takes the facts of `route_after_screen` from state."""
    return ScreenFacts(state.get("screening", ""), state.get("screening_reason", ""))


def agent_facts(state: State) -> AgentFacts:
    """Takes the facts of `route_after_agent` from state."""
    messages = state.get("messages") or []
    last = messages[-1] if messages and isinstance(messages[-1], AIMessage) else AIMessage("")
    return AgentFacts(
        already_answered=bool(state.get("answer")),
        iteration_count=state.get("iteration_count", 0),
        budget_spent=budget_spent(state.get("spend"), state.get("budget")),
        tool_count=len(last.tool_calls) + len(last.invalid_tool_calls),
        have_result="rows" in state,
        query_executed=bool(state.get("sql_query")),
        have_text=bool(last.text.strip()),
        error_attempts=state.get("error_attempts", 0),
    )


def tool_facts(state: State) -> ToolFacts:
    """Takes the facts of `route_after_tools` from state."""
    return ToolFacts(
        have_result="rows" in state,
        iteration_count=state.get("iteration_count", 0),
        budget_spent=budget_spent(state.get("spend"), state.get("budget")),
        query_failed=state.get("last_tool") == EXECUTE_DB_QUERY and bool(state.get("last_error")),
        error=state.get("last_error", ""),
    )


def stop(rule: str) -> StateUpdate:
    """Notes which breaker ended the run."""
    return {"stop_reason": rule}


def count_error(_rule: str) -> StateUpdate:
    """Counts an error attempt."""
    return {"error_attempts": 1}


def make_routers(
    policy: DataChatPolicy,
) -> tuple[Router[ScreenFacts, DataChatPolicy], Router[AgentFacts, DataChatPolicy], Router[ToolFacts, DataChatPolicy]]:
    """Returns the routers after `screen_question`, `agent` and `tools`.

    `budget_exhausted` stands right behind the breaker of the same kind, so that the order of the other rules is theirs.
    """
    after_screen = Router[ScreenFacts, DataChatPolicy](
        "data_chat.route_after_screen",
        facts=screen_facts,
        policy=policy,
        rules=[
            # Whatever is not plainly let through is blocked.
            Rule("blocked", END, lambda f, _: f.screening not in (ALLOWED, ADMIN_BYPASS), stop),
            Rule("allowed", "agent", lambda f, _: f.screening == ALLOWED),
            Rule("admin_bypass", "agent", always),
        ],
    )
    after_agent = Router[AgentFacts, DataChatPolicy](
        "data_chat.route_after_agent",
        facts=agent_facts,
        policy=policy,
        rules=[
            Rule("already_answered", "format_answer", lambda f, _: f.already_answered),
            Rule("iteration_limit", "format_answer", lambda f, p: f.iteration_count >= p.max_iterations, stop),
            Rule("budget_exhausted", "format_answer", lambda f, _: f.budget_spent != "", stop),
            Rule("tool_calls", "tools", lambda f, _: f.tool_count > 0),
            Rule("have_result", "format_answer", lambda f, _: f.have_result),
            Rule("query_already_executed", "format_answer", lambda f, _: f.query_executed),
            Rule("plain_text", "format_answer", lambda f, _: f.have_text),
            Rule("error_limit", "format_answer", lambda f, p: f.error_attempts >= p.max_error_attempts, stop),
            Rule("no_action", "agent", always, count_error),
        ],
    )
    after_tools = Router[ToolFacts, DataChatPolicy](
        "data_chat.route_after_tools",
        facts=tool_facts,
        policy=policy,
        rules=[
            Rule("query_executed", "format_answer", lambda f, _: f.have_result),
            Rule("budget_exhausted", "format_answer", lambda f, _: f.budget_spent != "", stop),
            Rule("query_failed", "agent", lambda f, p: f.query_failed and f.iteration_count < p.max_iterations),
            Rule("examples_only", "agent", lambda f, p: f.iteration_count < p.max_iterations),
            Rule("iteration_limit", "format_answer", always, stop),
        ],
    )
    return after_screen, after_agent, after_tools
