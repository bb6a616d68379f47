"""`signalbox console`, as a process over a platform whose runs ask people, and in a real browser."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from playwright.async_api import expect
from signalbox.v1 import runs_pb2

from services.cli.graph_edits import edit_request
from services.console.serving import running
from services.console.settings import ConsoleSettings
from services.local.keys import DEVELOPMENT_AUDIENCE, DEVELOPMENT_ISSUER, mint_issuer_token
from services.local.settings import inherited_environment
from tests.e2e.test_answering import asks
from tests.fixtures.browser import async_browser
from tests.fixtures.patience import START_TIMEOUT_S
from tests.fixtures.stack import Platform

TIMEOUT_MS = 120_000.0


@asynccontextmanager
async def command(platform: Platform, directory: Path, subject: str, *roles: str) -> AsyncIterator[str]:
    """Runs the command as somebody, and yields the address that it prints; Ctrl-C ends it well."""
    env = {
        **inherited_environment(),
        "SIGNALBOX_GATEWAY": platform.stack.gateway_address,
        "SIGNALBOX_TOKEN": platform.stack.token(subject, roles),
        "SIGNALBOX_RUNTIME_DIR": str(directory),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "services.cli", "console", env=env,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            said = (await process.stdout.readline()).decode()
        found = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", said)
        assert found, said
        yield found[0]
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(START_TIMEOUT_S):
            _, errors = await process.communicate()
        assert (process.returncode, errors.decode().strip()) == (0, "stopping")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@asynccontextmanager
async def inside(platform: Platform, token: Callable[[], str]) -> AsyncIterator[httpx.AsyncClient]:
    """Serves a console here, to a browser that has come in."""
    async with running(platform.channel, platform.stack.gateway_address, token, ConsoleSettings()) as address:
        base = address.partition("/?")[0]
        async with httpx.AsyncClient(base_url=base, timeout=TIMEOUT_MS / 1000, headers={"origin": base}) as client:
            await client.get(address)
            yield client


async def asked_to_delete(platform: Platform) -> str:
    """Has ann ask for a deletion, which is for approvers to approve; returns the run's id."""
    ticket, client = f"T-{uuid4().hex[:8]}", platform.caller("ann")
    async for _ in client.execute(edit_request(f"Create a ticket with the key '{ticket}'.")):
        pass
    return await asks(client, f"Delete the ticket {ticket}.")


@pytest.mark.browser
async def test_a_person_answers_and_looks_on(asking: Platform, tmp_path: Path) -> None:
    run_id = await asked_to_delete(asking)
    async with (
        command(asking, tmp_path, "ops", "operator") as address,
        async_browser() as browser,
        await browser.new_context() as context,
    ):
        context.set_default_timeout(TIMEOUT_MS)
        page = await context.new_page()
        complaints: list[str] = []
        page.on("console", lambda said: complaints.append(said.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        await page.goto(address)
        assert "token" not in page.url
        await page.get_by_label("agent").select_option("graph_editor")
        await page.get_by_label("state").select_option("awaiting_input")
        await page.get_by_role("button", name="Show").click()
        await page.locator(f'a[href="/runs/{run_id}"]').click()
        await expect(page.locator("#live")).to_contain_text("follows the run")
        question = await context.new_page()
        await question.goto(f"{page.url.partition('/runs')[0]}/questions/{run_id}")
        await expect(question.get_by_role("row", name="delete")).to_be_visible()
        await question.get_by_label("approve").check()
        await question.get_by_role("button", name="Answer", exact=True).click()
        await expect(question.get_by_role("heading", name="Answered")).to_be_visible()
        await expect(question.locator("main")).to_contain_text("by ops, with the role operator")
        await page.bring_to_front()
        await expect(page.locator(".pill").first).to_have_text("done", timeout=TIMEOUT_MS)
        base = page.url.partition("/runs")[0]

        await page.goto(f"{base}/routes?agent=graph_editor")
        await expect(page.get_by_role("row", name=re.compile("ask_person call_tool approved [1-9]"))).to_be_visible()
        await page.goto(f"{base}/rules?agent=graph_editor&period=week")
        await expect(page.get_by_role("row", name=re.compile("^approved call_tool [1-9]"))).to_be_visible()
        await expect(page.get_by_role("row", name=re.compile("^step_limit .*never")).first).to_be_visible()
        await page.goto(f"{base}/decisions?agent=graph_editor&rule=approved")
        await page.get_by_role("link", name=run_id).first.click()
        await expect(page.locator("details.decision[open]")).to_have_count(1)
        await page.goto(f"{base}/policies?agent=graph_editor")
        await page.get_by_label("min_confidence to try").fill("1")
        await page.get_by_role("button", name=re.compile("^Try on")).click()
        elsewhere = page.locator("section.tried").get_by_role(
            "row", name=re.compile(r"route_after_parse_goal \d+ [1-9]")
        )
        await expect(elsewhere).to_be_visible()
        assert complaints == []


async def test_of_two_answers_one_is_taken_and_the_other_told_why(asking: Platform) -> None:
    run_id = await asked_to_delete(asking)
    tokens = [asking.stack.token(name, ["approver"]) for name in ("bob", "carl")]
    async with inside(asking, lambda: tokens[0]) as bob, inside(asking, lambda: tokens[1]) as carl:
        page = (await bob.get(f"/questions/{run_id}")).text
        hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page))
        assert hidden["plan_hash"]
        moved = await bob.post(f"/questions/{run_id}", data={**hidden, "plan_hash": "another", "option": "approve"})
        assert (moved.status_code, "PLAN_MOVED" in moved.text) == (409, True)
        assert re.search(r'value="approve" checked', moved.text)
        answered = await asyncio.gather(
            bob.post(f"/questions/{run_id}", data={**hidden, "option": "approve"}),
            carl.post(f"/questions/{run_id}", data={**hidden, "option": "decline"}),
        )
        assert sorted(each.status_code for each in answered) == [303, 409]
        [late] = [each for each in answered if each.status_code == 409]
        assert "QUESTION_ANSWERED" in late.text
        taken = "approve" if answered[0].status_code == 303 else "decline"
        assert f"“{taken}”" in late.text
        # Once more the same, as when the first reply was lost.
        winner = bob if taken == "approve" else carl
        again = await winner.post(f"/questions/{run_id}", data={**hidden, "option": taken})
        assert again.status_code == 303
        # They may answer, and see no more of the run than that.
        assert (await bob.get(f"/runs/{run_id}")).status_code == 404


