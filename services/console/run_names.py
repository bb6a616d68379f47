"""Runs by what people call them: an id, the beginning of one, or `last`."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from signalbox.v1 import runs_pb2

LAST = "last"
FEWEST_DIGITS = 4
# A platform with many runs that begin alike is asked no further: more of the id says which.
PAGES = 5
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_BEGINNING = re.compile(r"[0-9a-f][0-9a-f-]{3,35}", re.IGNORECASE)
ListRuns = Callable[[runs_pb2.ListRunsRequest], Awaitable[runs_pb2.ListRunsResponse]]


class RunNotNamed(Exception):
    """A name that is no run's, or that of several."""


def is_id(text: str) -> bool:
    """Says whether a text is the id of a run, in full."""
    return bool(_ID.fullmatch(text))


def may_name_run(text: str) -> bool:
    """Says whether a text is an id, the beginning of one, or `last`."""
    return text == LAST or bool(_BEGINNING.fullmatch(text))


async def run_named(text: str, list_runs: ListRuns) -> str:
    """Returns the id of the one run that is named so, of those that the caller may see. Raises RunNotNamed."""
    if is_id(text):
        return text
    if text == LAST:
        found = (await list_runs(runs_pb2.ListRunsRequest(page_size=1))).runs
        if not found:
            raise RunNotNamed("there is no run yet")
        return found[0].run_id
    if not may_name_run(text):
        raise RunNotNamed(f"{text!r} names no run: give its id, {FEWEST_DIGITS} or more digits of that, or `{LAST}`")
    found_ids, is_whole = await _beginning(text.lower(), list_runs)
    if len(found_ids) > 1:
        raise RunNotNamed(f"{text} begins several ids, such as {found_ids[0]} and {found_ids[1]}: give more of it")
    if not is_whole:
        raise RunNotNamed(f"too many ids are like {text} to look at all of them: give more of it")
    if not found_ids:
        raise RunNotNamed(f"no run that you may see begins with {text}")
    return found_ids[0]


async def _beginning(text: str, list_runs: ListRuns) -> tuple[list[str], bool]:
    """Returns two ids at most that begin so, and whether all there are were looked at."""
    request, found = runs_pb2.ListRunsRequest(run_id_prefix=text, page_size=2), list[str]()
    for _ in range(PAGES):
        page = await list_runs(request)
        # A platform that does not know prefixes lists all runs.
        begun = text.replace("-", "")
        found += [run.run_id for run in page.runs if run.run_id.replace("-", "").startswith(begun)]
        request.page_token = page.next_page_token
        if len(found) > 1 or not page.next_page_token:
            return found, True
    return found, False


def short_ids(run_ids: list[str], *, digits: int = 13) -> list[str]:
    """Returns beginnings of ids, all as long as it takes to tell these from one another."""
    while digits < max(map(len, run_ids), default=0) and len({each[:digits] for each in run_ids}) < len(set(run_ids)):
        digits += 1
    return [each[:digits].rstrip("-") for each in run_ids]
