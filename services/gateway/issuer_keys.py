"""The keys of callers' issuer: from a file, or fetched from a URL in the background.

Whoever comes with a key that is known never waits. A key id that is not known is looked for at the URL: in one request
at a time, and at most one every few seconds, however many callers bring however many ids.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import aiohttp
import jwt

from services.gateway.errors import KeysUnavailable
from services.gateway.metrics import KEY_FETCHES
from services.kit.identity.jwks import Jwks, JwksDocument, UnknownKeyId
from services.kit.telemetry.logs import get_logger
from services.kit.wire.tasks import detached

log = get_logger()
FETCH_TIMEOUT_S = 3.0
# How old the URL's last answer may be for a key id that is not in it to count as unknown.
ANSWER_STANDS_S = 2.0
# A key that is taken back is believed no longer than this, as long as the URL answers.
REFRESH_S = 300.0
RETRY_S = 10.0
LARGEST_DOCUMENT = 1024 * 1024


class IssuerKeys(Jwks, Protocol):
    """Keys that may be looked for when one is not known."""

    async def look_again(self) -> None:
        """Makes sure that what is known is fresh. Raises KeysUnavailable."""


class JwksFile:
    """Keys from a file, read again when it has changed, so that keys rotate without a restart."""

    def __init__(self, path: Path) -> None:
        """Raises KeysUnavailable."""
        self._path = path
        self._version = self._stat()
        self._document = self._read()

    def signing_key(self, token: str) -> jwt.PyJWK:
        """Returns the key that the token's header names. Raises PyJWTError, KeysUnavailable."""
        version = self._stat()
        if version != self._version:
            self._document, self._version = self._read(), version
        return self._document.signing_key(token)

    async def look_again(self) -> None:
        """Does nothing: each look is a fresh one."""

    def _stat(self) -> tuple[int, int]:
        try:
            status = self._path.stat()
        except OSError as error:
            raise KeysUnavailable(f"the issuer's keys can't be read: {error.strerror}") from error
        return status.st_mtime_ns, status.st_ino

    def _read(self) -> JwksDocument:
        try:
            return JwksDocument(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError, jwt.PyJWTError) as error:
            raise KeysUnavailable("the issuer's keys can't be read") from error


class JwksUrl:
    """Keys from a URL; those that are known go on serving while it does not answer."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._document: JwksDocument | None = None
        self._fetching: asyncio.Task[None] | None = None
        self._failure: KeysUnavailable | None = None
        self._asked_at = float("-inf")

    def signing_key(self, token: str) -> jwt.PyJWK:
        """Returns the key that the token's header names. Raises UnknownKeyId and other PyJWTErrors."""
        if self._document is None:
            raise UnknownKeyId("no key is known yet")
        return self._document.signing_key(token)

    async def look_again(self) -> None:
        """Has the URL asked, unless it has just been. Raises KeysUnavailable."""
        if self._fetching is None and time.monotonic() - self._asked_at >= ANSWER_STANDS_S:
            self._fetching = detached(self._fetch(), name="fetch the issuer's keys")
        if self._fetching is not None:
            # Shared by all who wait, so not to be cancelled with the first of them.
            await asyncio.shield(self._fetching)
        if self._failure is not None:
            raise KeysUnavailable(self._failure.message, retry_after_s=ANSWER_STANDS_S) from self._failure

    @asynccontextmanager
    async def kept_fresh(self) -> AsyncIterator[None]:
        """Asks the URL now and then inside the context."""
        keeping = detached(self._keep_fresh(), name="keep the issuer's keys fresh")
        try:
            yield
        finally:
            tasks = [task for task in (keeping, self._fetching) if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep_fresh(self) -> None:
        while True:
            await asyncio.sleep(RETRY_S if self._failure else REFRESH_S)
            try:
                await self.look_again()
            except KeysUnavailable as error:
                log.warning("the issuer's keys were not refreshed; those that are known go on", error=error.message)
            except Exception:  # the boundary of a loop: without it, a key that is taken back would be believed for good
                log.exception("the issuer's keys were not refreshed; those that are known go on")

    async def _fetch(self) -> None:
        """Asks the URL once, and notes how that went."""
        try:
            self._document = await self._get()
            self._failure = None
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError, jwt.PyJWTError) as error:
            self._failure = KeysUnavailable(f"the issuer's keys can't be fetched ({type(error).__name__}); try again")
            log.warning("keys not fetched", url=self._url, error=str(error) or type(error).__name__)
        finally:
            self._asked_at = time.monotonic()
            self._fetching = None
        KEY_FETCHES.labels("failed" if self._failure else "ok").inc()

    async def _get(self) -> JwksDocument:
        timeout = aiohttp.ClientTimeout(total=FETCH_TIMEOUT_S)
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=True) as session,
            session.get(self._url, headers={"Accept": "application/json"}) as response,
        ):
            response.raise_for_status()
            content = bytearray()
            async for chunk in response.content.iter_any():
                content += chunk
                if len(content) > LARGEST_DOCUMENT:
                    raise ValueError("the document is too large")
            return JwksDocument(content.decode())
