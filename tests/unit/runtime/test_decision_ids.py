"""The ids that an agent's decisions carry, as its definition says: on the log line, and on the span."""

from __future__ import annotations

import pytest
from signalbox.v1 import sast_pb2
from structlog.testing import capture_logs

from services.runtime.agents.registry import definitions
from services.runtime.routing.recorder import DecisionRecorder
from tests.unit.runtime.test_sast_triage_routers import DECISION

STATE = {"finding": sast_pb2.Finding(fingerprint="f-7").SerializeToString()}


@pytest.mark.parametrize("agent", ["sast_triage", "sast_investigation"])
def test_a_decision_about_a_finding_names_it(agent: str) -> None:
    recorder = DecisionRecorder(agent, definitions()[agent].ids)
    decision = DECISION.decide({**STATE, "requested": {"tool": "fetch_code", "arguments": {}}})
    with capture_logs() as lines:
        recorder.record(
            decision_id="d", router=DECISION.name, policy_version="v", node="agent", decision=decision, state=STATE
        )
    [line] = lines
    assert (line["event"], line["finding_id"], line["rule"]) == ("routed", "f-7", "tool_call")
