"""`signalbox COMMAND` in an image: the commands of the service that it holds, by the names that they have elsewhere.

A service names them in its package as `COMMANDS`: a module each that runs as a program.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Mapping
from importlib import import_module

USAGE = 2


def main(service: str) -> int:
    """Runs the command in `sys.argv`, which ends the process as it likes; returns the exit status of having none."""
    commands: Mapping[str, str] = getattr(import_module(f"services.{service}"), "COMMANDS", {})
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in commands:
        wanted = f"no command {name!r}" if name else "no command was given"
        known = ", ".join(sorted(commands)) or "none"
        sys.stderr.write(f"signalbox: {wanted}; the image of {service} has: {known}\n")
        return USAGE
    sys.argv = [f"signalbox {name}", *sys.argv[2:]]
    runpy.run_module(commands[name], run_name="__main__")
    return 0
