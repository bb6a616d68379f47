"""Questions as a batch while its client and every service but the model are killed three times: each is run once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.chaos.batches import Waiting
from tests.chaos.conftest import Extent
from tests.fixtures.stack import platform, world

ITEMS = 200
QUESTION = "How many devices do I have?"


@pytest.mark.timeout(3600)
async def test_every_item_is_run_once_and_the_results_are_the_same_bytes(tmp_path: Path, extent: Extent) -> None:
    inputs = tmp_path / "questions.jsonl"
    inputs.write_text((json.dumps({"question": QUESTION}) + "\n") * ITEMS)
    async with world() as data, platform(data, batches=True, runtime_replicas=2) as running:
        waiting = Waiting(running, ITEMS, timeout_s=1200.0)
        # Two at once: as fast as it can, a batch is over before everything is started again three times.
        create = ("batches", "create", "data_chat", str(inputs), "--max-runs", "2", "--name")
        first = await waiting.undisturbed((*create, "undisturbed"), "undisturbed")
        last = await waiting.disturbed((*create, "disturbed"), "disturbed", extent.random())
        await waiting.check(first, last)
