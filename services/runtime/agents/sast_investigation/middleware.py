"""Middleware of research.

All of it wraps: a hook before or after the model would be a node of the graph, and cost a checkpoint at every call.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from langchain.agents.middleware import AgentMiddleware, ExtendedModelResponse, ModelRequest, ModelResponse
from langchain.tools.tool_node import ToolCallRequest
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.types import Command

from services.kit.models.prompts import prompt
from services.runtime.agents.code_review.answers import with_own_ids
from services.runtime.agents.code_review.code_bank import BankLimits, bank_of, files_of, new_code, shown, stored
from services.runtime.agents.code_review.code_tools import CodeTools, own_arguments
from services.runtime.agents.code_review.finding import described
from services.runtime.agents.context_budget import once_tighter, records_within
from services.runtime.agents.next_step import MOST_ASKED, Answered, ask_for_step
from services.runtime.agents.quoting import cut
from services.runtime.agents.refusals import TOOL_NAME_LENGTH, unknown_tool
from services.runtime.agents.sast_investigation.policy import SastInvestigationPolicy
from services.runtime.agents.sast_investigation.state import ToolUse
from services.runtime.agents.sast_investigation.task import (
    BUDGET_SPENT,
    MODEL_CALL_LIMIT,
    TOOLS,
    ResearchState,
    ResearchTask,
)
from services.runtime.calls.chat_model import ChatModel
from services.runtime.routing.calls import MODEL, collecting, note
from services.runtime.routing.recorder import CallRecord

Request = ModelRequest[ResearchTask]
Handler = Callable[[Request], Awaitable[ModelResponse[Any]]]
ARGUMENTS_LENGTH = 300
HISTORY_SHOWN = 100


class ResearchLimits(AgentMiddleware[ResearchState, ResearchTask]):
    """Ends research in good order once it has made the model calls that its task allows, or the budget is spent."""

    state_schema = ResearchState

    async def awrap_model_call(
        self, request: Request, handler: Handler
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """Makes the call, or says in the model's place that there are no more."""
        task = request.runtime.context
        if spent := task.budget_spent(request.state):
            return _ending(f"The run's budget of {spent} is spent.", BUDGET_SPENT)
        if _calls_made(request) >= task.model_calls:
            return _ending(f"The limit of {task.model_calls} model calls is reached.", MODEL_CALL_LIMIT)
        return await handler(request)


