"""The programs of docs/http.md, run as the page says, and LangGraph's JavaScript SDK of the day with `useStream`.

Where a tool is missing, or has no package index, its test is skipped and says so.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.e2e.test_client_programs import BLOCK, NAME, SECTION, needs_index
from tests.fixtures.stack import Platform, World, platform

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")
FIXTURES = ROOT / "tests" / "fixtures"
STEP_TIMEOUT_S = 600
AG_UI = "@ag-ui/langgraph@0.0.43 @ag-ui/client@1 @ag-ui/core@1 @langchain/langgraph-sdk@1 @langchain/core@1"
PACKAGES = "@langchain/langgraph-sdk@1 @langchain/core@1 react@19 react-dom@19 react-test-renderer@19"
pytestmark = pytest.mark.timeout(STEP_TIMEOUT_S + 300)
# What a page does with `useStream`: it asks, is asked, answers, and edits what it has said.
USE_STREAM = """
import { createElement } from "react";
import { act, create } from "react-test-renderer";
import { useStream } from "@langchain/langgraph-sdk/react";

globalThis.IS_REACT_ACT_ENVIRONMENT = true;
let stream;
function Page() {
  stream = useStream({
    apiUrl: process.env.LANGGRAPH_URL, apiKey: process.env.LANGGRAPH_API_KEY, assistantId: "refund",
    fetchStateHistory: true, onCustomEvent() {},
  });
  void stream.messages, stream.interrupt;
  return null;
}
await act(async () => { create(createElement(Page)); });
const until = async (what, holds) => {
  for (let tried = 0; !holds(); tried += 1) {
    if (tried > 600) throw new Error(`${what}: ${JSON.stringify(stream.values)} ${stream.error}`);
    await act(async () => new Promise((resolve) => setTimeout(resolve, 100)));
  }
};
const options = { streamMode: ["values"], streamSubgraphs: true, streamResumable: true };
await act(async () => { await stream.submit({ items: [{ name: "coat", price: 80 }] }, options); });
await until("it asks", () => !stream.isLoading && stream.interrupt);
console.log("asked:", JSON.stringify(stream.interrupt.value));
await act(async () => { await stream.submit(undefined, { ...options, command: { resume: "yes" } }); });
await until("it is done", () => !stream.isLoading && !stream.interrupt);
console.log("values:", JSON.stringify(stream.values));
const first = stream.history.at(-1);
await act(async () => {
  await stream.submit({ items: [{ name: "sock", price: 3 }] }, { ...options, checkpoint: first.checkpoint });
});
await until("it is edited", () => !stream.isLoading && JSON.stringify(stream.values).includes("sock"));
console.log("edited:", JSON.stringify(stream.values));
process.exit(0);
"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def served(harbour: World) -> AsyncIterator[Platform]:
    """A platform as the page has it."""
    folders = (ROOT / "examples" / "graphs", FIXTURES / "hosted_chat")
    env = {"runtime": {"SIGNALBOX_AGENT_FOLDERS": ",".join(map(str, folders))}}
    async with platform(harbour, service_env=env, http_replicas=1) as running:
        yield running


