"""Repositories by URL: fetched over the allowed transports from the allowed places, and by no other way."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
import pytest

from services.kit.errors import error_detail
from services.local.tether import TETHER
from tests.fixtures.ports import reserved_port
from tests.integration.code_executor.conftest import Executor, MakeExecutor
from tests.integration.code_executor.git_repository import GitRepository

Handler = Callable[..., BaseHTTPRequestHandler]


class QuietFiles(SimpleHTTPRequestHandler):
    """Serves files without a word."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the parent's
        """Says nothing."""


class Elsewhere(QuietFiles):
    """Sends everyone to the real server."""

    def __init__(self, *args: object, target: str) -> None:
        self._target = target
        super().__init__(*args)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        """Redirects."""
        self.send_response(302)
        self.send_header("Location", self._target + self.path)
        self.end_headers()


@contextmanager
def http_server(handler: Handler) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def served(repository: GitRepository) -> Iterator[str]:
    """The URL of the repository on a plain file server: git's "dumb" protocol, which gives no single commits."""
    repository.commit({"a.py": "def a(): pass\n"})
    repository.git("update-server-info")
    with http_server(partial(QuietFiles, directory=str(repository.path.parent))) as url:
        yield url + "/project/.git"


@pytest.fixture
def daemon(root: Path) -> Iterator[str]:
    """The URL of a git daemon, which speaks git's own protocol."""
    root.mkdir(exist_ok=True)
    programs = subprocess.run(["git", "--exec-path"], capture_output=True, text=True, check=True).stdout.strip()
    # The daemon itself: `git daemon` would be its parent, and leave it behind when it is killed.
    tethered = [sys.executable, "-I", "-S", TETHER, str(os.getpid()), "--", f"{programs}/git-daemon"]
    with reserved_port() as port:
        process = subprocess.Popen(
            [
                *tethered,
                "--export-all",
                f"--base-path={root}",
                "--listen=127.0.0.1",
                f"--port={port}",
                "--reuseaddr",
                str(root),
            ],
            env={"PATH": os.defpath, "GIT_CONFIG_GLOBAL": "/dev/null", "HOME": str(root)},
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            wait_for_server(process, port)
            yield f"git://127.0.0.1:{port}/"
        finally:
            os.killpg(process.pid, 9)
            process.wait()


def wait_for_server(process: subprocess.Popen[bytes], port: int) -> None:
    give_up_at = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < give_up_at:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=60).close()
        except ConnectionRefusedError:
            time.sleep(0.02)
        else:
            return
    pytest.fail("the git daemon does not listen")


async def lines(executor: Executor, url: str, commit: str, path: str = "a.py") -> list[str]:
    answer = await executor.call("read_file", url, commit, path=path)
    assert not answer.reason, answer.message
    found: list[str] = answer.data["fragments"][0]["lines"]
    return found


async def test_a_repository_is_fetched_from_a_plain_file_server(
    make_executor: MakeExecutor, repository: GitRepository, served: str
) -> None:
    commit = repository.git("rev-parse", "main")
    async with make_executor(code_url_prefixes=(served.removesuffix("project/.git"),)) as executor:
        assert await lines(executor, served, commit) == ["def a(): pass"]
        later = repository.commit({"a.py": "def b(): pass\n"})
        repository.git("update-server-info")
        assert await lines(executor, served, later) == ["def b(): pass"]
        missing = await executor.call("list_directory", served, "a" * 40)
        assert (missing.reason, missing.retryable) == ("commit_not_found", False)


async def test_exact_commits_are_fetched_from_a_git_daemon(
    make_executor: MakeExecutor, repository: GitRepository, daemon: str
) -> None:
    first = repository.commit({"a.py": "first = 1\n"})
    second = repository.commit({"a.py": "second = 2\n"})
    async with make_executor(code_url_prefixes=(daemon,)) as executor:
        url = daemon + "project"
        assert await lines(executor, url, first) == ["first = 1"]
        repository.git("update-ref", "-d", "refs/heads/main")
        assert await lines(executor, url, first) == ["first = 1"]
        assert await lines(executor, url, second) == ["second = 2"]
        [mirror] = (executor.cache / "repositories").iterdir()
        assert not list(mirror.rglob("tmp_*"))


async def test_many_callers_fetch_once(make_executor: MakeExecutor, repository: GitRepository, daemon: str) -> None:
    commit = repository.commit({f"f{i}.py": f"x = {i}\n" for i in range(50)})
    async with make_executor(code_url_prefixes=(daemon,)) as one, make_executor(code_url_prefixes=(daemon,)) as other:
        url = daemon + "project"
        read = await asyncio.gather(*(lines(one if i % 2 else other, url, commit, f"f{i}.py") for i in range(20)))
        assert read == [[f"x = {i}"] for i in range(20)]
        assert len(list((one.cache / "repositories").iterdir())) == 1


