"""Every query of the dashboards and every series of the alerts, in a real Prometheus that has scraped real services."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import grpc
import httpx
import pytest
import pytest_asyncio
import yaml
from prometheus_client.samples import Sample
from signalbox.v1 import tools_pb2, tools_pb2_grpc

from charts.dashboards.__main__ import BOARDS
from charts.dashboards.panels import Panel
from charts.dashboards.unused import UNUSED
from examples.harbour import repository as portal
from services.cli.client import Connection
from services.cli.investigation import summarise
from services.cli.triage import Triage, triage
from services.kit.identity.bearer import bearer_metadata
from services.kit.identity.caller import Caller, RunClaims
from services.kit.identity.run_tokens import RunTokenMinter
from services.kit.telemetry.names import AUDIENCE_MCP_EXECUTOR
from services.local.database import WORLD_GRAPH_POLICY
from services.local.falkordb import missing_for_falkordb
from services.mcp_executor.accept import main as accept
from services.runtime.agents.registry import AGENTS
from tests.contract.deploy.helm import CHART, EXAMPLES, Helm, locate
from tests.contract.deploy.manifests import named
from tests.e2e.test_code_agents import scan, silent, wanted
from tests.e2e.test_console import inside
from tests.fixtures.alert_rules import ALERT_NAMES, rendered_rules
from tests.fixtures.client import CALL_TIMEOUT_S
from tests.fixtures.graph_edits import Editor
from tests.fixtures.mcp_server import serving_tickets
from tests.fixtures.otlp import TraceCollector
from tests.fixtures.prometheus import Prometheus, needs_prometheus, prometheus
from tests.fixtures.scrape import Scraped, scrape
from tests.fixtures.stack import Platform, World, platform

pytestmark = [needs_prometheus, pytest.mark.skipif(bool(missing_for_falkordb()), reason=missing_for_falkordb())]
SUBJECT = "27"
ALERTS = sorted((CHART / "alerts").glob("*.yaml"))
WINDOW = "1m"
MOST_SERIES = 1_500
# One look at the database, which the questions asked here need two of.
IN_SHADOW = '{"data_chat": {"max_iterations": 1}}'
PRICES = '{"signalbox-offline-agent": {"input": 1, "output": 4}}'
SELECTOR = re.compile(r"signalbox_\w+(?:\{[^}]*\})?")
MATCHER = re.compile(r'(\w+)(=~|=)"([^"]*)"')
# What exists only once something has happened that has no name before: each with the reason.
NAMED_BY_EVENTS = {
    "signalbox_model_spent_tokens_total": "a model is named by its endpoint",
    "signalbox_model_cost_total": "likewise",
    "signalbox_tool_calls_served_total": "reasons of refusals are each executor's own",
    "signalbox_tool_call_duration_seconds": "likewise",
    "signalbox_rpc_server_duration_seconds": "refusals and failures count from 0, in _errors_total",
    "signalbox_batch_verdicts_total": "a rule is its analyser's; all of it is told from its first verdict on",
    "signalbox_run_duration_seconds": "of states that no alert looks at: likewise, in runs_ended_total",
}


@dataclass(frozen=True)
class Watched:
    """A platform after traffic, scraped by Prometheus; what each service told before and after; and its console."""

    monitor: Prometheus
    console: httpx.AsyncClient
    idle: dict[str, Scraped]
    busy: dict[str, Scraped]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def watched(harbour: World, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Watched]:
    """Every service, questions and findings, all under the eyes of Prometheus."""
    folder = tmp_path_factory.mktemp("watched")
    made = portal.create(folder / "service")
    scan(made.path, folder / "bandit.sarif")
    settings = {
        "runtime": {
            "SIGNALBOX_RETENTION_INTERVAL_S": "1",
            "SIGNALBOX_MODEL_PRICES": PRICES,
            "SIGNALBOX_SHADOW_POLICIES": IN_SHADOW,
        }
    }
    async with (
        TraceCollector() as collector,
        mcp_servers(folder / "servers.yaml") as servers,
        platform(
            harbour,
            code_agents=True,
            code_roots=(folder,),
            graph_policy=WORLD_GRAPH_POLICY,
            mcp_servers=servers,
            batches=True,
            http_replicas=1,
            service_env=settings,
            otlp_endpoint=collector.endpoint,
        ) as running,
    ):
        addresses = {service.name: service.ready.metrics for service in running.stack.services}
        idle = {name: await scrape(address) for name, address in addresses.items()}
        directory = tmp_path_factory.mktemp("prometheus")
        async with prometheus(addresses, directory) as monitor:
            assert await monitor.until("count(signalbox_build_info) == 11")
            caller = running.caller(SUBJECT)
            with pytest.raises(grpc.aio.AioRpcError):
                await caller.get("0197a0c0-0000-7000-8000-000000000000")
            for text in ("Count devices with temperature > 10", "Show me the devices of user 31", "List my devices"):
                await caller.ask(text)
            await Editor(caller).ask("Find all open tickets.")
            await search_tickets(running)
            headers = {"Authorization": f"Bearer {running.stack.token(SUBJECT)}"}
            async with httpx.AsyncClient(headers=headers) as http:
                address = running.stack.http_apis[0].ready.listen
                assert (await http.post(f"http://{address}/assistants/search", json={})).is_success
            connection = Connection(running.stack.gateway_address, running.stack.token(SUBJECT))
            for fingerprint in ("harbour-unchecked-join", "harbour-checked-join"):
                await triage(connection, Triage(portal.FINDINGS, made.path, fingerprint=fingerprint), silent())
            await summarise(connection, wanted(folder, made), silent())
            ran = 'sum(signalbox_run_duration_seconds_count{agent="sast_investigation"}) > 3'
            assert await monitor.until(f"{ran} and on () signalbox_stored_bytes")
            busy = {name: await scrape(address) for name, address in addresses.items()}
            async with inside(running, lambda: running.stack.token("ops", ["operator"])) as console:
                yield Watched(monitor, console, idle, busy)


@asynccontextmanager
async def mcp_servers(file: Path) -> AsyncIterator[Path]:
    """A server with an accepted tool, and one whose tokens are exchanged and that nobody calls; yields their file."""

    def write(**servers: Any) -> None:
        file.write_text(yaml.safe_dump({"servers": servers}))

    async with serving_tickets() as served:
        tickets = {"url": served.url, "tools": {"search": {}}}
        write(tickets=tickets)
        assert await asyncio.to_thread(accept, [str(file), "--accept"]) == 0
        away = "http://127.0.0.1:1"
        write(tickets=tickets, private={"url": f"{away}/mcp", "token_exchange": {"url": f"{away}/token"}})
        yield file


async def search_tickets(running: Platform) -> None:
    """Calls the accepted tool as a run does: none of the platform's own agents has tools of MCP servers."""
    claims = RunClaims(Caller(SUBJECT), str(uuid4()), "data_chat", frozenset({"tickets_search"}), 1)
    token = RunTokenMinter(running.stack.keys.runs.private.read_text()).mint(claims, AUDIENCE_MCP_EXECUTOR)
    key = tools_pb2.IdempotencyKey(run_id=claims.run_id, checkpoint_id="1", tool_call_id="1")
    request = tools_pb2.CallToolRequest(tool="tickets_search", idempotency_key=key, epoch=1)
    request.arguments.update({"words": "login"})
    async with grpc.aio.insecure_channel(running.stack.service("mcp_executor").ready.listen) as channel:
        executor = tools_pb2_grpc.ToolExecutorServiceStub(channel)
        found = await executor.CallTool(request, metadata=(bearer_metadata(token),), timeout=CALL_TIMEOUT_S)
    assert found.output.text == "Fix login", found


