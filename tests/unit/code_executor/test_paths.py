"""The jail: which paths are answered, which are refused, and with what reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.code_executor.errors import PathRefused
from services.code_executor.manifest import FILE, SUBMODULE, SYMLINK, Entry
from services.code_executor.paths import directory, file_entry, resolve, show_path
from services.code_executor.snapshots import Snapshot

BLOB = "0" * 40
NAMES = [
    "README.md", "src/app.py", "src/deep/er/file.py", "-rf", "--files", "with space.py", "new\nline.py", "100%.txt",
    "a%2fb.py", "back\\slash.py", "C:name", "émile.py", "…/dots.py", ".gitignore", ".github/ci.yml", "src/.git_keep",
]  # fmt: skip


def make_snapshot() -> Snapshot:
    entries = [Entry(name, name.encode(), FILE, 1, BLOB) for name in NAMES]
    entries += [
        Entry("out", b"out", SYMLINK, 11, BLOB, target="/etc/passwd"),
        Entry("docs", b"docs", SYMLINK, 3, BLOB, target="src"),
        Entry("module", b"module", SUBMODULE, 0, "a" * 40),
    ]
    return Snapshot("key", "c" * 40, Path("/nowhere"), {entry.path: entry for entry in entries})


SNAPSHOT = make_snapshot()


@pytest.mark.parametrize("name", NAMES)
def test_every_name_that_the_commit_holds_is_found(name: str) -> None:
    assert file_entry(SNAPSHOT, name).path == name


@pytest.mark.parametrize(
    ("asked", "found"),
    [("./src/app.py", "src/app.py"), ("src//app.py", "src/app.py"), ("src/./app.py", "src/app.py"), ("src/", "src")],
)
def test_spellings_of_the_same_path_are_one(asked: str, found: str) -> None:
    assert resolve(SNAPSHOT, asked) == found


REFUSED = [
    ("", "path_empty"),
    (".", "path_empty"),
    ("./", "path_empty"),
    ("src", "path_is_directory"),
    ("src/", "path_is_directory"),
    ("src/deep", "path_is_directory"),
    ("nothing.py", "path_not_found"),
    ("SRC/app.py", "path_not_found"),
    ("src/app.py/more", "path_not_found"),
    (" src/app.py", "path_not_found"),
    ("-e", "path_not_found"),
    ("--no-index", "path_not_found"),
    ("*", "path_not_found"),
    (":(top)src/app.py", "path_not_found"),
    ("HEAD:src/app.py", "path_not_found"),
    ("$HOME/x", "path_not_found"),
    ("..", "path_traversal"),
    ("../", "path_traversal"),
    ("../../etc/passwd", "path_traversal"),
    ("src/../../etc/passwd", "path_traversal"),
    ("src/../README.md", "path_traversal"),
    ("src/..", "path_traversal"),
    ("src/deep/../../README.md", "path_traversal"),
    (". ./../x", "path_traversal"),
    ("src/ .. /x", "path_traversal"),
    ("/", "path_absolute"),
    ("/etc/passwd", "path_absolute"),
    ("//etc/passwd", "path_absolute"),
    ("/src/app.py", "path_absolute"),
    ("/proc/self/environ", "path_absolute"),
    ("~", "path_absolute"),
    ("~/.ssh/id_rsa", "path_absolute"),
    ("~root/.bashrc", "path_absolute"),
    ("C:/Windows/win.ini", "path_absolute"),
    ("c:\\Windows\\win.ini", "path_absolute"),
    ("\\\\server\\share", "path_absolute"),
    ("\\etc\\passwd", "path_absolute"),
    ("file:///etc/passwd", "path_absolute"),
    ("FILE:/etc/passwd", "path_absolute"),
    ("https://example.com/x", "path_absolute"),
    ("src\\app.py", "path_separator"),
    ("..\\..\\etc\\passwd", "path_separator"),
    ("src/..\\..\\x", "path_separator"),
    ("src/app.py\0", "path_control"),
    ("src/app.py\0.txt", "path_control"),
    ("\0/etc/passwd", "path_control"),
    ("src/\napp.py", "path_control"),
    ("src/app.py\r", "path_control"),
    ("src\x1b[2J", "path_control"),
    ("src/\x7fapp.py", "path_control"),
    ("src/\x85app.py", "path_control"),
    ("%2e%2e/etc/passwd", "path_encoded"),
    ("%2E%2E%2Fetc", "path_encoded"),
    ("..%2fetc", "path_encoded"),
    ("src%2fapp.py", "path_encoded"),
    ("src%5capp.py", "path_encoded"),
    ("%252e%252e/etc", "path_encoded"),
    ("src/app.py%00", "path_encoded"),
    ("%c0%ae%c0%ae/etc", "path_encoded"),
    ("%u002e%u002e/etc", "path_encoded"),
    ("&#46;&#46;/etc", "path_encoded"),
    ("&#x2e;&#x2e;/etc", "path_encoded"),
    ("\u00c0\u00ae\u00c0\u00ae/etc", "path_encoded"),
    ("\\x2e\\x2e/etc", "path_absolute"),
    ("src/\\x2e\\x2e/etc", "path_encoded"),
    ("src/\\u002e\\u002e/etc", "path_encoded"),
    ("\uff0e\uff0e/etc/passwd", "path_lookalike"),
    ("..\uff0fetc", "path_lookalike"),
    ("..\u2215etc", "path_lookalike"),
    ("..\u2044etc", "path_lookalike"),
    ("\u2024\u2024/etc", "path_lookalike"),
    ("\u2025/etc", "path_lookalike"),
    ("src\uff3capp.py", "path_lookalike"),
    ("src\u29f5app.py", "path_lookalike"),
    ("src/\u200bapp.py", "path_lookalike"),
    ("src/\u202eyp.ppa", "path_lookalike"),
    (".\u200c./etc", "path_lookalike"),
    (".g\u200cit/config", "path_lookalike"),
    ("\ufeffsrc/app.py", "path_lookalike"),
    (".git", "path_git_directory"),
    (".git/config", "path_git_directory"),
    (".git/hooks/pre-commit", "path_git_directory"),
    (".GIT/config", "path_git_directory"),
    (".Git/HEAD", "path_git_directory"),
    ("src/.git/config", "path_git_directory"),
    ("./.git/config", "path_git_directory"),
    (".git./config", "path_git_directory"),
    (".git /config", "path_git_directory"),
    (".git::$INDEX_ALLOCATION/config", "path_git_directory"),
    ("git~1/config", "path_git_directory"),
    ("GIT~1/config", "path_git_directory"),
    ("module/.git/config", "path_git_directory"),
    ("out", "path_symlink"),
    ("./out", "path_symlink"),
    ("out/", "path_symlink"),
    ("docs", "path_symlink"),
    ("docs/app.py", "path_symlink"),
    ("docs/deep/er/file.py", "path_symlink"),
    ("module", "path_submodule"),
    ("module/setup.py", "path_submodule"),
    ("a/" * 2049, "path_too_long"),
    ("x" * 4097, "path_too_long"),
    ("é" * 2049, "path_too_long"),
]


def test_there_are_enough_hostile_paths() -> None:
    assert len({path for path, _ in REFUSED}) == len(REFUSED) >= 90


@pytest.mark.parametrize(("path", "reason"), REFUSED, ids=[f"{reason}-{i}" for i, (_, reason) in enumerate(REFUSED)])
def test_other_paths_are_refused_with_their_reason(path: str, reason: str) -> None:
    with pytest.raises(PathRefused) as refused:
        file_entry(SNAPSHOT, path)
    assert refused.value.reason == reason


@pytest.mark.parametrize(
    ("path", "found"), [("", ""), (".", ""), ("./", ""), ("src", "src"), ("src/deep/", "src/deep")]
)
def test_folders_are_found(path: str, found: str) -> None:
    assert directory(SNAPSHOT, path) == found


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("README.md", "path_is_file"), ("out", "path_symlink"), ("docs", "path_symlink"), ("module", "path_submodule"),
        ("..", "path_traversal"), ("/", "path_absolute"), (".git", "path_git_directory"), ("srcc", "path_not_found"),
    ],
)  # fmt: skip
def test_what_is_no_folder_is_refused(path: str, reason: str) -> None:
    with pytest.raises(PathRefused) as refused:
        directory(SNAPSHOT, path)
    assert refused.value.reason == reason


def test_a_wrong_folder_gets_a_suggestion() -> None:
    with pytest.raises(PathRefused, match=r"did you mean src/app\.py\?"):
        file_entry(SNAPSHOT, "lib/app.py")


PIECES = [*"abc./\\~%:-\0\n ", "..", ".git", "src", "app.py", "docs", "\uff0e", "/"]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_whatever_is_asked_only_the_commits_own_paths_come_back(path: str) -> None:
    try:
        found = resolve(SNAPSHOT, path)
    except PathRefused:
        return
    assert found in SNAPSHOT.entries or found in SNAPSHOT.directories


@pytest.mark.parametrize(
    ("path", "shown"), [("src/a b.py", "src/a b.py"), ("a\nb", '"a\\nb"'), ("a\u202eb", '"a\\u202eb"'), ("é", "é")]
)
def test_paths_are_printed_on_one_line(path: str, shown: str) -> None:
    assert show_path(path) == shown
