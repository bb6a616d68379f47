"""The graph of `data_chat`, and its way in and out."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import BaseMessage
from signalbox.v1 import caller_pb2, data_chat_pb2, runs_pb2, table_pb2

from services.runtime.agents.agent import Assignment, token_usage
from services.runtime.agents.data_chat.nodes import TOOLS, DataChatNodes
from services.runtime.agents.data_chat.policy import DataChatPolicy
from services.runtime.agents.data_chat.routing import make_routers
from services.runtime.agents.data_chat.state import DataChatState, Turn
from services.runtime.routing.graph import AgentGraph, RoutedNode
from services.runtime.routing.state import Budget

NAME = "data_chat"
VERSION = "1"
TURN_ANSWER_LENGTH = 1000
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def make_graph(nodes: DataChatNodes, policy: DataChatPolicy) -> AgentGraph:
    """Returns the graph: screen_question → agent ⇄ tools → format_answer → end."""
    after_screen, after_agent, after_tools = make_routers(policy)
    return AgentGraph(
        name=NAME,
        version=VERSION,
        state=DataChatState,
        entry="screen_question",
        nodes=(
            RoutedNode("screen_question", nodes.screen_question, after_screen),
            RoutedNode("agent", nodes.agent, after_agent),
            RoutedNode("tools", nodes.tools, after_tools),
            RoutedNode("format_answer", nodes.format_answer),
        ),
        tools=frozenset(TOOLS),
    )


class DataChat:
    """The agent `data_chat`."""

    budget = Budget(model_calls=12, tool_calls=24, tokens=200_000, wall_time_s=300.0)

    def __init__(self, nodes: DataChatNodes, policy: DataChatPolicy) -> None:
        self.graph = make_graph(nodes, policy)
        self.turns_remembered = policy.turns_remembered

    def initial_state(self, assignment: Assignment) -> dict[str, Any]:
        """Returns the question, and what the thread said before."""
        asked = runs_pb2.RunInput.FromString(assignment.input).data_chat
        return {"question": asked.question, "turns": [_turn(*turn) for turn in assignment.turns], "error_attempts": 0}

    def output(self, state: Mapping[str, Any], assigned_input: bytes) -> bytes:
        """Returns the answer with the SQL and rows behind it."""
        asked = runs_pb2.RunInput.FromString(assigned_input).data_chat
        rows = table_pb2.Table.FromString(state["rows"]) if "rows" in state else None
        output = data_chat_pb2.DataChatOutput(
            answer=state.get("answer", ""),
            sql_query=state.get("sql_query", ""),
            rows=rows,
            csv=as_csv(rows) if rows is not None and asked.want_csv else "",
            token_usage=token_usage(state["spend"]),
            debug=_debug(state) if asked.want_debug else None,
        )
        return runs_pb2.RunOutput(data_chat=output).SerializeToString()


def as_csv(table: table_pb2.Table) -> str:
    """Returns a table as RFC 4180 CSV with a header line; NULL is an empty field.

    A text that a spreadsheet would take for a formula gets an apostrophe in front, by which it is shown as text.
    """
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(_as_text(column.name) for column in table.columns)
    for row in table.rows:
        writer.writerow(_plain(cell, column.type) for cell, column in zip(row.values, table.columns, strict=True))
    return text.getvalue()


def _plain(cell: table_pb2.Cell, kind: table_pb2.ColumnType) -> object:
    field = cell.WhichOneof("value")
    if field == "text_value" and kind != table_pb2.COLUMN_TYPE_NUMERIC:
        return _as_text(cell.text_value)
    return getattr(cell, field) if field else None


def _as_text(text: str) -> str:
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text


def _turn(asked: bytes, answered: bytes) -> Turn:
    output = runs_pb2.RunOutput.FromString(answered).data_chat
    question = runs_pb2.RunInput.FromString(asked).data_chat.question
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
    asked = [call["name"] for call in getattr(message, "tool_calls", ())]
    return data_chat_pb2.DebugMessage(role=message.type, content=message.text, tool_calls=asked)
