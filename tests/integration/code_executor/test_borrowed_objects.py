"""Repositories whose objects lead elsewhere: what git would follow is refused before git is asked."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.integration.code_executor.conftest import Executor, MakeExecutor
from tests.integration.code_executor.git_repository import GitRepository
from tests.integration.code_executor.test_transports import QuietFiles, http_server


@pytest.fixture
def outside(tmp_path: Path) -> GitRepository:
    """A repository that the executor may not read."""
    return GitRepository(tmp_path / "outside")


def _alternates(repository: GitRepository, content: bytes) -> None:
    (repository.path / ".git" / "objects" / "info" / "alternates").write_bytes(content)


def _plain(repository: GitRepository, objects: Path) -> None:
    _alternates(repository, os.fsencode(objects) + b"\n")


def _relative(repository: GitRepository, objects: Path) -> None:
    here = repository.path / ".git" / "objects"
    _alternates(repository, os.fsencode(os.path.relpath(objects, here)) + b"\n")


def _behind_comments(repository: GitRepository, objects: Path) -> None:
    _alternates(repository, b"# nothing here\n" * 6000 + os.fsencode(objects) + b"\n")


def _in_octal(repository: GitRepository, objects: Path) -> None:
    up = os.path.relpath(objects, repository.path).replace("..", r"\056\056")
    _alternates(repository, f'"{repository.path}/{up}"\n'.encode())


def _after_a_line_that_is_none(repository: GitRepository, objects: Path) -> None:
    """Git ends lines by a line feed alone; a vertical tab may be part of a folder's name."""
    (repository.path / "a\x0bb").mkdir()
    up = os.path.relpath(objects, repository.path)
    _alternates(repository, f"{repository.path}/a\x0bb/../{up}\n".encode())


def _linked_objects(repository: GitRepository, objects: Path) -> None:
    shutil.rmtree(repository.path / ".git" / "objects")
    (repository.path / ".git" / "objects").symlink_to(objects)


def _linked_folders(repository: GitRepository, objects: Path) -> None:
    for folder in objects.iterdir():
        link = repository.path / ".git" / "objects" / folder.name
        if len(folder.name) == 2 and not link.exists():
            link.symlink_to(folder)


def _linked_packs(repository: GitRepository, objects: Path) -> None:
    repository_packs = repository.path / ".git" / "objects" / "pack"
    repository_packs.mkdir(exist_ok=True)
    for pack in (objects / "pack").iterdir():
        (repository_packs / pack.name).symlink_to(pack)


def _linked_pack_folder(repository: GitRepository, objects: Path) -> None:
    packs = repository.path / ".git" / "objects" / "pack"
    shutil.rmtree(packs, ignore_errors=True)
    packs.symlink_to(objects / "pack")


def _common_directory(repository: GitRepository, objects: Path) -> None:
    (repository.path / ".git" / "commondir").write_text(f"{objects.parent}\n")


def _git_file(repository: GitRepository, objects: Path) -> None:
    shutil.rmtree(repository.path / ".git")
    (repository.path / ".git").write_text(f"gitdir: {objects.parent}\n")


WAYS: list[Callable[[GitRepository, Path], None]] = [
    _plain, _relative, _behind_comments, _in_octal, _after_a_line_that_is_none, _linked_objects, _linked_folders,
    _linked_packs, _linked_pack_folder, _common_directory, _git_file,
]  # fmt: skip


@pytest.mark.parametrize("lead_out", WAYS, ids=[way.__name__.strip("_") for way in WAYS])
async def test_objects_of_a_repository_outside_are_not_read(
    executor: Executor,
    repository: GitRepository,
    outside: GitRepository,
    lead_out: Callable[[GitRepository, Path], None],
) -> None:
    repository.commit({"own.py": "x = 1\n"})
    commit = outside.commit({"secret.py": "KEY = 1\n"})
    if "pack" in lead_out.__name__:
        outside.git("repack", "-adq")
        shutil.rmtree(repository.path / ".git" / "objects" / "pack", ignore_errors=True)
        for folder in (outside.path / ".git" / "objects").glob("??"):
            shutil.rmtree(folder)
    lead_out(repository, outside.path / ".git" / "objects")
    answer = await executor.call("read_file", repository, commit, path="secret.py")
    assert (answer.reason, answer.data) == ("source_not_allowed", {})


async def test_objects_of_a_repository_inside_are_read(
    executor: Executor, repository: GitRepository, root: Path
) -> None:
    other = GitRepository(root / "other")
    commit = other.commit({"shared.py": "x = 1\n"})
    repository.commit({"own.py": "x = 1\n"})
    _alternates(repository, f"# shared\n\n{other.path}/.git/objects\n".encode())
    answer = await executor.call("read_file", repository, commit, path="shared.py")
    assert answer.data["fragments"][0]["lines"] == ["x = 1"]


class Remembering(QuietFiles):
    """Serves files, and remembers what was asked for."""

    def __init__(self, *args: object, directory: str, asked: list[str]) -> None:
        self._asked = asked
        super().__init__(*args, directory=directory)  # type: ignore[arg-type]

    def do_GET(self) -> None:  # noqa: N802 - the parent's name
        """Remembers, then serves."""
        self._asked.append(self.path)
        super().do_GET()


@contextmanager
def remembering(directory: Path) -> Iterator[tuple[str, list[str]]]:
    """A file server, and what it was asked for."""
    asked: list[str] = []
    with http_server(partial(Remembering, directory=str(directory), asked=asked)) as url:
        yield url, asked


@pytest.mark.parametrize("name", ["http-alternates", "alternates"])
async def test_a_server_cannot_send_git_to_another(
    make_executor: MakeExecutor, repository: GitRepository, outside: GitRepository, name: str
) -> None:
    repository.commit({"own.py": "x = 1\n"})
    repository.git("update-server-info")
    commit = outside.commit({"secret.py": "KEY = 1\n"})
    outside.git("update-server-info")
    with remembering(repository.path.parent) as (url, asked), remembering(outside.path) as (elsewhere, asked_elsewhere):
        info = repository.path / ".git" / "objects" / "info" / name
        info.write_text(f"{elsewhere}/.git/objects\n{outside.path}/.git/objects\n")
        async with make_executor(code_url_prefixes=(url + "/",), code_local_roots=()) as executor:
            answer = await executor.call("read_file", url + "/project/.git", commit, path="secret.py")
    assert answer.reason in {"commit_not_found", "repository_unavailable"}
    assert asked
    assert asked_elsewhere == []
