"""A repository whose configuration names programs, read by the command of whoever looks into its findings."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from services.findings.errors import BadRepository
from services.findings.investigation.repository import open_source
from tests.integration.code_executor.git_repository import GitRepository
from tests.integration.code_executor.test_transports import http_server

ATTRIBUTES = "* filter=evil diff=evil merge=evil text eol=crlf ident working-tree-encoding=UTF-16\n"
# By these git fetches what is missing, and runs @program on the way.
LAZY = """\
[core]
\trepositoryformatversion = 1
\tsshCommand = @program
\tgitProxy = @program
\taskPass = @program
[extensions]
\tpartialClone = origin
[protocol]
\tallow = always
[credential]
\thelper = "!@program"
[remote "origin"]
\tpromisor = true
\tpartialclonefilter = blob:none
"""
REMOTES = {
    "ssh": "\turl = ssh://x/y\n",
    "git": "\turl = git://x/y\n",
    "upload pack": "\turl = @place\n\tuploadpack = @program\n",
    "remote helper": "\turl = ext::@program\n",
    "foreign remote": "\turl = @program\n\tvcs = ext\n",
    "address rewritten": '\turl = https://example.com/\n[url "ext::@program "]\n\tinsteadOf = https://example.com/\n',
    "password asked for": "\turl = @server/project\n",
}
# What git reads for other commands than those that the product needs today.
OTHERS = """\
[core]
\tfsmonitor = @program
\thooksPath = @place/hooks
\tpager = @program
\talternateRefsCommand = @program
[pager]
\tls-tree = @program
\tcat-file = @program
\trev-parse = @program
[alias]
\tls-tree = !@program
\tcat-file = !@program
\trev-parse = !@program
[filter "evil"]
\tsmudge = @program
\tclean = @program
\tprocess = @program
\trequired = true
[diff "evil"]
\ttextconv = @program
\tcommand = @program
[merge "evil"]
\tdriver = @program
[gpg]
\tprogram = @program
[uploadpack]
\tpackObjectsHook = @program
"""
CONFIGURATIONS = {
    **{name: LAZY + remote for name, remote in REMOTES.items()},
    "included": "[core]\n\trepositoryformatversion = 1\n[include]\n\tpath = @place/included\n",
    "included where it is": '[core]\n\trepositoryformatversion = 1\n[includeIf "gitdir:/"]\n\tpath = @place/included\n',
    "not for reading": OTHERS,
    "not to be read": "[core\n",
}


@dataclass(frozen=True)
class Hostile:
    """A repository of two files, of which one is missing, and a file that is there once anything has run."""

    repository: GitRepository
    commit: str
    marker: Path

    def configure(self, configuration: str, server: str) -> None:
        """Gives the repository a configuration; `@program` stands for what makes the marker."""
        program = self.marker.with_name("program")
        program.write_text(f"#!/bin/sh\ntouch {self.marker}\nexit 1\n")
        program.chmod(0o755)
        hooks = self.repository.path / "hooks"
        hooks.mkdir()
        for hook in ("post-checkout", "post-index-change", "reference-transaction", "fsmonitor-watchman"):
            shutil.copy(program, hooks / hook)
        for name, content in (("included", LAZY + REMOTES["ssh"]), (".git/config", configuration)):
            values = {"@program": str(program), "@place": str(self.repository.path), "@server": server}
            for key, value in values.items():
                content = content.replace(key, value)
            (self.repository.path / name).write_text(content)


@pytest.fixture
def hostile(tmp_path: Path) -> Hostile:
    """A repository that lacks one file's content."""
    repository = GitRepository(tmp_path / "project")
    commit = repository.commit({"kept.py": "x = 1\n", "missing.py": "y = 2\n", ".gitattributes": ATTRIBUTES})
    blob = repository.git("rev-parse", f"{commit}:missing.py")
    (repository.path / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    return Hostile(repository, commit, tmp_path / "ran")


class Asking(BaseHTTPRequestHandler):
    """Asks for a password, whatever is wanted."""

    def do_GET(self) -> None:
        """Refuses."""
        self.send_response(HTTPStatus.UNAUTHORIZED)
        self.send_header("WWW-Authenticate", 'Basic realm="x"')
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A server that asks for a password."""
    with http_server(Asking) as url:
        yield url


@pytest.mark.parametrize("configuration", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
async def test_nothing_that_a_repository_is_configured_to_run_runs(
    hostile: Hostile, configuration: str, server: str
) -> None:
    hostile.configure(configuration, server)
    source = await open_source(str(hostile.repository.path), "")
    assert source.commit == hostile.commit
    assert source.files == {"kept.py", "missing.py", ".gitattributes"}
    assert await source.lines("kept.py") == ["x = 1", ""]
    assert await source.lines("missing.py") == []
    with pytest.raises(BadRepository):
        await open_source(str(hostile.repository.path), "1" * 40)
    assert not hostile.marker.exists()


async def test_a_repository_elsewhere_than_where_its_configuration_says_is_the_one_named(
    hostile: Hostile, tmp_path: Path
) -> None:
    hostile.repository.git("config", "core.worktree", str(tmp_path))
    assert (await open_source(str(hostile.repository.path), "")).repository == str(hostile.repository.path)


async def test_the_callers_own_git_environment_names_no_other_repository(
    hostile: Hostile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = GitRepository(tmp_path / "other")
    other.commit({"other.py": "z = 3\n"})
    monkeypatch.setenv("GIT_DIR", str(other.path / ".git"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.bare")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "nonsense")
    assert (await open_source(str(hostile.repository.path), "")).commit == hostile.commit
