"""A mirror of the package index, as a company has one: TLS by an authority of its own, files under its own URLs."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web

from tests.fixtures.certificates import Certificate

INDEX = "https://pypi.org/simple"
FILES = "https://files.pythonhosted.org"
WITHIN = aiohttp.ClientTimeout(total=300)


@dataclass
class Mirror:
    """Where it is, and the files that were taken from it."""

    url: str = ""
    taken: set[str] = field(default_factory=set)


@asynccontextmanager
async def mirror(certificate: Certificate) -> AsyncIterator[Mirror]:
    """Serves what the index has, on loopback."""
    made = Mirror()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate.cert, certificate.key)
    async with aiohttp.ClientSession(timeout=WITHIN) as upstream:

        async def page(request: web.Request) -> web.Response:
            accept = {"Accept": request.headers.get("Accept", "text/html")}
            async with upstream.get(f"{INDEX}/{request.match_info['name']}/", headers=accept) as found:
                text = (await found.text()).replace(FILES, f"{made.url.removesuffix('/simple')}/files")
                headers = {"Content-Type": found.headers["Content-Type"]}
                return web.Response(status=found.status, text=text, headers=headers)

        async def file(request: web.Request) -> web.Response:
            path = request.match_info["path"]
            made.taken.add(path.rpartition("/")[2])
            async with upstream.get(f"{FILES}/{path}") as found:
                return web.Response(status=found.status, body=await found.read())

        app = web.Application()
        app.add_routes([web.get("/simple/{name}/", page), web.get("/files/{path:.+}", file)])
        runner = web.AppRunner(app)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
            await site.start()
            made.url = f"https://127.0.0.1:{runner.addresses[0][1]}/simple"
            yield made
        finally:
            await runner.cleanup()
