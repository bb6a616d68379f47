"""A graph's digest in other processes."""

from __future__ import annotations

import subprocess
import sys

from services.runtime.agents.registry import agent_graphs

_PRINT = "from services.runtime.agents.registry import agent_graphs; print([g.version for g in agent_graphs()])"


def test_every_process_finds_the_same() -> None:
    def found(seed: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", _PRINT], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout.strip()

    assert found("1") == found("2") == str([graph.version for graph in agent_graphs()])
