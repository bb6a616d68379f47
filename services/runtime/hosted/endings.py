"""How a hosted graph's run ends or pauses, in the platform's words."""

from __future__ import annotations

import traceback

from services.runtime.engine.records import Ending, RunState
from services.runtime.engine.saver import StateTooLargeError
from services.runtime.engine.serde import TypeNotAllowedError
from services.runtime.errors import StoreRefused
from services.runtime.hosted.adapter import BUDGET_EXHAUSTED, reason_of
from services.runtime.hosted.session import HostedSession
from services.runtime.routing.graph import NODE_FAILED
from services.runtime.routing.storable import presentable

__all__ = ["BUDGET_EXHAUSTED", "failure_of"]


def failure_of(session: HostedSession, error: Exception) -> Ending:
    """Returns the end of a run whose graph raised: the node, and the type of what it raised, but none of its words."""
    if isinstance(error, TypeNotAllowedError | StateTooLargeError):
        return Ending(RunState.FAILED, None, NODE_FAILED, presentable(str(error)))
    cause = session.failure or error
    if isinstance(cause, StoreRefused):
        return Ending(RunState.FAILED, None, NODE_FAILED, presentable(str(cause)))
    # What a node returned, or a path function after it, LangGraph can't take.
    after = f" after {', '.join(map(repr, session.nodes_applying[:5]))}" if session.nodes_applying else ""
    where = f"the node {session.failed['node']!r}" if session.failed else f"the graph{after}"
    place = _place(cause)
    said = f"{where} raised {reason_of(cause)}{f' at {place}' if place else ''}; see the run's trace"
    return Ending(RunState.FAILED, None, NODE_FAILED, presentable(said))


def _place(error: BaseException) -> str:
    """Returns the file and line that raised."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else ""
