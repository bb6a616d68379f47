"""What a terminal says of a batch of findings."""

from __future__ import annotations

import io

from rich.console import Console
from signalbox.v1 import sast_pb2

from services.cli.summary_tables import as_tables
from services.findings.investigation.summary import Judged, Summary
from services.findings.sarif.outcome import Outcome, Source, Verdict


def failed(fingerprint: str, source: Source) -> Judged:
    """A finding that came to nothing."""
    outcome = Outcome(fingerprint, Verdict.NEEDS_REVIEW, None, "It is so.", source=source, error="It is so.")
    return Judged(sast_pb2.Finding(fingerprint=fingerprint, rule_id="B602"), outcome)


def test_only_runs_that_failed_are_said_to_be_run_again() -> None:
    out = io.StringIO()
    judged = (failed("1", Source.RUN), failed("2", Source.LOG), failed("3", Source.LOG))
    Console(file=out, width=200).print(as_tables(Summary("/srv/portal", "0" * 40, judged, {})))
    assert "1 run failed: --rerun-failed runs what failed again" in out.getvalue()
    assert "2 results can't be used: correct the log" in out.getvalue()
