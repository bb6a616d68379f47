"""A batch that people wait for while everything but the model is killed, each at moments of its own."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from random import Random

from signalbox.v1 import batches_pb2, runs_pb2

from services.cli.batch_client import open_batches
from services.cli.batch_results import form_of
from services.cli.client import Connection
from services.cli.exit_codes import ExitCode
from services.local.topology import OFFLINE_MODEL
from tests.chaos.deployment import kill_and_start, until
from tests.fixtures.forked import program
from tests.fixtures.stack import Platform

KILLS = 3
SUBJECT = "27"
# Of the items, the part within which everything is killed: others end while something is started again, and what is
# killed last is to have something left to do.
KILLED_WITHIN = 0.7


@dataclass(frozen=True)
class Waiting:
    """Somebody who waits for a batch of so many items at the terminal, and types a command again when it ends early."""

    running: Platform
    count: int
    timeout_s: float

    @property
    def connection(self) -> Connection:
        """The platform, by a token that has not expired: all of it takes longer than one lives."""
        return Connection(self.running.stack.gateway_address, self.running.stack.token(SUBJECT))

    async def type(self, command: Sequence[str]) -> asyncio.subprocess.Process:
        """Types a command."""
        env = {
            "PATH": os.environ["PATH"],
            "SIGNALBOX_GATEWAY": self.running.stack.gateway_address,
            "SIGNALBOX_TOKEN": self.running.stack.token(SUBJECT),
            "SIGNALBOX_RUNTIME_DIR": str(self.running.stack.directory / "nowhere"),
        }
        quiet = asyncio.subprocess.DEVNULL
        return await asyncio.create_subprocess_exec(
            *program("services.cli"), *command, env=env, stdout=quiet, stderr=quiet
        )

    async def reached(self, name: str, count: int) -> batches_pb2.Batch:
        """The newest batch, once it is of a name and so many of its items have ended."""
        found: list[batches_pb2.Batch] = []

        async def there() -> bool:
            found[:] = await batches.listed("", 1)
            return bool(found) and found[0].name == name and _ended(found[0]) >= count

        async with open_batches(self.connection) as batches:
            await until(there, f"{count} items of the batch {name}", timeout_s=self.timeout_s)
        return found[0]

    async def undisturbed(self, command: Sequence[str], name: str) -> batches_pb2.Batch:
        """The batch of a command that nothing happens to."""
        assert await (await self.type(command)).wait() == ExitCode.OK
        return await self.reached(name, self.count)

    async def disturbed(self, command: Sequence[str], name: str, random: Random) -> batches_pb2.Batch:
        """The batch of a command, while it and every service but the model are killed three times each."""
        typing = await self.type(command)
        services = {each.name: each for each in self.running.stack.services if each.name != OFFLINE_MODEL}
        moments = range(1, int(self.count * KILLED_WITHIN))
        kills = sorted(
            (moment, victim) for victim in (*services, "command") for moment in random.sample(moments, KILLS)
        )
        for moment, together in groupby(kills, lambda kill: kill[0]):
            victims = [victim for _, victim in together]
            batch = await self.reached(name, moment)
            assert batch.state == batches_pb2.BATCH_STATE_RUNNING, "too few items for so many kills"
            await asyncio.gather(*(kill_and_start(services[victim]) for victim in victims if victim in services))
            if "command" in victims:
                typing.kill()
            if "command" in victims or typing.returncode == ExitCode.UNREACHABLE:
                await typing.wait()
                typing = await self.type(command)
        while (code := await typing.wait()) == ExitCode.UNREACHABLE:
            typing = await self.type(command)
        assert code == ExitCode.OK
        return await self.reached(name, self.count)

    async def results(self, batch: batches_pb2.Batch) -> str:
        """The results of a batch as a file, without ids of runs."""
        form = form_of("json", with_run_ids=False)
        async with open_batches(self.connection) as batches:
            return "".join([form.line(item) async for item in batches.items(batch.batch_id)])

    async def check(self, first: batches_pb2.Batch, last: batches_pb2.Batch) -> None:
        """Checks that a disturbed batch is as the first, and each of its items one run, with one decision a step."""
        assert last.state == batches_pb2.BATCH_STATE_ENDED
        assert await self.results(last) == await self.results(first)
        caller = self.running.caller(SUBJECT)
        pages = await caller.run_pages(runs_pb2.ListRunsRequest(page_size=500, labels={"batch": last.batch_id}))
        runs = Counter(run.run_id for page in pages for run in page)
        assert (len(runs), runs.total()) == (self.count, self.count)
        taken_over = [run for page in pages for run in page if run.epoch > 1]
        assert taken_over, "no run was ever taken over: the kills hit nothing"
        for run in taken_over:
            decisions = await caller.decisions(run.run_id)
            assert [decision.sequence for decision in decisions] == list(range(1, len(decisions) + 1))


def _ended(batch: batches_pb2.Batch) -> int:
    under_way = (batches_pb2.BATCH_ITEM_STATE_PENDING, batches_pb2.BATCH_ITEM_STATE_RUNNING)
    return sum(each.count for each in batch.counts if each.state not in under_way)
