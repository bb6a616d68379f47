"""What the guard said of the words that a run came with, and what a router knows of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from signalbox.v1 import guard_pb2
from signalbox_routing.table import State, StateUpdate

from services.runtime.calls.guard_client import GUARD, GuardClient
from services.runtime.errors import DependencyAway, GuardFailed
from services.runtime.routing.run_context import NodeContext
from services.runtime.routing.state import FAILED

ALLOWED: Final = "allowed"
BLOCKED: Final = "blocked"
UNSCREENED: Final = "unscreened"
# Until an operator acts, since the endpoint of the guard's model says no.
UNSCREENABLE: Final = "unscreenable"
NO_VERDICT: Final = (UNSCREENED, UNSCREENABLE)

_WHY: Final = {
    "caller_change": "it claims to be somebody else, or tells its readers to forget their rules",
    "platform_secrets": "it asks for what the platform keeps to itself",
}


@dataclass(frozen=True)
class ScreenFacts:
    """What is known once the words have been screened."""

    screening: str
    reason: str


def screen_facts(state: State) -> ScreenFacts:
    """Takes the facts of `route_after_screen` from state."""
    return ScreenFacts(state.get("screening", ""), state.get("screening_reason", ""))


async def screened(guard: GuardClient, context: NodeContext, text: str, kind: guard_pb2.TextKind) -> StateUpdate:
    """Returns what the guard says of a text, for a node that goes on to do more. Raises DependencyAway, GuardFailed.

    An attempt at the node that was told so, and failed at something else, need not be followed by another question.
    """
    if any(call["kind"] == GUARD and call.get("holds") for call in context.run.attempts):
        return {"screening": ALLOWED, "screening_reason": ALLOWED}
    screening = await guard.screen(context.run, text, kind=kind)
    return {"screening": ALLOWED if screening.allowed else BLOCKED, "screening_reason": screening.reason}


def unscreened(error: Exception) -> StateUpdate | None:
    """Returns what words come to that the guard gave no verdict on; None for any other failure."""
    if isinstance(error, GuardFailed):
        return {"screening": UNSCREENABLE, "screening_reason": error.cause, "error": error.message}
    if not isinstance(error, DependencyAway) or error.dependency != GUARD:
        return None
    message = f"{error.message}. Nothing was looked at; it may be asked again."
    return {"screening": UNSCREENED, "screening_reason": error.cause, "error": message}


def may_be_asked_again(state: State) -> bool:
    """Tells whether nothing is wrong with a failed run's words, which the guard gave no verdict on for a while."""
    return bool(state.get("screening") == UNSCREENED and state.get("status") == FAILED)


def refusal(what: str, reason: str) -> str:
    """Returns why the guard blocked a goal or an answer, in words for whoever said it."""
    why = _WHY.get(reason, "it asks for more than what is to be changed or found")
    return f"This {what} was refused: {why}. Say it in other words."


def fail(rule: str) -> StateUpdate:
    """Notes which rule failed the run."""
    return {"status": FAILED, "stop_reason": rule}
