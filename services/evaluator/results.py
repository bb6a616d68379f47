"""Results of evaluations as span events, which backends such as Langfuse show as scores.

https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-events/#event-gen_aievaluationresult
"""

from __future__ import annotations

from typing import Final

from opentelemetry import trace

EVENT: Final = "gen_ai.evaluation.result"
NAME: Final = "gen_ai.evaluation.name"
SCORE_VALUE: Final = "gen_ai.evaluation.score.value"
SCORE_LABEL: Final = "gen_ai.evaluation.score.label"
EXPLANATION: Final = "gen_ai.evaluation.explanation"
MAX_EXPLANATION_CHARACTERS = 1000


def record_result(name: str, *, score: float, label: str, explanation: str) -> None:
    """Adds a result to the current span."""
    trace.get_current_span().add_event(
        EVENT,
        {
            NAME: name,
            SCORE_VALUE: score,
            SCORE_LABEL: str(label),
            EXPLANATION: explanation[:MAX_EXPLANATION_CHARACTERS],
        },
    )
