"""Folders count as files do: a few small trees, used over and over, can hold any number of them."""

from __future__ import annotations

import json
import os

import pytest

from services.code_executor.manifest import new_folders
from tests.integration.code_executor.conftest import Executor, MakeExecutor
from tests.integration.code_executor.git_repository import FILE, TREE, GitRepository


def chains(repository: GitRepository, count: int, depth: int, name: bytes = b"d") -> str:
    """Commits so many files, each at the end of a chain of folders of its own."""
    tree = repository.forge_tree([(FILE, b"f", repository.write("blob", b"x\n"))])
    for _ in range(depth - 1):
        tree = repository.forge_tree([(TREE, name, tree)])
    return repository.commit_tree(repository.forge_tree([(TREE, b"%06d" % n, tree) for n in range(count)]))


async def test_folders_count_against_the_most_files(make_executor: MakeExecutor, repository: GitRepository) -> None:
    commit = chains(repository, 10, 99)
    async with make_executor(code_repository_files=10 * 100) as executor:
        assert (await executor.call("list_directory", repository, commit)).reason == ""
    commit = chains(repository, 10, 100)
    async with make_executor(code_repository_files=10 * 100) as executor:
        refused = await executor.call("list_directory", repository, commit)
        assert (refused.reason, "1000 files and folders" in refused.message) == ("repository_too_large", True)
        assert len(list((executor.cache / "snapshots").iterdir())) == 1


async def test_folders_count_in_what_the_cache_holds(executor: Executor, repository: GitRepository) -> None:
    await executor.call("list_directory", repository, chains(repository, 10, 100))
    [snapshot] = (executor.cache / "snapshots").iterdir()
    folders = sum(len(inner) for _, inner, _ in os.walk(snapshot / "tree"))
    assert folders == 1000
    assert json.loads((snapshot / "entry.json").read_bytes())["size_bytes"] >= (folders + 10) * 4096


async def test_paths_too_long_to_remember_are_refused(executor: Executor, repository: GitRepository) -> None:
    commit = chains(repository, 3, 2000, b"d" * 100)
    assert (await executor.call("list_directory", repository, commit)).reason == "repository_too_large"


@pytest.mark.parametrize(
    ("before", "path", "count"),
    [
        (b"", b"f", 0),
        (b"", b"a/b/f", 2),
        (b"a/b/f", b"a/b/g", 0),
        (b"a/b/f", b"a/g", 0),
        (b"a/b/f", b"a/bc/f", 1),
        (b"a/b/f", b"ab/b/f", 2),
        (b"a/bc/f", b"a/b/f", 1),
        (b"a", b"a/f", 1),
        (b"a/f", b"g", 0),
    ],
)
def test_folders_that_the_path_before_did_not_lead_through(before: bytes, path: bytes, count: int) -> None:
    assert new_folders(before, path) == count
