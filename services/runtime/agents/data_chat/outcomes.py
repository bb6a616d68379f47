"""What the nodes of `data_chat` may change, of the facts that its routers read."""

from __future__ import annotations

from signalbox_routing.terms import terms

from services.runtime.agents.data_chat.routing import ChatFacts, ToolFacts
from services.runtime.agents.data_chat.state import ADMIN_BYPASS
from services.runtime.agents.screening import ALLOWED, BLOCKED, NO_VERDICT, ScreenFacts
from services.runtime.routing.effects import Outcome, changes, may_set, raises, sets

_s, _f, _t = terms(ScreenFacts), terms(ChatFacts), terms(ToolFacts)
# Tools are answered by messages of their own: the model's is no longer the last.
_CALLS_ANSWERED = (sets(_f.tool_count, 0), sets(_f.have_text, False))

SCREEN_QUESTION = (
    Outcome("let through", (sets(_s.screening, ALLOWED, ADMIN_BYPASS),)),
    Outcome("blocked", (sets(_s.screening, BLOCKED), sets(_f.already_answered, True))),
    Outcome("no verdict", (sets(_s.screening, *NO_VERDICT),)),
)
AGENT = (Outcome("spoke", (raises(_f.iteration_count), changes(_f.tool_count), changes(_f.have_text))),)
TOOLS = (
    Outcome(
        "no rows",
        (*_CALLS_ANSWERED, changes(_t.query_failed), raises(_f.error_attempts, least=0, most=None)),
    ),
    Outcome(
        "rows",
        (
            *_CALLS_ANSWERED,
            sets(_f.have_result, True),
            may_set(_f.query_executed, True),
            changes(_t.query_failed),
            raises(_f.error_attempts, least=0, most=None),
        ),
    ),
)
FORMAT_ANSWER = (Outcome("answered", (may_set(_f.already_answered, True),)),)
