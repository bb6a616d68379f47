"""The container engine, and the images that it has built, as `make images-test` names them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.contract.deploy import services

WITHIN_S = 300
# What a pod is given, and no more: no root, no writing but to /tmp, no capability, no way up.
AS_A_POD = (
    "--rm", "--read-only", "--tmpfs=/tmp:rw,mode=1777", "--user=65532:65532", "--cap-drop=all",
    "--security-opt=no-new-privileges", "--pull=never",
)  # fmt: skip
IMAGES = sorted(services.in_source())


@dataclass(frozen=True)
class Ran:
    """How a container ended, and what it said."""

    status: int
    out: str
    err: str


@dataclass(frozen=True)
class Engine:
    """Podman or Docker."""

    program: str
    prefix: str
    tag: str
    _looked_at: dict[str, Any] = field(default_factory=dict)

    def image(self, service: str) -> str:
        """Returns the name of a service's image."""
        return f"{self.prefix}{service.replace('_', '-')}:{self.tag}"

    def call(self, *arguments: str | Path, timeout_s: float = WITHIN_S, cwd: Path | None = None) -> Ran:
        """Calls the engine."""
        done = subprocess.run(
            [self.program, *map(str, arguments)],
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def run(self, service: str, *options: str, entry: str = "", command: tuple[str, ...] = ()) -> Ran:
        """Runs a service's image as a pod would, without a network unless the options give one."""
        network = () if any(option.startswith("--network") for option in options) else ("--network=none",)
        entrypoint = (f"--entrypoint={entry}",) if entry else ()
        return self.call("run", *AS_A_POD, *network, *options, *entrypoint, self.image(service), *command)

    def python(self, service: str, program: str, *options: str) -> str:
        """Returns what a program prints, run by the image's own interpreter; fails with what it complains of."""
        ran = self.run(service, *options, entry="/opt/signalbox/bin/python", command=("-c", program))
        assert ran.status == 0, ran.err
        return ran.out

    def inspect(self, name: str) -> dict[str, Any]:
        """Returns what the engine knows of an image."""
        ran = self.call("image", "inspect", name)
        assert ran.status == 0, f"{ran.err}\n`make images` builds it"
        (found,) = json.loads(ran.out)
        return dict(found)


@cache
def engine() -> Engine:
    """Returns the engine of `make images-test`. Raises RuntimeError when it is not here."""
    name = os.environ.get("ENGINE", "podman")
    program = shutil.which(name)
    if program is None:
        raise RuntimeError(f"there is no {name} here: these tests need podman or docker (ENGINE=…)")
    return Engine(program, os.environ.get("IMAGE_PREFIX", "signalbox-"), os.environ.get("IMAGE_TAG", "0.1.0"))
