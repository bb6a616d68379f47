"""Routers of `data_chat`."""

from __future__ import annotations

from dataclasses import dataclass

from langchain_core.messages import AIMessage
from signalbox_routing.table import END, Router, Rule, State, StateUpdate
from signalbox_routing.terms import Always, terms

from services.kit.tools.names import EXECUTE_DB_QUERY
from services.runtime.agents.data_chat.policy import DataChatPolicy
from services.runtime.agents.data_chat.state import ADMIN_BYPASS
from services.runtime.agents.screening import ALLOWED, NO_VERDICT, ScreenFacts, fail, screen_facts
from services.runtime.calls.chat_model import whole_text
from services.runtime.routing.state import budget_spent

RESULTS_ARE_TOLD = "query_executed leads from a result to its answer, and not back to the agent"


@dataclass(frozen=True)
class ChatFacts:
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


def agent_facts(state: State) -> ChatFacts:
    """Takes the facts of `route_after_agent` from state."""
    messages = state.get("messages") or []
    last = messages[-1] if messages and isinstance(messages[-1], AIMessage) else None
    return ChatFacts(
        already_answered=bool(state.get("answer")),
        iteration_count=state.get("iteration_count", 0),
        budget_spent=budget_spent(state.get("spend"), state.get("budget")),
        tool_count=len(last.tool_calls) + len(last.invalid_tool_calls) if last else 0,
        have_result="rows" in state,
        query_executed=bool(state.get("sql_query")),
        have_text=bool(last and whole_text(last)),
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
) -> tuple[Router[ScreenFacts, DataChatPolicy], Router[ChatFacts, DataChatPolicy], Router[ToolFacts, DataChatPolicy]]:
    """Returns the routers after `screen_question`, `agent` and `tools`.

    `budget_exhausted` stands right behind the breaker of the same kind, so that the order of the other rules is theirs.
    """
    s, f, t, p = terms(ScreenFacts), terms(ChatFacts), terms(ToolFacts), terms(DataChatPolicy)
    after_screen = Router[ScreenFacts, DataChatPolicy](
        "data_chat.route_after_screen",
        facts=screen_facts,
        policy=policy,
        rules=[
            Rule("guard_unavailable", to=END, when=s.screening.is_in(NO_VERDICT), then=fail),
            # Whatever is not plainly let through is blocked.
            Rule("blocked", to=END, when=~s.screening.is_in((ALLOWED, ADMIN_BYPASS)), then=stop),
            Rule("allowed", to="agent", when=s.screening == ALLOWED),
            Rule("admin_bypass", to="agent", when=Always()),
        ],
    )
    after_agent = Router[ChatFacts, DataChatPolicy](
        "data_chat.route_after_agent",
        facts=agent_facts,
        policy=policy,
        rules=[
            Rule(
                "already_answered",
                to="format_answer",
                when=f.already_answered,
                unreachable_because="a question that is answered when it is screened goes no further",
            ),
            Rule("iteration_limit", to="format_answer", when=f.iteration_count >= p.max_iterations, then=stop),
            Rule("budget_exhausted", to="format_answer", when=f.budget_spent != "", then=stop),
            Rule("tool_calls", to="tools", when=f.tool_count > 0),
            Rule("have_result", to="format_answer", when=f.have_result, unreachable_because=RESULTS_ARE_TOLD),
            Rule(
                "query_already_executed",
                to="format_answer",
                when=f.query_executed,
                unreachable_because=RESULTS_ARE_TOLD,
            ),
            Rule("plain_text", to="format_answer", when=f.have_text),
            Rule("error_limit", to="format_answer", when=f.error_attempts >= p.max_error_attempts, then=stop),
            Rule("no_action", to="agent", when=Always(), then=count_error),
        ],
    )
    after_tools = Router[ToolFacts, DataChatPolicy](
        "data_chat.route_after_tools",
        facts=tool_facts,
        policy=policy,
        rules=[
            Rule("query_executed", to="format_answer", when=t.have_result),
            Rule("budget_exhausted", to="format_answer", when=t.budget_spent != "", then=stop),
            Rule("query_failed", to="agent", when=t.query_failed & (t.iteration_count < p.max_iterations)),
            Rule("examples_only", to="agent", when=t.iteration_count < p.max_iterations),
            Rule(
                "iteration_limit",
                to="format_answer",
                when=Always(),
                then=stop,
                unreachable_because="route_after_agent stops at the same limit, unless that was lowered under way",
            ),
        ],
    )
    return after_screen, after_agent, after_tools
