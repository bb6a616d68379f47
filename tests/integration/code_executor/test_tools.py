"""What the tools give for ordinary repositories."""

from __future__ import annotations

import asyncio
import hashlib

import pytest
from signalbox.v1 import code_reading_pb2

from tests.integration.code_executor.conftest import Executor, MakeExecutor
from tests.integration.code_executor.git_repository import GitRepository

APP = """\
import db


def find(user):
    query = "SELECT * FROM t WHERE u = '%s'" % user
    return db.run(query)


class Page:
    def show(self, user):
        return find(user)
"""
CODE, COMMENT = code_reading_pb2.LINE_PART_KIND_CODE, code_reading_pb2.LINE_PART_KIND_COMMENT
FILES = {
    "src/app.py": APP,
    "src/db.py": "def run(query):\n    return query\n",
    "src/util.go": "package util\n\nfunc Find(a int) int {\n\treturn a\n}\n",
    "tests/test_app.py": "from src.app import find\n\n\ndef test_find():\n    assert find('x')\n",
    "docs/readme.md": "# find things\n",
    "empty.txt": "",
}


@pytest.fixture
def commit(repository: GitRepository) -> str:
    return repository.commit(FILES)


async def test_a_file_is_read_with_line_numbers(executor: Executor, repository: GitRepository, commit: str) -> None:
    answer = await executor.call("read_file", repository, commit, path="src/app.py", first_line=4, last_line=6)
    assert answer.text.splitlines()[1:] == [f"{n} | {line}" for n, line in enumerate(APP.splitlines()[3:6], 4)]
    [fragment] = answer.data["fragments"]
    assert (fragment["path"], fragment["first_line"], fragment["last_line"]) == ("src/app.py", 4, 6)
    assert fragment["commit"] == commit
    assert fragment["lines"] == APP.splitlines()[3:6]
    assert fragment["sha256"] == hashlib.sha256("".join(f"{line}\n" for line in fragment["lines"]).encode()).hexdigest()
    assert repository.git("rev-parse", f"{commit}:src/app.py") == fragment["blob"]
    assert not answer.truncated


async def test_each_line_comes_with_what_it_is(executor: Executor, repository: GitRepository) -> None:
    text = 'def f():\n    """It is safe:\n    return escape(x)\n    """\n    return x\n'
    commit = repository.commit({"a.py": text, "b.py": "# c\nreturn x\n", "c.rb": "return x\n"})
    piece = await executor.call("read_file", repository, commit, path="a.py", first_line=3, last_line=5)
    [reading] = piece.readings
    assert [[part.kind for part in line.parts][-1:] for line in reading.lines] == [[COMMENT], [COMMENT], [CODE]]
    assert [(one.name, one.first_line, one.last_line) for one in reading.definitions] == [("f", 1, 5)]
    found = await executor.call("search_codebase", repository, commit, pattern="return", context_lines=0)
    assert [fragment["path"] for fragment in found.data["fragments"]] == ["a.py", "a.py", "b.py", "c.rb"]
    assert [len(each.lines) for each in found.readings] == [1, 1, 1, 0]
    assert found.readings[-1].unread


async def test_an_empty_file_says_so(executor: Executor, repository: GitRepository, commit: str) -> None:
    assert (await executor.call("read_file", repository, commit, path="empty.txt")).text == "empty.txt is empty"


@pytest.mark.parametrize("where", [{"path": "src/app.py", "first_line": 5}, {"path": "src/app.py:5"}])
async def test_a_line_comes_with_the_function_around_it(
    executor: Executor, repository: GitRepository, commit: str, where: dict[str, object]
) -> None:
    answer = await executor.call("fetch_code", repository, commit, **where)
    [fragment] = answer.data["fragments"]
    assert (fragment["first_line"], fragment["last_line"]) == (4, 6)
    assert fragment["enclosing"] == {"name": "find", "kind": "function", "first_line": 4, "last_line": 6}
    assert answer.data["wanted"] == {"first_line": 5, "last_line": 5}


