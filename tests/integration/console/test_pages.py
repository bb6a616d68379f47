"""The console's pages over a gateway that does what a test says: filters, refusals, hostile texts, failures."""

from __future__ import annotations

import asyncio
import html
import json
import re
from contextlib import AsyncExitStack
from html.parser import HTMLParser
from urllib.parse import urlencode

import grpc
import httpx
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from signalbox.v1 import outcome_pb2, policy_pb2, runs_pb2, table_pb2

from services.console.showing import SECTIONS
from services.kit.errors import FieldViolation
from tests.fixtures.ports import reserved_port
from tests.fixtures.walked_run import RUN_ID, explained
from tests.integration.console.conftest import console_over
from tests.integration.console.fake_gateway import FakeGateway, limit_change, refusal, serving, waiting
from tests.integration.console.test_explanation_page import HOSTILE

OTHER_RUN, GONE_RUN = RUN_ID[:-1] + "1", RUN_ID[:-1] + "2"
LISTS = tuple(f"/{name}" for name, _ in SECTIONS)


class Markup(HTMLParser):
    """Elements, attributes and links of a page, as a browser takes them."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.links: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes an element."""
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links |= {value or "" for name, value in attrs if name in ("href", "src", "action")}


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/runs?state=foo", "'foo' is not a state; there are: pending"),
        ("/runs?since=tomorrow", "not a time"),
        ("/runs?until=0001-01-01T00:00%2B14:00", "not a time"),
        ("/runs?labels=team", "'team' is not a label"),
        ("/runs?labels=team%3Da+team%3Db", "the label 'team' is given twice"),
        ("/runs?agnet=data_chat", "agnet</code>: there is no such filter here"),
        ("/runs?agent=a&agent=b", "given more than once"),
        ("/decisions?until=1e9", "not a time"),
        ("/questions?whose=nobodys", "not one of answerable, all"),
        ("/rules?period=century", "not one of day, week, month"),
        ("/routes?agent=no_such", "not one of data_chat"),
        ("/policies?limit.no_such=1", "there is no such filter here"),
    ],
)
async def test_a_filter_that_can_not_be_read_is_told(
    inside: httpx.AsyncClient, gateway: FakeGateway, path: str, said: str
) -> None:
    refused = await inside.get(path)
    assert (refused.status_code, said in html.unescape(refused.text)) == (400, True), refused.text
    assert gateway.calls == ["ListAgents"]  # nothing is listed by what was understood of it


@pytest.mark.parametrize(("path", "field"), [("/runs", "page_token"), ("/decisions", "page_token"), ("/questions", "")])
async def test_what_the_gateway_refuses_is_told_at_the_field(
    inside: httpx.AsyncClient, gateway: FakeGateway, path: str, field: str
) -> None:
    wrong = [FieldViolation(field, "no page of ours <b>")] if field else []
    agents = await inside.get(path)
    assert agents.status_code == 200
    failure = refusal(grpc.StatusCode.INVALID_ARGUMENT, "no page of ours <b>", violations=wrong)
    gateway.list_failure = failure
    refused = await inside.get(path, params={"page": "damaged"})
    assert refused.status_code == 400
    assert "no page of ours &lt;b&gt;" in refused.text


@pytest.mark.parametrize(
    ("code", "status", "title"),
    [
        (grpc.StatusCode.UNAVAILABLE, 503, "The gateway does not answer"),
        (grpc.StatusCode.UNAUTHENTICATED, 401, "The gateway does not accept your token"),
        (grpc.StatusCode.PERMISSION_DENIED, 403, "You may not do this"),
        (grpc.StatusCode.NOT_FOUND, 404, "Not found"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, 429, "The gateway asks you to wait"),
        (grpc.StatusCode.DEADLINE_EXCEEDED, 504, "The gateway did not answer in time"),
        (grpc.StatusCode.INTERNAL, 502, "The gateway reported an error"),
    ],
)
async def test_what_goes_wrong_at_the_gateway_is_a_page_that_says_so(
    inside: httpx.AsyncClient, gateway: FakeGateway, code: grpc.StatusCode, status: int, title: str
) -> None:
    gateway.failure = refusal(code, "<script>why</script>")
    for path in ("/runs", "/policies", f"/runs/{RUN_ID}", f"/questions/{RUN_ID}"):
        failed = await inside.get(path)
        assert (failed.status_code, f'<h1 id="title">{title}</h1>' in failed.text) == (status, True), failed.text
        assert "&lt;script&gt;why" in failed.text
        assert "SO_IT_IS" in failed.text
        assert ('http-equiv="refresh"' in failed.text) == (status in (429, 503))


