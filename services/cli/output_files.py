"""Files that a command writes: tried before anything is spent, whole or not there, and none of an earlier time."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from services.cli.errors import CliError
from services.cli.exit_codes import ExitCode

# Where a process finds what it has open.
OPENED: Final = Path("/proc")
ANOTHER: Final = "name a file that can be written"
MAKE_ROOM: Final = "make room there, or name another file, and try again"
ELSEWHERE: Final = "make room there, or name another folder in TMPDIR, and try again"


class OutputFile:
    """A file that a command writes at its end. Of a link, where it leads to takes the file, and the link stays.

    What it replaces lends it its mode, its group and, where this user may, its owner. Every method raises CliError.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._replaced: os.stat_result | None = None

    def check(self) -> None:
        """Tries whether it can be written, and leaves no trace."""
        folder = self._wanted.absolute().parent
        if not folder.is_dir():
            hint = "make the directory first, or name another file"
            raise CliError(f"can't write {self.path}: there is no directory {folder}", hint=hint, code=ExitCode.USAGE)
        with _told(self.path, ANOTHER):
            if self.path.is_file() or self.path.is_dir():
                self.path.open("ab").close()
            if not (self._is_stream and self.path.exists()):
                tempfile.TemporaryFile(dir=folder).close()

    def remove_older(self) -> None:
        """Removes what an earlier command wrote, so that it is not taken for what this one brings."""
        with _told(self.path, ANOTHER):
            if self.path.is_file() and not self._is_stream:
                self._replaced = self._wanted.stat()
                self._wanted.unlink()

    @contextmanager
    def written_whole(self, kept: str = "", *, spooled: bool = False) -> Iterator[Path]:
        """Lends a file to write, which takes the place of this one at the end: never half of one is there.

        The folder that it is in is for files that it is made of, and is removed. A pipe or a device is lent itself, or
        with `spooled` is written to at the end. `kept` is what to do where there was no room.
        """
        if self._is_stream:
            with self._spooled() if spooled else _told(self.path, kept or MAKE_ROOM) as elsewhere:
                yield elsewhere or self.path
            return
        wanted = self._wanted
        with (
            _told(self.path, kept or MAKE_ROOM, "; no part of it was kept"),
            tempfile.TemporaryDirectory(prefix=".signalbox-", dir=wanted.parent) as folder,
        ):
            part = Path(folder) / "part"
            yield part
            with suppress(FileNotFoundError):
                self._replaced = wanted.stat()
            if self._replaced:
                _lend(self._replaced, part)
            part.replace(wanted)

    def write_text(self, text: str, kept: str = "") -> None:
        """Writes it, as `written_whole` does."""
        with self.written_whole(kept) as part:
            part.write_text(text, encoding="utf-8", newline="")

    async def write_pieces(self, pieces: AsyncIterator[str], kept: str = "") -> None:
        """Writes it of pieces, as `written_whole` does."""
        with self.written_whole(kept) as part, part.open("w", encoding="utf-8", newline="") as file:
            async for piece in pieces:
                file.write(piece)

    @contextmanager
    def _spooled(self) -> Iterator[Path]:
        """Lends a file elsewhere, and writes what it holds in the end."""
        elsewhere = Path(tempfile.gettempdir())
        with _told(elsewhere, ELSEWHERE), tempfile.TemporaryDirectory(prefix="signalbox-", dir=elsewhere) as folder:
            spool = Path(folder) / "whole"
            yield spool
            with _told(self.path, MAKE_ROOM), spool.open("rb") as written, self.path.open("wb") as file:
                shutil.copyfileobj(written, file)

    @property
    def _wanted(self) -> Path:
        """What takes the file."""
        return self.path if self._is_stream else _resolved(self.path)

    @property
    def _is_stream(self) -> bool:
        """Whether it is a pipe, a device or an open file of a process, such as /dev/stdout: none can be replaced."""
        path = self.path
        opened = path.is_symlink() and path.readlink().is_relative_to(OPENED)
        return opened or _resolved(path.parent).is_relative_to(OPENED) or (path.exists() and not path.is_file())


def _resolved(path: Path) -> Path:
    with _told(path, ANOTHER):
        try:
            return path.resolve()
        except RuntimeError as error:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from error


def _lend(replaced: os.stat_result, part: Path) -> None:
    """Gives a file the group, the owner and the mode of the one that it replaces, and nobody more than that gave."""
    mode = stat.S_IMODE(replaced.st_mode)
    try:
        os.chown(part, -1, replaced.st_gid)
    except PermissionError:
        # Its group is another, whose members might do what all others might.
        mode = mode & ~stat.S_IRWXG | (mode & stat.S_IRWXO) << 3
    with suppress(PermissionError):
        os.chown(part, replaced.st_uid, -1)
    part.chmod(mode)


@contextmanager
def _told(path: Path, hint: str, left: str = "") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = error.strerror or error
        raise CliError(f"can't write {path}: {why}{left}", hint=hint, code=ExitCode.USAGE) from error
