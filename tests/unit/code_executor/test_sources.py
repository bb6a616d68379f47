"""Which repositories may be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.code_executor.errors import SourceRefused
from services.code_executor.sources import SourcePolicy, check_commit

PREFIXES = ("https://git.example.com/team/", "http://127.0.0.1:8080/", "git://127.0.0.1/")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def make_repository(path: Path) -> Path:
    (path / ".git" / "objects" / "info").mkdir(parents=True)
    return path


@pytest.mark.parametrize(
    ("url", "transport"),
    [
        ("https://git.example.com/team/project", "https"),
        ("https://git.example.com/team/project.git", "https"),
        ("https://GIT.example.com:443/team/a/b", "https"),
        ("https://git.example.com/team/with%20space", "https"),
        ("http://127.0.0.1:8080/x", "http"),
        ("git://127.0.0.1:9418/x", "git"),
    ],
)
async def test_urls_below_an_allowed_prefix_are_admitted(url: str, transport: str) -> None:
    source = await SourcePolicy([], PREFIXES).admit(url)
    assert (source.address, source.transport, source.objects) == (url, transport, None)


REFUSED = [
    ("", "source_invalid"),
    ("project", "source_invalid"),
    ("./project", "source_invalid"),
    ("../project", "source_invalid"),
    ("~/project", "source_invalid"),
    ("-project", "source_invalid"),
    ("--upload-pack=touch /tmp/x", "source_invalid"),
    ("-oProxyCommand=x", "source_invalid"),
    ("ext::sh -c touch% /tmp/x", "source_invalid"),
    ("fd::17", "source_invalid"),
    ("host:team/project", "source_invalid"),
    ("git@host:team/project", "source_invalid"),
    ("transport::https://git.example.com/team/x", "source_invalid"),
    ("x" * 3000, "source_invalid"),
    ("https://git.example.com/team/\n", "source_invalid"),
    ("https://git.example.com/team/\0x", "source_invalid"),
    ("https://git.example.com/team/\u202ex", "source_invalid"),
    ("https://git.example.com/team/é", "source_invalid"),
    ("file:///etc", "source_not_allowed"),
    ("FILE:///etc", "source_not_allowed"),
    ("ssh://git.example.com/team/x", "source_not_allowed"),
    ("ftp://git.example.com/team/x", "source_not_allowed"),
    ("ext://git.example.com/team/x", "source_not_allowed"),
    ("git+ssh://git.example.com/team/x", "source_not_allowed"),
    ("http://git.example.com/team/x", "source_not_allowed"),
    ("https://git.example.com/other/x", "source_not_allowed"),
    ("https://git.example.com/teamx/x", "source_not_allowed"),
    ("https://git.example.com/team", "source_not_allowed"),
    ("https://git.example.com:8443/team/x", "source_not_allowed"),
    ("https://git.example.com.evil.com/team/x", "source_not_allowed"),
    ("https://evil.com/https://git.example.com/team/x", "source_invalid"),
    ("https://user@git.example.com/team/x", "source_invalid"),
    ("https://git.example.com@evil.com/team/x", "source_invalid"),
    ("https://user:secret@git.example.com/team/x", "source_invalid"),
    ("https://git.example.com/team/../other/x", "source_invalid"),
    ("https://git.example.com/team/%2e%2e/other", "source_invalid"),
    ("https://git.example.com/team/%2E%2E/other", "source_invalid"),
    ("https://git.example.com/team/%252e%252e/other", "source_invalid"),
    ("https://git.example.com/team/..%2fother", "source_invalid"),
    ("https://git.example.com/team//x", "source_invalid"),
    ("https://git.example.com/team/-x", "source_invalid"),
    ("https://git.example.com/team\\x", "source_invalid"),
    ("https://git.example.com/team/x?y=1", "source_invalid"),
    ("https://git.example.com/team/x#y", "source_invalid"),
    ("https://git.example.com/team/x?", "source_invalid"),
    ("https:///team/x", "source_invalid"),
    ("https://-git.example.com/team/x", "source_invalid"),
    ("https://git.example.com:port/team/x", "source_invalid"),
    ("https://[::1/team/x", "source_invalid"),
]


@pytest.mark.parametrize(("repository", "reason"), REFUSED, ids=range(len(REFUSED)))
async def test_other_names_are_refused_with_their_reason(repository: str, reason: str) -> None:
    with pytest.raises(SourceRefused) as refused:
        await SourcePolicy([], PREFIXES).admit(repository)
    assert refused.value.reason == reason


async def test_a_repository_below_an_allowed_folder_is_admitted(root: Path) -> None:
    path = make_repository(root / "a")
    source = await SourcePolicy([root], []).admit(str(path))
    assert source.objects == path / ".git" / "objects"


async def test_a_bare_repository_is_admitted(root: Path) -> None:
    (root / "bare.git" / "objects").mkdir(parents=True)
    source = await SourcePolicy([root], []).admit(str(root / "bare.git"))
    assert source.objects == root / "bare.git" / "objects"


async def test_a_linked_work_tree_is_admitted_when_its_repository_is(root: Path) -> None:
    make_repository(root / "a")
    (root / "a/.git/worktrees/w").mkdir(parents=True)
    (root / "a/.git/worktrees/w/commondir").write_text("../..\n")
    (root / "w").mkdir()
    (root / "w/.git").write_text(f"gitdir: {root}/a/.git/worktrees/w\n")
    source = await SourcePolicy([root], []).admit(str(root / "w"))
    assert source.objects == root / "a" / ".git" / "objects"


async def refusal(policy: SourcePolicy, path: Path | str) -> str:
    with pytest.raises(SourceRefused) as refused:
        await policy.admit(str(path))
    return refused.value.reason


async def test_a_folder_beside_the_allowed_one_is_refused(root: Path, tmp_path: Path) -> None:
    make_repository(tmp_path / "root2")
    policy = SourcePolicy([root], [])
    assert await refusal(policy, tmp_path / "root2") == "source_not_allowed"
    assert await refusal(policy, f"{root}/../root2") == "source_not_allowed"
    assert await refusal(SourcePolicy([], []), root) == "source_not_allowed"


async def test_a_folder_without_a_repository_is_refused(root: Path) -> None:
    (root / "empty").mkdir()
    assert await refusal(SourcePolicy([root], []), root / "empty") == "source_invalid"


async def test_links_out_of_the_allowed_folder_are_refused(root: Path, tmp_path: Path) -> None:
    outside = make_repository(tmp_path / "outside")
    (root / "link").symlink_to(outside)
    (root / "inner").mkdir()
    (root / "inner/.git").symlink_to(outside / ".git")
    (root / "objects_link/.git").mkdir(parents=True)
    (root / "objects_link/.git/objects").symlink_to(outside / ".git/objects")
    policy = SourcePolicy([root], [])
    for name in ("link", "inner", "objects_link"):
        assert await refusal(policy, root / name) == "source_not_allowed"


async def test_git_files_that_point_out_are_refused(root: Path, tmp_path: Path) -> None:
    outside = make_repository(tmp_path / "outside")
    (root / "w").mkdir()
    (root / "w/.git").write_text(f"gitdir: {outside}/.git\n")
    make_repository(root / "common")
    (root / "common/.git/commondir").write_text(f"{outside}/.git\n")
    make_repository(root / "borrower")
    (root / "borrower/.git/objects/info/alternates").write_text(f"{outside}/.git/objects\n")
    policy = SourcePolicy([root], [])
    for name in ("w", "common", "borrower"):
        assert await refusal(policy, root / name) == "source_not_allowed"


async def test_alternates_that_go_round_are_refused(root: Path) -> None:
    make_repository(root / "a")
    (root / "a/.git/objects/info/alternates").write_text("../objects\n")
    assert await refusal(SourcePolicy([root], []), root / "a") == "source_not_allowed"


@pytest.mark.parametrize(
    "commit",
    ["", "main", "HEAD", "HEAD~1", "a" * 39, "a" * 41, "A" * 40, "g" * 40, "a" * 40 + "\n", "-" + "a" * 39, "a" * 64,
     "refs/heads/main", "a" * 40 + "^{tree}", "a" * 40 + ":x", "@{-1}", "\uff10" * 40],
)  # fmt: skip
def test_a_commit_must_be_a_full_id(commit: str) -> None:
    with pytest.raises(SourceRefused) as refused:
        check_commit(commit)
    assert refused.value.reason == "commit_invalid"


def test_a_full_id_is_taken() -> None:
    assert check_commit("0123456789abcdef" * 2 + "01234567") == "0123456789abcdef" * 2 + "01234567"
