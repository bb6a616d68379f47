"""Runs by what they are, and by a rule that fired in them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from signalbox.v1 import outcome_pb2, runs_pb2

from services.console.errors import NotFound
from services.console.gateway import Gateway
from services.console.settings import ConsoleSettings

# One call looks at so many decisions whatever it finds; this many empty ones are gone through before a page is shown.
CALLS = 5
# Once so many runs were read, a page is shown: the caller's quota at the gateway is for other pages too.
RUNS_READ = 100
# Scripts that write no spaces between words: any character may be the first.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


@dataclass(frozen=True)
class FoundRuns:
    """Runs, newest first, where to go on, and how many that fit are no longer kept.

    By a rule, the last run of a page can be the first of the next one: `last_run_id` tells.
    """

    runs: Sequence[runs_pb2.Run]
    page_token: str
    last_run_id: str = ""
    gone_count: int = 0


class RunSearch:
    """Finds runs through the public API. Methods raise ConsoleError."""

    def __init__(self, gateway: Gateway, settings: ConsoleSettings) -> None:
        self._gateway = gateway
        self._settings = settings

    async def find(self, wanted: runs_pb2.ListRunsRequest) -> FoundRuns:
        """Returns a page of the runs that fit."""
        request = runs_pb2.ListRunsRequest()
        request.CopyFrom(wanted)
        request.page_size = self._settings.page_size
        found = await self._gateway.call(self._gateway.runs.ListRuns, request)
        return FoundRuns(found.runs, found.next_page_token)

    async def by_rule(self, wanted: runs_pb2.ListRunsRequest, rule: str, after_run_id: str) -> FoundRuns:
        """Returns a page of the runs that fit and in which a rule has fired; short pages, or empty ones, may have more.

        The ledger knows which runs these are, in the order of `ListRuns`; what a decision does not say of its run, each
        run says itself.
        """
        request = runs_pb2.ListDecisionsRequest(
            agent=wanted.agent,
            rule=rule,
            subject=wanted.subject,
            page_token=wanted.page_token,
            page_size=self._settings.page_size,
        )
        if wanted.HasField("since_time"):  # no decision is older than its run
            request.since_time.CopyFrom(wanted.since_time)
        found: list[runs_pb2.Run] = []
        gone_count, read_count, last = 0, 0, after_run_id
        for _ in range(CALLS):
            page = await self._gateway.call(self._gateway.runs.ListDecisions, request)
            run_ids = [each for each in dict.fromkeys(one.run_id for one in page.decisions) if each != last]
            last = run_ids[-1] if run_ids else last
            # Decisions outlive their run in the ledger.
            runs = await read_runs(self._gateway, run_ids, at_once=self._settings.runs_read_at_once)
            gone_count, read_count = gone_count + runs.count(None), read_count + len(runs)
            found += [run for run in runs if run is not None and _fits(run, wanted)]
            request.page_token = page.next_page_token
            if found or not page.next_page_token or read_count >= RUNS_READ:
                break
        return FoundRuns(found, request.page_token, last, gone_count)


async def read_runs(gateway: Gateway, run_ids: Sequence[str], *, at_once: int) -> list[runs_pb2.Run | None]:
    """Returns runs in the order of their ids, so many read at once; None for one that retention has removed.

    Raises ConsoleError, that of the first that can't be read.
    """
    places = asyncio.Semaphore(at_once)

    async def read(run_id: str) -> runs_pb2.Run | None:
        async with places:
            try:
                request = runs_pb2.GetRunRequest(run_id=run_id)
                return (await gateway.call(gateway.runs.GetRun, request)).run
            except NotFound:
                return None

    reading = [asyncio.ensure_future(read(run_id)) for run_id in run_ids]
    try:
        return list(await asyncio.gather(*reading))
    finally:
        # Once one has failed there is no page that the others would be for.
        for each in reading:
            each.cancel()


def _fits(run: runs_pb2.Run, wanted: runs_pb2.ListRunsRequest) -> bool:
    """Says whether a run fits in what its decisions were not asked for."""
    created = run.create_time.ToNanoseconds()
    return (
        wanted.state in (runs_pb2.RUN_STATE_UNSPECIFIED, run.state)
        and wanted.outcome in (outcome_pb2.OUTCOME_UNSPECIFIED, run.outcome)
        and (not wanted.thread_id or run.thread_id == wanted.thread_id)
        and all(contains(run, word) for word in wanted.text.split())
        and all(run.labels.get(key) == value for key, value in wanted.labels.items())
        and (not wanted.HasField("since_time") or created >= wanted.since_time.ToNanoseconds())
        and (not wanted.HasField("until_time") or created < wanted.until_time.ToNanoseconds())
    )


def contains(run: runs_pb2.Run, word: str) -> bool:
    """Says whether a word begins one of a run's title or labels, as `ListRuns` has it."""
    texts = [run.title, *(f"{key}={value}" for key, value in run.labels.items())]
    return any(_beginning(word).search(text) for text in texts)


@lru_cache
def _beginning(word: str) -> re.Pattern[str]:
    begins = word[0].isalnum() and not _UNSPACED.match(word)
    return re.compile(("(?<![^\\W_])" if begins else "") + re.escape(word), re.IGNORECASE)
