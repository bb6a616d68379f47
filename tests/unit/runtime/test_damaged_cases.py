"""Cases that somebody else made, or that were damaged: what is wrong is told, and nothing else comes of it."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from signalbox.v1 import guard_pb2

from services.runtime.cases.__main__ import in_words, replay
from services.runtime.cases.errors import CaseUnfit, CaseUnreadable
from services.runtime.cases.file import read_case
from services.runtime.cases.settings import CaseSettings

DEEP = b"[" * 100_000
ALLOWED = guard_pb2.ScreenResponse(verdict=guard_pb2.SCREEN_VERDICT_ALLOW, reason="allowed").SerializeToString()
SCREENED = {"sequence": "1", "router": "data_chat.route_after_screen", "rule": "allowed", "destination": "agent"}


def heard(source: str, method: str, answer: bytes = b"", **more: Any) -> dict[str, Any]:
    """An answer of a recording."""
    return {"source": source, "method": method, "answer": base64.b64encode(answer).decode(), **more}


def case(*answers: Any, limits: Any = (), **run: Any) -> str:
    """A case of one question."""
    asked = {
        "runId": "0199a0c0-0000-7000-8000-000000000000", "agent": "data_chat", "caller": {"subject": "27"},
        "createTime": "2026-01-01T00:00:00Z", "input": {"data_chat": {"question": "Hello?"}},
        "budget": {"modelCalls": 9, "toolCalls": 9, "tokens": "9999", "wallTimeS": "600"},
        "policy": {"limits": list(limits)}, **run,
    }  # fmt: skip
    return json.dumps({"form": 1, "run": asked, "answers": answers, "decisions": [SCREENED]})


async def told(tmp_path: Path, text: str) -> str:
    """What a replay of a file says."""
    path = tmp_path / "case.json"
    path.write_text(text)
    replayed, _ = await replay(read_case(path), {}, CaseSettings(), goes_on=False)
    return "\n".join(in_words(read_case(path), replayed))


@pytest.mark.parametrize(
    ("answers", "damaged"),
    [
        ([heard("guard", "Screen", failure={"code": 14, "status": "////"})], "guard"),
        ([heard("guard", "Screen", b"\xff\xff")], "guard"),
        (
            [heard("guard", "Screen", ALLOWED), heard("sql_executor", "ListTools"), heard("model", "chat", DEEP)],
            "model",
        ),
    ],
)
async def test_an_answer_that_is_damaged_is_named(tmp_path: Path, answers: list[Any], damaged: str) -> None:
    assert f"an answer of the {damaged} is damaged" in (await told(tmp_path, case(*answers)))


@pytest.mark.parametrize("turns", [DEEP, b"[1]", json.dumps([["////", "////"]]).encode()])
async def test_so_are_earlier_turns(tmp_path: Path, turns: bytes) -> None:
    with pytest.raises(CaseUnfit, match="told of its thread is damaged"):
        await told(tmp_path, case(heard("thread", "turns", turns)))


@pytest.mark.parametrize("value", [float("nan"), 1e300, None, "many"])
async def test_a_limit_that_is_none_is_told(tmp_path: Path, value: object) -> None:
    with pytest.raises(CaseUnfit, match="the case's policy can't be used"):
        await told(tmp_path, case(limits=[{"name": "max_iterations", "value": value}]))


async def test_the_input_of_another_agent_is_none(tmp_path: Path) -> None:
    with pytest.raises(CaseUnreadable, match="its input is another agent's"):
        await told(tmp_path, case(input={"graph_editor": {"goal": "Delete it."}}))