async def test_what_an_older_platform_does_not_offer_is_said(inside: httpx.AsyncClient, gateway: FakeGateway) -> None:
    gateway.failure = refusal(grpc.StatusCode.UNIMPLEMENTED)
    for path in ("/questions", f"/runs/{RUN_ID}"):
        failed = await inside.get(path)
        assert (failed.status_code, "Its release is older" in failed.text) == (501, True)


async def test_a_gateway_that_comes_back_is_found_again(gateway: FakeGateway) -> None:
    async with AsyncExitStack() as stack:
        first = AsyncExitStack()
        port = stack.enter_context(reserved_port())
        await first.enter_async_context(serving(gateway, port))
        console = await stack.enter_async_context(console_over(port))
        client = await stack.enter_async_context(console.browser())
        assert (await client.get("/runs")).status_code == 200
        await first.aclose()
        away = await client.get("/runs")
        assert (away.status_code, f"Nobody answers at 127.0.0.1:{port}" in away.text) == (503, True)
        await stack.enter_async_context(serving(gateway, port))
        async with asyncio.timeout(60):
            while (await client.get("/runs")).status_code != 200:  # noqa: ASYNC110 - it is another process's to know
                await asyncio.sleep(0.1)


def said(text: str) -> runs_pb2.RunOutput:
    """An output of a graph, a table and claims in which each text is this one."""
    output = runs_pb2.RunOutput()
    chat = output.data_chat
    chat.answer = chat.sql_query = text
    for kind in (table_pb2.COLUMN_TYPE_TEXT, table_pb2.COLUMN_TYPE_DOUBLE):
        chat.rows.columns.add(name=text, type=kind)
    for number in (1, 2):
        chat.rows.rows.add().values.extend(
            [table_pb2.Cell(text_value=f"{number}{text}"), table_pb2.Cell(double_value=number)]
        )
    chat.debug.messages.add(role=text, content=text, tool_calls=[text])
    return output


@pytest.mark.parametrize("hostile", ["".join(HOSTILE[:-1]), HOSTILE[-1]])
async def test_what_comes_from_the_platform_is_text(
    inside: httpx.AsyncClient, gateway: FakeGateway, hostile: str
) -> None:
    shown = explained(question=hostile, subject=hostile, asks=hostile)
    gateway.shown, gateway.runs = shown, {RUN_ID: shown.run}
    run = shown.run
    run.title = run.agent = run.correlation_id = run.thread_id = run.stop_reason = run.error = hostile
    run.labels[hostile] = hostile
    run.output.CopyFrom(said(hostile))
    for decision in shown.decisions:
        decision.rule = decision.router = decision.destination = decision.node = decision.policy_version = hostile
    gateway.pages = [list(shown.decisions)]
    gateway.counts = [runs_pb2.DecisionCount(router=hostile, rule=hostile, destination=hostile, node=hostile, count=2)]
    gateway.question = waiting(roles=[hostile], assignee=hostile)
    gateway.question.input_request.question = gateway.question.plan_hash = hostile
    gateway.question.input_request.options[:] = [hostile]
    change = gateway.question.graph_change_set.nodes.add()
    change.node.label = change.node.key = hostile
    change.after.update({hostile: hostile})
    gateway.policy.limits.add(name="max_iterations", origin=policy_pb2.LIMIT_ORIGIN_FILE).value.string_value = hostile
    filters = urlencode({"rule": hostile, "caller": hostile, "agent": hostile})
    for path in (
        *LISTS,
        f"/runs?{filters}",
        f"/runs/{RUN_ID}",
        f"/questions/{RUN_ID}",
        "/policies?limit.max_iterations=1",
    ):
        page = await inside.get(path)
        assert page.status_code in (200, 400), path
        # What a field holds is what it sends; all else is shown.
        assert hostile not in re.sub(r'value="[^"]*"', "", page.text), path
        markup = Markup()
        markup.feed(page.text)
        assert not markup.elements & {"img", "iframe", "object", "embed", "base", "style"}, path
        assert not [name for name in markup.attributes if name.startswith("on") or name == "style"], path
        assert all(link.startswith(("/", "#", "data:,")) for link in markup.links), path
        assert page.text.count("<script") == page.text.count("</script>") <= 4, path