class StatelessPrompt(AgentMiddleware[ResearchState, ResearchTask]):
    """Builds every prompt anew from what is known; the raw history is never sent."""

    state_schema = ResearchState

    def __init__(self, code: CodeTools, model: ChatModel, policy: SastInvestigationPolicy) -> None:
        super().__init__()
        self._limits = BankLimits(policy.bank_fragments, policy.bank_chars)
        self._code = code
        self._model = model
        self._policy = policy

    async def awrap_model_call(self, request: Request, handler: Handler) -> ExtendedModelResponse[Any]:
        """Makes the call with the prompt of this moment, and records it."""
        task, made = request.runtime.context, _calls_made(request)
        del handler
        tools = await self._code.functions(task.node, TOOLS)

        async def ask(told: list[BaseMessage]) -> Answered:
            async def within(characters: int) -> Answered:
                messages = [*self._messages(request, task, made, characters), *told]
                return await self._model.ask("research", messages, tools)

            return await once_tighter(within, self._policy.prompt_code_chars)

        with _kept_for_state() as calls:
            answer, _ = await ask_for_step(ask, tools, most=min(MOST_ASKED, task.model_calls - made))
        kept = with_own_ids(answer, f"research-{task.iteration}-{made}")
        tool_calls = task.tool_calls_left(request.state, self._policy.research_calls_per_turn)
        result = ModelResponse(result=[_trimmed(kept, tool_calls)])
        return ExtendedModelResponse(result, Command(update={"calls": calls, "elapsed_s": task.stopwatch.elapsed_s()}))

    def _messages(self, request: Request, task: ResearchTask, made: int, characters: int) -> list[AnyMessage]:
        gathered: Any = request.state
        bank = [*task.code_bank, *new_code(task.code_bank, bank_of(gathered), self._limits)]
        history = [*task.tool_call_history, *(gathered.get("tool_call_history") or ())]
        # What changes least comes first, so that as much as possible of a prompt is the same as in the call before.
        known = {
            "finding": described(task.finding),
            **({"feedback": task.feedback} if task.feedback else {}),
            "code_bank": shown(bank, task.finding, characters),
            "tool_calls": records_within([_use(use) for use in history[-HISTORY_SHOWN:]], characters // 4),
            "model_calls_left": task.model_calls - made,
        }
        return [
            SystemMessage(prompt(__package__, "research", {"checklist": task.checklist})),
            HumanMessage(prompt(__package__, "ask", known)),
        ]


class CodeGathering(AgentMiddleware[ResearchState, ResearchTask]):
    """Runs the code tools and turns what they give into state."""

    state_schema = ResearchState

    def __init__(self, code: CodeTools, limits: BankLimits) -> None:
        super().__init__()
        self._code = code
        self._limits = limits

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        """Runs the call at the run's own source; the tools live in the code executor, none is registered here."""
        del handler
        call = request.tool_call
        tool, arguments, call_id = call["name"], own_arguments(call["args"]), call["id"] or ""
        if tool not in TOOLS:
            told = unknown_tool(tool, TOOLS)
            use = ToolUse(tool=tool[:TOOL_NAME_LENGTH], arguments=arguments, outcome=told, new_lines=0)
            return _update(told, tool, call_id, {"tool_call_history": [use]})
        task = cast(ResearchTask, request.runtime.context)
        with _kept_for_state() as calls:
            found = await self._code.call(task.node, task.source, tool, arguments, call_id)
        known = [*task.code_bank, *bank_of(request.state)]
        added = new_code(known, found.fragments, self._limits)
        lines = sum(fragment["last_line"] - fragment["first_line"] + 1 for fragment in added)
        use = ToolUse(tool=tool, arguments=arguments, outcome=found.error, new_lines=lines)
        files = files_of(found.fragments)
        gathered = {**stored(added), "fetched_files": files, "tool_call_history": [use], "calls": calls}
        return _update(found.text, tool, call_id, gathered)


@contextmanager
def _kept_for_state() -> Iterator[list[CallRecord]]:
    """Collects calls that will be saved with their step; those of a step that fails are noted at once."""
    calls: list[CallRecord] = []
    try:
        with collecting() as calls:
            yield calls
    except BaseException:
        for call in calls:
            note(call)
        raise


def _ending(text: str, ended: str) -> ExtendedModelResponse[Any]:
    return ExtendedModelResponse(ModelResponse(result=[AIMessage(text)]), Command(update={"ended": ended}))


def _update(text: str, tool: str, call_id: str, gathered: dict[str, Any]) -> Command[Any]:
    return Command(update={"messages": [ToolMessage(text, tool_call_id=call_id, name=tool)], **gathered})


def _calls_made(request: Request) -> int:
    """Returns how many calls of models brought what there is, those that were told what was wrong with the last too."""
    calls: Any = request.state.get("calls") or ()
    return sum(call["kind"] == MODEL for call in calls)


def _trimmed(answer: AIMessage, limit: int) -> AIMessage:
    return answer.model_copy(update={"tool_calls": answer.tool_calls[:limit]})


def _use(use: ToolUse) -> dict[str, Any]:
    told = {"tool": cut(use["tool"], 64), "arguments": _bounded(use["arguments"])}
    return {**told, "failed": cut(use["outcome"], 300)} if use["outcome"] else {**told, "new_lines": use["new_lines"]}


def _bounded(arguments: dict[str, Any]) -> Any:
    text = json.dumps(arguments, ensure_ascii=False, default=str)
    return arguments if len(text) <= ARGUMENTS_LENGTH else cut(text, ARGUMENTS_LENGTH)
