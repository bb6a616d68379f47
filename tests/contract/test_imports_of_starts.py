"""What a program does not need, it does not load: half of a start is imports."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("program", "library"),
    [
        ("services.sql_executor.server", "openai"),
        ("services.sql_executor.load_examples", "openai"),
        ("services.runtime.commands.migrate", "langgraph"),
        ("services.cli.app", "jinja2"),
        ("services.cli.app", "jsonschema"),
        ("services.cli.app", "services.findings.sarif.findings"),
    ],
)
def test_a_program_does_not_load_what_it_may_never_use(program: str, library: str) -> None:
    check = f"import sys, {program}; sys.exit({library!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
