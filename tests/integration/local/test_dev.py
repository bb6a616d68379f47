"""What the page `docs/bring-your-graph.md` says, done step by step: `signalbox dev`, runs, reasons, a change."""

from __future__ import annotations

import json
import re
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from mcp import Client, StdioServerParameters

from tests.fixtures.page import blocks
from tests.integration.local.running_up import Up, start_up

pytestmark = pytest.mark.asyncio(loop_scope="module")
ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "bring-your-graph.md"
MCP = ROOT / "docs" / "mcp.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the example folder, to be changed."""
    made = Path(shutil.copytree(ROOT / "examples" / "graphs", tmp_path_factory.mktemp("brought") / "graphs"))
    document = json.loads((made / "langgraph.json").read_text())
    (made / "langgraph.json").write_text(json.dumps({**document, "base_image": "langchain/langgraph-api"}))
    return made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def dev(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> AsyncIterator[Up]:
    """`signalbox dev` on that folder, with servers of tools, as docs/mcp.md has it."""
    [line] = [line for line in "\n".join(blocks(["sh"], MCP)).splitlines() if line.startswith("signalbox dev")]
    _, command, graphs, *options = line.split()
    made = tmp_path_factory.mktemp("dev")
    (made / options[-1]).write_text("servers: {}\n")
    assert graphs == "examples/graphs"
    running = await start_up(made / "run", str(folder), *options, command=command, cwd=made)
    yield running
    await running.end(signal.SIGTERM)


def given(page: str, agent: str) -> str:
    """The input that the page echoes into a run of an agent."""
    found = re.search(rf"^echo '(.*)' \| signalbox run {agent} --input - --as 27$", page, re.MULTILINE)
    assert found, f"the page has no run of {agent}"
    return found[1]


async def test_it_does_what_the_page_says(dev: Up, folder: Path, tmp_path: Path) -> None:
    await dev.says("`base_image` has no effect here: graphs run in the runtime's image")
    page = PAGE.read_text("utf-8")
    file = tmp_path / "input.json"
    file.write_text(given(page, "calculator"))
    ran = await dev.run("run", "calculator", "--input", str(file), "--as", "27")
    assert ran.status == 0, ran.err
    assert "It is 42." in ran.out
    run_id = re.findall(r"signalbox explain ([0-9a-f-]{36})", ran.out)[-1]
    explained = await dev.run("explain", run_id, "--as", "27")
    assert "✓ to_end  not last_message_tool_calls" in explained.out
    assert "the model asked for no tool" in explained.out
    assert "at least once" in explained.out
    file.write_text(given(page, "refund"))
    asked = await dev.run("run", "refund", "--input", str(file), "--as", "27", "--json")
    waiting = json.loads(asked.out)
    assert waiting["input_request"]["question"] == "Pay back 80?"
    assert "resume RUN_ID yes" in page
    answered = await dev.run("resume", waiting["run_id"], "yes", "--as", "27")
    assert '"paid": 80' in answered.out, answered.err
    assert '"properties"' in (await dev.run("run", "digest", "--schema", "--as", "27")).out
    refused = await dev.run("run", "nobody", "--input", str(file), "--as", "27")
    assert "calculator" in refused.err
    # And what it says of a change.
    changed = folder / "calculator.py"
    changed.write_text(changed.read_text("utf-8").replace("It is {", "That makes {"))
    await dev.says("the graphs are loaded again")
    await dev.says("runtime is back")
    file.write_text(given(page, "calculator"))
    assert "That makes 42." in (await dev.run("run", "calculator", "--input", str(file), "--as", "27")).out


async def test_a_client_of_mcp_starts_what_the_page_has_for_it(dev: Up) -> None:
    [given] = [json.loads(block) for block in blocks(["json"], MCP)]
    [server] = given["mcpServers"].values()
    path = f"{Path(sys.executable).parent}:{dev.env['PATH']}"
    async with Client(
        StdioServerParameters(**server, env={**dev.env, "PATH": path}), read_timeout_seconds=60
    ) as client:
        assert {"calculator", "data_chat", "follow_run"} <= {tool.name for tool in (await client.list_tools()).tools}
        asked = {"messages": [{"role": "user", "content": "What is 6 times 7?"}]}
        assert "42" in str(await client.call_tool("calculator", asked))