def asked(expr: str) -> str:
    """A dashboard's query as Grafana asks it, with every namespace chosen."""
    numbers = {f"${name}": number for board in BOARDS for name, (_, number) in board.numbers.items()}
    for name, text in {"$__rate_interval": WINDOW, "$namespace": ".*", **numbers}.items():
        expr = expr.replace(name, text)
    return expr


QUERIES = [
    pytest.param(query.expr, id=f"{board.uid}: {panel.title}: {query.legend}")
    for board in BOARDS
    for panel in board.panels
    for query in panel.queries
]


@pytest.mark.parametrize("expr", QUERIES)
async def test_every_query_of_the_dashboards_has_an_answer(watched: Watched, expr: str) -> None:
    found = await watched.monitor.query(asked(expr))
    assert found, f"nothing comes of {asked(expr)}"


async def test_limits_in_shadow_show_what_they_would_have_changed(watched: Watched) -> None:
    by_router = {
        router: {
            outcome: sum(
                sample.value
                for sample in watched.busy["runtime"].matching(
                    "signalbox_shadow_decisions_total", {"router": f"data_chat.{router}", "outcome": outcome}
                )
            )
            for outcome in ("same", "other", "skipped")
        }
        for router in ("route_after_screen", "route_after_agent", "route_after_tools")
    }
    assert by_router["route_after_screen"]["same"] > 0
    assert by_router["route_after_screen"]["other"] == 0
    assert sum(counts["other"] for counts in by_router.values()) > 0
    assert sum(counts["skipped"] for counts in by_router.values()) == 0
    told = watched.busy["runtime"].matching("signalbox_shadow_decisions_total", {})
    assert {sample.labels["agent"] for sample in told} == {"data_chat"}


