"""Disks that fill up, objects that lie, and repositories that go away: refused in words, and tried again later."""

from __future__ import annotations

import hashlib
import resource
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import pytest

from services.kit.errors import error_detail
from tests.integration.code_executor.conftest import Executor, MakeExecutor
from tests.integration.code_executor.git_repository import FILE, GitRepository


@contextmanager
def disk_that_takes(size_bytes: int) -> Iterator[None]:
    """Lets this process write no file beyond a size, as a full disk does: the system itself refuses."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_a_full_disk_is_said_and_leaves_nothing_behind(executor: Executor, repository: GitRepository) -> None:
    commit = repository.commit({"a.py": "x = 1\n" * 20_000, "b.py": "y = 1\n"})
    with disk_that_takes(64 * 1024), pytest.raises(grpc.aio.AioRpcError) as caught:
        await executor.call("read_file", repository, commit, path="b.py")
    detail = error_detail(caught.value)
    assert (detail.code, detail.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "CACHE_BUSY")
    assert str(executor.cache) not in detail.message
    assert list((executor.cache / "partial").iterdir()) == list((executor.cache / "snapshots").iterdir()) == []
    answer = await executor.call("read_file", repository, commit, path="b.py")
    assert answer.data["fragments"][0]["lines"] == ["y = 1"]


def write_object(repository: GitRepository, said: bytes, content: bytes) -> str:
    """Writes a loose object whose header says another size than its content has."""
    oid = hashlib.sha1(said + content[:1000], usedforsecurity=False).hexdigest()
    path = repository.path / ".git" / "objects" / oid[:2] / oid[2:]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(zlib.compress(said + b"\0" + content, 9))
    return oid


LIES = {
    "smaller than said": (b"blob 4000000", b"x"),
    "larger than said": (b"blob 1", b"\0" * 50_000_000),
    "of no kind": (b"nonsense 1", b"x"),
    "of negative size": (b"blob -1", b"x"),
    "of a size beyond all": (b"blob 99999999999999999999", b"x"),
    "a tree": (b"tree 1", b"x"),
}


@pytest.mark.parametrize("lie", LIES)
async def test_objects_that_lie_about_themselves(executor: Executor, repository: GitRepository, lie: str) -> None:
    good = repository.write("blob", b"y = 1\n")
    tree = repository.forge_tree([(FILE, b"a.py", write_object(repository, *LIES[lie])), (FILE, b"b.py", good)])
    commit = repository.commit_tree(tree)
    answer = await executor.call("read_file", repository, commit, path="b.py")
    assert answer.reason in {"", "repository_unreadable"}
    assert answer.reason or answer.data["fragments"][0]["lines"] == ["y = 1"]
    assert not answer.reason or not list((executor.cache / "snapshots").iterdir())


async def test_a_repository_that_goes_away_during_a_run(make_executor: MakeExecutor, repository: GitRepository) -> None:
    commit = repository.commit({"a.py": "x = 1\n"})
    async with make_executor() as executor:
        assert not (await executor.call("read_file", repository, commit, path="a.py")).reason
        kept = repository.path.with_name("kept")
        repository.path.rename(kept)
        gone = await executor.call("read_file", repository, commit, path="a.py")
        assert (gone.reason, gone.retryable) == ("source_invalid", False)
        shutil.move(kept, repository.path)
        assert not (await executor.call("read_file", repository, commit, path="a.py")).reason


async def test_a_repository_that_changes_during_a_run(executor: Executor, repository: GitRepository) -> None:
    commit = repository.commit({"a.py": "x = 1\n"})
    assert not (await executor.call("read_file", repository, commit, path="a.py")).reason
    (repository.path / "a.py").write_text("changed = True\n")
    repository.commit({"a.py": "x = 2\n"})
    repository.git("reflog", "expire", "--expire=now", "--all")
    repository.git("prune", "--expire=now")
    answer = await executor.call("read_file", repository, commit, path="a.py")
    assert answer.data["fragments"][0]["lines"] == ["x = 1"]