async def shell(commands: str, folder: Path, running: Platform) -> str:
    """Runs commands of the page; returns what they print."""
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "LANGGRAPH_URL": f"http://{running.stack.http_apis[0].ready.listen}",
        "LANGGRAPH_API_KEY": running.token("27"),
    }
    process = await asyncio.create_subprocess_exec(
        "sh", "-ec", commands, cwd=folder, env=environment,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(STEP_TIMEOUT_S):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, out.decode() + err.decode()
    return out.decode()


async def follow(title: str, folder: Path, running: Platform) -> str:
    """Writes the programs of a section and runs its commands."""
    [text] = [body for found, body in SECTION.findall(PAGE) if found == title]
    commands = ""
    for language, block in BLOCK.findall(text):
        if language == "sh":
            commands += block
        elif name := NAME.match(block):
            (folder / name[1]).write_text(block)
    return await shell(commands, folder, running)


async def test_the_python_program_streams_steps_and_prints_the_answer(served: Platform, tmp_path: Path) -> None:
    printed = (await follow("Python", tmp_path, served)).splitlines()
    assert printed[0] == "model"
    assert "42" in printed[-1]


async def test_the_shell_waits_for_the_answer(served: Platform, tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("no curl here")
    assert "42" in await follow("From a shell", tmp_path, served)


@pytest.mark.client_programs
async def test_the_javascript_program_streams_steps_and_prints_the_answer(served: Platform, tmp_path: Path) -> None:
    needs_index("npm", tmp_path)
    printed = (await follow("JavaScript", tmp_path, served)).splitlines()
    assert "model" in printed
    assert "42" in printed[-1]


@pytest.mark.client_programs
async def test_a_page_with_use_stream_asks_answers_and_edits(served: Platform, tmp_path: Path) -> None:
    needs_index("npm", tmp_path)
    (tmp_path / "page.mjs").write_text(USE_STREAM)
    printed = await shell(f"npm install --silent --no-audit --no-fund {PACKAGES}\nnode page.mjs", tmp_path, served)
    asked, values, edited = (line.partition(": ")[2] for line in printed.splitlines() if ": " in line)
    assert "coat" in asked or "80" in asked
    assert "coat" in values
    assert re.search("sock", edited)
    assert "coat" not in edited


async def told_by(program: str, packages: str, folder: Path, served: Platform) -> dict[str, Any]:
    """What a program of JavaScript prints, a name and JSON a line; its packages are installed for it."""
    needs_index("npm", folder)
    shutil.copy(FIXTURES / "pages" / program, folder)
    commands = f"npm install --silent --no-audit --no-fund {packages}\nnode {program}"
    lines = (line.partition(": ") for line in (await shell(commands, folder, served)).splitlines())
    return {name: json.loads(value) for name, mark, value in lines if mark}


@pytest.mark.client_programs
async def test_pages_of_one_thread_join_queue_stop_answer_and_branch(served: Platform, tmp_path: Path) -> None:
    told = await told_by("use_stream.mjs", PACKAGES, tmp_path, served)
    first, second = told["joined"]
    assert first == second
    assert first[0].endswith("word29 ")
    assert told["queued"] == ["Hello", "One", "Two"]
    assert told["written"] == [{"looks_at": "Kiel"}]
    assert told["stopped"] == ["Hello", "One", "Two", "What is the weather?", "Stop me"]
    assert told["asked"] == [{"to": "ana@example.com"}] * 2
    assert "sent to ana@example.com" in told["sent"]
    assert told["edited"] == ["Edited"]
    assert told["branch"] == [*told["stopped"], "Send a mail"]
    assert told["errors"] == []


@pytest.mark.client_programs
async def test_ag_ui_tells_words_calls_of_tools_and_questions(served: Platform, tmp_path: Path) -> None:
    told = await told_by("ag_ui.mjs", AG_UI, tmp_path, served)
    assert not any(each["errors"] for each in told.values())
    said = ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"]
    # Of a call that comes in one chunk it tells no arguments.
    called = ["TOOL_CALL_START", "TOOL_CALL_END"]
    kinds = {name: [kind for kind in each["kinds"] if kind.startswith(("TEXT", "TOOL"))] for name, each in told.items()}
    assert kinds == {
        "said": said,
        "called": [*called, "TOOL_CALL_RESULT", *said],
        "asked": called,
        "answered": ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT", *said],
    }
    assert told["said"]["words"].startswith("You said: Hello word0 ")
    assert told["called"]["words"].strip() == "The tool says: rain in Kiel"
    assert told["asked"]["custom"] == ["on_interrupt"]
    assert told["answered"]["words"].strip() == "The tool says: sent to ana@example.com"


@pytest.mark.client_programs
async def test_a_program_hears_a_thread_and_answers_what_it_asks(served: Platform, tmp_path: Path) -> None:
    told = await told_by("thread_stream.mjs", PACKAGES, tmp_path, served)
    assert "".join(told["words"]) == told["output"]
    assert len(told["words"]) > 30
    assert told["asked"] == {"to": "ana@example.com"}
    assert told["tool"] == ["send_mail", "sent to ana@example.com"]
    assert told["refused"] == "not_supported"
