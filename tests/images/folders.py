"""The Dockerfile's build stage carried out in plain folders, without root or containers."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.contract.deploy.dockerfile import instructions, stages

STEP_TIMEOUT_S = 300
# Where the build stage works, and what it makes for the final one.
SOURCE = "/src"
MADE = "/opt/signalbox"
BOM = "/opt/bom"
# This machine knows by itself whom to trust.
OF_THE_MACHINE = ("SSL_CERT_FILE", "PIP_CERT")


@dataclass(frozen=True)
class Folders:
    """Plain folders in place of a build's file system; `cache` is the one that builds share."""

    context: Path
    source: Path
    made: Path
    uv: Path
    env: Mapping[str, str] = field(default_factory=dict)

    def build(self, service: str) -> Path:
        """Carries out the build stage for a service; returns what the final stage would copy.

        Files that an earlier build copied before its first step, and that are as they were, stay: a builder takes that
        layer from its cache, and with it the files' times.
        """
        for made in (self.made, self._bom):
            shutil.rmtree(made, ignore_errors=True)
        self.made.parent.mkdir(parents=True, exist_ok=True)
        self._keep_first_layer()
        env = {"PATH": f"{self.uv.parent}{os.pathsep}{os.environ['PATH']}", "UV_PYTHON": _interpreter()}
        env = {**{name: value for name, value in os.environ.items() if not name.startswith(("UV_", "VIRTUAL_"))}, **env}
        for word, rest in stages()[0]:
            if word == "ARG":
                name, _, default = rest.partition("=")
                env[name] = service if name == "SERVICE" else default.strip('"')
            elif word == "ENV":
                given = dict(each.split("=", 1) for each in shlex.split(rest))
                env |= {name: self._here(value) for name, value in given.items() if name not in OF_THE_MACHINE}
            elif word == "COPY":
                self._copy(rest.replace("${SERVICE}", service))
            elif word == "RUN" and "pip install" not in rest and "/run/secrets/ca" not in rest:  # uv is here
                self._run(rest, {**env, **self.env})
        return self.made

    def extend(self, dockerfile: str, context: Path) -> Path:
        """Carries out a Dockerfile from an image that was built here; returns where the files are that it copies.

        It copies all of the context, to one place, and mounts single files of it.
        """
        copied = self.made.parent / "copied"
        [target] = (rest.split()[-1] for word, rest in instructions(dockerfile) if word == "COPY")
        for word, rest in instructions(dockerfile):
            if word == "COPY":
                assert rest == f". {target}"
                shutil.copytree(context, copied)
            elif word == "RUN":
                for source, mounted in re.findall(r"--mount=source=(\S+),target=(\S+)", rest):
                    rest = rest.replace(f"--mount=source={source},target={mounted}", "")
                    rest = rest.replace(mounted, str(context / source))
                written = rest.replace("/tmp/", f"{self.made.parent}/")  # noqa: S108 - the image's
                env = {**os.environ, "PATH": f"{self.uv.parent}{os.pathsep}{os.environ['PATH']}", **self.env}
                self._run(written, env)
        return copied

    def _keep_first_layer(self) -> None:
        self.source.mkdir(parents=True, exist_ok=True)
        first = {name for rest in _copied_first() for name in rest.split()[:-1]}
        for left in self.source.iterdir():
            if left.is_dir():
                shutil.rmtree(left)
            elif left.name not in first:
                left.unlink()

    def _copy(self, rest: str) -> None:
        *sources, destination = rest.split()
        for name in sources:
            source, target = self.context / name, self.source / destination
            if source.is_dir():
                shutil.copytree(source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
                continue
            target.mkdir(parents=True, exist_ok=True)
            if not _same(source, target / source.name):
                shutil.copy2(source, target)

    def _run(self, rest: str, env: Mapping[str, str]) -> None:
        command = self._here(re.sub(r"--mount=\S+\s*", "", rest))
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=self.source,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=STEP_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, f"{command}\nended with {done.returncode}:\n{done.stdout}"

    @property
    def _bom(self) -> Path:
        return self.made.parent / "bom"

    def _here(self, text: str) -> str:
        here = text.replace(MADE, str(self.made)).replace(BOM, str(self._bom))
        return here.replace(f"{SOURCE}/", f"{self.source}/")


def _copied_first() -> list[str]:
    """What is copied before the first step that works on it."""
    build = stages()[0]
    first_sync = next(index for index, (word, rest) in enumerate(build) if word == "RUN" and "uv sync" in rest)
    return [rest for word, rest in build[:first_sync] if word == "COPY"]


def _same(source: Path, target: Path) -> bool:
    return target.is_file() and target.read_bytes() == source.read_bytes()


def _interpreter() -> str:
    """The Python beneath this virtual environment, as an image has one."""
    return str(Path(getattr(sys, "_base_executable", sys.executable)).resolve())
