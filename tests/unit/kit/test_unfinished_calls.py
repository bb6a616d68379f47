"""What a call of a model took that is broken off: as its provider has told it, else by what was sent and what came."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from langchain_core.messages import AIMessageChunk

from services.kit.models.completions import CompletionError, repeated
from services.kit.models.parameters import OneModel
from services.kit.models.provider_model import ProviderModel
from services.kit.models.streamed import heard_by

ASKED = {"messages": [{"role": "user", "content": "How many lights are there?"}]}


class Heard:
    """Notes that something was said."""

    def __init__(self) -> None:
        self.said = asyncio.Event()

    def begin(self) -> None:
        pass

    def say(self, _text: str) -> None:
        self.said.set()


class Silent:
    """A provider's class that says two words and no more."""

    def __init__(self, told: int) -> None:
        self._told = told

    async def astream(self, _messages: Any) -> AsyncIterator[AIMessageChunk]:
        usage: Any = {"input_tokens": self._told, "output_tokens": 0, "total_tokens": self._told}
        yield AIMessageChunk(content="There are", usage_metadata=usage if self._told else None)
        await asyncio.Event().wait()


async def broken_off(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("told", [0, 700])
async def test_a_providers_count_goes_before_an_estimate(told: int) -> None:
    model, heard = ProviderModel(OneModel(model="m", provider="anthropic"), 60, 0), Heard()
    model._model = Silent(told)
    with heard_by(heard) as unfinished:
        asking = asyncio.create_task(model.create(ASKED))
        await heard.said.wait()
        await broken_off(asking)
    assert (unfinished.usage["prompt_tokens"] == told) is bool(told)
    assert unfinished.usage["prompt_tokens"] in range(10, 701)
    assert unfinished.usage["completion_tokens"] in range(3, 20)


async def test_a_call_that_waits_to_be_made_again_has_taken_nothing() -> None:
    failed = asyncio.Event()

    async def refuse() -> dict[str, Any]:
        failed.set()
        raise CompletionError("http_503", "no", retryable=True, retry_after_s=8)

    with heard_by(None) as unfinished:
        asking = asyncio.create_task(repeated(refuse, 1))
        await failed.wait()
        await asyncio.sleep(0)
        await broken_off(asking)
    assert unfinished.usage == {"prompt_tokens": 0, "completion_tokens": 0}
