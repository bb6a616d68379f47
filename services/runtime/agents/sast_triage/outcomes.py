"""What the nodes of `sast_triage` may change, of the facts that its routers read."""

from __future__ import annotations

from signalbox_routing.terms import terms

from services.runtime.agents.sast_triage.routing import TOOL_CALL, DecisionFacts, TriageVerdictFacts
from services.runtime.routing.effects import Outcome, changes, raises, sets

_d, _e = terms(DecisionFacts), terms(TriageVerdictFacts)
_COUNTED = raises(_d.iteration_count)
_WELL, _BADLY = sets(_d.error_attempts, 0), raises(_d.error_attempts)
_MORE_CODE = raises(_d.unanalysed_fragments, least=0, most=None)
_ALL_SEEN = sets(_d.unanalysed_fragments, 0)
# What brings an analysis that the model has not asked for.
_LIMITS = ("max_iterations", "duplicate_call")

AGENT = (Outcome("decided", (changes(_d.tool), changes(_d.duplicate_call))),)
FETCH_CODE = (
    Outcome("read", (_COUNTED, _WELL, _MORE_CODE)),
    Outcome("failed", (_COUNTED, _BADLY, _MORE_CODE)),
)
ANALYZE_ISSUE = (
    Outcome("drafted", (_COUNTED, _WELL, _ALL_SEEN), led_by=(TOOL_CALL,)),
    Outcome("no draft", (_COUNTED, _BADLY, _ALL_SEEN), led_by=(TOOL_CALL,)),
    Outcome("drafted, unasked", (_WELL, _ALL_SEEN), led_by=_LIMITS),
    Outcome("no draft, unasked", (_BADLY, _ALL_SEEN), led_by=_LIMITS),
)
COMPREHENSIVE_EVALUATION = (Outcome("judged", (changes(_e.is_final),)),)
