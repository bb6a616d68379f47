"""How `signalbox ask` in one terminal finds what `signalbox up` runs in another: a file in a directory of one's own."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode
from services.kit.settings import Address

ENDPOINT_FILE = "endpoint.json"
LOCK_FILE = "lock"
STACK_DIRECTORY = "up"


@dataclass(frozen=True)
class Endpoint:
    """A running local platform: its gateway, the key that signs callers' tokens for it, and the code it may read."""

    gateway: str
    signing_key: str
    issuer: str
    audience: str
    pid: int
    code_roots: Sequence[str] = ()


def read_endpoint(directory: Path) -> Endpoint | None:
    """The platform that runs here, or None. Raises CliError when the directory could be another user's doing."""
    if not directory.is_dir():
        return None
    check_private(directory)
    try:
        endpoint = Endpoint(**json.loads((directory / ENDPOINT_FILE).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise CliError(
            f"{directory / ENDPOINT_FILE} is damaged",
            hint="stop `signalbox up` and start it again",
            code=ExitCode.UNREACHABLE,
        ) from error
    return endpoint if _lives(endpoint.pid) else None


def write_endpoint(directory: Path, endpoint: Endpoint) -> None:
    """Says where the platform is, in one step, so that no reader sees half of it."""
    partial = directory / f"{ENDPOINT_FILE}.partial"
    partial.write_text(json.dumps(asdict(endpoint)), encoding="utf-8")
    partial.replace(directory / ENDPOINT_FILE)


@contextmanager
def only_one(directory: Path) -> Iterator[Path]:
    """Claims the directory for one running platform and yields where it may keep its files; removes them at the end.

    The claim is a file lock: it ends with its process, however that ends. Raises CliError when there is one already.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_private(directory)
    descriptor = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _lock(descriptor, directory)
        files = directory / STACK_DIRECTORY
        _clean(directory, files)
        files.mkdir(mode=0o700)
        try:
            yield files
        finally:
            _clean(directory, files)
    finally:
        os.close(descriptor)


def check_listen(address: str, option: str = "--listen") -> None:
    """Raises CliError unless a server could listen there now; it may still come too late."""
    hint = f"name another one; with `{option} 127.0.0.1:0` it is one that is free"
    try:
        host, _, port = TypeAdapter(Address).validate_python(address).rpartition(":")
    except ValidationError as error:
        said = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise CliError(f"{option} {address}: {said}", hint=hint, code=ExitCode.USAGE) from error
    try:
        [family, kind, _, _, place], *_ = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
        with socket.socket(family, kind) as probe:
            # As servers do: what was said by the last one there need not be over.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
            probe.listen()
    except (OSError, UnicodeError) as error:  # the second for a host that no name may be
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise CliError(f"can't listen at {address}: {why}", hint=hint, code=ExitCode.USAGE) from error


def check_private(directory: Path) -> None:
    """Raises CliError unless a directory belongs to this user and nobody else may enter it."""
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise CliError(
            f"{directory} must be a directory of yours that nobody else may enter",
            hint=f"remove it, or `chmod 700 {directory}`, or set SIGNALBOX_RUNTIME_DIR to another one",
            code=ExitCode.USAGE,
        )


def _lock(descriptor: int, directory: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise CliError(
            f"`signalbox up` is running already (it holds {directory / LOCK_FILE})",
            hint="use that one, or set SIGNALBOX_RUNTIME_DIR to run a second",
            code=ExitCode.USAGE,
        ) from error


def _clean(directory: Path, files: Path) -> None:
    (directory / ENDPOINT_FILE).unlink(missing_ok=True)
    if files.exists():
        shutil.rmtree(files)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