@pytest.fixture(scope="module")
def rules() -> dict[str, str]:
    """The alerts' expressions by name, as the chart renders them for one replica of each service."""
    one = {"serviceDefaults": {"replicas": 1}, "services": {"runtime": {"replicas": 1}}}
    return {rule["alert"]: rule["expr"] for rule in rendered_rules(one)}


@pytest.mark.parametrize("name", ALERT_NAMES)
async def test_every_series_that_an_alert_reads_is_there(watched: Watched, rules: dict[str, str], name: str) -> None:
    for selector in SELECTOR.findall(rules[name]):
        assert await watched.monitor.query(selector), f"there is no {selector}"
    await watched.monitor.query(rules[name])


@pytest.mark.parametrize("name", ALERT_NAMES)
async def test_what_an_alert_counts_was_there_before_it_happened(
    watched: Watched, rules: dict[str, str], name: str
) -> None:
    """The first failure of a replica is told by the step from the 0 before it, or by nothing."""
    for selector in SELECTOR.findall(rules[name]):
        metric = selector.partition("{")[0]
        if metric.endswith(("_total", "_count", "_bucket")):
            found = [told for told in watched.idle.values() if chosen(told, metric, selector)]
            assert found, f"an idle platform tells nothing of {selector}"


def chosen(told: Scraped, metric: str, selector: str) -> list[Sample]:
    """The samples that a selector of an alert chooses; the namespace is the scraper's to add."""
    wanted = [each for each in MATCHER.findall(selector) if each[0] != "namespace"]
    return [
        sample
        for sample in told.samples
        if sample.name == metric
        and all(
            re.fullmatch(text if how == "=~" else re.escape(text), sample.labels.get(label, ""))
            for label, how, text in wanted
        )
    ]


async def test_what_replicas_are_added_by_has_an_answer(watched: Watched, tmp_path: Path) -> None:
    """As KEDA asks for it."""
    production = Helm(locate(), tmp_path).manifests([EXAMPLES / "production" / "values.yaml"])
    [trigger] = named(production, "ScaledObject", "signalbox-runtime")["spec"]["triggers"]
    [found] = await watched.monitor.query(trigger["metadata"]["query"])
    assert found.value >= 0


async def test_no_alert_fires_of_a_platform_that_is_well(watched: Watched, rules: dict[str, str]) -> None:
    calm = {name: await watched.monitor.query(expr) for name, expr in rules.items()}
    assert {name for name, found in calm.items() if found} <= {"SignalboxEventLoopLags"}, "a busy machine lags"


def families(scraped: dict[str, Scraped]) -> dict[str, set[str]]:
    """The names of our metrics, without the parts' suffixes, by service."""
    return {service: {family(sample) for sample in told.samples} - {""} for service, told in scraped.items()}


def family(sample: Sample) -> str:
    """The name of a sample's metric; nothing for what is not ours."""
    name = re.sub(r"_(total|created|bucket|sum|count)$", "", sample.name)
    return name if name.startswith("signalbox_") else ""


def shown() -> set[str]:
    """Every metric that a panel or an alert reads."""
    texts = [query.expr for board in BOARDS for panel in board.panels for query in panel.queries]
    texts += [yaml.safe_load(path.read_text())["expr"] for path in ALERTS]
    names = {name for text in texts for name in re.findall(r"signalbox_\w+", text)}
    return {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in names}


async def test_every_metric_is_shown_or_listed_as_unused(watched: Watched) -> None:
    told = set().union(*families(watched.busy).values())
    assert told - shown() == set(UNUSED)
    assert shown() <= told, "what is shown is told by some service"


async def test_a_replica_tells_no_more_than_a_scraper_can_keep(watched: Watched) -> None:
    """Every agent is offered, and most has happened; what panels and alerts read is seen to above."""
    told = {name: len(scraped.samples) for name, scraped in watched.busy.items()}
    agents = {sample.labels["agent"] for sample in watched.busy["runtime"].matching("signalbox_agent_info", {})}
    assert agents == set(AGENTS)
    assert max(told.values()) <= MOST_SERIES, told


