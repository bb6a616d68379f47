"""A search that breaks off is a failure, not a search that found nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.code_executor.errors import SourceFailed
from services.code_executor.limits import Limits
from services.code_executor.ripgrep import Query, Ripgrep
from services.code_executor.snapshots import Snapshot


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    return Snapshot("key", "0" * 40, tmp_path, {})


def program(folder: Path, line: str) -> Path:
    """Makes a program that does what a line of shell says."""
    path = folder / "rg"
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o700)
    return path


@pytest.mark.parametrize("line", ["kill -SEGV $$", "kill -KILL $$", "printf 'a.py\\0'; kill -SEGV $$", "exit 101"])
async def test_a_broken_search_is_a_failure_that_a_retry_may_help(
    tmp_path: Path, snapshot: Snapshot, line: str
) -> None:
    ripgrep = Ripgrep(program(tmp_path, line), Limits())
    with pytest.raises(SourceFailed, match="broke off") as files:
        await ripgrep.files(snapshot, Query("name"))
    assert (files.value.reason, files.value.retryable) == ("search_failed", True)
    with pytest.raises(SourceFailed, match="broke off"):
        await Ripgrep(program(tmp_path, line.replace("a.py", "")), Limits()).hits(snapshot, Query("name"), 10)


async def test_no_match_is_no_failure(tmp_path: Path, snapshot: Snapshot) -> None:
    assert await Ripgrep(program(tmp_path, "exit 1"), Limits()).files(snapshot, Query("name")) == ([], "")
