"""What research is given, and what it gathers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from langchain.agents.middleware import AgentState
from signalbox.v1 import sast_pb2

from services.runtime.agents.code_review.code_bank import Fragment
from services.runtime.agents.code_review.code_tools import Source
from services.runtime.agents.sast_investigation.state import ToolUse
from services.runtime.routing.recorder import CallRecord
from services.runtime.routing.state import append
from services.runtime.run_context import NodeContext

TOOLS = ("fetch_code", "read_file", "search_codebase", "list_directory", "find_file")
DONE = "done"
MODEL_CALL_LIMIT = "model_call_limit"
STEP_LIMIT = "step_limit"


class ResearchState(AgentState[Any], total=False):
    """What research has gathered since it began, and which limit ended it.

    `calls` are kept here until the node ends, so that a replica that takes over knows what was spent before.
    """

    code_bank: Annotated[list[Fragment], append]
    fetched_files: Annotated[list[str], append]
    tool_call_history: Annotated[list[ToolUse], append]
    calls: Annotated[list[CallRecord], append]
    ended: str


@dataclass(frozen=True)
class ResearchTask:
    """What research is for, and what was known before it began. It is not part of any checkpoint."""

    node: NodeContext
    finding: sast_pb2.Finding
    source: Source
    iteration: int
    model_calls: int
    checklist: str
    feedback: str
    code_bank: Sequence[Fragment]
    tool_call_history: Sequence[ToolUse]


@dataclass(frozen=True)
class Gathered:
    """What research brought, and why it ended."""

    code_bank: list[Fragment]
    fetched_files: list[str]
    tool_call_history: list[ToolUse]
    ended: str
