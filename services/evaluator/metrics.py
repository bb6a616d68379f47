"""What the evaluator counts and times."""

from __future__ import annotations

from prometheus_client import Counter, Histogram

from services.kit.telemetry.metrics import DURATION_BUCKETS, from_zero
from services.kit.telemetry.names import METRIC_PREFIX

EVALUATIONS = Counter(
    METRIC_PREFIX + "evaluator_evaluations_total",
    "Drafts judged, by kind (comprehensive_evaluation, critique, validate_cause), outcome and the stage that decided.",
    ["kind", "outcome", "stage"],
)
PROBLEMS = Counter(
    METRIC_PREFIX + "evaluator_evidence_problems_total", "Claims that failed a mechanical check, by reason.", ["reason"]
)
UNREADABLE_ANSWERS = Counter(
    METRIC_PREFIX + "evaluator_unreadable_answers_total", "Model answers that were not the JSON asked for.", ["kind"]
)
CHECK_DURATION = Histogram(
    METRIC_PREFIX + "evaluator_check_duration_seconds",
    "Duration of the mechanical checks of a draft.",
    buckets=DURATION_BUCKETS,
)

from_zero(UNREADABLE_ANSWERS, ["comprehensive_evaluation", "critique", "validate_cause"])
