"""State of `data_chat`."""

from __future__ import annotations

import operator
from typing import Annotated, TypedDict

from services.runtime.calls.chat_model import ModelCall
from services.runtime.routing.state import REPLACED, AgentState, append

ADMIN_BYPASS = "admin_bypass"


class Turn(TypedDict):
    """An earlier question of the thread."""

    question: str
    sql_query: str
    answer: str


class DataChatState(AgentState, total=False):
    """What a question has come to so far; `rows` is a serialized `signalbox.v1.Table`, `grounding` an enum's number."""

    question: str
    turns: Annotated[list[Turn], REPLACED]
    screening: str
    screening_reason: str
    sql_query: str
    rows: bytes
    result_text: str
    last_tool: str
    last_error: str
    error_attempts: Annotated[int, operator.add]
    answer: str
    grounding: int
    model_calls: Annotated[list[ModelCall], append]
