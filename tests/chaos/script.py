"""What the models say in every run of the chaos tests: the same for the same conversation, however often asked."""

from __future__ import annotations

import random

from services.kit.models.prompts import read_data
from tests.fixtures.script import ALLOW
from tests.fixtures.scripted_model import ModelRequest, Reply, ScriptedModel
from tests.fixtures.stack import AGENT_MODEL, FORMAT_MODEL, GUARD_MODEL

SLOWEST_S = 0.05
# The decisions of a run that nothing disturbed; a disturbed one has the same.
ROUTE = [
    "screen_question: allowed -> agent",
    "agent: tool_calls -> tools",
    "tools: examples_only -> agent",
    "agent: tool_calls -> tools",
    "tools: query_executed -> format_answer",
]


def question_for(name: str) -> str:
    """The question that counts a name."""
    return f"Count {name}"


def answer_for(name: str) -> str:
    """The answer when the name was counted once."""
    return f"{name} is 1"


def script(
    model: ScriptedModel, *, slowest_s: float = SLOWEST_S, at_least_s: float = 0.0, thinking_s: float = 0.0
) -> None:
    """Has the models answer by what they are asked; the agent's thinks for so long first."""

    def soon(reply: Reply, after_s: float = at_least_s) -> Reply:
        return reply.delayed(after_s + random.uniform(0, slowest_s))  # noqa: S311 - spreads the moments

    model.respond(GUARD_MODEL, lambda _: soon(ALLOW))
    model.respond(AGENT_MODEL, lambda request: soon(_agent(request), at_least_s + thinking_s))
    model.respond(FORMAT_MODEL, lambda request: soon(Reply.text(_worded(request.last_text))))


def _agent(request: ModelRequest) -> Reply:
    prompt = next(message["content"] for message in request.messages if message["role"] == "user")
    asked = str(read_data(prompt).get("question", prompt))  # the last release asks in words alone
    name = asked.removeprefix("Count ")
    if request.tool_messages == 0:
        return Reply.tool_call("get_few_shot_examples", {"question": asked})
    return Reply.tool_call("execute_db_query", {"query": name})


def _worded(prompt: str) -> str:
    rows = read_data(prompt).get("result") or prompt.strip().splitlines()
    return str(rows[-1])