@pytest.mark.parametrize(("line", "first_line"), [(62, 1), (200, 1), (301, 281)])
async def test_a_line_of_no_function_comes_with_the_file_from_its_top(
    executor: Executor, repository: GitRepository, line: int, first_line: int
) -> None:
    """Where a piece begins in the middle, nobody can tell whether it begins inside a docstring."""
    text = '"""What it is.\n' + "Words of it.\n" * 58 + '"""\n\nimport os\n' + "A = 1\n" * 300
    commit = repository.commit({"long.py": text})
    answer = await executor.call("fetch_code", repository, commit, path="long.py", first_line=line)
    [fragment] = answer.data["fragments"]
    assert (fragment["first_line"], fragment["last_line"]) == (first_line, line + 20)


async def test_context_lines_are_taken_at_their_word(
    executor: Executor, repository: GitRepository, commit: str
) -> None:
    answer = await executor.call("fetch_code", repository, commit, path="src/app.py", first_line=5, context_lines=1)
    [fragment] = answer.data["fragments"]
    assert (fragment["first_line"], fragment["last_line"]) == (4, 6)


async def test_a_symbol_comes_with_its_callers_in_the_file(
    executor: Executor, repository: GitRepository, commit: str
) -> None:
    answer = await executor.call("fetch_code", repository, commit, symbol="find")
    assert [(f["path"], f["first_line"], f["last_line"]) for f in answer.data["fragments"]] == [("src/app.py", 4, 6)]
    assert answer.data["callers"] == [
        {"path": "src/app.py", "line": 11, "inside": "Page.show", "text": "return find(user)"}
    ]


@pytest.mark.parametrize(
    ("symbol", "path", "found"),
    [
        ("Page.show", None, "src/app.py"),
        ("Find", None, "src/util.go"),
        ("run", "src", "src/db.py"),
        ("run", "src/db.py", "src/db.py"),
    ],
)
async def test_symbols_may_be_qualified_and_placed(
    executor: Executor, repository: GitRepository, commit: str, symbol: str, path: str | None, found: str
) -> None:
    where = {"path": path} if path else {}
    answer = await executor.call("fetch_code", repository, commit, symbol=symbol, **where)
    assert answer.data["definitions"][0]["path"] == found


async def test_an_unknown_symbol_names_the_files_that_mention_it(
    executor: Executor, repository: GitRepository, commit: str
) -> None:
    answer = await executor.call("fetch_code", repository, commit, symbol="db")
    assert (answer.reason, "src/app.py" in answer.message) == ("symbol_not_found", True)


async def test_a_search_gives_matches_and_their_lines(
    executor: Executor, repository: GitRepository, commit: str
) -> None:
    answer = await executor.call("search_codebase", repository, commit, pattern="find(", context_lines=0)
    assert [(m["path"], m["line"]) for m in answer.data["matches"]] == [
        ("src/app.py", 4), ("src/app.py", 11), ("tests/test_app.py", 4), ("tests/test_app.py", 5)
    ]  # fmt: skip
    assert [fragment["first_line"] for fragment in answer.data["fragments"]] == [4, 11, 4]


@pytest.mark.parametrize(
    ("arguments", "paths"),
    [
        ({"pattern": "FIND"}, []),
        ({"pattern": "FIND", "ignore_case": True, "path": "docs"}, ["docs/readme.md"]),
        ({"pattern": r"^def \w+\(query", "regex": True}, ["src/db.py"]),
        ({"pattern": "find", "glob": "*.md"}, ["docs/readme.md"]),
        ({"pattern": "find", "glob": "tests/**"}, ["tests/test_app.py"]),
        ({"pattern": "run", "path": "src/db.py"}, ["src/db.py"]),
        ({"pattern": "nothing like it"}, []),
    ],
)
async def test_searches_are_narrowed(
    executor: Executor, repository: GitRepository, commit: str, arguments: dict[str, object], paths: list[str]
) -> None:
    answer = await executor.call("search_codebase", repository, commit, **arguments)
    assert sorted({match["path"] for match in answer.data["matches"]}) == paths


