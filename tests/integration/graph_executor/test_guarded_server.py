"""A server behind TLS, a password and rights, and its backup: by the commands that docs/operations.md gives."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import ssl
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from redis.asyncio import Redis
from redis.exceptions import NoPermissionError

from services.graph_executor.bolt import Bolt
from services.graph_executor.falkor import Falkor
from services.kit.errors import error_detail
from services.kit.identity.keys import generate_keypair
from services.local.falkordb import FalkorServer
from tests.fixtures.bolt_server import ArcadeServer, OwnServer
from tests.fixtures.certificates import Authority, Certificate
from tests.integration.graph_executor.conftest import KEEPER, Executor, serving

PAGE = Path(__file__).parents[3] / "docs" / "operations.md"
PASSWORD = "secret-of-a-test"
PATIENCE_S = 60.0
NODE = {"label": "Ticket", "key": "T-1"}


def commands(heading: str) -> list[list[str]]:
    """The words of each redis-cli command of a section of the page."""
    section = PAGE.read_text(encoding="utf-8").partition(f"{heading}\n")[2].partition("\n### ")[0]
    lines = [line for line in section.splitlines() if line.startswith("redis-cli ")]
    assert lines, heading
    return [shlex.split(line.replace("$PASSWORD", PASSWORD))[1:] for line in lines]


@pytest.fixture
def directory() -> Iterator[Path]:
    """A place whose name is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="graph-") as name:
        yield Path(name)


@asynccontextmanager
async def started(directory: Path, *options: str) -> AsyncIterator[FalkorServer]:
    """A server."""
    server = FalkorServer(directory, options=options)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def administered(server: FalkorServer) -> AsyncIterator[Redis]:
    """A connection with all rights, made before anybody may lose them."""
    redis = Redis.from_url(server.url, decode_responses=True, single_connection_client=True)
    try:
        await redis.ping()
        yield redis
    finally:
        await redis.aclose()


async def ask(redis: Redis, *words: Any) -> Any:
    """Runs a command."""
    return await redis.execute_command(*words)  # type: ignore[no-untyped-call]


@asynccontextmanager
async def guarded(directory: Path) -> AsyncIterator[str]:
    """The URL of a server with the user that the page makes, and no other."""
    acl = directory / "users.acl"
    acl.touch()
    async with started(directory, "--aclfile", str(acl)) as server:
        async with administered(server) as redis:
            for words in commands("### The graph that agents change")[:3]:
                assert await ask(redis, *words) is not None
        yield server.url.replace("unix://", f"unix://signalbox:{PASSWORD}@")


@asynccontextmanager
async def behind_tls(server_url: str, certificate: Certificate) -> AsyncIterator[int]:
    """The port of what ends TLS before a server: the one that tests have knows none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.cert, certificate.key)
    scheme, _, place = server_url.partition("://")
    place = place.rpartition("@")[2]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if scheme == "unix":
            inner_reader, inner_writer = await asyncio.open_unix_connection(place)
        else:
            inner_reader, inner_writer = await asyncio.open_connection(*place.split(":"))

        async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            try:
                while data := await source.read(1 << 16):
                    sink.write(data)
                    await sink.drain()
            except OSError:
                return  # one end is gone, and so the other goes
            finally:
                sink.close()

        await asyncio.gather(copy(reader, inner_writer), copy(inner_reader, writer))

    listening = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        listening.close()


async def every_tool_works(executor: Executor) -> None:
    """Calls what needs each of the server's commands."""
    assert (await executor.call("add_node", NODE)).data["result"] == "created"
    assert len((await executor.call("query_graph", label="Ticket")).data["results"]) == 1
    writer = executor.by(replace(executor.caller, roles=frozenset({"graph_writer"})))
    query = "MATCH (t:Ticket) SET t.points = 3 RETURN t.points"
    assert (await writer.call("cypher_query", query=query, write=True)).data["rows"] == [[3]]
    assert (await executor.call("cypher_query", query="MATCH (t:Ticket) RETURN t.points")).data["rows"] == [[3]]


async def test_over_tls_with_a_password_and_a_user_that_has_few_rights(directory: Path, tmp_path: Path) -> None:
    certificate = Authority(tmp_path).issue("graph")
    async with guarded(directory) as url, behind_tls(url, certificate) as port:
        secure = f"rediss://signalbox:{PASSWORD}@localhost:{port}"
        async with serving(secure, tmp_path, generate_keypair(), graph_ca=certificate.ca) as executor:
            await every_tool_works(executor)


