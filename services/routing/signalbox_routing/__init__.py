"""Decision tables for LangGraph's conditional edges: ordered rules over facts and limits, as data."""

from signalbox_routing.explaining import Alternative, ExplainedRule, Explainer, explained
from signalbox_routing.facts import fact
from signalbox_routing.table import (
    END,
    Choice,
    Decision,
    NoWayError,
    Router,
    Rule,
    Several,
    UnkeptFactsError,
    either,
    named_by,
)
from signalbox_routing.terms import Always, InvalidTableError, terms

__all__ = [
    "END",
    "Alternative",
    "Always",
    "Choice",
    "Decision",
    "ExplainedRule",
    "Explainer",
    "InvalidTableError",
    "NoWayError",
    "Router",
    "Rule",
    "Several",
    "UnkeptFactsError",
    "either",
    "explained",
    "fact",
    "named_by",
    "terms",
]
