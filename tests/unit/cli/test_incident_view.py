"""How a terminal shows the root cause of an incident."""

from __future__ import annotations

from signalbox.v1 import incident_investigation_pb2, runs_pb2

from services.cli import render
from services.cli.demo_incident import check
from services.kit.models.offline_rules import OFFLINE_RULES

Output = incident_investigation_pb2.IncidentInvestigationOutput
Evidence = incident_investigation_pb2.IncidentEvidence


def run(output: Output) -> runs_pb2.Run:
    """A run that brought this."""
    return runs_pb2.Run(
        run_id="r", state=runs_pb2.RUN_STATE_SUCCEEDED, output=runs_pb2.RunOutput(incident_investigation=output)
    )


def found() -> Output:
    """A cause with evidence of every kind."""
    nodes = [incident_investigation_pb2.GraphPathNode(label="Service", key=key) for key in ("portal", "timeseries")]
    edges = [incident_investigation_pb2.GraphPathEdge(type="DEPENDS_ON", backwards=True)]
    output = Output(root_cause="The disk of timeseries is full.", confidence=0.5, recommendations=["Free space."])
    output.evidence.extend(
        [
            Evidence(
                claim="It is full.",
                holds=True,
                query=incident_investigation_pb2.QueryEvidence(query="SELECT used FROM m", row={"used": "100"}),
            ),
            Evidence(
                claim="It is needed.",
                holds=True,
                graph_path=incident_investigation_pb2.GraphPathEvidence(nodes=nodes, edges=edges),
            ),
            Evidence(
                claim="It\x1b[31m says so.",
                problem="the lines do not hold what is quoted",
                code=incident_investigation_pb2.CodeEvidence(
                    file="a.yaml", first_line=3, last_line=4, quote="quota: 1"
                ),
            ),
        ]
    )
    output.timeline.add(event="it fills up").time.FromJsonString("2026-01-30T18:30:00Z")
    return output


def test_a_cause_and_what_it_rests_on() -> None:
    text = render.to_text(render.answer(run(found())), width=200)
    for part in (
        "The disk of timeseries is full.\nconfidence 0.50, not confirmed\n",
        "✓ It is full.",
        "used = 100, of: SELECT used FROM m",
        "(Service portal) <-[DEPENDS_ON]- (Service timeseries)",
        "says so.",
        "a.yaml:3-4: quota: 1",
        "the lines do not hold what is quoted",
        "2026-01-30 18:30:00  it fills up",
        "  - Free space.",
    ):
        assert part in text, text
    assert "✗" in text
    assert "\x1b" not in text


def test_an_incident_without_a_cause_says_what_was_looked_at() -> None:
    text = render.to_text(render.answer(run(Output(explanation="I looked at berths."))))
    assert text.startswith("No root cause was found.\nI looked at berths.\n")


def test_a_cause_that_rules_found_says_so_and_claims_no_confidence() -> None:
    output = found()
    assert "confidence 0.50" in render.to_text(render.answer(run(output)))
    output.offline_model_calls = 2
    text = render.to_text(render.answer(run(output)))
    assert OFFLINE_RULES in text
    assert "confidence" not in text


def test_the_demo_checks_what_comes_of_it() -> None:
    output = found()
    assert check(run(output)) == ["evidence does not hold: It\x1b[31m says so.: the lines do not hold what is quoted"]
    del output.evidence[1:]
    output.root_cause = "Somebody did it."
    assert check(run(output)) == [
        "the root cause does not say 'disk'",
        "the root cause does not say 'timeseries'",
        "no evidence is from: graph_path",
    ]
    [said] = check(runs_pb2.Run(state=runs_pb2.RUN_STATE_FAILED, error="no model"))
    assert "FAILED (no model)" in said
