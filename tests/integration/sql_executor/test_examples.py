"""The few-shot store against real Postgres: both ways of finding, loading again, failing endpoints, closed doors."""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import psycopg
import pytest
import uvicorn
from google.protobuf.struct_pb2 import Struct
from psycopg_pool import AsyncConnectionPool, PoolTimeout
from psycopg_pool.base import AttemptWithBackoff
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from services.kit.identity.caller import Caller
from services.sql_executor.database_errors import refusal
from services.sql_executor.embeddings import EmbeddingsClient
from services.sql_executor.errors import DatabaseDown, EmbeddingsUnavailable
from services.sql_executor.example_file import ExampleEntry, read_example_file
from services.sql_executor.examples import ExampleStore, ExampleStoreError, LoadReport
from services.sql_executor.server import example_store
from services.sql_executor.settings import SqlExecutorSettings
from services.sql_executor.tools import ExamplesTool
from tests.fixtures.postgres import PostgresCluster

HARBOUR = read_example_file(Path(__file__).resolve().parents[3] / "examples" / "harbour" / "examples.yaml")
DIMENSIONS = 128
SYNONYMS = {
    **dict.fromkeys(("overheating", "hot", "hotter", "hottest", "warm", "warmest"), "hot"),
    **dict.fromkeys(("vessel", "vessels", "ship", "ships"), "ship"),
    **dict.fromkeys(("sensor", "sensors", "device", "devices"), "device"),
    **dict.fromkeys(("serviced", "maintenance"), "maintenance"),
    **dict.fromkeys(("profile", "am", "i", "who"), "caller"),
}


FILLERS = {
    "a",
    "all",
    "any",
    "are",
    "being",
    "does",
    "how",
    "in",
    "is",
    "many",
    "my",
    "of",
    "show",
    "the",
    "which",
    "with",
}


class EmbeddingsServer:
    """An OpenAI-compatible embeddings endpoint: words are directions, synonyms the same one."""

    def __init__(self) -> None:
        self.inputs: list[str] = []
        self.status = 200
        self.broken: Any = None
        self.base_url = ""

    async def embeddings(self, request: Request) -> Response:
        body = await request.json()
        assert body["encoding_format"] == "float"
        assert request.headers["authorization"] == "Bearer key"
        if self.status != 200:
            return JSONResponse({"error": {"message": "no"}}, self.status)
        self.inputs += body["input"]
        data = [{"object": "embedding", "index": n, "embedding": embed(text)} for n, text in enumerate(body["input"])]
        data.reverse()  # order is not promised: the index is
        return JSONResponse({"object": "list", "model": body["model"], "data": data} | (self.broken or {}))


def embed(text: str) -> list[float]:
    vector = [0.0] * DIMENSIONS
    vector[0] = 0.01
    for word in set(re.findall(r"[a-z]+", text.lower())) - FILLERS:
        digest = hashlib.sha256(SYNONYMS.get(word, word).encode()).digest()
        vector[1 + int.from_bytes(digest[:4], "big") % (DIMENSIONS - 1)] += 1.0
    return vector


@pytest.fixture
async def server() -> AsyncIterator[EmbeddingsServer]:
    """A running embeddings endpoint on a free port."""
    endpoint = EmbeddingsServer()
    app = Starlette(routes=[Route("/v1/embeddings", endpoint.embeddings, methods=["POST"])])
    http = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", lifespan="off"))
    serving = asyncio.create_task(http.serve())
    async with asyncio.timeout(60):
        while not http.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.01)
    endpoint.base_url = f"http://127.0.0.1:{http.servers[0].sockets[0].getsockname()[1]}/v1"
    yield endpoint
    http.should_exit = True
    await serving


@pytest.fixture
async def pool(database: str) -> AsyncIterator[AsyncConnectionPool[Any]]:
    async with AsyncConnectionPool(database, min_size=1, max_size=4, open=False) as opened:
        yield opened


@pytest.fixture
async def embedder(server: EmbeddingsServer) -> AsyncIterator[EmbeddingsClient]:
    async with client(server) as made:
        yield made


@asynccontextmanager
async def client(server: EmbeddingsServer, model: str = "words") -> AsyncIterator[EmbeddingsClient]:
    made = EmbeddingsClient(base_url=server.base_url, api_key="key", model=model, timeout_s=60, retries=0)
    try:
        yield made
    finally:
        await made.close()