async def test_a_large_fetch_is_stopped(make_executor: MakeExecutor, repository: GitRepository, daemon: str) -> None:
    commit = repository.commit({f"{i}.bin": os.urandom(500_000) for i in range(6)})
    async with make_executor(code_url_prefixes=(daemon,), code_repository_bytes=1024**2) as executor:
        answer = await executor.call("list_directory", daemon + "project", commit)
        assert answer.reason == "repository_too_large"
        assert not list((executor.cache / "snapshots").iterdir())


async def test_redirects_are_not_followed(make_executor: MakeExecutor, repository: GitRepository, served: str) -> None:
    target = served.removesuffix("/project/.git")
    commit = repository.git("rev-parse", "main")
    with http_server(partial(Elsewhere, target=target)) as url:
        async with make_executor(code_url_prefixes=(url + "/",)) as executor:
            answer = await executor.call("list_directory", url + "/project/.git", commit)
    assert (answer.reason, answer.retryable) == ("repository_unavailable", False)


class Answering(BaseHTTPRequestHandler):
    """Answers every request with a status."""

    def __init__(self, *arguments: Any, status: int) -> None:
        self._status = status
        super().__init__(*arguments)

    def do_GET(self) -> None:
        self.send_error(self._status)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's parameter
        """Says nothing."""


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_server_in_trouble_is_no_word_on_the_repository(make_executor: MakeExecutor, status: int) -> None:
    with http_server(partial(Answering, status=status)) as url:
        async with make_executor(code_url_prefixes=(url + "/",)) as executor:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await executor.call("list_directory", url + "/project", "a" * 40)
    assert error_detail(caught.value).reason == "REPOSITORY_AWAY"


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_server_that_says_no_is_not_asked_again(make_executor: MakeExecutor, status: int) -> None:
    with http_server(partial(Answering, status=status)) as url:
        async with make_executor(code_url_prefixes=(url + "/",)) as executor:
            answer = await executor.call("list_directory", url + "/project", "a" * 40)
    assert (answer.reason, answer.retryable) == ("repository_unavailable", False)


@pytest.mark.parametrize("scheme", ["http", "git"])
async def test_a_server_that_is_away_is_no_word_on_the_repository(
    make_executor: MakeExecutor, repository: GitRepository, scheme: str
) -> None:
    commit = repository.commit({"a.py": "x = 1\n"})
    with reserved_port() as port:
        url = f"{scheme}://127.0.0.1:{port}/"
        async with make_executor(code_url_prefixes=(url,)) as executor:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await executor.call("list_directory", url + "project", commit)
    detail = error_detail(caught.value)
    assert (detail.code, detail.reason, detail.retryable) == (grpc.StatusCode.UNAVAILABLE, "REPOSITORY_AWAY", True)


REFUSED = [
    ("file://{root}/project", "source_not_allowed"),
    ("FILE://{root}/project", "source_not_allowed"),
    ("ext::sh -c touch% {root}/pwned", "source_invalid"),
    ("fd::0", "source_invalid"),
    ("ssh://127.0.0.1/project", "source_not_allowed"),
    ("git@127.0.0.1:project", "source_invalid"),
    ("127.0.0.1:project", "source_invalid"),
    ("--upload-pack=touch {root}/pwned", "source_invalid"),
    ("-u{root}/pwned", "source_invalid"),
    ("project", "source_invalid"),
    ("{root}/../outside", "source_not_allowed"),
    ("/", "source_not_allowed"),
    ("/etc", "source_not_allowed"),
    ("{root}/nothing", "source_invalid"),
    ("https://127.0.0.1/project", "source_not_allowed"),
    ("http://127.0.0.1:1/project", "source_not_allowed"),
    ("http://localhost:8080/x", "source_not_allowed"),
    ("http://user:secret@127.0.0.1:8080/x", "source_invalid"),
    ("http://127.0.0.1:8080/a/../x", "source_invalid"),
]


async def test_other_sources_are_refused(make_executor: MakeExecutor, repository: GitRepository, root: Path) -> None:
    commit = repository.commit({"a.py": "x = 1\n"})
    async with make_executor(code_url_prefixes=("http://127.0.0.1:8080/",)) as executor:
        for name, reason in REFUSED:
            answer = await executor.call("list_directory", name.format(root=root), commit)
            assert (name, answer.reason, answer.retryable) == (name, reason, False)
        for revision in ("main", "HEAD", "--all", commit[:12], commit.upper(), commit + "^", "refs/heads/main", ""):
            assert (await executor.call("list_directory", repository, revision)).reason == "commit_invalid"
    assert not (root / "pwned").exists()


async def test_another_repositorys_commit_is_not_served(
    executor: Executor, repository: GitRepository, root: Path
) -> None:
    other = GitRepository(root / "other")
    commit = other.commit({"secret.py": "x = 1\n"})
    assert await lines(executor, str(other.path), commit, "secret.py")
    assert (await executor.call("list_directory", repository, commit)).reason == "commit_not_found"