async def test_folders_are_listed(executor: Executor, repository: GitRepository, commit: str) -> None:
    answer = await executor.call("list_directory", repository, commit)
    assert [entry["path"] for entry in answer.data["entries"]] == ["docs", "src", "tests", "empty.txt"]
    deeper = await executor.call("list_directory", repository, commit, path=".", depth=2)
    assert "src/app.py" in [entry["path"] for entry in deeper.data["entries"]]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("app.py", ["src/app.py", "tests/test_app.py"]),
        ("*.go", ["src/util.go"]),
        ("src/**", ["src/app.py", "src/db.py", "src/util.go"]),
        ("zzz", []),
    ],
)
async def test_files_are_found(
    executor: Executor, repository: GitRepository, commit: str, name: str, found: list[str]
) -> None:
    answer = await executor.call("find_file", repository, commit, name=name)
    assert [entry["path"] for entry in answer.data["entries"]] == found


async def test_a_branch_that_moves_changes_nothing(executor: Executor, repository: GitRepository, commit: str) -> None:
    later = repository.commit({"src/app.py": "changed\n"})
    (repository.path / "src").mkdir()
    (repository.path / "src/app.py").write_text("never committed\n")
    before = await executor.call("read_file", repository, commit, path="src/app.py", last_line=1)
    after = await executor.call("read_file", repository, later, path="src/app.py")
    assert before.data["fragments"][0]["lines"] == ["import db"]
    assert after.data["fragments"][0]["lines"] == ["changed"]


async def test_a_commit_is_read_after_its_branch_is_gone(executor: Executor, repository: GitRepository) -> None:
    gone = repository.commit({"a.py": "first\n"}, branch="topic")
    repository.commit({"a.py": "second\n"})
    repository.git("update-ref", "-d", "refs/heads/topic")
    answer = await executor.call("read_file", repository, gone, path="a.py")
    assert answer.data["fragments"][0]["lines"] == ["first"]


async def test_packed_repositories_are_read(executor: Executor, repository: GitRepository, commit: str) -> None:
    repository.git("gc", "--quiet", "--prune=now")
    answer = await executor.call("read_file", repository, commit, path="src/db.py")
    assert answer.data["fragments"][0]["lines"][0] == "def run(query):"


async def test_a_commit_that_is_not_there(executor: Executor, repository: GitRepository, commit: str) -> None:
    assert (await executor.call("list_directory", repository, "a" * 40)).reason == "commit_not_found"
    tree = repository.git("rev-parse", f"{commit}^{{tree}}")
    assert (await executor.call("list_directory", repository, tree)).reason == "commit_not_found"
    assert not list((executor.cache / "snapshots").iterdir())
    assert not list((executor.cache / "partial").iterdir())


async def test_replaced_objects_are_not_believed(executor: Executor, repository: GitRepository, commit: str) -> None:
    other = repository.commit({"src/app.py": "forged\n"}, branch="other")
    repository.git("replace", commit, other)
    answer = await executor.call("read_file", repository, commit, path="src/app.py", last_line=1)
    assert answer.data["fragments"][0]["lines"] == ["import db"]


async def test_many_calls_at_once_share_one_snapshot(make_executor: MakeExecutor, repository: GitRepository) -> None:
    commit = repository.commit({f"d{i % 20}/f{i}.py": f"def f{i}(): pass\n" for i in range(1000)})
    async with make_executor() as one, make_executor() as other:
        answers = await asyncio.gather(
            *((one if i % 2 else other).call("fetch_code", repository, commit, symbol=f"f{i}") for i in range(40))
        )
        assert [answer.data["definitions"][0]["path"] for answer in answers] == [
            f"d{i % 20}/f{i}.py" for i in range(40)
        ]
        assert len(list((one.cache / "snapshots").iterdir())) == 1


