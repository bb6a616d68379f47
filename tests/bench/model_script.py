"""The zero-latency model of the platform benchmark: two tool rounds, then an answer; 4 model calls a run."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

QUESTION = "Count devices with temperature > 10"
QUERY = "SELECT COUNT(*) AS devices FROM device_current_data WHERE temperature > 10"
GUARD_MODEL, AGENT_MODEL, FORMAT_MODEL = "bench-guard", "bench-agent", "bench-format"

SCRIPT = {
    "models": {
        GUARD_MODEL: {"replies": [{"text": "ALLOW"}], "repeat": "last"},
        AGENT_MODEL: {
            "by": "tool_messages",
            "replies": [
                {"tool_call": {"name": "get_few_shot_examples", "arguments": {"question": QUESTION}}},
                {"tool_call": {"name": "execute_db_query", "arguments": {"query": QUERY}}},
            ],
        },
        FORMAT_MODEL: {"replies": [{"text": "There are 6 such devices."}], "repeat": "last"},
    }
}


@asynccontextmanager
async def scripted_model_process() -> AsyncIterator[str]:
    """Runs the scripted model as a process of its own; yields its base URL."""
    with TemporaryDirectory() as folder:
        script = Path(folder) / "script.json"
        script.write_text(json.dumps(SCRIPT))
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
