"""The agent `data_chat`: a question to a database, each caller seeing only their own rows."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import starmap
from typing import Any, cast

from langchain_core.messages import BaseMessage
from signalbox.v1 import caller_pb2, data_chat_pb2, runs_pb2, table_pb2

from services.kit.outcome import Outcome
from services.runtime.agents.agent import token_usage
from services.runtime.agents.assignment import Assignment
from services.runtime.agents.data_chat.graph import make_graph
from services.runtime.agents.data_chat.nodes import DataChatNodes
from services.runtime.agents.data_chat.policy import DataChatPolicy
from services.runtime.agents.data_chat.state import Turn
from services.runtime.agents.data_chat.table_csv import as_csv
from services.runtime.agents.data_chat.wording import grounding_of, with_result, without_result
from services.runtime.agents.definition import AgentDefinition
from services.runtime.calls.connections import Connections
from services.runtime.calls.peers import GUARD, SQL_EXECUTOR
from services.runtime.routing.graph import BUDGET_EXHAUSTED
from services.runtime.routing.state import COMPLETED, Budget

TURN_ANSWER_LENGTH = 1000
TURNS_LOOKED_AT = 4
_LET_THROUGH = frozenset(
    {
        data_chat_pb2.GROUNDING_ANSWERED_FROM_DATA,
        data_chat_pb2.GROUNDING_UNANSWERABLE,
        data_chat_pb2.GROUNDING_NOT_CHECKED,
    }
)


def _wire(connections: Connections, policy: DataChatPolicy) -> DataChatNodes:
    return DataChatNodes(
        guard=connections.guard,
        sql=connections.tools(SQL_EXECUTOR),
        agent_model=connections.model("agent"),
        format_model=connections.model("format"),
        policy=policy,
    )


def begin(agent_input: data_chat_pb2.DataChatInput, assignment: Assignment, policy: DataChatPolicy) -> dict[str, Any]:
    """Returns the question, and what the thread said before."""
    turns = [turn for turn in starmap(_turn, assignment.turns) if turn is not None]
    return {"question": agent_input.question, "turns": turns[-policy.turns_remembered :], "error_attempts": 0}


def result(state: Mapping[str, Any], agent_input: data_chat_pb2.DataChatInput) -> data_chat_pb2.DataChatOutput:
    """Returns the answer with the SQL and rows behind it."""
    rows = table_pb2.Table.FromString(state["rows"]) if "rows" in state else None
    return data_chat_pb2.DataChatOutput(
        answer=state.get("answer") or _unfinished(state),
        sql_query=state.get("sql_query", ""),
        rows=rows,
        csv=as_csv(rows) if rows is not None and agent_input.want_csv else "",
        token_usage=token_usage(state["spend"]),
        debug=_debug(state) if agent_input.want_debug else None,
        grounding=grounding_of(state),
        wording=cast(Any, state.get("wording", data_chat_pb2.ANSWER_WORDING_UNSPECIFIED)),
        earlier_results=[
            data_chat_pb2.QueryResult(sql_query=run["sql_query"], rows=table_pb2.Table.FromString(run["rows"]))
            for run in state.get("earlier_results") or ()
        ],
    )


def _unfinished(state: Mapping[str, Any]) -> str:
    """Returns the answer of a run that broke off before it was worded: what there is by then."""
    if "rows" in state:
        return str(with_result(state)["answer"])
    return str(without_result(state)["answer"]) if state.get("stop_reason") == BUDGET_EXHAUSTED else ""


def outcome(state: Mapping[str, Any]) -> Outcome:
    """Returns whether the question was answered."""
    grounding = grounding_of(state)
    if grounding == data_chat_pb2.GROUNDING_REFUSED:
        return Outcome.BLOCKED
    answered = grounding == data_chat_pb2.GROUNDING_ANSWERED_FROM_DATA and state["status"] == COMPLETED
    return Outcome.ANSWERED if answered else Outcome.NOT_ANSWERED


def _turn(input_bytes: bytes, output_bytes: bytes) -> Turn | None:
    """Returns an earlier question as prompts show it; None for one that never reaches a model.

    That is one that the guard blocked, or had no verdict on. Runs of an earlier release don't say so; of theirs, those
    that ran a query were let through.
    """
    output = runs_pb2.RunOutput.FromString(output_bytes).data_chat
    let_through = output.grounding in _LET_THROUGH or (
        output.grounding == data_chat_pb2.GROUNDING_UNSPECIFIED and output.sql_query
    )
    if not let_through or not output.answer:
        return None
    question = runs_pb2.RunInput.FromString(input_bytes).data_chat.question
    return Turn(question=question, sql_query=output.sql_query, answer=output.answer[:TURN_ANSWER_LENGTH])


def _debug(state: Mapping[str, Any]) -> data_chat_pb2.DataChatDebug:
    calls = [
        data_chat_pb2.ModelCallRecord(
            purpose=call["purpose"],
            model=call["model"],
            input_summary=call["input_summary"],
            output=call["output"],
            token_usage=caller_pb2.TokenUsage(
                input_tokens=call["input_tokens"],
                output_tokens=call["output_tokens"],
                total_tokens=call["input_tokens"] + call["output_tokens"],
            ),
            elapsed_ms=call["elapsed_ms"],
        )
        for call in state.get("model_calls") or ()
    ]
    messages = [_message(message) for message in state.get("messages") or ()]
    return data_chat_pb2.DataChatDebug(messages=messages, model_calls=calls, iterations=state.get("iteration_count", 0))


def _message(message: BaseMessage) -> data_chat_pb2.DebugMessage:
    tools = [call["name"] for call in getattr(message, "tool_calls", ())]
    return data_chat_pb2.DebugMessage(role=message.type, content=message.text, tool_calls=tools)


AGENT = AgentDefinition(
    name="data_chat",
    description="Answers a question from a database, each caller seeing only their own rows.",
    input=data_chat_pb2.DataChatInput,
    output=data_chat_pb2.DataChatOutput,
    policy=DataChatPolicy,
    budget=Budget(model_calls=12, tool_calls=24, tokens=200_000, wall_time_s=300.0),
    nodes=DataChatNodes,
    graph=make_graph,
    wire=_wire,
    begin=begin,
    result=result,
    outcome=outcome,
    outcomes=(Outcome.ANSWERED, Outcome.NOT_ANSWERED, Outcome.BLOCKED),
    peers=(GUARD, SQL_EXECUTOR),
    models=("agent", "format"),
    # Some of them may not be shown, and an older one then takes their place.
    turns_remembered=lambda policy: policy.turns_remembered * TURNS_LOOKED_AT,
)