async def test_results_are_cut_and_say_so(make_executor: MakeExecutor, repository: GitRepository) -> None:
    commit = repository.commit(
        {
            "long.py": "".join(f"x = {i}\n" for i in range(1000)),
            "wide.js": "a" * 50_000 + "\n",
            **{f"many/{i:03}.txt": "needle\n" for i in range(30)},
        }
    )
    async with make_executor(code_max_lines=50, code_max_results=10, code_max_chars=5000) as executor:
        long = await executor.call("read_file", repository, commit, path="long.py")
        wide = await executor.call("read_file", repository, commit, path="wide.js")
        found = await executor.call("search_codebase", repository, commit, pattern="needle")
        listed = await executor.call("list_directory", repository, commit, path="many")
        named = await executor.call("find_file", repository, commit, name="*.txt")
    assert all(answer.truncated and "[cut: " in answer.text for answer in (long, wide, found, listed, named))
    assert long.data["fragments"][0]["last_line"] == 50
    assert "first_line 51" in long.text
    assert wide.data["fragments"][0]["cut_lines"] == [1]
    assert len(found.data["matches"]) == len(listed.data["entries"]) == len(named.data["entries"]) == 10


async def test_a_search_that_takes_too_long_is_stopped(make_executor: MakeExecutor, repository: GitRepository) -> None:
    commit = repository.commit({f"f{i}.txt": "ab" * 200_000 + "\n" for i in range(40)})
    # Shorter than it takes to start a program.
    async with make_executor(code_search_timeout_s=0.0005) as executor:
        answer = await executor.call("search_codebase", repository, commit, pattern="[ab]{40}c", regex=True)
    assert answer.truncated
    assert "stopped after" in answer.text


async def test_the_cache_is_bounded_and_evicts_what_was_used_least_recently(
    make_executor: MakeExecutor, repository: GitRepository
) -> None:
    commits = [repository.commit({f"{n}.txt": f"{n}" * 300_000}) for n in range(5)]
    async with make_executor(code_cache_bytes=1024**2) as executor:
        for commit in commits:
            assert not (await executor.call("list_directory", repository, commit)).reason
        kept = {path.name.partition(".")[2] for path in (executor.cache / "snapshots").iterdir()}
        assert kept == set(commits[-3:])
        again = await executor.call("read_file", repository, commits[0], path="0.txt")
        assert not again.reason
        assert not list((executor.cache / "partial").iterdir())


async def test_half_made_snapshots_are_removed_at_the_start(
    make_executor: MakeExecutor, repository: GitRepository
) -> None:
    commit = repository.commit(FILES)
    async with make_executor() as executor:
        left_over = executor.cache / "partial" / f"snapshots-{'0' * 32}.{commit}-dead" / "tree"
        left_over.mkdir(parents=True)
    async with make_executor() as executor:
        assert not left_over.parent.exists()
        assert not (await executor.call("list_directory", repository, commit)).reason


async def test_a_repository_that_is_too_large_is_refused(
    make_executor: MakeExecutor, repository: GitRepository
) -> None:
    commit = repository.commit({f"{n}.txt": f"{n}" * 1_100_000 for n in range(3)})
    async with make_executor(code_repository_bytes=1024**2) as executor:
        assert (await executor.call("list_directory", repository, commit)).reason == "repository_too_large"
    async with make_executor(code_repository_files=2) as executor:
        assert (await executor.call("list_directory", repository, commit)).reason == "repository_too_large"


async def test_a_repository_that_lacks_objects_gives_no_half_snapshot(
    executor: Executor, repository: GitRepository
) -> None:
    commit = repository.commit({"a.txt": "kept\n", "b.txt": "lost\n"})
    blob = repository.git("rev-parse", f"{commit}:b.txt")
    path = repository.path / ".git/objects" / blob[:2] / blob[2:]
    content = path.read_bytes()
    path.unlink()
    assert (await executor.call("read_file", repository, commit, path="a.txt")).reason == "repository_unreadable"
    assert not list((executor.cache / "snapshots").iterdir())
    path.write_bytes(content)
    assert not (await executor.call("read_file", repository, commit, path="a.txt")).reason
