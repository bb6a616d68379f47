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


class QueryRun(TypedDict):
    """A query that brought a result; `rows` is a serialized `signalbox.v1.Table`.

    What stands in the columns of `stated` may be from the query itself; `doubt` says why the result is no answer from
    data, where it is none.
    """

    sql_query: str
    rows: bytes
    result_text: str
    stated: list[str]
    doubt: str


class DataChatState(AgentState, total=False):
    """What a question has come to so far; the fields of `QueryRun` are of the last one.

    `grounding` and `wording` are numbers of enums.
    """

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
    stated: Annotated[list[str], REPLACED]
    doubt: str
    earlier_results: Annotated[list[QueryRun], REPLACED]
    wording: int
    model_calls: Annotated[list[ModelCall], append]
