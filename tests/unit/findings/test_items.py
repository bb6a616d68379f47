"""Findings as items of a batch, and what comes back of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from signalbox.v1 import batches_pb2, runs_pb2, sast_pb2

from services.findings.investigation.items import investigation_input, item_of, item_outcome
from services.findings.sarif.outcome import Evidence, Outcome, Source, Verdict
from services.kit.models.offline_rules import OFFLINE_RULES

FINDING = sast_pb2.Finding(
    fingerprint="f-1", rule_id="python.lang/sql injection!", location=sast_pb2.CodeLocation(file="a.py", first_line=3)
)
SOURCE = sast_pb2.CodeSource(repository="/srv/portal", commit="0" * 40)
RUN_ID = "01a21b33-d34b-7825-ad9d-5171ae13ce55"
EARLIER = Outcome(
    "f-1", Verdict.TRUE_POSITIVE, 0.8, "It is so.", (Evidence("claimed", "a.py", 3, 4, "0" * 40, "quoted"),),
    source=Source.EARLIER, run_id=RUN_ID, rules="digest", notes=("carried over",),
)  # fmt: skip


@pytest.mark.parametrize(
    "outcome",
    [
        EARLIER,
        replace(EARLIER, confidence=None, decided_by=OFFLINE_RULES),
        Outcome(
            "f-1", Verdict.FALSE_POSITIVE, None, "We know.", stop_reason="known_false_positive", source=Source.KNOWN
        ),
        Outcome("f-1", Verdict.FALSE_POSITIVE, None, "She looked.", source=Source.PERSON),
    ],
    ids=["earlier", "offline", "known", "person"],
)
def test_an_answer_comes_back_from_a_batch_as_it_was(outcome: Outcome) -> None:
    given = item_of(FINDING, investigation_input(FINDING, SOURCE), truth=None, settled=outcome)
    run = runs_pb2.Run(
        run_id=given.settled.run_id,
        graph_version=given.settled.graph_version,
        state=runs_pb2.RUN_STATE_SUCCEEDED,
        output=given.settled.output,
    )
    item = batches_pb2.BatchItem(run=run, settled_by=given.settled.by)
    assert item_outcome("f-1", item) == outcome


def test_what_a_log_may_hold_and_a_message_may_not_costs_nothing() -> None:
    odd = replace(EARLIER, justification="half \ud800", run_id="made up")
    given = item_of(FINDING, investigation_input(FINDING, SOURCE), truth=True, settled=odd)
    assert given.settled.output.sast_investigation.justification == "half ?"
    assert (given.settled.run_id, given.truth) == ("", sast_pb2.VERDICT_TRUE_POSITIVE)
    assert given.labels["rule"] == "python.lang-sql-injection"
