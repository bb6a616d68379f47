"""Ctrl-C while the command is still being loaded."""

from __future__ import annotations

import subprocess
import sys

import pytest

from services.cli.exit_codes import ExitCode
from services.local.settings import inherited_environment

# As a program that loads the command finds it: the signal comes when the named module is asked for.
LOADING = """
import signal, sys
from importlib.abc import MetaPathFinder

class Interrupt(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == sys.argv[1]:
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt as error:
                raise RuntimeError("taken for something else, as by a class that is being made") from error

sys.meta_path.insert(0, Interrupt())
from services.cli.__main__ import main
main()
"""


@pytest.mark.parametrize("module", ["services.cli.streams", "services.cli.app", "pydantic", "services.cli.ask"])
def test_it_ends_without_a_word(module: str) -> None:
    # The tests' own process does not ignore SIGINT (tests/conftest.py), and so its children don't.
    ended = subprocess.run(
        [sys.executable, "-c", LOADING, module], capture_output=True, timeout=60, env=inherited_environment()
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (ExitCode.INTERRUPTED, b"", b"")
