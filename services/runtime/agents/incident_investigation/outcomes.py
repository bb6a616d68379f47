"""What the nodes of `incident_investigation` may change, of the facts that its routers read."""

from __future__ import annotations

from signalbox_routing.terms import terms

from services.runtime.agents.incident_investigation.routing import InvestigatorFacts, ValidationFacts
from services.runtime.agents.screening import ALLOWED, BLOCKED, NO_VERDICT, ScreenFacts
from services.runtime.routing.effects import Outcome, changes, raises, sets

_s, _f, _v = terms(ScreenFacts), terms(InvestigatorFacts), terms(ValidationFacts)
_TURN = raises(_f.turn_count)
_PHASE = changes(_f.phase)
# Whatever an answer says, it is one that nobody has validated.
_NEW = (sets(_f.validated, False), sets(_v.confirmed, False))

SCREEN_INCIDENT = (
    Outcome("let through", (sets(_s.screening, ALLOWED),)),
    Outcome("blocked", (sets(_s.screening, BLOCKED),)),
    Outcome("no verdict", (sets(_s.screening, *NO_VERDICT),)),
)
AGENT = (
    Outcome("asked for tools", (_TURN, raises(_f.iteration_count, least=0), raises(_f.tool_count, most=None))),
    Outcome(
        "concluded",
        (
            _TURN,
            raises(_f.iteration_count),
            sets(_f.tool_count, 0),
            changes(_f.no_cause_found),
            changes(_f.confidence),
            *_NEW,
        ),
    ),
    Outcome("no model", (sets(_f.model_failed, True),)),
)
# Their answers stand after the calls: none waits any more.
TOOLS = (Outcome("ran", (sets(_f.tool_count, 0), _PHASE)),)
VALIDATION = (Outcome("judged", (sets(_f.validated, True), changes(_v.confirmed), changes(_f.confidence), _PHASE)),)
