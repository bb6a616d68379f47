"""The page of metrics, and the links to what is looked at elsewhere."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import grpc
import httpx
import pytest
from signalbox.v1 import caller_pb2, outcome_pb2, runs_pb2

from services.console.periods import HOURS
from services.console.run_metrics import BAR_WIDTH, HEIGHT, run_metrics
from services.console.settings import ConsoleSettings
from tests.fixtures.walked_run import RUN_ID
from tests.integration.console.conftest import Console, console_over
from tests.integration.console.every_page import fill
from tests.integration.console.fake_gateway import FakeGateway, refusal, serving

ANSWERED, BLOCKED = outcome_pb2.OUTCOME_ANSWERED, outcome_pb2.OUTCOME_BLOCKED
SUCCEEDED, FAILED, AWAITING = (
    runs_pb2.RUN_STATE_SUCCEEDED, runs_pb2.RUN_STATE_FAILED, runs_pb2.RUN_STATE_AWAITING_INPUT,
)  # fmt: skip
ELSEWHERE = ConsoleSettings(
    trace_url="https://traces.example.com/trace/{trace_id}", dashboard_url="https://grafana.example.com/d/overview"
)


def count(place: int, many: int, state: runs_pb2.RunState = SUCCEEDED, outcome: int = 0) -> runs_pb2.RunCount:
    """Runs of an interval of the last hours."""
    made = runs_pb2.RunCount(
        agent="data_chat",
        state=state,
        outcome=outcome,  # type: ignore[arg-type]
        count=many,
        model_calls=2 * many,
        token_usage=caller_pb2.TokenUsage(input_tokens=100 * many, output_tokens=10 * many),
    )
    made.begin_time.FromSeconds(HOURS.begin() + place * HOURS.interval_s)
    return made


def whole(place: int, median_s: float, p95_s: float) -> runs_pb2.RunCount:
    """All runs of an interval."""
    made = runs_pb2.RunCount(count=1, duration=runs_pb2.Quantiles(median_s=median_s, p95_s=p95_s))
    made.begin_time.FromSeconds(HOURS.begin() + place * HOURS.interval_s)
    return made


@pytest.fixture
def counted(gateway: FakeGateway) -> runs_pb2.CountRunsResponse:
    gateway.run_counts = runs_pb2.CountRunsResponse(
        counts=[
            count(23, 6, outcome=ANSWERED), count(23, 2, FAILED), count(3, 1, AWAITING), count(0, 1, outcome=BLOCKED),
        ],
        intervals=[whole(23, 2, 8), whole(3, 1, 1)],
        run_count=10,
        is_partial=True,
    )  # fmt: skip
    return gateway.run_counts


@pytest.mark.usefixtures("counted")
async def test_the_page_says_what_was_counted(inside: httpx.AsyncClient, gateway: FakeGateway) -> None:
    page = await inside.get("/metrics", params={"agent": "data_chat"})
    assert page.status_code == 200
    text = html.unescape(page.text)
    assert "10 runs that you may see, of those that have ended 67 % brought what was asked" in text
    assert "older ones in this time were not looked at" in text
    assert "20 model calls, 1,100 tokens" in text
    assert re.search(r'<a href="/runs\?agent=data_chat&state=awaiting_input&since=[^"]+">1 awaiting input</a>', text)
    assert "median 2.00 s, 95th percentile 8.00 s" in text
    asked = gateway.counted_since
    assert (asked.agent, asked.interval_minutes) == ("data_chat", 15)
    looked_back = datetime.now(UTC) - asked.since_time.ToDatetime(tzinfo=UTC)
    assert 5 * 3600 < looked_back.total_seconds() <= 6 * 3600
    links = re.findall(r'class="pill (\w+)" href="([^"]+)">', text)
    assert {mood for mood, _ in links} == {"good", "bad", "live", "blocked"}
    for _, link in links:
        assert (await inside.get(link)).status_code == 200, link


async def test_costs_are_shown_by_model_and_a_missing_price_is_said(
    inside: httpx.AsyncClient, gateway: FakeGateway
) -> None:
    fill(gateway)
    for path in ("/metrics", f"/runs/{RUN_ID}"):
        text = (await inside.get(path)).text
        assert re.search(r'large</th>(<td class="n">[\d,]+</td>){4}<td class="n">0\.03 EUR</td>', text), path
        assert re.search(
            r'of-the-guard</th>(<td class="n">[\d,]+</td>){4}<td class="n"><span class="soft">no price', text
        )
        assert "0.03 EUR, and 12,900 tokens of models without a price" in text
    assert gateway.counted_since.with_costs


def test_bars_are_as_high_as_their_part(counted: runs_pb2.CountRunsResponse) -> None:
    outcomes, times, waits, tokens = run_metrics(counted, HOURS, HOURS.begin()).charts
    newest = [bar for bar in outcomes.bars if bar.x == 23 * BAR_WIDTH]
    assert [(bar.kind, bar.height) for bar in newest] == [("good", HEIGHT * 6 / 8), ("bad", HEIGHT * 2 / 8)]
    assert newest[1].y == 0
    assert [(bar.kind, bar.height) for bar in times.bars if bar.x == 23 * BAR_WIDTH] == [
        ("median", HEIGHT * 2 / 8), ("p95", HEIGHT * 6 / 8),
    ]  # fmt: skip
    assert (waits.bars, waits.most, tokens.bars) == ([], "", [])


async def test_nothing_to_draw_and_no_right_are_said(inside: httpx.AsyncClient, gateway: FakeGateway) -> None:
    empty = await inside.get("/metrics")
    assert (empty.status_code, "0 runs that you may see" in empty.text) == (200, True)
    wrong = await inside.get("/metrics?period=century")
    assert (wrong.status_code, "not one of hours, day, week, month" in wrong.text) == (400, True)
    gateway.list_failure = refusal(grpc.StatusCode.UNIMPLEMENTED)
    assert (await inside.get("/metrics")).status_code == 501


@pytest.fixture
async def linked(gateway: FakeGateway) -> AsyncIterator[Console]:
    async with serving(gateway) as port, console_over(port, ELSEWHERE) as served:
        yield served


async def test_links_lead_to_traces_and_dashboards_where_they_are_set(
    linked: Console, inside: httpx.AsyncClient, gateway: FakeGateway
) -> None:
    gateway.shown.run.trace_id = "0af7651916cd43dd8448eb211c80319c"
    async with linked.browser() as client:
        trace = 'href="https://traces.example.com/trace/0af7651916cd43dd8448eb211c80319c"'
        assert trace in (await client.get(f"/runs/{RUN_ID}")).text
        assert 'href="https://grafana.example.com/d/overview"' in (await client.get("/metrics")).text
        gateway.shown.run.trace_id = ""
        assert "traces.example.com" not in (await client.get(f"/runs/{RUN_ID}")).text
    for path in (f"/runs/{RUN_ID}", "/metrics"):
        assert "example.com" not in (await inside.get(path)).text
