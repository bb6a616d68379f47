"""git for repositories that nobody vouches for: started so that no configuration but ours has a say.

What a repository's configuration can name (hooks, filters, helpers, file system monitors, remotes to fetch what is
missing from) runs as whoever reads it. So a process of git gets a git directory of ours, and the other's objects are
lent to it. Switches alone would not do: there are many, and every version of git adds some.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

CONFIG = """\
[core]
\thooksPath = /dev/null
\tfsmonitor = false
\tattributesFile = /dev/null
\texcludesFile = /dev/null
\tcommitGraph = false
\taskPass = true
\tsshCommand = false
[protocol]
\tallow = never
\tversion = 2
[http]
\tfollowRedirects = false
\tlowSpeedLimit = 1000
\tlowSpeedTime = 30
[credential]
\thelper =
[fetch]
\trecurseSubmodules = false
\twriteCommitGraph = false
[submodule]
\trecurse = false
[transfer]
\tbundleURI = false
[gc]
\tauto = 0
[maintenance]
\tauto = false
"""
_POINTER_BYTES = 64 * 1024


def git_config(home: Path) -> Path:
    """Returns where the one configuration is that git reads from."""
    return home / "gitconfig"


def git_environment(
    program: Path, home: Path, *, transport: str = "none", objects: Path | None = None
) -> dict[str, str]:
    """Returns the whole environment of a git process.

    home: a folder of ours with `git_config`. transport: the one protocol it may speak, or "none". objects: another
    repository's object folder to read from.
    """
    environment = {
        "PATH": f"{program.parent}:{os.defpath}",
        "HOME": str(home),
        "LC_ALL": "C",
        "GIT_ALLOW_PROTOCOL": transport,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_ASKPASS": "true",
        "GIT_CONFIG_GLOBAL": str(git_config(home)),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_PROTOCOL_FROM_USER": "0",
        "GIT_SSH_COMMAND": "false",
        "GIT_TERMINAL_PROMPT": "0",
    }
    if objects is not None:
        environment["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = _quoted(str(objects))
    return environment


def git_command(program: Path, git_dir: Path | None, arguments: Sequence[str]) -> list[str]:
    """Returns the argument vector of a git process."""
    place = [f"--git-dir={git_dir}"] if git_dir else []
    return [str(program), "--no-pager", *place, *arguments]


def git_dir_of(work_tree: Path) -> Path:
    """Returns the git directory of a working tree, which may be elsewhere; of a bare repository, itself."""
    dot_git = work_tree / ".git"
    if dot_git.is_dir():
        return dot_git
    if dot_git.is_file():
        for line in _lines(dot_git):
            if line.startswith("gitdir: "):
                return work_tree / line.removeprefix("gitdir: ")
    return work_tree


def common_dir_of(git_dir: Path) -> Path:
    """Returns what a git directory shares with those of other working trees: refs and objects are there."""
    for line in _lines(git_dir / "commondir"):
        return git_dir / line
    return git_dir


def _lines(path: Path) -> Iterator[str]:
    if path.is_file():
        with path.open(errors="surrogateescape") as file:
            yield from file.read(_POINTER_BYTES).splitlines()


def _quoted(path: str) -> str:
    # git splits the variable at colons, unless an entry is in double quotes.
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