async def test_everybody_sees_their_own(asking: Platform) -> None:
    create = runs_pb2.CreateRunRequest(labels={"team": "blue"}, correlation_id="<b>'\"&-%2F+")
    create.input.graph_editor.goal = "My dashboard is broken. Fix it."
    run_id = (await asking.caller("dora").create(create)).run_id
    tokens = {name: asking.stack.token(name, []) for name in ("dora", "eve")}
    async with inside(asking, lambda: tokens["dora"]) as dora, inside(asking, lambda: tokens["eve"]) as eve:
        for path, is_found in (("/runs", True), ("/runs?labels=team%3Dblue", True), ("/runs?labels=team%3Dred", False)):
            assert (run_id in (await dora.get(path)).text, run_id in (await eve.get(path)).text) == (is_found, False)
        assert "&lt;b&gt;&#39;&#34;&amp;-%2F+" in (await dora.get(f"/runs/{run_id}")).text
        linked = re.search(r'href="(/decisions\?[^"]+)"', (await dora.get(f"/runs/{run_id}")).text)
        assert linked
        assert (await dora.get(linked[1])).status_code == 200
        assert (await eve.get(f"/runs/{run_id}")).status_code == 404
        assert (await eve.get(f"/questions/{run_id}")).status_code == 404
        assert (await eve.get("/runs?page=nonsense")).status_code == 400
        assert (
            "Only operators may try other limits"
            in (await eve.get("/policies?agent=graph_editor&limit.max_questions=0")).text
        )


async def test_a_token_that_has_expired(asking: Platform) -> None:
    expired = mint_issuer_token(
        asking.stack.keys.signing_key,
        subject="ann", roles=[], ttl_s=-600, issuer=DEVELOPMENT_ISSUER, audience=DEVELOPMENT_AUDIENCE,
    )  # fmt: skip
    async with inside(asking, lambda: expired) as client:
        refused = await client.get("/runs")
        assert (refused.status_code, "does not accept your token" in refused.text) == (401, True)
        assert "expired" in refused.text


async def test_a_run_is_started_found_read_and_run_again(asking: Platform) -> None:
    token = asking.stack.token("fay", [])
    name = f"pump{uuid4().hex[:6]}"
    async with inside(asking, lambda: token) as fay:
        form = dict(
            re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', (await fay.get("/new?agent=graph_editor")).text)
        )
        refused = await fay.post("/new", data={**form, "thread": "no spaces"})
        assert (refused.status_code, 'id="problem-thread"' in refused.text) == (400, True)
        filled = {
            **form,
            "input.goal": f"Create a ticket with the key '{name}'.",
            "thread": name,
            "labels": "team=pumps",
        }
        started = [await fay.post("/new", data=filled) for _ in range(2)]
        [path] = {each.headers["location"] for each in started}  # the second click finds the run of the first
        run_id = path.removeprefix("/runs/")
        await asking.caller("fay").wait(run_id)
        page = (await fay.get(path)).text
        assert re.search(rf'<tr class="create">.*?{name}', page, re.DOTALL)
        for text in (f"ticket {name}", f"{name} team=pumps"):
            assert f'href="{path}"' in (await fay.get("/runs", params={"text": text})).text
        for called in ("last", run_id[:23]):
            assert (await fay.get("/runs", params={"text": called})).headers["location"] == path
        talk = (await fay.get(f"/threads/{name}")).text
        assert talk.index(f"Create a ticket with the key &#39;{name}&#39;.") < talk.index('class="answer-text"')
        state = re.search(rf'href="(/runs/{run_id}/state[^"]+)"', page)
        assert state
        assert (await fay.get(state[1].replace("&amp;", "&"))).status_code == 200
        assert f"Create a ticket with the key &#39;{name}&#39;." in (await fay.get(f"/new?from={run_id}")).text
        assert (await fay.post(f"{path}/cancel", data={"": ""})).status_code == 409