async def filled(pool: AsyncConnectionPool[Any], embedder: EmbeddingsClient | None = None) -> ExampleStore:
    store = ExampleStore(pool, embedder)
    await store.setup()
    await store.load(HARBOUR.examples, HARBOUR.notes)
    return store


NEAR = [
    ("Count devices with temperature > 25", "Count devices with temperature > 10"),
    ("count the devices with a temperature above 10", "Count devices with temperature > 10"),
    ("Which devices are hotter than 50 degrees?", "Which devices are hotter than 45 degrees right now?"),
    ("Show the 7 coldest devices", "Show the 3 coldest devices"),
    ("average temperature for each ship", "Average temperature per ship"),
    ("List all devices on the Grey Skerry", "List the devices on the Dawn Plover"),
    ("How many devices have battery below 30 percent?", "How many devices have a battery under 50 percent?"),
    ("Show the last 20 readings of device 12", "Show the last 10 readings of device 36"),
    ("How many devices are offline?", "Which devices are offline?"),
    ("Temperature per day over the last 14 days", "Temperature per day over the last 7 days"),
]
FAR = [
    ("Is any sensor overheating?", {"How many devices are hot?", "Which engine room sensors are hot?"}),
    ("Show my profile", {"Who am I?"}),
    ("Which devices are being serviced?", {"Which devices are in maintenance?"}),
    ("How many vessels does each home port have?", {"How many ships does each home port have?"}),
]


async def test_similar_questions_are_found_without_embeddings(pool: AsyncConnectionPool[Any]) -> None:
    store = await filled(pool)
    for question, expected in NEAR:
        found = await store.nearest(question)
        assert found.method == "similarity"
        assert len(found.examples) == 3
        assert len(found.notes) == 2
        assert expected in [each.question for each in found.examples], question
        scores = [each.score for each in found.examples]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)


async def test_the_same_question_scores_one(pool: AsyncConnectionPool[Any]) -> None:
    store = await filled(pool)
    for entry in HARBOUR.examples:
        best = (await store.nearest(entry.question)).examples[0]
        assert (best.question, best.sql, best.score) == (entry.question, entry.sql, 1.0)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Which devices are hot?", "A device is hot above 45 °C."),
        ("Which battery is low?", "Battery is low under 20 %, and empty under 5 %."),
        ("Is the air pressure normal?", "Normal air pressure is 1013 hPa"),
    ],
)
async def test_notes_explain_the_words(pool: AsyncConnectionPool[Any], question: str, expected: str) -> None:
    notes = (await (await filled(pool)).nearest(question)).notes
    assert any(note.text.startswith(expected) for note in notes), notes


async def test_meaning_is_found_with_embeddings(pool: AsyncConnectionPool[Any], embedder: EmbeddingsClient) -> None:
    store = await filled(pool, embedder)
    for question, expected in [*((question, {one}) for question, one in NEAR), *FAR]:
        found = await store.nearest(question)
        assert found.method == "vector"
        assert expected & {each.question for each in found.examples}, (question, found.examples)
        assert len(found.notes) == 2


async def test_loading_embeds_only_what_is_new(
    pool: AsyncConnectionPool[Any], server: EmbeddingsServer, embedder: EmbeddingsClient
) -> None:
    store = ExampleStore(pool, embedder)
    await store.setup()
    everything = len(HARBOUR.examples) + len(HARBOUR.notes)
    assert await store.load(HARBOUR.examples, HARBOUR.notes) == LoadReport(everything, 0, everything)
    assert sorted(server.inputs) == sorted([*(each.question for each in HARBOUR.examples), *HARBOUR.notes])

    server.inputs.clear()
    await store.setup()
    assert await store.load(HARBOUR.examples, HARBOUR.notes) == LoadReport(0, 0, 0)
    changed = [ExampleEntry(question=HARBOUR.examples[0].question, sql="SELECT 1"), *HARBOUR.examples[1:]]
    assert await store.load(changed, [*HARBOUR.notes[1:], "A tug is small."]) == LoadReport(2, 2, 2)
    assert sorted(server.inputs) == sorted(["A tug is small.", HARBOUR.examples[0].question])
    assert (await store.nearest(HARBOUR.examples[0].question)).examples[0].sql == "SELECT 1"


