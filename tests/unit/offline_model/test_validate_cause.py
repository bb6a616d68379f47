"""The offline judge of causes: what was found has to be of what is named, and show more than what depends on what."""

from __future__ import annotations

import json
from typing import Any

import pytest

from services.offline_model.conversation import Conversation
from services.offline_model.skills.validate_cause import validate_cause

NODES = [{"label": "Service", "key": "booking"}, {"label": "Service", "key": "payments"}]
PATH = {"claim": "it depends on it", "graph_path": {"nodes": NODES}, "found": "booking -> payments"}
ROW = {"claim": "it was deployed", "found": json.dumps({"service": "payments", "version": "4.2.0"})}
OTHER = {"claim": "it was deployed", "found": json.dumps({"service": "charts", "version": "1.0.0"})}
LINES = {"claim": "calls get 50 ms", "code": {"file": "services/payments/config.yaml"}, "found": "timeout_ms: 50"}


def problems(*evidence: dict[str, Any], cause: str = "payments was deployed.") -> list[str]:
    """What speaks against a cause."""
    given = {"incident": {"service": "booking"}, "root_cause": cause, "evidence": evidence}
    told = json.loads(validate_cause(Conversation(given, (), (), must_call=False)).text)
    assert all(told[name] for name in ("bears_on_cause", "time_fits", "explains_symptom")) is not bool(told["problems"])
    return list(told["problems"])


@pytest.mark.parametrize("evidence", [(PATH, ROW), (PATH, LINES), (PATH, OTHER, ROW)])
def test_a_row_or_lines_of_what_is_named_show_it(evidence: tuple[dict[str, Any], ...]) -> None:
    assert problems(*evidence) == []


@pytest.mark.parametrize(
    ("evidence", "cause"),
    [
        ((), "payments was deployed."), ((PATH,), "payments was deployed."), ((PATH, OTHER), "payments was deployed."),
        ((PATH, ROW), "charts is down."), ((PATH,), "booking itself has a defect."), ((ROW,), "payments was deployed."),
    ],
)  # fmt: skip
def test_true_things_beside_the_point_do_not(evidence: tuple[dict[str, Any], ...], cause: str) -> None:
    assert problems(*evidence, cause=cause)
