"""Times that commands are given: as tables show them, or with an offset from UTC."""

from __future__ import annotations

import asyncio
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from signalbox.v1 import agents_pb2, maintenance_pb2, runs_pb2

from services.kit.text.words import parse_moment
from services.local.settings import inherited_environment
from tests.integration.cli.fake_gateway import FakeGateway, serving

ZONE = "Asia/Tokyo"  # nine hours ahead, all year
SHOWN = "2026-03-02 09:30:00"
GIVEN = [
    (SHOWN, "2026-03-02T00:30:00Z"),
    ("2026-03-02", "2026-03-01T15:00:00Z"),
    ("2026-03-02T09:30Z", "2026-03-02T09:30:00Z"),
    ("2026-03-02T09:30:00-05:00", "2026-03-02T14:30:00Z"),
]
RUNS = runs_pb2.ListRunsResponse(runs=[runs_pb2.Run(run_id="a-run", create_time=Timestamp(seconds=1772411400))])
ANSWERS = {
    "ListRuns": RUNS,
    "ListDecisions": runs_pb2.ListDecisionsResponse(),
    "CountDecisions": runs_pb2.CountDecisionsResponse(),
    "ReplayDecisions": maintenance_pb2.ReplayDecisionsResponse(),
    "VerifyDecisions": maintenance_pb2.VerifyDecisionsResponse(),
}
REPLAY = ("replay", "--router", "data_chat.route_after_agent", "--set", "max_iterations=3")


async def signalbox(address: str, *arguments: str) -> tuple[int | None, str, str]:
    """Runs a command in a zone; returns its status, output and errors."""
    env = {**inherited_environment(), "TZ": ZONE, "SIGNALBOX_GATEWAY": address, "SIGNALBOX_TOKEN": "token"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "services.cli", *arguments, env=env, cwd=Path(__file__).parents[3],
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await asyncio.wait_for(process.communicate(), timeout=60)
    return process.returncode, out.decode(), err.decode()


@pytest.mark.parametrize(("given", "asked"), GIVEN)
async def test_a_time_is_local_unless_it_says_its_offset(given: str, asked: str) -> None:
    gateway = FakeGateway(ANSWERS)
    async with serving(gateway) as address:
        status, _, err = await signalbox(address, "runs", "--since", given, "--until", given)
    assert status == 0, err
    request = runs_pb2.ListRunsRequest.FromString(gateway.requests[0])
    assert (request.since_time.ToJsonString(), request.until_time.ToJsonString()) == (asked, asked)


@pytest.mark.parametrize(
    ("given", "since"),
    [
        ("90m", "2026-03-01T23:00:00Z"),
        ("2h", "2026-03-01T22:30:00Z"),
        ("2d", "2026-02-28T00:30:00Z"),
        ("today", "2026-03-01T15:00:00Z"),
        ("Yesterday", "2026-02-28T15:00:00Z"),
        ("1h before 2026-01-02T03:04Z", "2026-01-02T02:04:00Z"),
    ],
)
def test_a_time_may_be_said_from_now(given: str, since: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", ZONE)
    time.tzset()
    now = datetime(2026, 3, 2, 9, 30, tzinfo=ZoneInfo(ZONE))
    try:
        assert parse_moment(given, now).ToJsonString() == since
    finally:
        monkeypatch.undo()
        time.tzset()


async def test_a_router_that_nobody_has_is_told_with_those_near_it() -> None:
    agent = agents_pb2.Agent(name="data_chat", routers=["data_chat.route_after_agent", "data_chat.route_after_tools"])
    answers = {**ANSWERS, "ListAgents": agents_pb2.ListAgentsResponse(agents=[agent])}
    async with serving(FakeGateway(answers)) as address:
        status, _, err = await signalbox(address, "decisions", "--router", "data_chat.rout_after_agent")
        assert (status, "did you mean data_chat.route_after_agent" in err) == (2, True), err
        status, _, err = await signalbox(address, "decisions", "--router", "data_chat.route_after_agent")
        assert (status, "no matching decisions" in err) == (0, True), err


async def test_a_time_that_a_table_shows_finds_its_run() -> None:
    gateway = FakeGateway(ANSWERS)
    async with serving(gateway) as address:
        _, shown, _ = await signalbox(address, "runs")
        assert SHOWN in shown
        await signalbox(address, "runs", "--since", SHOWN)
    request = runs_pb2.ListRunsRequest.FromString(gateway.requests[-1])
    assert request.since_time == RUNS.runs[0].create_time


async def test_every_command_reads_times_alike() -> None:
    gateway, later = FakeGateway(ANSWERS), ("--since", "2026-03-02T09:30+01:00")
    async with serving(gateway) as address:
        for command in (
            ("decisions",),
            ("decisions", "--count", "--agent", "data_chat"),
            REPLAY,
            ("replay", "--verify"),
        ):
            await signalbox(address, *command, *later)
    kinds: dict[str, Any] = {
        "ListDecisions": runs_pb2.ListDecisionsRequest, "CountDecisions": runs_pb2.CountDecisionsRequest,
        "ReplayDecisions": maintenance_pb2.ReplayDecisionsRequest,
        "VerifyDecisions": maintenance_pb2.VerifyDecisionsRequest,
    }  # fmt: skip
    assert gateway.asked == list(kinds)
    for name, text in zip(gateway.asked, gateway.requests, strict=True):
        assert kinds[name].FromString(text).since_time.ToJsonString() == "2026-03-02T08:30:00Z"


@pytest.mark.parametrize("given", ["tomorrow", "1x", "999999w", "0001-01-01", "9999-12-31T23:59-12:00"])
async def test_what_is_no_time_is_refused(given: str) -> None:
    status, out, err = await signalbox("127.0.0.1:1", "runs", "--since", given)
    assert (status, out) == (2, "")
    assert "is not a time" in err
