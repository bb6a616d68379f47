"""JSON of requests, as far as a message of the gateway's takes it, and JSON of answers."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp
from starlette.requests import Request
from starlette.responses import Response

from services.http_api.errors import Invalid, NotJson, TooLarge, TooSlow, WrongMediaType
from services.kit.text.exact_json import exact_json
from services.kit.wire.carried_json import EXACT, NotCarriedError, check_carried


class BodyReader:
    """Reads the bodies of requests: so large at most, and so long at most."""

    def __init__(self, *, max_bytes: int, timeout_s: float) -> None:
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s

    async def read(self, request: Request) -> Any:
        """Returns what a body holds; None where there is none.

        Raises NotJson, TooLarge, TooSlow, WrongMediaType, Invalid.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                body = await self._bytes(request)
        except TimeoutError as error:
            raise TooSlow(f"the body did not arrive within {self._timeout_s:g} s") from error
        if not body:
            return None
        # A page of another site can send a form without asking, and no JSON.
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise WrongMediaType("send JSON, with `content-type: application/json`")
        try:
            document = exact_json(body)
        except ValueError as error:
            raise NotJson(f"the body is no JSON: {error}") from error
        try:
            check_carried(document)
        except NotCarriedError as error:
            raise Invalid(f"the body {error}") from error
        return document

    async def _bytes(self, request: Request) -> bytes:
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > self._max_bytes:
                raise TooLarge(f"the body has more than {self._max_bytes} bytes")
        return bytes(body)


def struct_of(values: dict[str, Any]) -> Struct:
    """Returns an object of JSON in a message."""
    struct = Struct()
    struct.update(values)
    return struct


def value_of(value: Any) -> Value:
    """Returns any JSON in a message."""
    struct = Struct()
    struct.update({"value": value})
    return struct.fields["value"]


def json_of(struct: Struct) -> dict[str, Any]:
    """Returns what a message holds as JSON; numbers that are whole as integers, as they were sent."""
    found: dict[str, Any] = _whole(MessageToDict(struct))
    return found


def json_of_value(value: Value) -> Any:
    """Returns what any JSON in a message is."""
    return _whole(MessageToDict(value))


def moment(time: Timestamp) -> str:
    """Returns a time as the protocol has it."""
    return f"{time.ToDatetime().isoformat(timespec='microseconds')}+00:00"


def _whole(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) <= EXACT:
        return int(value)
    if isinstance(value, list):
        return [_whole(each) for each in value]
    if isinstance(value, dict):
        return {name: _whole(each) for name, each in value.items()}
    return value


class Json(Response):
    """An answer in JSON, which nobody keeps for another caller."""

    media_type = "application/json"

    def __init__(self, document: Any, status_code: int = 200, headers: dict[str, str] | None = None) -> None:
        super().__init__(orjson.dumps(document), status_code, {"cache-control": "no-store", **(headers or {})})
