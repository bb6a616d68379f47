"""What research is given, and what it gathers."""

from __future__ import annotations

import operator
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from langchain.agents.middleware import AgentState
from signalbox.v1 import sast_pb2

from services.kit.tools.names import (
    FETCH_CODE,
    FIND_FILE,
    LIST_DIRECTORY,
    READ_FILE,
    SEARCH_CODEBASE,
)
from services.runtime.agents.code_review.code_bank import Fragment, LinesRead
from services.runtime.agents.code_review.code_tools import Source
from services.runtime.agents.sast_investigation.state import ToolUse
from services.runtime.routing.recorder import CallRecord
from services.runtime.routing.run_context import NodeContext
from services.runtime.routing.state import Budget, Spend, add_spend, append, budget_spent, spend_of

TOOLS = (FETCH_CODE, READ_FILE, SEARCH_CODEBASE, LIST_DIRECTORY, FIND_FILE)
DONE = "done"
MODEL_CALL_LIMIT = "model_call_limit"
STEP_LIMIT = "step_limit"
BUDGET_SPENT = "budget_spent"
MODEL_FAILED = "model_failed"


class ResearchState(AgentState[Any], total=False):
    """What research has gathered since it began, and which limit ended it.

    `calls` and the time they took are kept here until the node ends, so that a replica that takes over knows what was
    spent before.
    """

    code_bank: Annotated[list[Fragment], append]
    code_readings: Annotated[list[LinesRead], append]
    fetched_files: Annotated[list[str], append]
    tool_call_history: Annotated[list[ToolUse], append]
    calls: Annotated[list[CallRecord], append]
    elapsed_s: Annotated[float, operator.add]
    ended: str


class Stopwatch:
    """The time that research has taken in this process, part by part."""

    def __init__(self) -> None:
        self._since = time.perf_counter()

    def elapsed_s(self) -> float:
        """Returns the seconds since it was asked last, or since it was made."""
        before, self._since = self._since, time.perf_counter()
        return self._since - before


@dataclass(frozen=True)
class ResearchTask:
    """What research is for, and what was known before it began. It is not part of any checkpoint."""

    node: NodeContext
    finding: sast_pb2.Finding
    source: Source
    iteration: int
    model_calls: int
    checklist: Mapping[str, Any]
    feedback: Mapping[str, Any]
    code_bank: Sequence[Fragment]
    tool_call_history: Sequence[ToolUse]
    spend: Spend
    budget: Budget
    stopwatch: Stopwatch = field(default_factory=Stopwatch)

    def budget_spent(self, state: Mapping[str, Any]) -> str:
        """Returns which part of the run's budget is used up, with what research has used; empty when none is."""
        used = spend_of(list(state.get("calls") or ()), state.get("elapsed_s", 0.0))
        return budget_spent(add_spend(self.spend, used), self.budget)

    def tool_calls_left(self, state: Mapping[str, Any], most: int) -> int:
        """Returns how many tool calls the budget leaves, and not more than `most`."""
        allowed = self.budget["tool_calls"]
        used = self.spend["tool_calls"] + spend_of(list(state.get("calls") or ()), 0.0)["tool_calls"]
        return min(most, max(0, allowed - used)) if allowed else most


@dataclass(frozen=True)
class Gathered:
    """What research brought, and why it ended; `elapsed_before_s` is what a replica before this one spent on it."""

    code_bank: list[Fragment]
    fetched_files: list[str]
    tool_call_history: list[ToolUse]
    ended: str
    elapsed_before_s: float
