"""What a hosted graph may use of the platform, where there is none, and how an input is looked into."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import signalbox
from pydantic import BaseModel

from services.runtime.hosted import effects
from services.runtime.hosted.executor_catalogs import ExecutorCatalogs
from services.runtime.hosted.executor_tools import PlatformMissing, operation_id
from services.runtime.hosted.langgraph_json import InvalidAgentsError
from services.runtime.hosted.screening import text_at
from services.runtime.hosted.session import Visit

ASKED = {
    "question": "How hot?",
    "messages": [{"content": "first"}, {"content": [{"type": "text", "text": "last"}]}],
    "notes": [{"text": "one"}, {"text": ""}, {"text": "two"}],
    "count": 3,
}


def test_tools_without_the_platform_say_so() -> None:
    with pytest.raises(PlatformMissing, match="needs the platform: load the graph by `signalbox dev`"):
        signalbox.tools("sql_executor")


def test_an_executor_that_there_is_not_is_told() -> None:
    with pytest.raises(ValueError, match="no executor 'sql'; there are sql_executor, graph_executor, code_executor"):
        signalbox.tools("sql")


async def test_an_effect_without_the_platform_is_a_call() -> None:
    happened: list[str] = []

    @signalbox.effect
    async def write(text: str) -> str:
        happened.append(text)
        return text

    @signalbox.effect(look_up=lambda *_: "never asked")
    def tell(text: str) -> str:
        happened.append(text)
        return text

    assert (await write("a"), tell("b"), happened) == ("a", "b", ["a", "b"])
    assert signalbox.effect_key() == ""


async def test_a_graph_that_is_looked_at_has_tools_by_name() -> None:
    async def load() -> list[Any]:
        return signalbox.tools("code_executor", source={"repository": "r", "commit": "c"})

    found = await ExecutorCatalogs.of_names().loading(load)
    assert "read_file" in [tool.name for tool in found]
    with pytest.raises(InvalidAgentsError, match="SIGNALBOX_CODE_EXECUTOR_TARGET is not set"):
        await ExecutorCatalogs(None, None).loading(load)


def test_calls_are_known_by_their_task_and_id_or_by_their_turn() -> None:
    visit, again = Visit("act", "task-1"), Visit("act", "task-1")
    first = [operation_id(visit, "write", {"n": 1, "made": object()}, "") for _ in range(2)]
    assert len({*first}) == 2
    assert first == [operation_id(again, "write", {"n": 1, "made": object()}, "") for _ in range(2)]
    assert operation_id(visit, "write", {}, "call_1") != operation_id(Visit("act", "task-2"), "write", {}, "call_1")
    assert len(operation_id(visit, "write", {}, "c" * 5000)) <= 256


class Tagged(BaseModel):
    """What a call may be given."""

    tags: set[int]


@dataclass
class Kept:
    """What else a call may be given."""

    tags: frozenset[int]


def test_calls_are_known_by_the_same_in_every_process() -> None:
    def known(tags: list[int]) -> str:
        given = ({*tags}, b"\xff", {b"\xff": 1, None: 2}, Tagged(tags={*tags}), Kept(frozenset(tags)), "\ud800")
        return operation_id(Visit("act", "task-1"), "write", {"args": given}, "")

    # Numbers of one place in a set's table, which come out as they came in.
    assert [*{8, 0}] != [*{0, 8}]
    assert known([8, 0]) == known([0, 8]) != known([0, 9])


async def test_a_keyword_called_args_hides_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    session, visit = SimpleNamespace(loop=asyncio.get_running_loop(), run_id="run"), Visit("act", "task-1")
    monkeypatch.setattr(effects, "current_session", lambda: session)
    monkeypatch.setattr(effects, "current_visit", lambda: visit)

    async def known(taking: effects._Effect) -> bool:
        asked.append(taking.key.partition("-")[0])
        return True

    monkeypatch.setattr(effects._Effect, "begin", known)

    @signalbox.effect
    async def write(*texts: str, **named: str) -> None:
        del texts, named

    await write("a", args="c")
    await write("b", args="c")
    assert len({*asked}) == 2


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("question", "How hot?"),
        ("$.messages[0].content", "first"),
        ("messages[-1].content", '[{"type": "text", "text": "last"}]'),
        ("notes[*].text", "one\ntwo"),
        ("count", "3"),
        ("messages[7].content", ""),
        ("question.text", ""),
        ("nothing", ""),
    ],
)
def test_what_a_path_leads_to(path: str, text: str) -> None:
    assert text_at(path, ASKED) == text
