"""The zero-latency model of the benchmarks: two tool rounds, then an answer; 4 model calls a run."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

QUESTION = "Count devices with temperature > 10"
QUERY = "SELECT COUNT(*) AS devices FROM device_current_data WHERE temperature > 10"
GUARD_MODEL, AGENT_MODEL, FORMAT_MODEL = "bench-guard", "bench-agent", "bench-format"

Script = dict[str, Any]

_CALLS = [
    {"tool_call": {"name": "get_few_shot_examples", "arguments": {"question": QUESTION}}},
    {"tool_call": {"name": "execute_db_query", "arguments": {"query": QUERY}}},
]
_OTHERS = {
    GUARD_MODEL: {"replies": [{"text": "ALLOW"}], "repeat": "last"},
    FORMAT_MODEL: {"replies": [{"text": "There are 6 such devices."}], "repeat": "last"},
}
SCRIPT: Script = {"models": {**_OTHERS, AGENT_MODEL: {"by": "tool_messages", "replies": _CALLS}}}
# For runs one after another, whose conversations may hold the tool messages of earlier ones.
SEQUENTIAL_SCRIPT: Script = {"models": {**_OTHERS, AGENT_MODEL: {"replies": _CALLS, "repeat": "cycle"}}}


@asynccontextmanager
async def scripted_model_process(answers: Script) -> AsyncIterator[str]:
    """Runs the scripted model as a process of its own; yields its base URL."""
    with TemporaryDirectory() as folder:
        script = Path(folder) / "script.json"
        script.write_text(json.dumps(answers))
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.fixtures.scripted_model",
            "--script",
            str(script),
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert process.stdout is not None
            yield json.loads(await process.stdout.readline())["base_url"]
        finally:
            process.terminate()
            await process.wait()
