"""A NUL hides nothing: what is shown as text is searched as text, and what is not searched is said."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.code_executor.conftest import Answer, Executor
from tests.integration.code_executor.git_repository import Content, GitRepository

PADDING = b"/* padding */\n"
EVIL = b"int run_evil(char *s) { return system(s); }\nint caller(void) { return run_evil(0); }\n"
FILES = {
    "plain": ("plain.c", EVIL),
    "late": ("late.c", PADDING * 600 + b"/* \0 */\n" + EVIL),
    "late, in no language that is known": ("late.php", PADDING * 600 + b"/* \0 */\n" + EVIL),
    "far behind": ("far.c", PADDING * 100_000 + b"/* \0 */\n" + EVIL),
    "first": ("first.js", b"/* \0 */\n" + EVIL),
    "UTF-16": ("wide.c", "\ufeff".encode("utf-16-le") + EVIL.decode().encode("utf-16-le")),
}


def _lines(answer: Answer) -> list[int]:
    matches: list[dict[str, Any]] = answer.data["matches"]
    return [int(match["line"]) for match in matches]


@pytest.mark.parametrize(("path", "content"), FILES.values(), ids=FILES)
async def test_what_is_shown_is_found(executor: Executor, repository: GitRepository, path: str, content: bytes) -> None:
    files: dict[str, Content] = {f"src/{path}": content, "other.txt": "nothing\n"}
    commit = repository.commit(files)
    last = content.replace(b"\0", b"").count(b"\n")
    shown = await executor.call("read_file", repository, commit, path=f"src/{path}", first_line=last - 1)
    assert [line.partition("(")[0] for line in shown.data["fragments"][0]["lines"]] == ["int run_evil", "int caller"]
    for where in ({}, {"path": "src"}, {"path": f"src/{path}"}, {"glob": f"*{path}"}):
        found = await executor.call("search_codebase", repository, commit, pattern="run_evil", **where)
        assert (_lines(found), found.truncated) == ([last - 1, last], False)


@pytest.mark.parametrize("name", ["plain", "late", "UTF-16"])
async def test_a_symbol_is_found(executor: Executor, repository: GitRepository, name: str) -> None:
    path, content = FILES[name]
    commit = repository.commit({path: content})
    found = await executor.call("fetch_code", repository, commit, symbol="run_evil")
    assert [one["path"] for one in found.data["definitions"]] == [path]


async def test_binary_files_are_not_searched_and_a_search_says_so(
    executor: Executor, repository: GitRepository
) -> None:
    files: dict[str, Content] = {f"images/{number}.bin": b"\x7fELF\0\0\n" + b"needle\n" * 1000 for number in range(3)}
    files |= {"src/app.py": "needle = 1\n", "images/large.txt": b"needle\n" * 700_000}
    commit = repository.commit(files)
    found = await executor.call("search_codebase", repository, commit, pattern="needle")
    assert [match["path"] for match in found.data["matches"]] == ["src/app.py"]
    assert "4 files, binary or too large, were not searched" in found.text
    inside = await executor.call("search_codebase", repository, commit, pattern="needle", path="src")
    assert "not searched" not in inside.text
    listed = await executor.call("list_directory", repository, commit, path="images")
    assert {entry["remark"] for entry in listed.data["entries"]} == {"binary", "too large"}
    refused = await executor.call("read_file", repository, commit, path="images/0.bin")
    assert (refused.reason, "is a binary file of 7007 bytes" in refused.message) == ("binary_file", True)
