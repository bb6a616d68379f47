"""Tool arguments as an attacker would choose them: each is refused for the reason expected, or finds nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.code_executor.conftest import Executor
from tests.integration.code_executor.git_repository import LINK, Content, GitRepository, Special

HOSTILE_PATHS = [
    ("../../../../etc/passwd", "path_traversal"),
    ("..", "path_traversal"),
    ("src/../../x", "path_traversal"),
    ("src/../src/app.py", "path_traversal"),
    ("/etc/passwd", "path_absolute"),
    ("//etc/passwd", "path_absolute"),
    ("/proc/self/environ", "path_absolute"),
    ("~/.ssh/id_rsa", "path_absolute"),
    ("C:\\Windows\\win.ini", "path_absolute"),
    ("\\\\host\\share", "path_absolute"),
    ("file:///etc/passwd", "path_absolute"),
    ("src\\app.py", "path_separator"),
    ("src\\..\\..\\x", "path_separator"),
    ("src/app.py\0", "path_control"),
    ("src/app.py\0.md", "path_control"),
    ("src/\x1bapp.py", "path_control"),
    ("src/app.py\n", "path_control"),
    ("%2e%2e%2fetc%2fpasswd", "path_encoded"),
    ("..%2f..%2fetc", "path_encoded"),
    ("%252e%252e/x", "path_encoded"),
    ("%c0%ae%c0%ae/x", "path_encoded"),
    ("&#46;&#46;/x", "path_encoded"),
    ("\u00c0\u00ae./x", "path_encoded"),
    ("\uff0e\uff0e/x", "path_lookalike"),
    ("..\uff0fx", "path_lookalike"),
    ("..\u2215x", "path_lookalike"),
    ("src/\u200bapp.py", "path_lookalike"),
    (".g\u200dit/config", "path_lookalike"),
    (".git/config", "path_git_directory"),
    (".GIT/HEAD", "path_git_directory"),
    (".git", "path_git_directory"),
    ("src/.git/index", "path_git_directory"),
    ("git~1/config", "path_git_directory"),
    (".git::$INDEX_ALLOCATION/x", "path_git_directory"),
    ("link", "path_symlink"),
    ("link/passwd", "path_symlink"),
    ("--help", "path_not_found"),
    ("-f/etc/passwd", "path_not_found"),
    ("HEAD:src/app.py", "path_not_found"),
    (":(exclude)src", "path_not_found"),
    ("*", "path_not_found"),
    ("x" * 4096, "path_not_found"),
    ("é" * 2049, "path_too_long"),
    ("x" * 5000, "invalid_arguments"),
]
PATH_TOOLS: list[tuple[str, dict[str, Any]]] = [
    ("read_file", {}),
    ("fetch_code", {}),
    ("fetch_code", {"symbol": "run"}),
    ("search_codebase", {"pattern": "x"}),
    ("list_directory", {}),
    ("find_file", {"name": "x"}),
]
OTHER: list[tuple[str, dict[str, Any], str]] = [
    ("read_file", {}, "invalid_arguments"),
    ("read_file", {"path": ""}, "path_empty"),
    ("read_file", {"path": None}, "invalid_arguments"),
    ("read_file", {"path": 5}, "invalid_arguments"),
    ("read_file", {"path": ["src/app.py"]}, "invalid_arguments"),
    ("read_file", {"path": {"a": "b"}}, "invalid_arguments"),
    ("read_file", {"path": "src"}, "path_is_directory"),
    ("read_file", {"path": "src/app.py", "first_line": 0}, "invalid_arguments"),
    ("read_file", {"path": "src/app.py", "first_line": -5}, "invalid_arguments"),
    ("read_file", {"path": "src/app.py", "first_line": 1.5}, "invalid_arguments"),
    ("read_file", {"path": "src/app.py", "first_line": "1; ls"}, "invalid_arguments"),
    ("read_file", {"path": "src/app.py", "first_line": True}, "invalid_arguments"),
    ("read_file", {"path": "src/app.py", "first_line": 1e308}, "invalid_arguments"),
    ("read_file", {"path": "src/app.py", "first_line": float("nan")}, "invalid_arguments"),
    ("read_file", {"path": "src/app.py", "first_line": float("-inf")}, "invalid_arguments"),
    ("read_file", {"path": "src/app.py", "first_line": 3}, "line_not_found"),
    ("read_file", {"path": "src/app.py", "first_line": 9_999_999}, "line_not_found"),
    ("read_file", {"path": "src/app.py", "first_line": 2, "last_line": 1}, "invalid_range"),
    ("read_file", {"path": "src/app.py", "user_id": "31"}, "invalid_arguments"),
    ("read_file", {"path": "src/app.py", "commit": "b" * 40}, "invalid_arguments"),
    ("read_file", {"path": "src/app.py", "repository": "/etc"}, "invalid_arguments"),
    ("fetch_code", {}, "invalid_arguments"),
    ("fetch_code", {"first_line": 1}, "invalid_arguments"),
    ("fetch_code", {"path": "src/app.py", "last_line": 2}, "invalid_arguments"),
    ("fetch_code", {"path": "src/app.py", "symbol": "run", "first_line": 1}, "invalid_arguments"),
    ("fetch_code", {"path": "src/app.py", "first_line": 1, "context_lines": -1}, "invalid_arguments"),
    ("fetch_code", {"path": "src/app.py", "first_line": 1, "context_lines": 10**6}, "invalid_arguments"),
    ("fetch_code", {"path": "../x.py:1"}, "path_traversal"),
    ("fetch_code", {"path": "/etc/passwd:1"}, "path_absolute"),
    ("fetch_code", {"path": "src/app.py:0"}, "path_not_found"),
    ("fetch_code", {"path": "src/app.py:99"}, "line_not_found"),
    ("fetch_code", {"path": "src/app.py:2-1"}, "invalid_range"),
    ("fetch_code", {"path": "link:1"}, "path_symlink"),
    ("fetch_code", {"symbol": ""}, "invalid_arguments"),
    ("fetch_code", {"symbol": "x" * 300}, "invalid_arguments"),
    ("fetch_code", {"symbol": "a\0b"}, "invalid_arguments"),
    ("fetch_code", {"symbol": "--pre=sh"}, "invalid_symbol"),
    ("fetch_code", {"symbol": "-f"}, "invalid_symbol"),
    ("fetch_code", {"symbol": "run; ls"}, "invalid_symbol"),
    ("fetch_code", {"symbol": "$(ls)"}, "invalid_symbol"),
    ("fetch_code", {"symbol": ".*"}, "invalid_symbol"),
    ("fetch_code", {"symbol": "(a+)+$"}, "invalid_symbol"),
    ("fetch_code", {"symbol": "../run"}, "invalid_symbol"),
    ("fetch_code", {"symbol": "::"}, "invalid_symbol"),
    ("fetch_code", {"symbol": "   "}, "invalid_symbol"),
    ("fetch_code", {"symbol": "a b"}, "invalid_symbol"),
    ("fetch_code", {"symbol": "run\nrun"}, "invalid_symbol"),
    ("fetch_code", {"symbol": "<" * 256}, "invalid_symbol"),
    ("fetch_code", {"symbol": "nowhere"}, "symbol_not_found"),
    ("fetch_code", {"symbol": "__import__"}, "symbol_not_found"),
    ("fetch_code", {"symbol": "operator=="}, "symbol_not_found"),
    ("search_codebase", {}, "invalid_arguments"),
    ("search_codebase", {"pattern": ""}, "invalid_arguments"),
    ("search_codebase", {"pattern": "x" * 513}, "invalid_arguments"),
    ("search_codebase", {"pattern": "a\0b"}, "invalid_arguments"),
    ("search_codebase", {"pattern": "a\nb"}, "invalid_arguments"),
    ("search_codebase", {"pattern": "a\rb"}, "invalid_arguments"),
    ("search_codebase", {"pattern": "x", "regex": "yes"}, "invalid_arguments"),
    ("search_codebase", {"pattern": "x", "max_results": 0}, "invalid_arguments"),
    ("search_codebase", {"pattern": "x", "max_results": 10**9}, "invalid_arguments"),
    ("search_codebase", {"pattern": "x", "context_lines": 21}, "invalid_arguments"),
    ("search_codebase", {"pattern": "x", "pre": "sh"}, "invalid_arguments"),
    ("search_codebase", {"pattern": "(", "regex": True}, "invalid_pattern"),
    ("search_codebase", {"pattern": "[z-a]", "regex": True}, "invalid_pattern"),
    ("search_codebase", {"pattern": "*", "regex": True}, "invalid_pattern"),
    ("search_codebase", {"pattern": r"(?<=a)b", "regex": True}, "invalid_pattern"),
    ("search_codebase", {"pattern": r"(a)\1", "regex": True}, "invalid_pattern"),
    ("search_codebase", {"pattern": r"a\nb", "regex": True}, "invalid_pattern"),
    ("search_codebase", {"pattern": "((((a{1000}){1000}){1000}){1000})", "regex": True}, "invalid_pattern"),
    ("search_codebase", {"pattern": "(" * 256 + ")" * 256, "regex": True}, "invalid_pattern"),
    ("search_codebase", {"pattern": r"\p{Nothing}", "regex": True}, "invalid_pattern"),
    ("search_codebase", {"pattern": "x", "glob": "["}, "invalid_glob"),
    ("search_codebase", {"pattern": "x", "glob": "{a"}, "invalid_glob"),
    ("search_codebase", {"pattern": "x", "glob": "a\0"}, "invalid_arguments"),
    ("search_codebase", {"pattern": "x", "glob": "a\nb"}, "invalid_arguments"),
    ("search_codebase", {"pattern": "x", "glob": "*" * 257}, "invalid_arguments"),
    ("list_directory", {"path": "src/app.py"}, "path_is_file"),
    ("list_directory", {"depth": 0}, "invalid_arguments"),
    ("list_directory", {"depth": 100}, "invalid_arguments"),
    ("list_directory", {"recursive": True}, "invalid_arguments"),
    ("find_file", {}, "invalid_arguments"),
    ("find_file", {"name": ""}, "invalid_arguments"),
    ("find_file", {"name": "x" * 513}, "invalid_arguments"),
    ("find_file", {"name": "a\0b"}, "invalid_arguments"),
    ("find_file", {"name": "x", "path": "src/app.py"}, "path_is_file"),
]
# Options and expressions that must be taken as text: the call works, and finds nothing.
AS_TEXT: list[tuple[str, dict[str, Any]]] = [
    ("search_codebase", {"pattern": pattern, **more})
    for pattern in (
        "--files", "--pre=sh", "-e", "--", "-f/etc/passwd", "--hostname-bin=sh", "--no-ignore-vcs", "--follow",
        "-uuu", "--search-zip", "--type-add=x:include:all", "$(touch pwned)", "`id`", "; id", "%s%n", "{{7*7}}",
        "\u202e", "../",
    )
    for more in ({}, {"regex": False, "ignore_case": True})
]  # fmt: skip
AS_TEXT += [
    ("search_codebase", {"pattern": "nothing", "glob": glob})
    for glob in ("../**", "/etc/*", "!*", "--files", "-x", "**/../../*", "{" + ",".join("a" * 5) + "}", "*" * 200)
]
AS_TEXT += [
    ("search_codebase", {"pattern": pattern, "regex": True})
    for pattern in (
        "(a+)+$x",
        "(a|a)*b{3}",
        "^(([a-z])+.)+[A-Z]{9}([a-z])+$",
        r"(x+x+)+y",
        "(.*)*q{5}",
        "--files",
        "-e",
    )
]
AS_TEXT += [
    ("find_file", {"name": name})
    for name in (
        "../*",
        "/etc/*",
        "--help",
        "**/../*",
        "[!a]*zz",
        "*a" * 200,
        "?" * 300,
        "**/" * 40 + "x",
        "passwd",
        ".git",
        "config",
    )
]


@pytest.fixture
def commit(repository: GitRepository) -> str:
    files: dict[str, Content] = {
        "src/app.py": "def run():\n    return 1\n",
        "link": Special(LINK, b"/etc"),
        "lines.txt": "a" * 20_000 + "\n",
    }
    return repository.commit(files)


def test_there_are_enough_hostile_calls() -> None:
    assert len(HOSTILE_PATHS) * len(PATH_TOOLS) + len(OTHER) + len(AS_TEXT) >= 300


@pytest.mark.parametrize(("tool", "more"), PATH_TOOLS, ids=range(len(PATH_TOOLS)))
async def test_hostile_paths_are_refused_by_every_tool(
    executor: Executor, repository: GitRepository, commit: str, tool: str, more: dict[str, Any]
) -> None:
    reasons = [
        (path, (await executor.call(tool, repository, commit, path=path, **more)).reason) for path, _ in HOSTILE_PATHS
    ]
    assert reasons == HOSTILE_PATHS


async def test_other_hostile_arguments_are_refused(executor: Executor, repository: GitRepository, commit: str) -> None:
    for tool, arguments, reason in OTHER:
        answer = await executor.call(tool, repository, commit, **arguments)
        assert (tool, arguments, answer.reason) == (tool, arguments, reason)
        assert answer.message
        assert not answer.retryable


async def test_options_and_expressions_are_only_text(
    executor: Executor, repository: GitRepository, commit: str
) -> None:
    for tool, arguments in AS_TEXT:
        answer = await executor.call(tool, repository, commit, **arguments)
        found = answer.data.get("matches", answer.data.get("entries"))
        assert (tool, arguments, answer.reason, found) == (tool, arguments, "", [])
    assert not list(executor.cache.rglob("pwned"))