async def test_a_run_is_called_by_the_beginning_of_its_id(inside: httpx.AsyncClient, gateway: FakeGateway) -> None:
    for name in (RUN_ID[:13], RUN_ID[:9].upper(), "last"):
        for found in (await inside.get("/runs", params={"text": name}), await inside.get(f"/runs/{name}")):
            assert (found.status_code, found.headers["location"]) == (303, f"/runs/{RUN_ID}"), name
    # More is asked for than the one run, or it is a word that no id begins with.
    for params in ({"text": "last", "agent": "data_chat"}, {"text": "decade"}, {"text": "which devices"}):
        assert (await inside.get("/runs", params=params)).status_code == 200
    gateway.runs[OTHER_RUN] = runs_pb2.Run(run_id=OTHER_RUN)
    several = await inside.get(f"/runs/{RUN_ID[:13]}")
    assert (several.status_code, f"begins several ids, such as {RUN_ID} and {OTHER_RUN}" in several.text) == (404, True)
    assert (await inside.get("/runs", params={"text": RUN_ID[:13]})).status_code == 200
    for name, said in (("ffff", "no run that you may see begins with ffff"), ("no-run", "names no run")):
        unknown = await inside.get(f"/runs/{name}")
        assert (unknown.status_code, said in unknown.text.lower()) == (404, True), unknown.text
        assert "Start from one of the pages above." in unknown.text


async def test_runs_are_told_apart_by_what_they_were_asked_and_what_came_of_it(
    inside: httpx.AsyncClient, gateway: FakeGateway
) -> None:
    run = gateway.shown.run
    run.title = "Which of my devices are hot?"
    for outcome, colour in (
        (outcome_pb2.OUTCOME_ANSWERED, "good"), (outcome_pb2.OUTCOME_BLOCKED, "blocked"),
        (outcome_pb2.OUTCOME_NOT_ANSWERED, "warn"), (outcome_pb2.OUTCOME_DECLINED, "soft"),
    ):  # fmt: skip
        run.outcome = outcome
        page = (await inside.get("/runs")).text
        words = outcome_pb2.Outcome.Name(outcome).removeprefix("OUTCOME_").lower().replace("_", " ")
        assert f'<span class="pill {colour}">{words}</span>' in page
        assert f'<a href="/runs/{RUN_ID}" dir="auto">Which of my devices are hot?</a>' in page
    gateway.pages = [[runs_pb2.Decision(run_id=RUN_ID, rule="allowed")]]
    for text, is_found in (("DEVICES hot", True), ("devices cold", False)):
        found = await inside.get("/runs", params={"rule": "allowed", "text": text})
        assert (RUN_ID in found.text) == is_found


async def test_runs_in_which_a_rule_fired(inside: httpx.AsyncClient, gateway: FakeGateway) -> None:
    def fired(run_id: str, sequence: int) -> runs_pb2.Decision:
        return runs_pb2.Decision(run_id=run_id, sequence=sequence, rule="allowed")

    other = runs_pb2.Run(run_id=OTHER_RUN, agent="data_chat", state=runs_pb2.RUN_STATE_FAILED)
    gateway.runs[OTHER_RUN] = other
    # A run's decisions can be on two pages, and outlive it.
    gateway.pages = [[fired(RUN_ID, 3), fired(RUN_ID, 2)], [fired(RUN_ID, 1), fired(GONE_RUN, 1), fired(OTHER_RUN, 1)]]
    first = await inside.get("/runs", params={"rule": "allowed"})
    assert (first.text.count(f'"/runs/{RUN_ID}"'), OTHER_RUN in first.text) == (1, False)
    following = html.unescape(first.text.partition('rel="next" href="')[2].partition('"')[0])
    second = await inside.get(following)
    assert (f'"/runs/{RUN_ID}"' in second.text, f'"/runs/{OTHER_RUN}"' in second.text) == (False, True)
    assert "This rule also fired in 1 run that retention has removed" in second.text
    assert 'rel="next"' not in second.text
    failed = await inside.get("/runs", params={"rule": "allowed", "state": "failed"})
    assert (f'"/runs/{RUN_ID}"' in failed.text, f'"/runs/{OTHER_RUN}"' in failed.text) == (False, True)
    later = await inside.get("/runs", params={"rule": "allowed", "since": "2026-03-02T00:00+00:00"})
    assert (f'"/runs/{RUN_ID}"' in later.text, f'"/runs/{OTHER_RUN}"' in later.text) == (True, False)


