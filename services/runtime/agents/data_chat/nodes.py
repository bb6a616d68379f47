"""Nodes of `data_chat`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf import json_format
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from signalbox.v1 import guard_pb2, tools_pb2
from signalbox_routing.table import StateUpdate

from services.kit.models.prompts import data_block, prompt, words
from services.kit.telemetry.logs import get_logger
from services.kit.telemetry.names import ROLE_ADMIN
from services.kit.tools.names import (
    EXECUTE_DB_QUERY,
    GET_FEW_SHOT_EXAMPLES,
)
from services.runtime.agents.context_budget import ask_within, lines_within, once_tighter
from services.runtime.agents.data_chat.policy import DataChatPolicy
from services.runtime.agents.data_chat.query_results import grounding_by, problems_of, run_of, runs_of, support_of
from services.runtime.agents.data_chat.state import ADMIN_BYPASS, DataChatState, QueryRun, Turn
from services.runtime.agents.data_chat.wording import refused_question, with_result, without_result
from services.runtime.agents.next_step import Answered, ask_for_step
from services.runtime.agents.prompt_messages import INTERNAL
from services.runtime.agents.refusals import INVALID_ARGUMENTS, refusal, unknown_tool
from services.runtime.agents.screening import ALLOWED, BLOCKED
from services.runtime.calls.chat_model import ChatModel, ModelCall, whole_text
from services.runtime.calls.guard_client import GuardClient, Screening
from services.runtime.calls.told_answer import ToldAnswer
from services.runtime.calls.tool_client import ToolClient
from services.runtime.calls.wordings import note_wording
from services.runtime.errors import BudgetSpent, DependencyAway, ModelFailed, ModelRefused
from services.runtime.routing.run_context import NodeContext
from services.runtime.routing.state import COMPLETED

log = get_logger()
TOOLS = (EXECUTE_DB_QUERY, GET_FEW_SHOT_EXAMPLES)
# A query that is written down, and not handed to its tool.
_QUERY = re.compile(r"^[^\S\n]*(?:```sql\b|SELECT\s[^;]{1,2000}?\sFROM\s)", re.MULTILINE | re.IGNORECASE)
NO_WHOLE_ANSWER = "That was no whole answer: it was cut, or empty. Call a tool, or answer in a few sentences."


@dataclass(frozen=True)
class AskedCall:
    """A tool call that the model asks for; `arguments` is None when they were not valid JSON."""

    tool_call_id: str
    tool: str
    arguments: dict[str, Any] | None


class DataChatNodes:
    """The nodes, with the services they call."""

    def __init__(
        self,
        *,
        guard: GuardClient,
        sql: ToolClient,
        agent_model: ChatModel,
        format_model: ChatModel,
        policy: DataChatPolicy,
    ) -> None:
        self._guard = guard
        self._sql = sql
        self._agent_model = agent_model
        self._format_model = format_model
        self._policy = policy

    async def screen_question(self, state: DataChatState, context: NodeContext) -> StateUpdate:
        """Has the question screened with the turns it continues, before anything else touches it.

        Raises DependencyAway when the guard gives no verdict.
        """
        if ROLE_ADMIN in context.run.caller.roles:
            return {"screening": ADMIN_BYPASS, "screening_reason": ADMIN_BYPASS}
        if state.get("screening") == ALLOWED:
            return {}
        screening = await self._guard.screen(context.run, state["question"], _screened(state.get("turns") or ()))
        update: StateUpdate = {
            "screening": ALLOWED if screening.allowed else BLOCKED,
            "screening_reason": screening.reason,
            "model_calls": _guard_calls(screening, state["question"]),
        }
        if not screening.allowed:
            update |= {"answer": refused_question(screening.reason), "status": COMPLETED}
        return update

    async def agent(self, state: DataChatState, context: NodeContext) -> StateUpdate:
        """Asks the model for its next move; the last call that the limit allows has no tools, and says so."""
        history: list[BaseMessage] = list(state.get("messages") or ())
        added: list[BaseMessage] = []
        if not history:
            added = [
                await self._system_message(state, context),
                HumanMessage(data_block({"question": state["question"]})),
            ]
        elif isinstance(history[-1], AIMessage):
            # Servers refuse a talk that ends with the model's own words, or have it go on with them.
            added = [HumanMessage(NO_WHOLE_ANSWER)]
        # Of what the last one asks for nothing would be done.
        is_last = state.get("iteration_count", 0) + 1 >= self._policy.max_iterations
        if is_last:
            added.append(HumanMessage(words(__package__, "last_call")))
        catalog = {} if is_last else await self._sql.catalog(context)
        tools = [catalog[name].as_function() for name in TOOLS if name in catalog]

        async def ask(told: list[BaseMessage]) -> Answered:
            prompted, most = [*history, *added, *told], self._policy.context_characters
            return await ask_within(self._agent_model, "agent", prompted, tools, most)

        # Behind rows, a query that is shown is the one that brought them.
        answer, calls = await ask_for_step(ask, tools, written=None if runs_of(state) else _QUERY)
        return {"messages": [*added, answer], "iteration_count": 1, "model_calls": calls}

    async def tools(self, state: DataChatState, context: NodeContext) -> StateUpdate:
        """Runs the tool calls that the model asked for, one after another."""
        update: StateUpdate = {"messages": [], "error_attempts": 0, "last_error": "", "last_tool": ""}
        runs = runs_of(state)
        for call in requested_calls(state["messages"]):
            text, result = await self._run_tool(call, context)
            failed = result is None
            message = ToolMessage(text, tool_call_id=call.tool_call_id, name=call.tool)
            update["last_tool"], update["last_error"] = call.tool, text if failed else ""
            update["error_attempts"] += int(failed)
            if result is not None and call.tool == EXECUTE_DB_QUERY:
                runs.append(run_of(result, state["question"]))
                # The answer is worded from the result itself; the agent never needs to read it.
                message.additional_kwargs[INTERNAL] = True
            update["messages"].append(message)
        # One that nothing vouches for is made up for by any other.
        runs = [run for run in runs if not run["doubt"]] or runs[-1:]
        if runs:
            update |= {**runs[-1], "earlier_results": runs[:-1], "grounding": int(grounding_by(runs))}
        return update

    async def format_answer(self, state: DataChatState, _context: NodeContext) -> StateUpdate:
        """Words the answer from the result, or shows it as it is; without one, says that, and what the agent said."""
        if state.get("answer"):
            return {"status": COMPLETED}
        if "rows" not in state:
            return await asyncio.to_thread(without_result, state)
        *earlier, last = runs_of(state)
        told = ToldAnswer.of("format_answer", lambda: support_of(state["question"], [*earlier, last]))

        async def ask(characters: int) -> tuple[AIMessage, ModelCall]:
            most = characters // (len(earlier) + 1)
            given = {"question": state["question"], **_shown(last, most)}
            if earlier:
                given["earlier_results"] = [_shown(run, most) for run in earlier]
            text = prompt(__package__, "format_answer", given)
            return await self._format_model.ask("format_answer", [HumanMessage(text)], heard=told)

        try:
            answer, call = await once_tighter(ask, self._policy.context_characters)
        except (ModelFailed, ModelRefused, DependencyAway, BudgetSpent) as error:
            if told:
                told.withdraw()
            # The answer is there; only its wording is not, and that is no reason to keep it back.
            log.warning("the result could not be put into words", error=error.message)
            return with_result(state)
        worded = whole_text(answer)
        # Of many rows it takes a while, and others are served meanwhile.
        found = await asyncio.to_thread(problems_of, worded, state["question"], [*earlier, last])
        if worded:
            note_wording(self._format_model.name, [problem.kind for problem in found])
        kept = "" if found else worded
        if told:
            told.stands(kept)
        return {**with_result(state, kept, unsupported=bool(found)), "model_calls": [call]}

    async def _run_tool(self, call: AskedCall, context: NodeContext) -> tuple[str, tools_pb2.ToolOutput | None]:
        if call.tool not in TOOLS:
            return unknown_tool(call.tool, TOOLS), None
        if call.arguments is None:
            return refusal(INVALID_ARGUMENTS, "the arguments are not a JSON object"), None
        answer = await self._sql.call(context, call.tool, call.arguments, call.tool_call_id)
        if answer.HasField("error"):
            return refusal(answer.error.reason, answer.error.message), None
        if call.tool == EXECUTE_DB_QUERY:
            with self._sql.reading(f"run {call.tool}"):
                _check_result(answer.output)
        return answer.output.text, answer.output

    async def _system_message(self, state: DataChatState, context: NodeContext) -> SystemMessage:
        catalog = await self._sql.catalog(context)
        found = await self._preload(state["question"], context) if GET_FEW_SHOT_EXAMPLES in catalog else {}
        with self._sql.reading(f"run {GET_FEW_SHOT_EXAMPLES}"):
            examples = [
                {"question": example["question"], "sql": example["sql"]}
                for example in found.get("examples", [])[: self._policy.preloaded_examples]
            ]
            notes = [note["text"] for note in found.get("notes", [])]
        given = {
            "tables": catalog[EXECUTE_DB_QUERY].notes.splitlines() if EXECUTE_DB_QUERY in catalog else [],
            "top_k": self._policy.top_k,
            "user": context.run.caller.subject,
            "examples": examples,
            "notes": notes,
            **({"earlier_turns": list(state["turns"])} if state.get("turns") else {}),
        }
        return SystemMessage(prompt(__package__, "system", given))

    async def _preload(self, question: str, context: NodeContext) -> dict[str, Any]:
        answer = await self._sql.call(context, GET_FEW_SHOT_EXAMPLES, {"question": question}, "preload")
        with self._sql.reading(f"run {GET_FEW_SHOT_EXAMPLES}"):
            return json_format.MessageToDict(answer.output.data)


def requested_calls(messages: Sequence[BaseMessage]) -> list[AskedCall]:
    """Returns the tool calls of the last message."""
    last = messages[-1]
    if not isinstance(last, AIMessage):
        return []
    valid = [AskedCall(call["id"] or "", call["name"], call["args"]) for call in last.tool_calls]
    broken = [AskedCall(call["id"] or "", call["name"] or "", None) for call in last.invalid_tool_calls]
    return [*valid, *broken]


def _check_result(output: tools_pb2.ToolOutput) -> None:
    """Raises ValueError for what is no result of a query: an answer would claim that it is from the data."""
    if not output.HasField("table"):
        raise ValueError("no table")


def _shown(run: QueryRun, characters: int) -> dict[str, Any]:
    return {"sql_query": run["sql_query"], "result": lines_within(run["result_text"].splitlines(), characters)}


def _screened(turns: Sequence[Turn]) -> list[guard_pb2.ScreenedTurn]:
    """The turns as the guard gets them: what a prompt would show."""
    return [guard_pb2.ScreenedTurn(question=turn["question"], answer=turn["answer"]) for turn in turns]


def _guard_calls(screening: Screening, question: str) -> list[ModelCall]:
    if not screening.model:
        return []
    return [
        ModelCall(
            purpose="security_guard",
            model=screening.model,
            input_summary=question[:200],
            output="ALLOW" if screening.allowed else f"BLOCK ({screening.reason})",
            input_tokens=screening.input_tokens,
            output_tokens=screening.output_tokens,
            elapsed_ms=screening.model_elapsed_ms,
        )
    ]
