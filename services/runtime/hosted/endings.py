"""How a hosted graph's run ends or pauses, in the platform's words."""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping
from typing import Any

from pydantic_core import to_jsonable_python

from services.runtime.engine.records import Ending, RunState
from services.runtime.engine.saver import StateTooLargeError
from services.runtime.engine.serde import TypeNotAllowedError
from services.runtime.errors import StoreRefused
from services.runtime.hosted.adapter import BUDGET_EXHAUSTED, reason_of
from services.runtime.hosted.session import HostedSession
from services.runtime.routing.graph import NODE_FAILED
from services.runtime.routing.storable import presentable

__all__ = ["BUDGET_EXHAUSTED", "failure_of", "question_of"]


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


def question_of(payload: Any) -> Mapping[str, Any]:
    """Returns the question that an interrupt asks, whatever its payload is: any text answers it, JSON as what it says.

    A payload that words a `question` is asked by that, with its `options`; any other is shown as JSON.
    """
    plain = to_jsonable_python(payload, fallback=str, serialize_unknown=True)
    if isinstance(plain, str):
        return {"question": plain, "any_text": True}
    given = plain if isinstance(plain, dict) else {}
    question, options = given.get("question"), given.get("options")
    worded = question if isinstance(question, str) and question.strip() else ""
    fitting = [each for each in options if isinstance(each, str)] if isinstance(options, list) else []
    return {
        "question": worded or json.dumps(plain, ensure_ascii=False, indent=2),
        "options": fitting,
        "any_text": True,
        "detail": given or {"payload": plain},
    }
