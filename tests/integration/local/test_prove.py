"""`signalbox prove` needs no platform, and says what the runtime's own command says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path


def test_a_policy_file_is_proved_before_anything_is_decided_by_it(tmp_path: Path) -> None:
    file = tmp_path / "policies.yaml"
    command = [sys.executable, "-P", "-m", "services.cli", "prove", "--policies", str(file)]
    file.write_text(
        "sast_investigation: {max_iterations: 50}\ngraph_editor: {max_operations: 3}\ndata_chat: {max_iterations: 5}\n"
    )
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert told.returncode == 1, told.stderr
    cut_off = r"✗ sast_investigation: a run can take \d{3} steps, and is cut off at 100"
    assert re.search(cut_off, told.stdout), told.stdout
    assert "✓ graph_editor" in told.stdout
    assert "✓ data_chat: every run ends, after at most 11 nodes, 13 model calls" in told.stdout
    file.write_text("data_chat: {max_iteration: 5}\n")
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert told.returncode == 2
    assert f"{file}: data_chat.max_iteration: there is no such limit" in told.stderr
