"""What `signalbox doctor` looks at where models are asked for."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from email.utils import parsedate_to_datetime
from typing import Final

import aiohttp

from services.cli.configured import model_endpoint
from services.cli.errors import CliError
from services.cli.examination import Examination, Found
from services.cli.model_checks import roles_of
from services.cli.settings import CliSettings
from services.local.topology import ModelEndpoint

TIMEOUT_S: Final = 30.0
SHOWN: Final = 200
_NAME: Final = "model endpoint"
_CHECK: Final = "signalbox check-model"


async def examine_models(settings: CliSettings, clocks: dict[str, float], *, probe: bool) -> AsyncIterator[Examination]:
    """Looks whether the endpoint answers and takes the key; with `probe`, asks each model for one token."""
    try:
        endpoint = model_endpoint(settings)
    except CliError as error:
        yield Examination(_NAME, Found.WRONG, error.message, error.hint)
        return
    if endpoint is None:
        yield Examination(_NAME, Found.NOT_LOOKED_AT, "OPENAI_BASE_URL is not set: the offline model is used")
        return
    headers = {"authorization": f"Bearer {endpoint.api_key}"}
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_S), headers=headers) as session:
        yield await _reach(session, endpoint, clocks)
        for model in roles_of(endpoint) if probe else ():
            yield await _ask(session, endpoint, model)


async def _reach(session: aiohttp.ClientSession, endpoint: ModelEndpoint, clocks: dict[str, float]) -> Examination:
    try:
        async with session.get(f"{endpoint.base_url.rstrip('/')}/models") as response:
            if date := response.headers.get("date"):
                # Of whole seconds, cut off.
                clocks[_NAME] = parsedate_to_datetime(date).timestamp() + 0.5 - time.time()
            if response.status in (401, 403):
                return Examination(
                    _NAME, Found.WRONG, f"refuses the key ({response.status})", "export OPENAI_API_KEY=…"
                )
            return Examination(_NAME, Found.WELL, f"{endpoint.base_url} answers ({response.status})")
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        seen = f"{endpoint.base_url} does not answer: {str(error)[:SHOWN] or type(error).__name__}"
        return Examination(_NAME, Found.WRONG, seen, f"export OPENAI_BASE_URL=…, then {_CHECK}")


async def _ask(session: aiohttp.ClientSession, endpoint: ModelEndpoint, model: str) -> Examination:
    name = f"model {model}"
    asked = {"model": model, "messages": [{"role": "user", "content": "Say yes."}], "max_tokens": 1}
    start = time.perf_counter()
    try:
        url = f"{endpoint.base_url.rstrip('/')}/chat/completions"
        async with session.post(url, json=asked) as response:
            said = (await response.text())[:SHOWN]
            if response.status != 200:
                return Examination(name, Found.WRONG, f"{response.status}: {' '.join(said.split())}", _CHECK)
    except (aiohttp.ClientError, TimeoutError) as error:
        return Examination(name, Found.WRONG, f"no answer: {str(error)[:SHOWN] or type(error).__name__}", _CHECK)
    return Examination(name, Found.WELL, f"answers in {time.perf_counter() - start:.1f} s")
