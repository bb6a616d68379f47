"""What the page `docs/batches.md` says, done step by step: a batch from a file, followed, listed, exported."""

from __future__ import annotations

import asyncio
import csv
import json
import os
import re
import shlex
import signal
import subprocess
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from examples.harbour import repository as portal
from tests.contract.deploy.helm import ROOT
from tests.e2e.test_code_agents import scan
from tests.fixtures.forked import program
from tests.fixtures.page import blocks
from tests.integration.local.running_up import Result, Up, start_up

pytestmark = pytest.mark.asyncio(loop_scope="module")
PAGE = ROOT / "docs" / "batches.md"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def up(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> AsyncIterator[Up]:
    """`signalbox up`, which may read what is in the folder."""
    running = await start_up(tmp_path_factory.mktemp("batches") / "run", "--code-root", str(folder))
    yield running
    await running.end(signal.SIGTERM)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the page's commands write."""
    return tmp_path_factory.mktemp("page")


async def typed(up: Up, command: str, folder: Path) -> Result:
    """Types a command of the page in a folder."""
    program, *words = shlex.split(command)
    assert program == "signalbox"
    # Files stand in the folder; the command runs elsewhere.
    here = [
        str(folder / word) if re.fullmatch(r"\w+\.(jsonl|csv|sarif|html|xlsx)|service", word) else word
        for word in words
    ]
    return await up.run(*here)


async def test_it_does_what_the_page_says(up: Up, folder: Path) -> None:
    making, looking, _ = blocks(["sh"], PAGE)
    *shell, create = making.strip().splitlines()
    done = await asyncio.to_thread(
        subprocess.run, ["bash", "-euc", "\n".join(shell)], cwd=folder, env=dict(os.environ), check=True, timeout=60
    )
    assert done.returncode == 0
    made = await typed(up, create, folder)
    assert made.status == 0, made.err
    [batch_id] = re.findall(r"^batch ([0-9a-f-]{36}): 2 items$", made.err, re.MULTILINE)
    assert "ended: 2 succeeded" in made.err
    # The same again is the same batch.
    again = await typed(up, create, folder)
    assert f"batch {batch_id}" in again.err
    told = [await typed(up, command.replace("BATCH", batch_id), folder) for command in looking.strip().splitlines()]
    assert [result.status for result in told] == [0] * len(told), [result.err for result in told]
    listed, shown, watched, *_, runs = told
    assert all(batch_id in result.out for result in (listed, shown, watched))
    assert len(runs.out.strip().splitlines()) == 3
    lines = [json.loads(line) for line in (folder / "answers.jsonl").read_text("utf-8").splitlines()]
    assert [line["number"] for line in lines] == [1, 2]
    assert all(line["output"]["data_chat"]["answer"] for line in lines)
    with (folder / "answers.csv").open(newline="", encoding="utf-8") as file:
        assert [row["run_id"] for row in csv.DictReader(file)] == [line["run_id"] for line in lines]


async def test_findings_are_judged_as_the_page_says(up: Up, folder: Path) -> None:
    made = portal.create(folder / "service")
    await asyncio.to_thread(scan, made.path, folder / "bandit.sarif")
    (folder / "truth.csv").write_text("rule,file,line,is_vulnerable\nB602,portal/diagnostics.py,34,true\n")
    _, _, judging = blocks(["sh"], PAGE)
    investigate, *exports = judging.strip().splitlines()
    judged = await typed(up, investigate, folder)
    assert judged.status == 0, judged.err
    [batch_id] = set(re.findall(r"batch ([0-9a-f-]{36})", judged.err))
    told = [await typed(up, command.replace("BATCH", batch_id), folder) for command in exports]
    assert [result.status for result in told] == [0] * len(told), [result.err for result in told]

    def verdicts(path: Path) -> dict[str, str]:
        results = [result for run in json.loads(path.read_text())["runs"] for result in run["results"]]
        ours = [result["properties"]["signalbox"] for result in results]
        return {each["fingerprint"]: each["verdict"] for each in ours}

    assert verdicts(folder / "batch.sarif") == verdicts(folder / "judged.sarif")
    assert "Precision" in (folder / "batch.html").read_text()
    assert zipfile.is_zipfile(folder / "batch.xlsx")
    shown = await up.run("batches", "show", batch_id, "--as", "27")
    assert "B602" in shown.out
    assert (await up.run("batches", "delete", batch_id, "--as", "27")).status == 0


async def test_lines_that_are_no_inputs_are_told_by_their_numbers_and_nothing_is_uploaded(up: Up, folder: Path) -> None:
    file = folder / "wrong.jsonl"
    file.write_text('{"question": "How many devices do I have?"}\n{"quest": 1}\n\nnot JSON\n{"question": ""}\n')
    before = json.loads((await up.run("batches", "list", "--json", "--as", "27")).out)
    refused = await up.run("batches", "create", "data_chat", str(file), "--as", "27")
    assert refused.status == 2
    assert "3 lines can't be used" in refused.err
    assert [number for number in range(1, 6) if f"line {number} is" in refused.err] == [2, 4, 5]
    assert json.loads((await up.run("batches", "list", "--json", "--as", "27")).out) == before


async def test_ctrl_c_says_how_to_go_on(up: Up, folder: Path) -> None:
    file = folder / "many.jsonl"
    file.write_text('{"question": "How many devices do I have?"}\n' * 60)
    arguments = ("batches", "create", "data_chat", str(file), "--max-runs", "1", "--as", "27")
    command = await asyncio.create_subprocess_exec(
        *program("services.cli"), *arguments, env=up.env, stderr=asyncio.subprocess.PIPE
    )
    assert command.stderr is not None
    async with asyncio.timeout(120):
        while b"running:" not in await command.stderr.readline():
            assert command.returncode is None
        command.send_signal(signal.SIGINT)
        said = (await command.stderr.read()).decode()
        assert await command.wait() == 130
    [batch_id] = re.findall(r"`signalbox batches watch ([0-9a-f-]{36})` follows it", said)
    cancelled = await up.run("batches", "cancel", batch_id, "--as", "27")
    assert cancelled.status == 0, cancelled.err
    watched = await up.run("batches", "watch", batch_id, "--as", "27")
    assert watched.status == 7
    assert "60" in watched.out
