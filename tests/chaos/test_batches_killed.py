"""A batch while its client, batches, the gateway and every runtime are killed three times: each item is run once."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

import pytest
from signalbox.v1 import batches_pb2, runs_pb2

from services.cli.client import Connection
from tests.chaos.batches import reached, results
from tests.chaos.deployment import kill_and_start
from tests.fixtures.forked import program
from tests.fixtures.stack import Platform, platform, world

ITEMS = 120
KILLS = 3
SUBJECT = "27"
TIMEOUT_S = 1200.0
QUESTION = "How many devices do I have?"


class Client:
    """`signalbox batches create` as somebody types it, who has no patience."""

    def __init__(self, running: Platform, inputs: Path) -> None:
        self._env = {
            "SIGNALBOX_GATEWAY": running.stack.gateway_address,
            "SIGNALBOX_TOKEN": running.stack.token(SUBJECT),
            "SIGNALBOX_RUNTIME_DIR": str(inputs.parent / "nowhere"),
        }
        self._inputs = inputs

    async def create(self, name: str) -> asyncio.subprocess.Process:
        """Types it."""
        arguments = ("batches", "create", "data_chat", str(self._inputs), "--name", name)
        quiet = asyncio.subprocess.DEVNULL
        return await asyncio.create_subprocess_exec(
            *program("services.cli"), *arguments, env=self._env, stdout=quiet, stderr=quiet
        )


@pytest.mark.timeout(3600)
async def test_every_item_is_run_once_and_the_results_are_the_same_bytes(tmp_path: Path) -> None:
    inputs = tmp_path / "questions.jsonl"
    inputs.write_text((json.dumps({"question": QUESTION}) + "\n") * ITEMS)
    async with world() as data, platform(data, batches=True, runtime_replicas=2) as running:
        connection = Connection(running.stack.gateway_address, running.stack.token(SUBJECT))
        client = Client(running, inputs)
        undisturbed = await client.create("undisturbed")
        assert await undisturbed.wait() == 0
        first = await reached(connection, "undisturbed", ITEMS, timeout_s=TIMEOUT_S)

        typing = await client.create("disturbed")
        for kill in range(KILLS):
            batch = await reached(connection, "disturbed", (kill + 1) * ITEMS // (KILLS + 2), timeout_s=TIMEOUT_S)
            typing.kill()
            await typing.wait()
            stack = running.stack
            services = [*stack.runtimes, stack.service("batches"), stack.service("gateway")]
            for service in services:
                await kill_and_start(service)
            typing = await client.create("disturbed")
        assert await typing.wait() == 0
        last = await reached(connection, "disturbed", ITEMS, timeout_s=TIMEOUT_S)
        assert (last.batch_id, last.state) == (batch.batch_id, batches_pb2.BATCH_STATE_ENDED)
        assert await results(connection, last.batch_id) == await results(connection, first.batch_id)
        pages = await running.caller(SUBJECT).run_pages(
            runs_pb2.ListRunsRequest(page_size=500, labels={"batch": last.batch_id})
        )
        runs = Counter(run.run_id for page in pages for run in page)
        assert len(runs) == ITEMS
        assert any(run.epoch > 1 for page in pages for run in page), "no run was ever taken over: the kills hit nothing"
