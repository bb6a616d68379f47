"""Files that a command writes: tried before anything is spent, whole or not there, and none of an earlier time."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode

# Where a process finds what it has open.
OPENED = Path("/proc")


def check_writable(path: Path) -> None:
    """Tries whether a file can be written, and leaves no trace. Raises CliError."""
    # Of a link, where it leads to takes the file.
    folder = (path if _is_stream(path) else path.resolve()).absolute().parent
    if not folder.is_dir():
        raise CliError(
            f"can't write {path}: there is no directory {folder}",
            hint="make the directory first, or name another file",
            code=ExitCode.USAGE,
        )
    try:
        if path.is_file() or path.is_dir():
            path.open("ab").close()
        if not (_is_stream(path) and path.exists()):
            tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise _unwritable(path, error) from error


def remove_older(path: Path) -> None:
    """Removes what an earlier command wrote, so that it is not taken for what this one brings. Raises CliError."""
    try:
        if path.is_file() and not _is_stream(path):
            path.resolve().unlink()  # a link to it stays
    except OSError as error:
        raise _unwritable(path, error) from error


@contextmanager
def written_whole(path: Path, kept: str = "") -> Iterator[Path]:
    """Lends a file to write, which takes the place of the one that is wanted at the end: never half of one is there.

    A pipe or a device is lent itself. `kept` is what to do where there was no room. Raises CliError.
    """
    # What a link leads to takes the file, and the link stays.
    wanted = path if _is_stream(path) else path.resolve()
    part = path if wanted is path else wanted.with_name(f".signalbox-{secrets.token_hex(8)}")
    try:
        yield part
        if part != wanted:
            if wanted.exists():
                shutil.copymode(wanted, part)
            part.replace(wanted)
    except OSError as error:
        hint = kept or "make room there, or name another file, and try again"
        told = f"can't write {path}: {error.strerror or error}; no part of it was kept"
        raise CliError(told, hint=hint, code=ExitCode.USAGE) from error
    finally:
        if part != wanted:
            part.unlink(missing_ok=True)


def write_text(path: Path, text: str, kept: str = "") -> None:
    """Writes a file, as `written_whole` does. Raises CliError."""
    with written_whole(path, kept) as part:
        part.write_text(text, encoding="utf-8", newline="")


async def write_pieces(path: Path, pieces: AsyncIterator[str], kept: str = "") -> None:
    """Writes a file of pieces, as `written_whole` does. Raises CliError."""
    with written_whole(path, kept) as part, part.open("w", encoding="utf-8", newline="") as file:
        async for piece in pieces:
            file.write(piece)


def _is_stream(path: Path) -> bool:
    """Whether a path is a pipe, a device or an open file of a process, such as /dev/stdout: none can be replaced."""
    opened = path.is_symlink() and path.readlink().is_relative_to(OPENED)
    return opened or path.parent.resolve().is_relative_to(OPENED) or (path.exists() and not path.is_file())


def _unwritable(path: Path, error: OSError) -> CliError:
    return CliError(
        f"can't write {path}: {error.strerror}", hint="name a file that can be written", code=ExitCode.USAGE
    )
