"""Runs by what people call them: the one that is named so is found, several are told, and few pages are read."""

from __future__ import annotations

import pytest
from signalbox.v1 import runs_pb2

from services.console.run_names import PAGES, ListRuns, RunNotNamed, run_named

ONE, OTHER = "0199a0c0-0000-7000-8000-000000000001", "0199a0c0-0000-7000-8000-00000000000f"


def lists(*pages: list[str]) -> tuple[ListRuns, list[runs_pb2.ListRunsRequest]]:
    """A platform that lists these pages, whatever it is asked; and what it was asked."""
    asked: list[runs_pb2.ListRunsRequest] = []

    async def list_runs(request: runs_pb2.ListRunsRequest) -> runs_pb2.ListRunsResponse:
        asked.append(runs_pb2.ListRunsRequest.FromString(request.SerializeToString()))
        number = min(len(asked), len(pages)) - 1
        more = "more" if number + 1 < len(pages) else ""
        runs = [runs_pb2.Run(run_id=each) for each in pages[number]]
        return runs_pb2.ListRunsResponse(runs=runs, next_page_token=more)

    return list_runs, asked


@pytest.mark.parametrize("name", [ONE[:4], ONE[:8], ONE.replace("-", ""), ONE[:20].upper(), "last"])
async def test_the_one_that_is_named_so(name: str) -> None:
    list_runs, _ = lists([ONE])
    assert await run_named(name, list_runs) == ONE


async def test_an_id_is_not_asked_about() -> None:
    list_runs, asked = lists()
    assert await run_named(ONE, list_runs) == ONE
    assert asked == []


@pytest.mark.parametrize("pages", [([ONE, OTHER],), ([ONE], [], [OTHER])])
async def test_several_are_told(pages: tuple[list[str], ...]) -> None:
    list_runs, _ = lists(*pages)
    with pytest.raises(RunNotNamed, match=f"begins several ids, such as {ONE} and {OTHER}"):
        await run_named("0199", list_runs)


@pytest.mark.parametrize("name", ["", "la", "lasts", "019", "devices", "0199a0c0_", "g199"])
async def test_what_names_none_is_not_asked_about(name: str) -> None:
    list_runs, asked = lists([ONE])
    with pytest.raises(RunNotNamed, match="names no run"):
        await run_named(name, list_runs)
    assert asked == []


async def test_no_more_is_read_than_a_few_pages() -> None:
    list_runs, asked = lists([ONE], *([[]] * (PAGES * 2)))
    with pytest.raises(RunNotNamed, match="give more of it"):
        await run_named("0199", list_runs)
    assert len(asked) == PAGES


async def test_a_platform_that_knows_no_beginnings_is_not_believed() -> None:
    list_runs, _ = lists([ONE])
    with pytest.raises(RunNotNamed, match="no run that you may see begins with ffff"):
        await run_named("ffff", list_runs)
