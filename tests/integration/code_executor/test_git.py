"""Git processes, as the code executor starts them."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
import uvloop

from services.code_executor.git import Git, GitOutcome


@pytest.mark.parametrize("stdin", [b"", b"0123456789\n"], ids=["nothing to read", "something to read"])
def test_a_git_process_may_end_before_anybody_looks_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stdin: bytes
) -> None:
    """A busy replica comes back to a process that it started when that has ended long since."""
    program = shutil.which("git")
    assert program

    async def start_and_be_busy_until_it_has_ended(*arguments: Any, **options: Any) -> asyncio.subprocess.Process:
        process = await start(*arguments, **options)
        await process.wait()
        return process

    async def version() -> GitOutcome:
        git = Git(Path(program), tmp_path)
        return await git.run(["version"], stdin=stdin, timeout_s=30)

    start = asyncio.create_subprocess_exec
    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_and_be_busy_until_it_has_ended)
    outcome = uvloop.run(version())
    assert outcome.code == 0
    assert outcome.stdout.startswith(b"git version")
