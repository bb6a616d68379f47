"""Logs: one JSON object a line, with the ids of the run and the trace."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

ROOT = Path(__file__).parents[3]
PROGRAM = """
import logging
from opentelemetry import context
from services.kit.telemetry.logs import configure_logs, get_logger
from services.kit.telemetry.tracing import carrying, start_telemetry, tracer
configure_logs("guard", "INFO")
start_telemetry("guard", otlp_endpoint="")
log = get_logger()
log.debug("too quiet")
log.info("before")
context.attach(carrying({"run_id": "r-1", "correlation_id": "c-1", "decision_id": "d-1"}))
with tracer().start_as_current_span("work"):
    log.info("inside", table="a\\nb", caller="\\ud800".encode("utf-8", "replace").decode())
    logging.getLogger("some.library").warning("spoke %s", "up")
    logging.getLogger("httpx").info("a request")
    try:
        raise ValueError("broken")
    except ValueError:
        log.exception("failed", run_id="r-2")
log.info("half of a pair", answer="\\ud83d", by={3: "\\ud83d"})
"""


@pytest.fixture(scope="module")
def lines() -> list[dict[str, object]]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        check=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.stdout == b""
    return [orjson.loads(line) for line in done.stderr.splitlines()]


def test_each_event_is_one_line(lines: list[dict[str, object]]) -> None:
    assert [line["event"] for line in lines] == ["before", "inside", "spoke up", "failed", "half of a pair"]
    assert {line["service"] for line in lines} == {"guard"}
    assert lines[1]["table"] == "a\nb"


def test_lines_carry_the_ids_that_are_known(lines: list[dict[str, object]]) -> None:
    before, inside, library, *_ = lines
    assert not {"trace_id", "run_id"} & before.keys()
    for line in (inside, library):
        assert (line["run_id"], line["correlation_id"], line["decision_id"]) == ("r-1", "c-1", "d-1")
        assert len(str(line["trace_id"])) == 32
        assert len(str(line["span_id"])) == 16
    assert inside["trace_id"] == library["trace_id"]


def test_what_an_event_says_itself_goes_before_what_is_carried(lines: list[dict[str, object]]) -> None:
    assert lines[3]["run_id"] == "r-2"
    assert "ValueError: broken" in str(lines[3]["exception"])


def test_a_text_that_is_no_utf_8_is_logged_too(lines: list[dict[str, object]]) -> None:
    """Models write half of a surrogate pair; what is said of it must not fail what says it."""
    assert (lines[-1]["answer"], lines[-1]["by"]) == ("?", {"3": "?"})
