"""A name that is defined and called over and over: the first ones are shown, and how many more there are is said."""

from __future__ import annotations

from services.code_executor.limits import Limits
from tests.integration.code_executor.conftest import Executor
from tests.integration.code_executor.git_repository import GitRepository

LINES = 300


async def test_the_first_calls_are_shown_and_the_others_counted(executor: Executor, repository: GitRepository) -> None:
    limits = Limits()
    commit = repository.commit({f"{name}.py": "def f():f()\n" * LINES for name in ("a", "b")})
    answer = await executor.call("fetch_code", repository, commit, symbol="f")
    assert [one["first_line"] for one in answer.data["definitions"]] == [*range(1, limits.symbol_definitions + 1)]
    calls = answer.data["callers"]
    assert [(call["line"], call["inside"]) for call in calls] == [(n, "f") for n in range(1, limits.symbol_callers + 1)]
    assert answer.data["cuts"] == [
        f"{2 * LINES - limits.symbol_definitions} more definitions of this name are only listed",
        f"{LINES - limits.symbol_callers} more calls are left out",
    ]
    assert answer.text.count("also defined at") == limits.symbol_callers