@pytest.mark.parametrize("wrong", ["authority", "host", "password", "no password", "no TLS"])
async def test_nothing_is_said_to_a_server_that_is_not_ours_or_does_not_know_us(
    directory: Path, tmp_path: Path, wrong: str
) -> None:
    certificate = Authority(tmp_path).issue("graph", *(["elsewhere.example"] if wrong == "host" else []))
    other = Authority(tmp_path, "other").issue("stranger")
    async with guarded(directory) as url, behind_tls(url, certificate) as port:
        user = {"password": "signalbox:other@", "no password": ""}.get(wrong, f"signalbox:{PASSWORD}@")
        scheme = "redis" if wrong == "no TLS" else "rediss"
        ca = None if wrong == "no TLS" else other.ca if wrong == "authority" else certificate.ca
        falkor = Falkor(f"{scheme}://{user}localhost:{port}", ca=ca, connections=1, wait_s=5, timeout_ms=1000)
        with pytest.raises(Exception, match=r"does not answer|can't do it now") as raised:
            await falkor.query("signalbox", "RETURN 1", {})
        assert getattr(raised.value, "reason", "") == "GRAPH_DATABASE_AWAY"
        await falkor.aclose()


async def test_bolt_over_tls_with_a_password(bolt: ArcadeServer | OwnServer, tmp_path: Path) -> None:
    certificate, graph = Authority(tmp_path).issue("graph"), await asyncio.to_thread(bolt.make)
    async with behind_tls(bolt.url, certificate) as port:
        secure = f"bolt+s://{_user(bolt.url)}localhost:{port}"
        settings = {"graph_ca": certificate.ca, "graph_claim": "", "graph_name": graph}
        async with serving(secure, tmp_path, generate_keypair(), **settings) as executor:
            await every_tool_works(executor)


@pytest.mark.parametrize("wrong", ["authority", "host", "password", "no password", "no TLS"])
async def test_nothing_is_said_over_bolt_to_a_server_that_is_not_ours_or_does_not_know_us(
    bolt: ArcadeServer | OwnServer, tmp_path: Path, wrong: str
) -> None:
    if not _user(bolt.url):
        pytest.skip("this server asks for no password")
    certificate = Authority(tmp_path).issue("graph", *(["elsewhere.example"] if wrong == "host" else []))
    other = Authority(tmp_path, "other").issue("stranger")
    async with behind_tls(bolt.url, certificate) as port:
        user = {"password": "signalbox:other@", "no password": ""}.get(wrong, _user(bolt.url))
        scheme = "bolt" if wrong == "no TLS" else "bolt+s"
        ca = None if wrong == "no TLS" else other.ca if wrong == "authority" else certificate.ca
        client = Bolt(f"{scheme}://{user}localhost:{port}", ca=ca, connections=1, wait_s=5, timeout_ms=1000)
        with pytest.raises(Exception, match="does not answer") as raised:
            await client.server()
        assert getattr(raised.value, "reason", "") == "GRAPH_DATABASE_AWAY"
        await client.aclose()


def _user(url: str) -> str:
    user, at, _ = url.partition("://")[2].rpartition("@")
    return user + at


async def test_a_graph_for_which_there_is_no_database_is_told_as_such(
    bolt: ArcadeServer | OwnServer, tmp_path: Path
) -> None:
    async with serving(bolt.url, tmp_path, generate_keypair(), graph_claim="", graph_name="none-of-it") as executor:
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await executor.call("add_node", NODE)
        detail = error_detail(raised.value)
        assert (detail.code, detail.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "GRAPH_MISSING")
        assert not detail.retryable


FORBIDDEN: tuple[tuple[Any, ...], ...] = (
    ("GRAPH.QUERY", "other", "RETURN 1"),
    ("GRAPH.RO_QUERY", "signalbox2", "RETURN 1"),
    ("GRAPH.DELETE", "signalbox"),
    ("GRAPH.COPY", "signalbox", "signalbox:copy"),
    ("GRAPH.LIST",),
    ("GRAPH.CONFIG", "GET", "*"),
    ("GRAPH.PROFILE", "signalbox", "RETURN 1"),
    ("GRAPH.UDF", "LOAD", "x", "x"),
    ("GET", "signalbox"),
    ("DEL", "signalbox"),
    ("DUMP", "signalbox"),
    ("KEYS", "*"),
    ("SCAN", 0),
    ("FLUSHALL",),
    ("CONFIG", "GET", "*"),
    ("CONFIG", "SET", "dir", "/tmp"),  # noqa: S108 - refused
    ("ACL", "LIST"),
    ("MODULE", "LIST"),
    ("EVAL", "return 1", 0),
    ("BGSAVE",),
    ("SHUTDOWN",),
    ("CLIENT", "LIST"),
)


