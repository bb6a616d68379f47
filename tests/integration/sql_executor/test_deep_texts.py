"""Texts that are nested so deep that a parser without a stack of its own takes its process down."""

from __future__ import annotations

import subprocess
import sys

_SURVIVES = """
import asyncio, sys
from tests.unit.sql_executor.test_syntax import DEEP, LIMITS, _roundtrip
from services.kit.tools.executor import ToolRefused
from services.sql_executor.syntax import SyntaxThread, read

async def main():
    thread = SyntaxThread()
    for text in DEEP:
        try:
            await thread.run(_roundtrip, text)
        except ToolRefused as refusal:
            assert refusal.reason in ("too_deep", "too_long", "unparsable", "unsupported_syntax"), refusal.reason
    print(await thread.run(lambda: read("SELECT 1", LIMITS).op))

asyncio.run(main())
"""


def test_the_deepest_texts_kill_nothing() -> None:
    """The parser has no guard of its stack: in a process of its own, whose end would be the test's failure."""
    done = subprocess.run([sys.executable, "-c", _SURVIVES], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "1"


def test_without_its_own_stack_a_deep_text_would_kill() -> None:
    """The fact that the thread is there for: the same text, on a thread of a quarter of a mebibyte."""
    text = (
        "import threading, postgast; threading.stack_size(1 << 18); t = threading.Thread(target=postgast.parse, args="
    )
    text += "('SELECT ' + '1+' * 5000 + '1',)); t.start(); t.join()"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, check=False, timeout=300)
    assert done.returncode < 0, "the parser guards its stack now: the thread is not needed any more"
