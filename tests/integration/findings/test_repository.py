"""Which repository, commit and files a name on this machine stands for."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.findings.errors import BadRepository
from services.findings.investigation.repository import open_source
from tests.integration.code_executor.git_repository import GitRepository


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    """A repository with two commits, the first one tagged."""
    made = GitRepository(tmp_path / "project")
    made.commit({"src/first.py": "x = 1\n"})
    made.git("tag", "-a", "-m", "one", "v1", "main")
    made.git("reset", "--quiet", "--hard")
    made.git("commit", "--quiet", "--allow-empty", "-m", "second")
    return made


@pytest.mark.parametrize("commit", ["v1", "HEAD~1", "main^", "HEAD@{1}", "ORIG_HEAD", "short", "packed"])
async def test_a_commit_is_what_git_takes_the_name_for(repository: GitRepository, commit: str) -> None:
    first = repository.git("rev-parse", "main~1")
    if commit == "packed":
        repository.git("pack-refs", "--all")
        repository.git("repack", "-adq")
    named = {"short": first[:10], "packed": "v1"}.get(commit, commit)
    source = await open_source(str(repository.path), named)
    assert source.commit == first
    assert await source.lines("src/first.py") == ["x = 1", ""]


async def test_a_folder_within_stands_for_its_repository(repository: GitRepository) -> None:
    source = await open_source(str(repository.path / "src"), "")
    assert source.repository == str(repository.path)


@pytest.mark.parametrize("kind", ["worktree", "bare", "submodule", "borrowing", "shallow"])
async def test_repositories_of_every_shape_are_read(repository: GitRepository, tmp_path: Path, kind: str) -> None:
    place = tmp_path / kind
    first = repository.git("rev-parse", "v1^{commit}")
    if kind == "worktree":
        repository.git("worktree", "add", "--quiet", "--detach", str(place), first)
    elif kind == "submodule":
        outer = GitRepository(tmp_path / "outer")
        outer.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(repository.path), "inner")
        place = outer.path / "inner"
        repository.git("-C", str(place), "checkout", "--quiet", first)
    else:
        how = {"bare": "--bare", "borrowing": "--shared", "shallow": "--depth=1"}[kind]
        repository.git("update-ref", "refs/heads/main", first)
        repository.git("clone", "--quiet", how, f"file://{repository.path}", str(place))
    source = await open_source(str(place), "")
    assert (source.repository, source.commit) == (str(place), first)
    assert await source.lines("src/first.py") == ["x = 1", ""]


async def test_a_folder_in_no_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRepository, match="is in no git repository"):
        await open_source(str(tmp_path), "")


async def test_a_working_tree_whose_repository_has_gone_is_refused(repository: GitRepository) -> None:
    lost = repository.path / "lost"
    lost.mkdir()
    (lost / ".git").write_text("gitdir: /nowhere\n")
    with pytest.raises(BadRepository, match="is in no git repository"):
        await open_source(str(lost), "")