async def test_another_model_has_embeddings_of_its_own(
    pool: AsyncConnectionPool[Any], server: EmbeddingsServer, embedder: EmbeddingsClient
) -> None:
    await filled(pool, embedder)
    async with client(server, "other") as other:
        store = ExampleStore(pool, other)
        assert (await store.nearest("Who am I?")).method == "similarity"  # nothing to compare with yet
        assert (await store.load(HARBOUR.examples, HARBOUR.notes)).embedded > 70
        assert (await store.nearest("Show my profile")).examples[0].question == "Who am I?"


async def test_embeddings_can_come_later(pool: AsyncConnectionPool[Any], embedder: EmbeddingsClient) -> None:
    await filled(pool)
    assert (await (await filled(pool, embedder)).nearest("Show my profile")).method == "vector"


@pytest.mark.parametrize(
    ("status", "broken"),
    [
        (500, None),
        (401, None),
        (200, {"data": []}),
        (200, {"data": None}),
        (200, {"data": [{"object": "embedding", "index": 0, "embedding": []}]}),
        (200, {"data": [{"object": "embedding", "index": 0, "embedding": [0.0, 0.0]}]}),
        (200, {"data": [{"object": "embedding", "index": 0, "embedding": [0.5, 0.5]}]}),
    ],
)
async def test_a_failing_endpoint_means_similarity(
    pool: AsyncConnectionPool[Any], server: EmbeddingsServer, embedder: EmbeddingsClient, status: int, broken: Any
) -> None:
    store = await filled(pool, embedder)
    server.status, server.broken = status, broken
    found = await store.nearest("Count devices with temperature > 99")
    assert found.method == "similarity"
    assert found.examples[0].question == "Count devices with temperature > 10"


async def test_loading_with_a_failing_endpoint_is_an_error_that_a_second_try_mends(
    pool: AsyncConnectionPool[Any], server: EmbeddingsServer, embedder: EmbeddingsClient
) -> None:
    store = ExampleStore(pool, embedder)
    await store.setup()
    server.status = 503
    with pytest.raises(EmbeddingsUnavailable, match="'words' did not answer: InternalServerError"):
        await store.load(HARBOUR.examples, HARBOUR.notes)
    server.status = 200
    assert (await store.load(HARBOUR.examples, HARBOUR.notes)).embedded == len(HARBOUR.examples) + len(HARBOUR.notes)


async def test_vectors_of_different_lengths_are_refused(server: EmbeddingsServer, embedder: EmbeddingsClient) -> None:
    vectors: Sequence[list[float]] = ([0.5, 0.5], [0.5])
    server.broken = {"data": [{"object": "embedding", "index": n, "embedding": v} for n, v in enumerate(vectors)]}
    with pytest.raises(EmbeddingsUnavailable, match="different lengths"):
        await embedder.embed("test", ["a", "b"])


async def test_loaders_at_once_load_once(pool: AsyncConnectionPool[Any], embedder: EmbeddingsClient) -> None:
    stores = [ExampleStore(pool, embedder) for _ in range(4)]
    await asyncio.gather(*(store.setup() for store in stores))
    reports = await asyncio.gather(*(store.load(HARBOUR.examples, HARBOUR.notes) for store in stores))
    assert sum(report.added for report in reports) == len(HARBOUR.examples) + len(HARBOUR.notes)
    assert (await stores[0].nearest("Show my profile")).examples[0].question == "Who am I?"


@pytest.mark.parametrize(
    "question", ["", "\x00", "'; DROP SCHEMA signalbox_examples CASCADE; --", "温度?", "x" * 1_000_000]
)
async def test_odd_questions_are_answered(pool: AsyncConnectionPool[Any], question: str) -> None:
    store = await filled(pool)
    assert len((await store.nearest(question)).examples) == 3
    assert (await store.nearest("Who am I?")).examples[0].score == 1.0


async def test_how_many_is_chosen(pool: AsyncConnectionPool[Any]) -> None:
    found = await (await filled(pool)).nearest("Who am I?", examples=1, notes=0)
    assert (len(found.examples), found.notes) == (1, [])


async def test_a_store_that_is_not_set_up_says_so(pool: AsyncConnectionPool[Any]) -> None:
    store = ExampleStore(pool)
    with pytest.raises(ExampleStoreError, match="not set up: the database lacks pg_trgm"):
        await store.nearest("Who am I?")


