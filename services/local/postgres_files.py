"""Files that the embedded Postgres needs and the user that must be able to reach them, for the keeper process.

Standard library only, like the keeper.
"""

import contextlib
import os
import pwd
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PROGRAMS = ("initdb", "postgres")


class StartError(Exception):
    """The server can't be started; the message is for the person who asked for it."""


@dataclass(frozen=True)
class Account:
    """The operating-system user that the server runs as; None of its fields are set when that is us."""

    name: str | None = None
    uid: int | None = None
    gid: int | None = None

    def own(self, path: Path) -> None:
        """Gives a path to this user."""
        if self.uid is not None and self.gid is not None:
            os.chown(path, self.uid, self.gid)

    def can(self, path: Path, bits: int) -> bool:
        """Says whether the user has these permission bits (as in the "other" class) on one path."""
        if self.uid is None:
            return True
        status = path.stat()
        if status.st_uid == self.uid:
            return (status.st_mode >> 6) & bits == bits
        if status.st_gid == self.gid:
            return (status.st_mode >> 3) & bits == bits
        return status.st_mode & bits == bits

    def can_enter(self, path: Path) -> bool:
        """Says whether the user can reach a directory: enter it and everything above it."""
        return all(self.can(each, stat.S_IXOTH) for each in (path, *path.parents) if each.exists())

    def can_use(self, tree: Path) -> bool:
        """Says whether the user can reach and reads a whole tree of files."""
        read, enter = stat.S_IROTH, stat.S_IROTH | stat.S_IXOTH
        return self.can_enter(tree) and all(
            self.can(each, enter if each.is_dir() or each.parent.name == "bin" else read) for each in tree.rglob("*")
        )


def account_for(run_as: str) -> Account:
    """Returns the user to run the server as: ourselves, or `run_as` when we are root (Postgres refuses root)."""
    if os.geteuid() != 0:
        return Account()
    try:
        entry = pwd.getpwnam(run_as)
    except KeyError as error:
        raise StartError(f"Postgres can't run as root, and there is no user {run_as!r} to run it as") from error
    if entry.pw_uid == 0:
        raise StartError(f"Postgres can't run as root, and {run_as!r} is root too")
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


@contextlib.contextmanager
def work_directory(account: Account) -> Iterator[Path]:
    """Makes a private directory that the server's user can enter, and removes it at the end."""
    tried = list(dict.fromkeys((tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm")))  # noqa: S108 - mkdtemp follows
    for parent in map(Path, tried):
        if parent.is_dir() and os.access(parent, os.W_OK) and account.can_enter(parent):
            break
    else:
        raise StartError(f"no temporary directory that user {account.name!r} can enter; tried {', '.join(tried)}")
    path = Path(tempfile.mkdtemp(prefix="signalbox-postgres-", dir=parent))
    try:
        account.own(path)
        yield path
    finally:
        shutil.rmtree(path)


def usable_install(install: Path, account: Account, work: Path) -> Path:
    """Returns an installation that the server's user can read: the one given, or a copy of what it needs of it."""
    missing = [name for name in _PROGRAMS if not (install / "bin" / name).is_file()]
    if missing:
        raise StartError(f"{install / 'bin'} has no {' and no '.join(missing)}")
    libraries = install.parent.with_name(f"{install.parent.name}.libs")  # where the wheel keeps libpq, found by rpath
    if account.can_use(install) and (not libraries.exists() or account.can_use(libraries)):
        return install
    copy = work / install.parent.name / install.name
    (copy / "bin").mkdir(parents=True)
    for name in _PROGRAMS:
        shutil.copy2(install / "bin" / name, copy / "bin" / name)
    for name in ("lib", "share"):
        shutil.copytree(install / name, copy / name)
    if libraries.exists():
        shutil.copytree(libraries, work / libraries.name)
    for each in (work, *work.rglob("*")):
        account.own(each)
        if account.uid is not None and each != work:
            each.chmod(0o700 if each.is_dir() or each.parent == copy / "bin" else 0o600)
    return copy
