"""git on a repository of this machine, which may have come from anywhere: its configuration is never read.

A git directory of ours stands in for the repository's: its refs by links, its objects lent.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from services.findings.errors import BadRepository
from services.kit.git import CONFIG, common_dir_of, git_command, git_config, git_dir_of, git_environment

_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
_HEAD_BYTES = 4096
# What a revision can name: branches and tags, and what they were before.
_SHARED = ("refs", "packed-refs", "logs", "shallow")
_OWN = ("FETCH_HEAD", "MERGE_HEAD", "ORIG_HEAD")


@dataclass(frozen=True)
class Checkout:
    """A repository on this machine: its top folder, git directory, and the directory of refs and objects."""

    top: Path
    git_dir: Path
    common_dir: Path

    async def git(self, *arguments: str) -> bytes:
        """Returns what git, which only reads, prints about the repository. Raises BadRepository."""
        program = _program()
        with _stand_in(self) as home:
            process = await asyncio.create_subprocess_exec(
                *git_command(program, home / "git", arguments),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=git_environment(program, home, objects=self.common_dir / "objects"),
                cwd=home,
            )
            output, complaint = await process.communicate()
        if process.returncode:
            said = complaint.decode("utf-8", "replace").strip() or "no such commit"
            raise BadRepository(
                f"git says of {self.top}: {said[:300]}",
                hint="name a git repository with --repo and a commit it has with --commit",
            )
        return output


def find_checkout(path: Path) -> Checkout:
    """Returns the repository that a folder is in. Raises BadRepository."""
    path = path.resolve()
    for top in (path, *path.parents):
        git_dir = git_dir_of(top)
        common_dir = common_dir_of(git_dir)
        if all(((git_dir / "HEAD").is_file(), (common_dir / "objects").is_dir(), (common_dir / "refs").is_dir())):
            return Checkout(top, git_dir, common_dir.resolve())
        if (top / ".git").is_file():
            break
    raise BadRepository(f"{path} is in no git repository", hint="name a git repository: --repo")


def _program() -> Path:
    found = shutil.which("git")
    if found is None:
        raise BadRepository("git is not installed", hint="install git")
    return Path(found).absolute()


@contextmanager
def _stand_in(checkout: Checkout) -> Iterator[Path]:
    """Makes a folder with our configuration and, below `git`, a git directory with the repository's refs."""
    with tempfile.TemporaryDirectory(prefix="signalbox-git-") as folder:
        home = Path(folder)
        git_config(home).write_text(CONFIG)
        git_dir = home / "git"
        (git_dir / "objects").mkdir(parents=True)
        (git_dir / "config").write_text(_CONFIG)
        with (checkout.git_dir / "HEAD").open("rb") as head:
            # git takes no HEAD that is a link.
            (git_dir / "HEAD").write_bytes(head.read(_HEAD_BYTES))
        for place, names in ((checkout.common_dir, _SHARED), (checkout.git_dir, _OWN)):
            for name in names:
                (git_dir / name).symlink_to(place.absolute() / name)
        yield home