async def test_extensions_installed_elsewhere_are_used(
    pool: AsyncConnectionPool[Any], embedder: EmbeddingsClient
) -> None:
    async with pool.connection() as connection:
        for extension in ("pg_trgm", "vector"):
            await connection.execute(f'CREATE SCHEMA "odd {extension}"')
            await connection.execute(f'CREATE EXTENSION {extension} SCHEMA "odd {extension}"')
    store = await filled(pool, embedder)
    assert (await store.nearest("Show my profile")).method == "vector"


async def test_only_who_is_named_can_read_it(
    pool: AsyncConnectionPool[Any], database: str, postgres_cluster: PostgresCluster
) -> None:
    store = await filled(pool)
    name = database.rsplit("/", 1)[1]
    roles = (f"{name}_reader", f"{name}_lookup")
    async with pool.connection() as connection:
        for role in roles:
            await connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'secret'")
    try:
        await store.setup(readable_by=roles[1])
        await store.setup(readable_by=roles[1])
        reader, lookup = (postgres_cluster.dsn(name, user=role, password="secret") for role in roles)
        async with await psycopg.AsyncConnection.connect(reader) as connection:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                await connection.execute("SELECT * FROM signalbox_examples.entry")
        async with AsyncConnectionPool[Any](lookup, min_size=1, open=False) as own:
            assert (await ExampleStore(own).nearest("Who am I?")).examples[0].score == 1.0
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                await ExampleStore(own).load([], [])
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                await ExampleStore(own).setup()
    finally:
        async with pool.connection() as connection:
            for role in roles:
                await connection.execute(f"DROP OWNED BY {role}")
                await connection.execute(f"DROP ROLE {role}")


async def test_a_role_that_may_not_create_an_extension_is_told(
    pool: AsyncConnectionPool[Any], database: str, postgres_cluster: PostgresCluster, embedder: EmbeddingsClient
) -> None:
    name = database.rsplit("/", 1)[1]
    async with pool.connection() as connection:
        await connection.execute(f"CREATE ROLE {name}_plain LOGIN PASSWORD 'secret'")
        await connection.execute(f"GRANT CREATE ON DATABASE {name} TO {name}_plain")
    dsn = postgres_cluster.dsn(name, user=f"{name}_plain", password="secret")
    try:
        async with AsyncConnectionPool[Any](dsn, min_size=1, open=False) as own:
            with pytest.raises(ExampleStoreError, match="let a superuser run CREATE EXTENSION vector"):
                await ExampleStore(own, embedder).setup()
            store = ExampleStore(own)  # pg_trgm is a trusted extension: the right to create in the database will do
            await store.setup()
            assert (await store.load(HARBOUR.examples, [])).added == len(HARBOUR.examples)
    finally:
        async with pool.connection() as connection:
            await connection.execute(f"DROP OWNED BY {name}_plain CASCADE")
            await connection.execute(f"DROP ROLE {name}_plain")


async def test_a_store_whose_database_is_away_is_looked_for_as_often_as_it_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(AttemptWithBackoff, "INITIAL_DELAY", 0.01)
    attempts = 0

    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal attempts
        attempts += 1
        writer.close()

    async with (
        asyncio.timeout(60),
        await asyncio.start_server(hang_up, "127.0.0.1", 0) as server,
        AsyncExitStack() as stack,
    ):
        port = server.sockets[0].getsockname()[1]
        settings = SqlExecutorSettings.model_construct(
            examples_dsn=SecretStr(f"postgresql://reader@127.0.0.1:{port}/examples"),
            pool_max_size=1,
            pool_wait_s=0.1,
            embeddings_base_url="",
        )
        store = await example_store(settings, stack)
        while attempts < 20:  # pauses that doubled without end would take days
            with pytest.raises(PoolTimeout):
                await store.nearest("how many ships?")


async def test_a_login_that_fails_is_an_outage_and_no_answer(postgres_cluster: PostgresCluster) -> None:
    nobody = postgres_cluster.dsn(user="nobody_of_that_name")
    async with AsyncConnectionPool(nobody, min_size=0, max_size=1, timeout=1, open=False) as pool:
        question = Struct()
        question.update({"question": "How warm is each device?"})
        with pytest.raises(DatabaseDown) as down:
            await ExamplesTool(ExampleStore(pool)).call(question, Caller("27"))
    assert down.value.code == grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("state", ["08006", "28P01", "53300", "57P03", "58030"])
def test_what_no_query_mends_is_told_to_no_model(state: str) -> None:
    assert isinstance(refusal(psycopg.errors.lookup(state)("no"), 1000), DatabaseDown)
