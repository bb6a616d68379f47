"""What the nodes of `graph_editor` may change, of the facts that its routers read."""

from __future__ import annotations

from signalbox_routing.terms import terms

from services.runtime.agents.graph_editor.routing import (
    CallFacts,
    CheckFacts,
    DiagnosisFacts,
    EditOutcomeFacts,
    EscalationFacts,
    ParseFacts,
    ReplyFacts,
)
from services.runtime.agents.graph_editor.state import (
    AMBIGUITY,
    APPROVAL,
    CONTRADICTION,
    FAILURE,
    IDENTICAL,
    INPUT,
    NO_WORDS,
    NOT_APPLIED,
    OK,
    RANDOM,
    SYSTEMATIC,
    UNKNOWN,
)
from services.runtime.agents.screening import ALLOWED, BLOCKED, NO_VERDICT
from services.runtime.routing.effects import Outcome, changes, may_set, raises, sets

_g, _c, _t, _e = terms(ParseFacts), terms(CheckFacts), terms(CallFacts), terms(EditOutcomeFacts)
_d, _q, _r = terms(DiagnosisFacts), terms(EscalationFacts), terms(ReplyFacts)
_WELL = (sets(_c.failed, False), sets(_c.unknown_tool, False))
_BADLY = (sets(_c.failed, True), sets(_c.unknown_tool, False), raises(_e.failures))
_READ = (changes(_g.in_scope), changes(_g.contradictions), changes(_g.confidence), changes(_g.complexity))
_PLANNED = (changes(_e.operations_left), changes(_e.goal_reached), changes(_c.approval_missing))
_NO_GOAL = (
    sets(_d.goal_known, False), sets(_g.in_scope, False), sets(_g.contradictions, 0), sets(_g.confidence, 0.0),
    sets(_g.complexity, ""), may_set(_e.goal_reached, False),
)  # fmt: skip
_PASSED = sets(_g.screening, ALLOWED, NO_WORDS)
# An answer may ask for a change, where the goal did not.
_APPROVED = (may_set(_c.approval_missing, False), may_set(_e.goal_reached, False))
_INFORMS = (sets(_q.about, ""),)

# Whether only a preview is wanted comes with the input.
GIVEN = (changes(_c.preview),)
PARSE_GOAL = (
    Outcome("read", (_PASSED, *_WELL, *_READ, *_PLANNED, sets(_d.goal_known, True))),
    Outcome("not read", (_PASSED, *_BADLY, *_NO_GOAL)),
    Outcome("nothing to undo", (_PASSED, *_BADLY, *_READ, sets(_d.goal_known, True))),
    # Only before anything else: nothing has been read, and nothing has failed.
    Outcome("blocked", (sets(_g.screening, BLOCKED), *_WELL, *_NO_GOAL)),
    Outcome("no verdict", (sets(_g.screening, *NO_VERDICT), *_WELL, *_NO_GOAL)),
)
PLAN_STEP = (Outcome("planned", (*_WELL, *_PLANNED)), Outcome("no plan", _BADLY))
ROUTE_TOOL = (
    Outcome("fits", (*_WELL, changes(_c.unapproved_changes))),
    Outcome("unknown tool", (sets(_c.failed, True), sets(_c.unknown_tool, True), raises(_e.failures))),
    Outcome("does not fit", _BADLY),
)
CALL_TOOL = (
    Outcome("applied", (sets(_t.outcome, OK), raises(_e.operation_count))),
    Outcome(
        "not applied",
        (
            sets(_t.outcome, NOT_APPLIED), raises(_e.operation_count), raises(_e.failures), sets(_c.failed, True),
            changes(_c.unknown_tool),
        ),
    ),
    Outcome("unknown", (sets(_t.outcome, UNKNOWN),)),
)  # fmt: skip
EVALUATE = (
    Outcome(
        "as meant",
        (
            *_WELL,
            sets(_e.met, True),
            sets(_e.failures, 0),
            changes(_e.operations_left),
            may_set(_e.goal_reached, True),
        ),
    ),
    Outcome("nothing was left", (*_WELL, sets(_e.met, True))),
    Outcome("not as meant", (*_BADLY, sets(_e.met, False))),
)
DIAGNOSE = (Outcome("classified", (sets(_d.diagnosis, RANDOM, IDENTICAL, SYSTEMATIC, INPUT),)),)
ESCALATE = (
    Outcome("informs", _INFORMS, led_by=("out_of_scope", "step_limit", "systematic")),
    Outcome("gives up", _INFORMS, led_by=("identical", "retries_exhausted")),
    Outcome(
        "asks for advice", (sets(_q.about, FAILURE), raises(_q.questions_asked)),
        led_by=("identical", "retries_exhausted"),
    ),
    Outcome("asks what is meant", (sets(_q.about, AMBIGUITY), raises(_q.questions_asked)), led_by=("ambiguous",)),
    Outcome("asks which", (sets(_q.about, CONTRADICTION), raises(_q.questions_asked)), led_by=("contradiction",)),
    Outcome("asks for approval", (sets(_q.about, APPROVAL),), led_by=("needs_approval",)),
)  # fmt: skip
_NOT_EXPIRED = (sets(_r.expired, False), sets(_r.others_left, False))
ASK_PERSON = (
    Outcome("expired", (sets(_r.expired, True), changes(_r.declined), changes(_r.others_left)), when=~_r.expired),
    Outcome(
        "expired again", (sets(_r.expired, True), changes(_r.declined), sets(_r.others_left, False)),
        when=_r.expired,
    ),
    Outcome("declined", (*_NOT_EXPIRED, sets(_r.declined, True))),
    Outcome("answered", (*_NOT_EXPIRED, sets(_r.declined, False), *_APPROVED)),
)  # fmt: skip
ANSWER = (Outcome("answered"),)
