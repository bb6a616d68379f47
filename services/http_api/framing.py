"""Requests that say in two ways where they end: what stands before this server may have read another one.

They are refused before anything else looks at them, wherever they go, and what follows them is not read.
"""

from __future__ import annotations

import orjson
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from services.http_api.errors import Ambiguous, ApiError
from services.http_api.metrics import NO_OPERATION, REQUESTS
from services.kit.telemetry.logs import get_logger

log = get_logger()
_TWO_ENDS = ("content-length", "transfer-encoding")


class OneEnd:
    """An application whose requests end in one way."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuses a request that ends in two, and hands on others."""
        if scope["type"] == "http" and all(name in Headers(scope=scope) for name in _TWO_ENDS):
            error = Ambiguous("send `content-length` or `transfer-encoding`, and not both")
            log.info("request refused", operation=NO_OPERATION, status=error.status, reason=error.told_reason)
            REQUESTS.labels(NO_OPERATION, str(error.status)).observe(0)
            await problem(error)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def problem(error: ApiError) -> Response:
    """Returns an error as an answer."""
    return Response(
        orjson.dumps(error.body()),
        status_code=error.status,
        headers=error.headers(),
        media_type="application/problem+json",
    )
