"""What a program does not need, it does not load, and what all need is loaded once: most of a start is imports."""

from __future__ import annotations

import subprocess
import sys

import pytest

from services.local.database import MIGRATION
from services.local.topology import MCP_EXECUTOR, OFFLINE_MODEL, SERVICES


@pytest.mark.parametrize(
    ("program", "libraries"),
    [
        ("services.sql_executor.server", ["openai"]),
        ("services.sql_executor.load_examples", ["openai"]),
        ("services.runtime.commands.migrate", ["langgraph"]),
        # What the processes that hold results against schemas import.
        ("services.mcp_executor.__main__, services.mcp_executor.schemas", ["grpc", "mcp", "pydantic"]),
        ("services.cli.app", ["jinja2", "jsonschema", "services.findings.sarif.findings"]),
    ],
)
def test_a_program_does_not_load_what_it_may_never_use(program: str, libraries: list[str]) -> None:
    check = f"import sys, {program}; print(*(name for name in {libraries} if name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", check], check=True, capture_output=True).stdout.split() == []


PROGRAMS = (
    "examples.harbour.load",
    "services.offline_model.__main__",
    MIGRATION,
    "services.sql_executor.provisioning.__main__",
    *(f"services.{name}.server" for name in SERVICES if name not in (OFFLINE_MODEL, MCP_EXECUTOR)),
)
LATE = """
import importlib, os, sys, threading
from services.local.fork_server import import_shared
import_shared()
assert threading.active_count() == 1 and "services.kit" not in sys.modules
before = set(sys.modules)
for program in sys.argv[1:]:
    if os.fork() == 0:
        importlib.import_module(program)
        print(program, *(name for name in sys.modules if name not in before), flush=True)
        os._exit(0)  # taking all modules apart would take longer
    os.wait()
"""


def test_the_fork_server_has_imported_the_libraries_of_every_program() -> None:
    asked = [sys.executable, "-P", "-c", LATE, *PROGRAMS]
    said = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.splitlines()
    assert [line.split()[0] for line in said] == list(PROGRAMS)
    # The standard library's modules take no time.
    known = {"services", "signalbox_routing", "examples", *sys.stdlib_module_names}
    late = {line.split()[0]: [name for name in line.split()[1:] if name.split(".")[0] not in known] for line in said}
    assert not any(late.values()), late