async def test_the_server_holds_the_executors_user_to_its_graphs_by_itself(directory: Path) -> None:
    async with guarded(directory) as url:
        redis = Redis.from_url(url)
        assert await ask(redis, "GRAPH.QUERY", "signalbox", "RETURN 1")
        assert await ask(redis, "GRAPH.QUERY", "signalbox:north", "RETURN 1")
        for words in FORBIDDEN:
            with pytest.raises(NoPermissionError):
                await ask(redis, *words)
        await redis.aclose()


async def test_a_graph_that_the_user_may_not_reach_is_told_as_such(directory: Path, tmp_path: Path) -> None:
    async with guarded(directory) as url, serving(url, tmp_path, generate_keypair(), graph_name="other") as executor:
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await executor.call("add_node", NODE)
        detail = error_detail(raised.value)
        assert (detail.code, detail.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "GRAPH_FORBIDDEN")
        assert not detail.retryable


async def until(redis: Redis, **wanted: str) -> None:
    """Waits until the server says so of what it writes to disk."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = await redis.info("persistence")
            if all(str(found[name]) == value for name, value in wanted.items()):
                return
            await asyncio.sleep(0.02)


async def test_a_restored_backup_has_graph_keys_and_changes(directory: Path, tmp_path: Path) -> None:
    save, _, append, _ = commands("#### Backup and restore of the graphs")
    keys, (first, second) = generate_keypair(), (directory / "1", directory / "2")
    async with (
        started(first) as server,
        administered(server) as redis,
        serving(server.url, tmp_path, keys, graph_claim="") as executor,
    ):
        await executor.call("add_node", NODE, properties={"status": "open"}, operation="op-1")
        told = await executor.call_raw("update_props", {**NODE, "properties": {"points": 3}}, operation="op-2")
        await ask(redis, *save)
        await until(redis, rdb_bgsave_in_progress="0", rdb_last_bgsave_status="ok")
        second.mkdir()
        shutil.copy(first / "dump.rdb", second / "dump.rdb")
        await executor.call("add_node", label="Ticket", key="after the backup", operation="op-3")
    async with started(second, "--appendonly", "no") as server, administered(server) as redis:
        await ask(redis, *append)
        await until(redis, aof_enabled="1", aof_rewrite_in_progress="0", aof_last_bgrewrite_status="ok")
    async with started(second) as server, serving(server.url, tmp_path, keys, graph_claim="") as again:
        restored = replace(again, run_id=executor.run_id)
        found = (await restored.call("query_graph", label="Ticket")).data["results"]
        assert [path["nodes"][0]["properties"] for path in found] == [{"key": "T-1", "status": "open", "points": 3}]
        # A key that was used is known: the same answer, no second effect, and no other call.
        repeated = await restored.call_raw("update_props", {**NODE, "properties": {"points": 3}}, operation="op-2")
        assert repeated == told
        with pytest.raises(grpc.aio.AioRpcError, match="used for another call"):
            await restored.call("update_props", {**NODE, "properties": {"points": 4}}, operation="op-2")
        assert (await restored.call("add_node", label="Ticket", key="T-2", operation="op-3")).data[
            "result"
        ] == "created"
        # Keys of nodes are unique as they were, and changes can be undone.
        writer = restored.by(replace(KEEPER, roles=frozenset({"graph_writer"})))
        twice = await writer.call("cypher_query", query="CREATE (:Ticket {key: 'T-1'})", write=True)
        assert twice.reason == "query_failed"
        undo = restored.new_run()
        for operation in ("op-2", "op-1"):
            undone = await undo.call("undo_change", run_id=executor.run_id, operation_id=operation)
            assert undone.data["result"] == "undone"
        found = (await restored.call("query_graph", label="Ticket")).data["results"]
        assert [path["nodes"][0]["key"] for path in found] == ["T-2"]
