"""What these agents need beside the cluster: a graph database, and a server of git repositories, on this machine."""

from __future__ import annotations

import secrets
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from services.local.falkordb import FalkorServer
from tests.cluster.cluster import wait_until
from tests.cluster.control_plane import program
from tests.fixtures.ports import reserved_port
from tests.fixtures.stack import Deployed


@dataclass(frozen=True)
class Agents:
    """The cluster's platform, and the folder whose repositories its executor may fetch, from a URL."""

    deployed: Deployed
    folder: Path
    url: str


@asynccontextmanager
async def graph_database(folder: Path, host: str) -> AsyncIterator[str]:
    """Starts a graph database that is reached by an address of this machine, and yields its URL."""
    password = secrets.token_hex(16)
    with reserved_port(host) as port:
        options = ("--port", str(port), "--bind", host, "--requirepass", password)
        server = FalkorServer(folder, options=options)
        await server.start()
        try:
            yield f"redis://:{password}@{host}:{port}"
        finally:
            await server.stop()


@contextmanager
def served_repositories(folder: Path, host: str) -> Iterator[str]:
    """Serves the repositories below a folder by git's own protocol, and yields the URL that theirs begin with."""
    of_git = subprocess.run(["git", "--exec-path"], capture_output=True, text=True, timeout=60, check=True)
    daemon = Path(of_git.stdout.strip()) / "git-daemon"
    with reserved_port(host) as port:
        arguments = ("--reuseaddr", f"--listen={host}", f"--port={port}", "--export-all", f"--base-path={folder}")
        with program(daemon, folder, *arguments, str(folder)):
            wait_until("the repositories are served", lambda: _listens(host, port))
            yield f"git://{host}:{port}/"


def _listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port)).close()
    except ConnectionRefusedError:
        return False
    return True
