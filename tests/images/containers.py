"""A local platform whose services are containers of the images, with all else as in the end-to-end tests."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from services.local.postgres_directory import GRAPH_DIRECTORY
from services.local.processes import Program, ServiceProcess
from services.local.settings import inherited_environment
from services.local.stack import LocalStack
from services.local.topology import RUNTIME
from tests.contract.deploy.helm import ROOT
from tests.images.engine import AS_A_POD, Engine

# It becomes the engine's client, which hands signals on to the container and ends with its status.
BECOME = "import os, sys; os.execv(sys.argv[1], sys.argv[1:])"
# What the client itself needs of the machine's configuration.
OF_THE_ENGINE = ("CONTAINERS_CONF", "DOCKER_HOST", "DOCKER_CONFIG", "XDG_RUNTIME_DIR")


def environment() -> dict[str, str]:
    """Returns what the engine's client sees of the machine's environment."""
    return {**inherited_environment(), **{name: os.environ[name] for name in OF_THE_ENGINE if name in os.environ}}


class ContainerStack(LocalStack):
    """Starts every service as a container of its image; the databases stay processes of this machine."""

    engine: Engine
    # Where code is that may be read.
    shared: tuple[Path, ...] = ()

    def _process(self, program: Program) -> ServiceProcess:
        # As `fsGroup` does in a pod: the user of the images may read what it is given.
        self.directory.chmod(0o777)
        for path in (*self.directory.glob(GRAPH_DIRECTORY), *self.directory.glob(f"{GRAPH_DIRECTORY}/*.sock")):
            path.chmod(0o777)
        for file in self.directory.glob("*.*"):
            if file.suffix in (".pem", ".json"):
                file.chmod(0o644)
        service = RUNTIME if program.name.startswith(RUNTIME) else program.name
        return super()._process(replace(program, arguments=self._arguments(service, program.name, program.env)))

    def _arguments(self, service: str, name: str, env: Mapping[str, str]) -> list[str]:
        settings = {each for each in env if each.startswith("SIGNALBOX_")} | {
            "SIGNALBOX_READY_FILE", "SIGNALBOX_LISTEN", "SIGNALBOX_METRICS_LISTEN",
        }  # fmt: skip
        mounts = [f"--volume={self.directory}:{self.directory}:rw"]
        mounts += [f"--volume={path}:{path}:ro" for path in (ROOT / "examples", *self.shared)]
        return [
            "-c", BECOME, self.engine.program, "run", *AS_A_POD, "--network=host", *mounts,
            *(f"--env={each}" for each in sorted(settings)), f"--name={self.container(name)}",
            self.engine.image(service),
        ]  # fmt: skip

    def container(self, name: str) -> str:
        """Returns the name of a service's container."""
        return f"signalbox-test-{os.getpid()}-{name}"

    async def _stop(self) -> None:
        await super()._stop()
        for process in self.services:
            self.engine.call("rm", "--force", self.container(process.name))
