"""The README, typed as it stands: every block of `sh` in order, each `signalbox up` as the platform of what follows."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest

from tests.fixtures.forked import program
from tests.fixtures.postgres import PostgresCluster
from tests.integration.local.running_up import Up, start_up

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WHY = re.compile(r"^```\n(data_chat .*?)^```$", re.MULTILINE | re.DOTALL)
MUSIC = ROOT / "tests" / "fixtures" / "music.sql"
STEP_TIMEOUT_S = 300
pytestmark = pytest.mark.timeout(900)


@dataclass
class Shell:
    """A person's shell: a folder, variables that stay from block to block, and what was printed."""

    folder: Path
    env: dict[str, str]
    platform: Up | None = None
    printed: list[str] = field(default_factory=list)

    async def type(self, lines: str) -> None:
        """Types lines; an `up` ends the platform before it, and starts the one of the lines after it."""
        for is_up, part in _parts(lines):
            if is_up:
                await self.stop()
                words = shlex.split(await self._run(f"echo {part}"), comments=True)
                settings = {name: value for name, value in self.env.items() if name.startswith("SIGNALBOX_")}
                self.platform = await start_up(self.folder / "run", *words[2:], replicas=1, cwd=self.folder, **settings)
            else:
                await self._run(part)

    async def stop(self) -> None:
        """Stops the platform, if there is one."""
        if self.platform is not None:
            assert await self.platform.end(signal.SIGTERM) == 0
            self.platform = None

    async def _run(self, script: str) -> str:
        kept = self.folder / "variables"
        process = await asyncio.create_subprocess_exec(
            "bash", "-eu", "-o", "pipefail", "-c", f"{script}\nenv -0 > {kept}", cwd=self.folder, env=self.env,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, err = await asyncio.wait_for(process.communicate(), STEP_TIMEOUT_S)
        assert process.returncode == 0, f"{script}\n{out.decode()}\n{err.decode()}"
        self.env = dict(each.split("=", 1) for each in kept.read_text().split("\0") if each)
        self.printed.append(out.decode())
        return out.decode()


def _parts(lines: str) -> Iterator[tuple[bool, str]]:
    """The lines of a block, those of an `up` apart."""
    before: list[str] = []
    for line in lines.splitlines():
        if line.startswith("signalbox up"):
            yield False, "\n".join(before)
            yield True, line
            before = []
        else:
            before.append(line)
    yield False, "\n".join(before)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A folder with what a clone has after `make run`; `signalbox` is forked from a process that has imported it."""
    for name in ("examples", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("python", "bandit"):
        (programs / name).write_text(f'#!/bin/sh\nexec {ROOT / ".venv" / "bin" / name} "$@"\n')
    command, python = shlex.join(program("services.cli")), ROOT / ".venv" / "bin" / "python"
    newest = "import json, sys; print(json.load(sys.stdin)[0]['run_id'])"
    last = f'{command} runs --limit 1 --json | {python} -c "{newest}"'
    (programs / "signalbox").write_text(
        f"""#!/bin/bash
words=()
for word in "$@"; do
    [[ $word == RUN ]] && word=$({last})
    words+=("$word")
done
exec {command} "${{words[@]}}"
"""
    )
    for file in programs.iterdir():
        file.chmod(0o755)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("SIGNALBOX_", "OPENAI_"))}
    return Shell(tmp_path, {**env, "SIGNALBOX_RUNTIME_DIR": str(tmp_path / "run"), "COLUMNS": "120"})


async def test_every_block_does_what_it_says(shell: Shell, postgres_cluster: PostgresCluster) -> None:
    name = postgres_cluster.create_database()
    dsn = postgres_cluster.dsn(name)
    with psycopg.connect(dsn, autocommit=True) as owner:
        owner.execute(MUSIC.read_bytes())
    who, _, server = dsn.removeprefix("postgresql://").rpartition("@")
    try:
        for block in BLOCKS.findall(PAGE):
            await shell.type(re.sub(r"SERVER=\S+ OWNER=\S+", f"SERVER={server} OWNER={who}", block))
    finally:
        await shell.stop()
    printed = "\n".join(shell.printed)
    for words in (
        "6 devices", "Created the node Ticket 'TICKET-7'", "Nothing was written", "status: closed", "Set back the node",
        "It is 42.", "200 tracks", "as the policy promises",
    ):  # fmt: skip
        assert words in printed, words
    assert len(re.findall(r"^Song \d+|Song \d+", shell.printed[-1])) > 3
    assert "route_after_agent" in shell.printed[-1]  # why it was declined
    for file in ("why.html", "rows.csv", "report.html", "judged.sarif"):
        assert (shell.folder / file).stat().st_size > 0
    [why] = WHY.findall(PAGE)
    shown = [line for line in why.splitlines() if re.search(r"─ [✗✓?] ", line)]
    assert shown
    assert [line for line in shown if line not in printed] == []
