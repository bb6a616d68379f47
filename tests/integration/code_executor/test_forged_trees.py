"""Trees and commits that do not hold what their ids say: git lists them all the same, and nobody is shown them."""

from __future__ import annotations

import zlib

import pytest

from tests.integration.code_executor.conftest import Executor
from tests.integration.code_executor.git_repository import FILE, GitRepository


def replace(repository: GitRepository, name: str, other: str) -> None:
    """Puts an object's content where another one is."""
    ids = [repository.git("rev-parse", one) for one in (name, other)]
    there, content = (repository.path / ".git" / "objects" / oid[:2] / oid[2:] for oid in ids)
    there.write_bytes(content.read_bytes())


@pytest.mark.parametrize("forged", ["{commit}:src/inner", "{commit}:src", "{commit}^{{tree}}", "{commit}"])
@pytest.mark.parametrize("tool", ["list_directory", "read_file", "search_codebase"])
async def test_a_commit_with_a_forged_part_is_refused(
    executor: Executor, repository: GitRepository, forged: str, tool: str
) -> None:
    harmless = repository.commit({"src/inner/a.py": "safe()\n", "src/b.py": "x\n"}, branch="other")
    commit = repository.commit({"src/inner/a.py": "os.system(user)\n", "src/b.py": "x\n"})
    replace(repository, forged.format(commit=commit), forged.format(commit=harmless))
    arguments = {"list_directory": {}, "read_file": {"path": "src/b.py"}, "search_codebase": {"pattern": "safe"}}[tool]
    answer = await executor.call(tool, repository, commit, **arguments)
    assert (answer.reason, answer.data) == ("repository_unreadable", {})
    assert not list((executor.cache / "snapshots").iterdir())


async def test_a_tree_may_be_used_more_than_once_and_be_large(executor: Executor, repository: GitRepository) -> None:
    many = {f"{folder}/{'n' * 200}{number}": "x\n" for folder in ("a", "b/c") for number in range(3000)}
    found = await executor.call("find_file", repository, repository.commit(many), name="n2999")
    assert [entry["path"].partition("n")[0] for entry in found.data["entries"]] == ["a/", "b/c/"]


async def test_a_tree_cut_short_is_refused(executor: Executor, repository: GitRepository) -> None:
    blob = repository.write("blob", b"x\n")
    tree = repository.forge_tree([(FILE, b"a.py", blob), (FILE, b"b.py", blob)])
    commit = repository.commit_tree(tree)
    path = repository.path / ".git" / "objects" / tree[:2] / tree[2:]
    whole = zlib.decompress(path.read_bytes()).partition(b"\0")[2]
    half = whole[: len(whole) // 2]
    path.write_bytes(zlib.compress(b"tree %d\0" % len(half) + half))
    assert (await executor.call("list_directory", repository, commit)).reason == "repository_unreadable"