def counted(scraped: Scraped) -> Iterator[tuple[str, tuple[tuple[str, str], ...]]]:
    """The series that only ever rise."""
    for sample in scraped.samples:
        if family(sample) and sample.name.endswith(("_total", "_count")):
            yield sample.name, tuple(sorted(sample.labels.items()))


async def test_what_is_counted_was_there_before_it_happened(watched: Watched) -> None:
    """A series that begins with its first increase hides it: increase() and rate() need the 0 before it."""
    late = {
        (service, name, labels)
        for service, told in watched.busy.items()
        for name, labels in set(counted(told)) - set(counted(watched.idle[service]))
        if name.removesuffix("_count") not in NAMED_BY_EVENTS
    }
    assert late == set()


async def test_the_first_failure_of_every_tool_is_an_increase(watched: Watched) -> None:
    for name in ("sql_executor", "code_executor"):
        told = watched.idle[name].matching("signalbox_tool_calls_served_total", {})
        tools = {sample.labels["tool"] for sample in told}
        assert tools
        assert {(sample.labels["tool"], sample.labels["outcome"]) for sample in told} >= {
            (tool, outcome) for tool in tools for outcome in ("ok", "failed")
        }


async def test_the_pools_of_both_databases_tell_how_full_they_are(watched: Watched) -> None:
    for name, pools in (("runtime", {"calls", "steps"}), ("sql_executor", {"reader", "examples"})):
        for metric in ("connections", "connections_in_use", "connections_max", "connection_waits"):
            told = watched.busy[name].matching(f"signalbox_database_{metric}", {})
            assert {sample.labels["pool"] for sample in told} >= pools, metric
        assert min(each.value for each in watched.busy[name].matching("signalbox_database_connections_max", {})) > 0


async def test_a_trace_leads_from_a_panel_to_a_run(watched: Watched) -> None:
    for board in BOARDS:
        for panel in board.panels:
            for query in panel.queries:
                if query.traced:
                    selector = SELECTOR.findall(query.expr)[0]
                    found = await watched.monitor.ask("query_exemplars", query=asked(selector), start="0", end="9e9")
                    assert found, f"{panel.title} has no exemplars"


LINKED = [
    pytest.param(panel, id=f"{board.uid}: {panel.title}") for board in BOARDS for panel in board.panels if panel.link
]


@pytest.mark.parametrize("panel", LINKED)
async def test_a_link_leads_from_each_series_to_the_console(watched: Watched, panel: Panel) -> None:
    found = [each.labels for query in panel.queries for each in await watched.monitor.query(asked(query.expr))]
    for place in {address(panel, labels) for labels in found}:
        answer = await watched.console.get(place)
        assert answer.status_code == 200, f"{place}: {answer.text[:500]}"


async def test_a_link_leads_to_the_runs_that_a_panel_counts(watched: Watched) -> None:
    [panel] = (panel for board in BOARDS for panel in board.panels if panel.title == "Runs that end, by outcome")
    ended = await watched.console.get(address(panel, {"outcome": "answered"}))
    assert "data_chat" in ended.text
    assert re.search(r'href="/runs/[0-9a-f-]{36}"', ended.text)
    none = await watched.console.get(address(panel, {"outcome": "unfinished"}))
    assert not re.search(r'href="/runs/[0-9a-f-]{36}"', none.text)


def address(panel: Panel, labels: Mapping[str, str]) -> str:
    """Where a link leads from a series, at the console, as Grafana fills it in; the last hour is looked at."""
    assert panel.link
    now = datetime.now(UTC)
    given = {"console": "", "__from:date:iso": iso(now - timedelta(hours=1)), "__to:date:iso": iso(now)}
    given |= {f"__field.labels.{label}": text for label, text in labels.items()}
    return re.sub(r"\$\{([^}]+)\}", lambda found: given[found[1]], panel.link.url)


def iso(moment: datetime) -> str:
    """A time as Grafana writes it."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


async def test_a_dot_is_a_run(watched: Watched) -> None:
    found = await watched.monitor.ask(
        "query_exemplars", query="signalbox_run_duration_seconds_bucket", start="0", end="9e9"
    )
    dots = [each["labels"] for series in found for each in series["exemplars"]]
    assert dots
    for dot in dots[:3]:
        assert len(dot["trace_id"]) == 32
        page = await watched.console.get(f"/runs/{dot['run_id']}")
        assert page.status_code == 200, page.text[:500]