async def test_a_rule_of_runs_that_do_not_fit_is_not_looked_for_for_ever(
    inside: httpx.AsyncClient, gateway: FakeGateway
) -> None:
    fired = [runs_pb2.Decision(run_id=f"{RUN_ID[:-3]}{number}", rule="allowed") for number in range(100, 200)]
    gateway.runs.update((each.run_id, runs_pb2.Run(run_id=each.run_id)) for each in fired)
    gateway.pages = [fired, [runs_pb2.Decision(run_id=RUN_ID, rule="allowed")]]
    first = await inside.get("/runs", params={"rule": "allowed", "state": "succeeded"})
    assert (gateway.calls.count("GetRun"), "Look further back" in first.text) == (100, True)
    gateway.calls.clear()
    gateway.failure_of_runs = refusal(grpc.StatusCode.RESOURCE_EXHAUSTED)
    busy = await inside.get("/runs", params={"rule": "allowed", "state": "succeeded"})
    assert busy.status_code == 429
    # Those that nobody waits for are not asked for any more.
    asked = gateway.calls.count("GetRun")
    assert asked < 100
    await inside.get("/rules")
    assert gateway.calls.count("GetRun") == asked


async def test_an_answer_of_the_gateway_that_is_too_large_is_not_asked_for_again(
    inside: httpx.AsyncClient, gateway: FakeGateway
) -> None:
    gateway.shown.run.error = "x" * 5_000_000
    failed = await inside.get("/runs")
    assert (failed.status_code, 'http-equiv="refresh"' in failed.text) == (502, False)
    assert "larger than max" in failed.text


async def test_a_policy_of_before_is_shown_in_shadow(inside: httpx.AsyncClient, gateway: FakeGateway) -> None:
    def limit(policy: policy_pb2.Policy, value: float) -> None:
        policy.limits.add(name="max_iterations").value.number_value = value

    limit(gateway.policy, 3)
    run = gateway.shown.run
    run.policy.Clear()
    run.policy.version = gateway.shown.decisions[0].policy_version
    limit(run.policy, 5)
    page = await inside.get("/policies")
    assert [dict(each.limits) for each in gateway.replays] == [{"max_iterations": "5"}]
    assert "What it would have decided" in page.text
    assert '3 <span class="soft">of 4</span>' in page.text
    await inside.get("/policies", params={"limit.max_iterations": "1"})
    assert [dict(each.limits) for each in gateway.replays[1:]] == [{"max_iterations": "5"}, {"max_iterations": "1"}]
    assert all(each.HasField("since_time") for each in gateway.replays)


