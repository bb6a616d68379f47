"""A commit's objects, read from git and checked against their ids: a forged object may hold anything.

git itself does not look: it finds an object by its id, and takes what is there for it.
"""

from __future__ import annotations

import hashlib
import subprocess
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO

from services.code_executor.errors import RepositoryBroken
from services.code_executor.git import Git
from services.code_executor.limits import Limits
from services.code_executor.repositories import Objects

_READ_BYTES = 256 * 1024


@contextmanager
def git_process(
    git: Git, objects: Objects, arguments: Sequence[str], limits: Limits
) -> Iterator[subprocess.Popen[bytes]]:
    """Runs git, for so long as a fetch may take at most. Raises RepositoryBroken when it fails; blocks."""
    process = subprocess.Popen(  # noqa: S603 - the arguments are ours and a checked commit id
        git.command(objects.git_dir, arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=objects.environment,
        start_new_session=True,
    )
    # A tree that refers to itself many times over takes git for ever to list.
    timer = threading.Timer(limits.fetch_timeout_s, process.kill)
    timer.start()
    try:
        yield process
        input_of(process).close()
        if process.wait() != 0:
            raise RepositoryBroken(
                "repository_unreadable", "git could not read all of the commit: it is damaged, or too large to list"
            )
    finally:
        timer.cancel()
        process.kill()
        process.wait()
        input_of(process).close()
        output_of(process).close()


def input_of(process: subprocess.Popen[bytes]) -> IO[bytes]:
    """Returns what a process reads from."""
    if process.stdin is None:
        raise AssertionError("the process was started without an input pipe")
    return process.stdin


def output_of(process: subprocess.Popen[bytes]) -> IO[bytes]:
    """Returns what a process prints to."""
    if process.stdout is None:
        raise AssertionError("the process was started without an output pipe")
    return process.stdout


def ask(process: subprocess.Popen[bytes], names: Iterable[str]) -> None:
    """Asks for objects aside: so git comes to an end by itself, and nobody waits for bytes that it does not have."""
    threading.Thread(target=_ask, args=(input_of(process), names), daemon=True).start()


def object_id(kind: str, content: bytes) -> str:
    """Returns the id that an object has by what it holds."""
    return hashlib.sha1(b"%b %d\0" % (kind.encode(), len(content)) + content, usedforsecurity=False).hexdigest()


def check_trees(git: Git, objects: Objects, commit: str, trees: Collection[str], limits: Limits) -> None:
    """Checks a commit, its tree and the trees below it; blocks. Raises RepositoryBroken when one is not what it was."""
    with git_process(git, objects, ["cat-file", "--batch"], limits) as process:
        ask(process, [commit, f"{commit}^{{tree}}", *trees])
        said = _checked(output_of(process), "commit", commit)
        _checked(output_of(process), "tree", said.partition(b"\n")[0].removeprefix(b"tree ").decode(errors="replace"))
        for tree in trees:
            _checked(output_of(process), "tree", tree)


def _checked(stream: IO[bytes], kind: str, wanted: str) -> bytes:
    """Reads an object, checks it, and returns how it begins."""
    header = stream.readline().split()
    if len(header) != 3 or header[1] != kind.encode() or not header[2].isdigit():
        raise RepositoryBroken("repository_unreadable", f"the repository lacks the {kind} {wanted}")
    left = int(header[2])
    digest = hashlib.sha1(b"%b %d\0" % (header[1], left), usedforsecurity=False)
    begin = b""
    while left and (block := stream.read(min(left, _READ_BYTES))):
        begin = begin or block
        digest.update(block)
        left -= len(block)
    stream.read(1)
    if header[0] != wanted.encode() or digest.hexdigest() != wanted:
        raise RepositoryBroken("repository_unreadable", f"the {kind} {wanted} does not hold what was committed")
    return begin


def _ask(stdin: IO[bytes], names: Iterable[str]) -> None:
    with suppress(BrokenPipeError), stdin:
        stdin.writelines(name.encode() + b"\n" for name in names)
