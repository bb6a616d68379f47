"""What the nodes of `sast_investigation` may change, of the facts that its routers read."""

from __future__ import annotations

from signalbox_routing.terms import terms

from services.runtime.agents.sast_investigation.routing import (
    APPROVED,
    NEEDS_REANALYSIS,
    NEEDS_RESEARCH,
    DraftVerdictFacts,
)
from services.runtime.routing.effects import Outcome, raises, sets

_f = terms(DraftVerdictFacts)
_APPROVED, _REJECTED = sets(_f.outcome, APPROVED), sets(_f.outcome, NEEDS_RESEARCH, NEEDS_REANALYSIS)
_FRUITLESS = raises(_f.no_progress_streak, least=0)

NOTHING = (Outcome("done"),)
EVALUATION = (
    Outcome("approved", (_APPROVED, _FRUITLESS)),
    Outcome("rejected", (_REJECTED, raises(_f.rejection_streak, least=0), _FRUITLESS)),
    Outcome("approved, with new code", (_APPROVED, sets(_f.rejection_streak, 0), sets(_f.no_progress_streak, 0))),
    Outcome("rejected, with new code", (_REJECTED, sets(_f.rejection_streak, 1), sets(_f.no_progress_streak, 0))),
)
INCREMENT = (Outcome("next round", (raises(_f.iteration),)),)