async def test_rules_over_time(inside: httpx.AsyncClient, gateway: FakeGateway) -> None:
    now = Timestamp()
    now.GetCurrentTime()
    hour = Timestamp(seconds=now.seconds // 3600 * 3600)
    before = Timestamp(seconds=hour.seconds - 5 * 3600)
    router = "data_chat.route_after_agent"
    for count, rule, begin in ((7, "tool_calls", hour), (3, "tool_calls", before), (0, "iteration_limit", None)):
        gateway.counts.append(
            runs_pb2.DecisionCount(router=router, rule=rule, node="agent", count=count, begin_time=begin)
        )
    page = (await inside.get("/rules", params={"period": "day"})).text
    fired, never = page.index("tool_calls"), page.index("iteration_limit")
    assert fired < never
    assert "at most 7 times in one hour" in page
    assert [int(part.partition("<")[0]) for part in page.split("<title>")[2:]] == [3, 7]
    assert '<td class="n">never</td>' in page[never:]


@pytest.mark.parametrize("path", ["/rules", "/routes"])
async def test_what_was_not_looked_at_is_said(inside: httpx.AsyncClient, gateway: FakeGateway, path: str) -> None:
    router = "data_chat.route_after_agent"
    gateway.counts = [runs_pb2.DecisionCount(router=router, rule="iteration_limit", destination="report", node="agent")]
    said = "0 decisions%s, among the newest; older ones in this time were not looked at"
    of_time = " in the last day" if path == "/rules" else ""
    assert "older ones" not in (await inside.get(path, params={"period": "day"})).text
    gateway.is_partial = True
    assert said % of_time in (await inside.get(path, params={"period": "day"})).text


async def test_who_changed_limits_when(inside: httpx.AsyncClient, gateway: FakeGateway) -> None:
    gateway.limit_changes = []
    assert "Who changed" not in (await inside.get("/routes")).text
    gateway.limit_changes = [limit_change(HOSTILE[0]), limit_change("")]
    page = (await inside.get("/routes")).text
    told = " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page)).split())
    assert "max_iterations read by data_chat.route_after_agent 5 → 3 policy file" in told
    assert "1.1, revision 7 the runs were long" in told
    assert "unknown: the deployment does not say" in told
    assert HOSTILE[0] not in page
    gateway.limit_changes_failure = refusal(grpc.StatusCode.PERMISSION_DENIED)
    assert "Only operators may see who changed them." in (await inside.get("/routes")).text
    gateway.limit_changes_failure = refusal(grpc.StatusCode.UNIMPLEMENTED)
    assert (await inside.get("/routes")).status_code == 200


async def test_news_of_a_run(inside: httpx.AsyncClient, gateway: FakeGateway) -> None:
    gateway.events = [
        runs_pb2.RunEvent(sequence=1, state_changed=runs_pb2.StateChanged(state=runs_pb2.RUN_STATE_RUNNING)),
        runs_pb2.RunEvent(sequence=2, run_ended=runs_pb2.RunEnded()),
    ]
    gateway.failure = refusal(grpc.StatusCode.UNAVAILABLE)
    heard: list[str] = []
    async with asyncio.timeout(60), inside.stream("GET", f"/runs/{RUN_ID}/events") as news:
        assert news.headers["content-type"].startswith("text/event-stream")
        async for line in news.aiter_lines():
            heard += [line.removeprefix("event: ")] if line.startswith("event: ") else []
            if heard == ["away"]:
                gateway.failure = refusal(grpc.StatusCode.DEADLINE_EXCEEDED)
            elif heard == ["away", "away"]:
                gateway.failure = None
    assert heard[0] == "away"
    assert [each for each in heard if each != "away"] == ["changed", "changed", "ended"]
    gateway.failure = refusal(grpc.StatusCode.UNAUTHENTICATED)
    refused = await inside.get(f"/runs/{RUN_ID}/events")
    assert "event: refused" in refused.text


async def test_what_a_model_says_is_told_while_it_says_it(inside: httpx.AsyncClient, gateway: FakeGateway) -> None:
    chunk = runs_pb2.TokenChunk(node="agent", message_id="m", offset=3, text="a\nb\u202e\u2028", provisional=True)
    reset = runs_pb2.TokensReset(node="agent", cause=runs_pb2.TOKENS_RESET_CAUSE_WITHDRAWN)
    gateway.events = [
        runs_pb2.RunEvent(sequence=1, state_changed=runs_pb2.StateChanged(state=runs_pb2.RUN_STATE_RUNNING)),
        runs_pb2.RunEvent(token_chunk=chunk),
        runs_pb2.RunEvent(tokens_reset=reset),
        runs_pb2.RunEvent(sequence=2, node_completed=runs_pb2.NodeCompleted(node="agent")),
        runs_pb2.RunEvent(sequence=3, run_ended=runs_pb2.RunEnded()),
    ]
    told = (await inside.get(f"/runs/{RUN_ID}/events")).text
    assert re.findall("event: (.*)", told) == ["changed", "said", "void", "changed", "ended"]
    began, said, void, ended = (json.loads(data) for data in re.findall(r"data: (\{.*\})", told))
    assert said == {
        "node": "agent", "message": "m", "offset": 3, "length": 5, "text": "a\nb\\u202e\u2028", "provisional": True,
    }  # fmt: skip
    assert void == {"node": "agent", "stands": False}
    assert (began, ended) == ({"node": ""}, {"node": "agent"})


async def test_it_closes_while_somebody_looks_on(gateway: FakeGateway, caplog: pytest.LogCaptureFixture) -> None:
    gateway.shown.run.state = runs_pb2.RUN_STATE_AWAITING_INPUT
    gateway.events = [
        runs_pb2.RunEvent(sequence=1, state_changed=runs_pb2.StateChanged(state=runs_pb2.RUN_STATE_AWAITING_INPUT))
    ]
    async with serving(gateway) as port, AsyncExitStack() as stack:
        console = await stack.enter_async_context(console_over(port))
        async with console.browser() as client, client.stream("GET", f"/runs/{RUN_ID}/events") as news:
            lines = news.aiter_lines()
            assert await anext(lines) == "event: changed"
            async with asyncio.timeout(60):
                await stack.aclose()
                assert not [line async for line in lines if line.startswith("event: away")]
    assert not [each for each in caplog.records if each.levelname in ("WARNING", "ERROR")]
