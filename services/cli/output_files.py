"""Files that a command writes: tried before anything is spent, and never left from an earlier time."""

from __future__ import annotations

import tempfile
from pathlib import Path

from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode


def check_writable(path: Path) -> None:
    """Tries whether a file can be written, and leaves no trace. Raises CliError."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise CliError(
            f"can't write {path}: there is no directory {folder}",
            hint="make the directory first, or name another file",
            code=ExitCode.USAGE,
        )
    try:
        if path.is_file() or path.is_dir():
            path.open("ab").close()
        elif not path.exists():
            tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise _unwritable(path, error) from error


def remove_older(path: Path) -> None:
    """Removes what an earlier command wrote, so that it is not taken for what this one brings. Raises CliError."""
    try:
        if path.is_file():  # and no pipe or device, which holds nothing
            path.unlink()
    except OSError as error:
        raise _unwritable(path, error) from error


def write_text(path: Path, text: str) -> None:
    """Writes a file. Raises CliError."""
    try:
        path.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> CliError:
    return CliError(
        f"can't write {path}: {error.strerror}", hint="name a file that can be written", code=ExitCode.USAGE
    )
