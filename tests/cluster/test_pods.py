"""Runs on real pods: asked, carried over from pods that die or are replaced, and taken by pods that join."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.cluster.cluster import POLL_S, WAIT_S, Cluster, wait_until
from tests.cluster.gateway import caller, counted
from tests.cluster.given import ASKED, Given
from tests.fixtures.client import RunClient, question

pytestmark = [pytest.mark.real_pods, pytest.mark.asyncio(loop_scope="session")]
RUNS = 8
SCREENINGS = "signalbox_guard_screenings_total"
CLAIMS = "signalbox_runs_claimed_total"
QUESTIONS = (ASKED, "Which of my devices are offline?", "What is the average temperature of my devices?")


async def test_questions_are_answered_and_explained(installed: Cluster, what_is_given: Given) -> None:
    async with caller(installed, what_is_given) as client:
        for words in QUESTIONS:
            asked = await client.ask(words)
            assert asked.state == "SUCCEEDED", (words, asked.route, asked.run.error)
            assert asked.output.answer
            assert len(await client.explanations(asked.run.run_id)) == len(asked.decisions)


async def test_a_pod_that_is_killed_takes_no_run_with_it(installed: Cluster, what_is_given: Given) -> None:
    async with caller(installed, what_is_given) as client:
        runs = await _waiting(installed, client)
        for pod in installed.ready("runtime"):
            installed.kubectl("delete", "pod", pod, "--force", "--grace-period=0")
        await _all_succeed(installed, client, runs)


async def test_an_upgrade_carries_runs_over(installed: Cluster, what_is_given: Given) -> None:
    before = set(installed.ready("runtime"))
    async with caller(installed, what_is_given) as client:
        runs = await _waiting(installed, client)
    installed.upgrade(what_is_given.values, "commonLabels.release=next", forced=True)
    assert before.isdisjoint(installed.ready("runtime"))
    async with caller(installed, what_is_given) as client:
        await _all_succeed(installed, client, runs)


@pytest.mark.parametrize(("service", "metric"), [("guard", SCREENINGS), ("runtime", CLAIMS)])
async def test_replicas_that_are_added_get_calls(
    installed: Cluster, what_is_given: Given, service: str, metric: str
) -> None:
    before = set(installed.ready(service))
    installed.kubectl("scale", "deployment", f"signalbox-{service}", f"--replicas={len(before) + 1}")
    wait_until("there is one more", lambda: len(installed.ready(service)) > len(before))
    [added] = set(installed.ready(service)) - before
    async with caller(installed, what_is_given) as client, asyncio.timeout(120):
        while not counted(installed, added, metric):
            asked = await asyncio.gather(*(client.ask(ASKED) for _ in range(RUNS)))
            assert {each.state for each in asked} == {"SUCCEEDED"}
    installed.kubectl("scale", "deployment", f"signalbox-{service}", f"--replicas={len(before)}")
    wait_until("there are as many as before", lambda: len(installed.pods(service)) == len(before))


async def _waiting(cluster: Cluster, client: RunClient) -> list[str]:
    """Runs that have begun and go on once the guard is back."""
    cluster.kubectl("scale", "deployment", "signalbox-guard", "--replicas=0")
    wait_until("no guard is left", lambda: not cluster.all("pods", "app.kubernetes.io/component=guard"))
    runs = [(await client.create(question(ASKED))).run_id for _ in range(RUNS)]
    deadline = time.monotonic() + WAIT_S
    for run in runs:
        while not (await client.get(run)).waiting_for:
            assert time.monotonic() < deadline, "the runs do not wait for the guard"
            await asyncio.sleep(POLL_S)
    return runs


async def _all_succeed(cluster: Cluster, client: RunClient, runs: list[str]) -> None:
    cluster.kubectl("scale", "deployment", "signalbox-guard", "--replicas=2")
    ended = await asyncio.gather(*(client.wait(run) for run in runs))
    assert [each.state for each in ended] == ["SUCCEEDED"] * RUNS
