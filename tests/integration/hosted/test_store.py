"""The store of hosted graphs: what LangGraph's own does, committed with steps, scoped by the run's claims, bounded."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any, TypedDict

import pytest
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore, Op, PutOp, SearchOp, ensure_embeddings
from langgraph.store.memory import InMemoryStore
from langgraph.types import RetryPolicy, interrupt

from services.kit.identity.caller import Caller
from services.runtime.engine.history import CheckpointHistory
from services.runtime.engine.records import RunRecord, RunState
from services.runtime.engine.retention import Pruner, RetainedData
from services.runtime.engine.retention_policy import RetentionPolicy
from services.runtime.engine.serde import make_serde
from services.runtime.engine.store_policy import StorePolicy
from services.runtime.engine.threads import ThreadStore
from services.runtime.errors import StoreRefused
from services.runtime.hosted.store_index import StoreIndex, compares_vectors
from tests.fixtures.hosted import CALLER, FOLDER, HostedReplica, graph_alone, hosted_replica, loaded, output_of

OTHER = Caller("28", frozenset())
PEOPLE = ["people", "ann"]


@pytest.fixture
async def replica(platform_dsn: str) -> AsyncIterator[HostedReplica]:
    """A replica that offers the graphs of the folder, with stores of every scope."""
    stores = {
        "notes": StorePolicy(most_items=4, most_value_bytes=100, most_writes=5),
        "tally": StorePolicy(scope="agent"),
        "noting": StorePolicy(scope="thread"),
    }
    async with hosted_replica(platform_dsn, loaded("noting", noting()), folder=FOLDER, stores=stores) as working:
        yield working


class Noting(TypedDict, total=False):
    """What a node notes, and then does."""

    note: str
    then: str
    found: list[str]


STOPPED: dict[str, asyncio.Event] = {}


def noting() -> StateGraph[Noting, None, Noting, Noting]:
    """A graph whose node writes to its store first, and then fails, asks or waits, as it is told."""
    failed: set[str] = set()

    async def note(state: Noting, runtime: Runtime) -> dict[str, Any]:
        assert runtime.store is not None
        found = [item.key for item in await runtime.store.asearch(("notes",))]
        await runtime.store.aput(("notes",), f"{state['note']} {len(found)}", {})
        then = state.get("then", "")
        if then == "fail":
            raise ValueError("as asked")
        if then == "fail once" and then not in failed:
            failed.add(then)
            raise ConnectionError("as asked")
        if then == "ask":
            interrupt("Go on?")
        if then == "wait":
            STOPPED["at"].set()
            await STOPPED["on"].wait()
        return {"found": found}

    graph = StateGraph(Noting)
    again = RetryPolicy(max_attempts=2, initial_interval=0.01, retry_on=ConnectionError)
    graph.add_node("note", note, retry_policy=again)
    return graph.add_edge(START, "note")


WORDS = ("sea", "ship", "tax", "form", "tea")


def embed_words(texts: Sequence[str]) -> list[list[float]]:
    """What of each text is about each of some words."""
    return [[float(text.count(word)) for word in WORDS] for text in texts]


class Seeking(TypedDict, total=False):
    """What a node looks for, and how."""

    query: str
    options: dict[str, Any]
    told: list[list[Any]]


PUTS: list[tuple[str, dict[str, Any], Any]] = [
    ("voyage", {"text": "sea and ship", "year": 1}, None),
    ("fleet", {"text": "ship, ship, ship", "notes": ["sea", "tea"], "year": 2}, ["text", "notes[*]"]),
    ("return", {"text": "tax form", "year": 2}, None),
    ("secret", {"text": "sea", "year": 2}, False),
    ("moved", {"text": "sea sea", "year": 3}, None),
    ("moved", {"text": "tea", "year": 3}, None),
    ("gone", {"text": "sea", "year": 3}, None),
]
SEEKS: list[dict[str, Any]] = [
    {"query": "sea"},
    {"query": "ship at sea", "limit": 2},
    {"query": "ship", "limit": 1, "offset": 1},
    {"query": "form", "filter": {"year": 2}},
]


def seeking() -> StateGraph[Seeking, None, Seeking, Seeking]:
    """A graph that writes items, and finds them by meaning: at once, and in a later step in a thread."""

    async def write(state: Seeking, runtime: Runtime) -> dict[str, Any]:
        del state
        assert runtime.store is not None
        await written(runtime.store)
        return {"told": [await sought(runtime.store)]}

    def seek(state: Seeking, runtime: Runtime) -> dict[str, Any]:
        assert runtime.store is not None
        store = runtime.store
        again = [[(each.key, each.score) for each in store.search(("facts",), **asked)] for asked in SEEKS]
        return {"told": [*state["told"], again]}

    graph = StateGraph(Seeking)
    graph.add_node("write", write)
    graph.add_node("seek", seek)
    graph.add_edge(START, "write")
    return graph.add_edge("write", "seek")


async def written(store: BaseStore) -> None:
    for key, value, index in PUTS:
        await store.aput(("facts",), key, value, index=index)
    await store.adelete(("facts",), "gone")


async def sought(store: BaseStore) -> list[Any]:
    return [[(each.key, each.score) for each in await store.asearch(("facts",), **asked)] for asked in SEEKS]


def ranked(told: list[Any]) -> list[Any]:
    """Keys with their scores, those of one score in any order, as stores differ in that."""
    rounded = [[(key, None if score is None else round(score, 5)) for key, score in found] for found in told]
    return [sorted(found, key=lambda each: (-1 if each[1] is None else each[1], each[0])) for found in rounded]


async def test_items_are_found_by_meaning_as_in_langgraphs_own_store(platform_dsn: str) -> None:
    index = StoreIndex("./words.py:embed_words", ensure_embeddings(embed_words), len(WORDS), ("text",))
    alone = InMemoryStore(index={"dims": len(WORDS), "embed": embed_words, "fields": ["text"]})
    await written(alone)
    expected = ranked(await sought(alone))
    graph = replace(loaded("seeking", seeking()), store_index=index)
    other = replace(loaded("other", seeking()), store_index=replace(index, name="another"))
    async with hosted_replica(platform_dsn, graph, other, loaded("plain", seeking())) as replica:
        assert await compares_vectors(replica.pools.calls)
        told = output_of(await replica.run("seeking", {}))["told"]
        # What it has just written, and what is stored.
        assert [ranked(each) for each in told] == [expected, expected]
        # Without an index nothing is ranked; and what was written so is no longer by what it was.
        plain = output_of(await replica.run("plain", {}))["told"][1]
        assert sorted(plain[0]) == [[key, None] for key in ("fleet", "moved", "return", "secret", "voyage")]
        async with replica.pools.calls.connection() as connection:
            cursor = await connection.execute(
                "SELECT count(*) FROM platform.store_vectors JOIN platform.store USING (namespace, key, updated_at)"
            )
            assert await cursor.fetchone() == (0,)
        # Vectors that something else has made are not compared.
        told = output_of(await replica.run("other", {}))["told"]
        assert ranked(told[1]) == expected
        bad = replace(index, dims=3)
        replica.agents["seeking"].definition.store_index = bad
        refused = await replica.run("seeking", {})
        assert "`store.index` says 3 numbers a text" in refused.error
        async with replica.pools.calls.connection() as connection:
            await connection.execute("DROP EXTENSION vector")
        assert not await compares_vectors(replica.pools.calls)


async def test_all_of_an_item_is_found_where_no_fields_are_named(platform_dsn: str) -> None:
    index = StoreIndex("./words.py:embed_words", ensure_embeddings(embed_words), len(WORDS))
    alone = InMemoryStore(index={"dims": len(WORDS), "embed": embed_words})
    await written(alone)
    expected = ranked(await sought(alone))
    async with hosted_replica(platform_dsn, replace(loaded("seeking", seeking()), store_index=index)) as replica:
        told = output_of(await replica.run("seeking", {}))["told"]
    assert [ranked(each) for each in told] == [expected, expected]
    assert ("moved", None) not in expected[0]


async def test_vectors_that_can_not_be_compared_keep_no_other_from_being_found(platform_dsn: str) -> None:
    small = {"sea": 1e-40, "ship": 1e-50, "tea": 3e38}

    def embed(texts: Sequence[str]) -> list[list[float]]:
        return [[small.get(text, float(len(text))), 0.0] for text in texts]

    async def write(state: Seeking, runtime: Runtime) -> dict[str, Any]:
        assert runtime.store is not None
        for key in state.get("options", {}):
            await runtime.store.aput(("facts",), key, {"text": key})
        return {"told": [await found(state, runtime.store)]}

    async def seek(state: Seeking, runtime: Runtime) -> dict[str, Any]:
        assert runtime.store is not None
        return {"told": [*state["told"], await found(state, runtime.store)]}

    async def found(state: Seeking, store: BaseStore) -> list[Any]:
        return [[each.key, each.score] for each in await store.asearch(("facts",), query=state["query"])]

    graph = StateGraph(Seeking).add_node("write", write).add_node("seek", seek)
    graph.add_edge(START, "write").add_edge("write", "seek")
    index = StoreIndex("./words.py:embed", ensure_embeddings(embed), 2, ("text",))
    async with hosted_replica(platform_dsn, replace(loaded("finding", graph), store_index=index)) as replica:
        run = await replica.run("finding", {"query": "any", "options": dict.fromkeys(("tax", *small))})
        assert run.state is RunState.SUCCEEDED, run.error
        async with replica.pools.calls.connection() as connection:
            await connection.execute("UPDATE platform.store_vectors SET embedding = '{NULL, 1}' WHERE key <> 'tax'")
        told = output_of(await replica.run("finding", {"query": "any"}))["told"]
        assert [each[0] for each in told] == [["tax", 1.0]] * 2
        assert [sorted(key for key, score in each[1:] if score is None) for each in told] == [sorted(small)] * 2
        # One that has no direction is nowhere near.
        for options in ({}, {"tax": None}):
            run = await replica.run("finding", {"query": "ship", "options": options})
            assert [score for each in output_of(run)["told"] for _, score in each] == [None] * 8


def facts(**puts: str) -> list[PutOp]:
    return [PutOp(("facts",), key, {"text": text}) for key, text in puts.items()]


ATTEMPTS: list[list[Op]] = [
    [*facts(a="taken back"), *facts(a="first")],
    [*facts(a="of two"), *facts(b="x" * 200)],
    [*facts(b="more", c="than", d="it holds")],
    [SearchOp(("facts",), limit=5000, query="too many")],
    [*facts(b="second"), SearchOp(("facts",), query="asked")],
    [*facts(a="more", b="writes")],
]


async def test_only_what_is_written_is_embedded(platform_dsn: str) -> None:
    embedded: list[str] = []
    refused: list[str] = []

    def embed(texts: Sequence[str]) -> list[list[float]]:
        embedded.extend(texts)
        return [[1.0] for _ in texts]

    def refusing(ops: list[Op], store: BaseStore) -> None:
        try:
            store.batch(ops)
        except StoreRefused as error:
            refused.append(str(error))

    async def awhile(state: Noting, runtime: Runtime) -> dict[str, Any]:
        del state
        for ops in ATTEMPTS:
            try:
                assert runtime.store is not None
                await runtime.store.abatch(ops)
            except StoreRefused as error:
                refused.append(str(error))
        return {}

    def in_thread(state: Noting, runtime: Runtime) -> dict[str, Any]:
        del state
        assert runtime.store is not None
        for ops in ATTEMPTS:
            refusing(ops, runtime.store)
        # From outside of a node, as far as the platform sees.
        for attempt in (facts(a="outside"), [SearchOp(("facts",), query="read")]):
            outside = threading.Thread(target=refusing, args=(attempt, runtime.store))
            outside.start()
            outside.join()
        return {}

    graph = StateGraph(Noting).add_node("awhile", awhile).add_node("in_thread", in_thread)
    graph.add_edge(START, "awhile").add_edge("awhile", "in_thread")
    index = StoreIndex("./words.py:embed", ensure_embeddings(embed), 1, ("text",))
    stores = {"sparing": StorePolicy(most_items=2, most_value_bytes=100, most_writes=3)}
    sparing = replace(loaded("sparing", graph), store_index=index)
    async with hosted_replica(platform_dsn, sparing, stores=stores) as replica:
        run = await replica.run("sparing", {"note": ""})
        assert run.state is RunState.SUCCEEDED, run.error
    assert embedded == ["first", "second", "asked"] * 2 + ["read"]
    said = ["100 is the most", "holds at most 2 items", "finds at most 1000", "writes more than 3 times"] * 2
    assert [part in each for part, each in zip([*said, "outside of any"], refused, strict=True)] == [True] * 9


async def test_fields_by_which_items_are_found_have_names_that_the_database_takes(platform_dsn: str) -> None:
    said: list[str] = []

    async def write(state: Noting, runtime: Runtime) -> dict[str, Any]:
        del state
        assert runtime.store is not None
        await runtime.store.aput(("facts",), "a", {"text": "a\x00b"}, index=["text"])
        for key, field in (("b", "x" * 501), ("b", "x\x00"), ("\ud800", "text")):
            try:
                await runtime.store.aput(("facts",), key, {field: "sea"}, index=[field])
            except StoreRefused as error:
                said.append(str(error))
        try:
            await runtime.store.abatch([SearchOp(("facts\x00",))])
        except StoreRefused as error:
            said.append(str(error))
        [found] = await runtime.store.asearch(("facts",))
        return {"found": [found.value["text"].replace("\x00", "-")]}

    graph = StateGraph(Noting).add_node("write", write).add_edge(START, "write")
    index = StoreIndex("./words.py:embed_words", ensure_embeddings(embed_words), len(WORDS))
    naming = replace(loaded("naming", graph), store_index=index)
    async with hosted_replica(platform_dsn, naming) as replica:
        assert found_by(await replica.run("naming", {"note": ""})) == ["a-b"]
    expected = ("longer than 500 bytes", "no NUL in names", "no halves of characters", "no NUL in names")
    assert [part in each for part, each in zip(expected, said, strict=True)] == [True] * 4


async def test_what_embeds_is_a_call_of_a_model(platform_dsn: str) -> None:
    """It is in the ledger with about its tokens, and stopped by the budget."""

    async def write(state: Noting, runtime: Runtime) -> dict[str, Any]:
        assert runtime.store is not None
        for number in range(int(state["note"])):
            await runtime.store.aput(("facts",), str(number), {"text": f"The sea, {number} times."})
        await runtime.store.asearch(("facts",), query="sea")
        return {}

    graph = StateGraph(Noting).add_node("write", write).add_edge(START, "write")
    index = StoreIndex("./words.py:embed_words", ensure_embeddings(embed_words), len(WORDS), ("text",))
    embedding = replace(loaded("embedding", graph), store_index=index)
    async with hosted_replica(platform_dsn, embedding) as replica:
        run = await replica.run("embedding", {"note": "2"})
        assert (run.state, run.spend["model_calls"]) == (RunState.SUCCEEDED, 3), run.error
        assert 15 < run.spend["input_tokens"] < 60
        run = await replica.run("embedding", {"note": "9"}, budget={"model_calls": 4})
        assert (run.state, run.stop_reason, run.spend["model_calls"]) == (RunState.NEEDS_REVIEW, "budget_exhausted", 4)


async def test_threads_of_an_attempt_that_failed_write_nothing(platform_dsn: str) -> None:
    again, done = threading.Event(), threading.Event()
    refused: list[str] = []

    def late(store: BaseStore) -> None:
        again.wait(20)
        try:
            store.put(("notes",), "late", {})
        except StoreRefused as error:
            refused.append(str(error))
        done.set()

    def note(state: Noting, runtime: Runtime) -> dict[str, Any]:
        del state
        assert runtime.store is not None
        if not attempts:
            attempts.append(1)
            context = contextvars.copy_context()
            threading.Thread(target=context.run, args=(late, runtime.store)).start()
            raise ConnectionError("as asked")
        again.set()
        assert done.wait(20)
        runtime.store.put(("notes",), "again", {})
        return {"found": [item.key for item in runtime.store.search(("notes",))]}

    attempts: list[int] = []
    graph = StateGraph(Noting)
    graph.add_node("note", note, retry_policy=RetryPolicy(max_attempts=2, initial_interval=0.01))
    async with hosted_replica(platform_dsn, loaded("late", graph.add_edge(START, "note"))) as replica:
        run = await replica.run("late", {"note": ""})
        assert (run.state, found_by(run)) == (RunState.SUCCEEDED, ["again"]), run.error
    assert ["while they run" in each for each in refused] == [True]


async def test_a_store_holds_so_many_vectors(platform_dsn: str) -> None:
    async def write(state: Seeking, runtime: Runtime) -> dict[str, Any]:
        assert runtime.store is not None
        for key, tags in state["told"]:
            await runtime.store.abatch([PutOp(("facts",), key, None if tags is None else {"tags": tags})])
        return {}

    graph = StateGraph(Seeking).add_node("write", write).add_edge(START, "write")
    index = StoreIndex("./words.py:embed_words", ensure_embeddings(embed_words), len(WORDS), ("tags[*]",))
    tagging, stores = replace(loaded("tagging", graph), store_index=index), {"tagging": StorePolicy(most_vectors=3)}
    async with hosted_replica(platform_dsn, tagging, stores=stores) as replica:
        for puts, fits in (
            ([["a", ["sea", "ship"]], ["b", ["tax"]]], True),
            ([["c", ["tea"]]], False),
            # Items that are written anew, those of the same step among them, count as what they come to.
            ([["a", ["sea"]], ["c", ["tea"]]], True),
            ([["b", None], ["c", ["tea", "form"]], ["d", []]], True),
            ([["a", ["ship"]], ["e", ["sea"]]], False),
        ):
            run = await replica.run("tagging", {"told": puts})
            said = "" if fits else "holds at most 3 vectors"
            assert (run.state is RunState.SUCCEEDED, said in run.error) == (fits, True), run.error


async def noted(replica: HostedReplica, note: str, then: str = "", *, thread: str = "t", **changes: Any) -> RunRecord:
    return await replica.run("noting", {"note": note, "then": then}, thread_id=thread, **changes)


def found_by(run: RunRecord) -> list[str]:
    """What the last node has found."""
    found: list[str] = output_of(run)["found"]
    return sorted(found)


SCRIPTS: list[list[Any]] = [
    [
        ["put", [PEOPLE, "food", {"likes": "pasta", "stars": 5, "deep": {"a": [1, 2]}}], {}],
        ["put", [PEOPLE, "town", {"likes": "Bonn", "stars": 3}], {}],
        ["get", [PEOPLE, "food"], {}],
        ["search", [["people"]], {}],
    ],
    [
        ["get", [PEOPLE, "town"], {}],
        ["search", [PEOPLE], {"filter": {"stars": {"$gte": 4}}}],
        ["put", [PEOPLE, "town", {"likes": "Rome", "stars": 4}], {}],
        ["search", [["people"]], {"filter": {"deep": {"a": [1, 2]}}}],
        ["search", [["peop"]], {}],
    ],
    [
        ["search", [[]], {"filter": {"likes": {"$ne": "pasta"}}}],
        ["put", [["people", "bob"], "food", {"likes": "rice"}], {}],
        ["delete", [PEOPLE, "food"], {}],
        ["get", [PEOPLE, "food"], {}],
        ["list_namespaces", [], {}],
    ],
    [
        ["list_namespaces", [], {"prefix": ["people"], "max_depth": 1}],
        ["list_namespaces", [], {"suffix": ["bob"]}],
        ["search", [["people"]], {"limit": 1, "offset": 5}],
        ["search", [["people"]], {"query": "what is liked?"}],
    ],
]


async def test_it_does_what_langgraphs_own_does(replica: HostedReplica) -> None:
    run = await replica.run("notes", {"script": SCRIPTS, "messages": []})
    assert run.state is RunState.SUCCEEDED, run.error
    alone = graph_alone("threads", "notes").compile(store=InMemoryStore())
    expected = await alone.ainvoke({"script": SCRIPTS, "messages": []})
    assert output_of(run)["told"] == expected["told"]
    # And again from what another run has left: nothing of it rested on the run.
    assert (
        output_of(await replica.run("notes", {"script": SCRIPTS, "messages": []}))["told"]
        == (await alone.ainvoke({"script": SCRIPTS, "messages": []}))["told"]
    )


async def test_a_store_is_its_callers(replica: HostedReplica) -> None:
    script = [[["put", [["mine"], "a", {"b": 1}], {}]], [], [], [["search", [[]], {}]]]
    seen = []
    for caller in (CALLER, OTHER, CALLER):
        run = await replica.run("notes", {"script": script, "messages": []}, caller=caller)
        seen.append("mine" in output_of(run)["told"][-1])
        script[0] = []
    assert seen == [True, False, True]


async def test_a_store_of_a_thread_and_one_of_an_agent(replica: HostedReplica) -> None:
    await noted(replica, "one")
    assert found_by(await noted(replica, "two")) == ["one 0"]
    assert found_by(await noted(replica, "three", thread="u")) == []
    assert found_by(await noted(replica, "four", caller=OTHER)) == []
    kept = [output_of(await replica.run("tally", {"until": 2}, caller=caller))["kept"] for caller in (CALLER, OTHER)]
    assert [each["left"] for each in kept] == [1, 2]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ([["put", [["a"], "k", {"text": "x" * 200}], {}]], "bytes of JSON; 100 is the most"),
        ([["put", [["a"], str(n), {}], {}] for n in range(5)], "holds at most 4 items"),
        ([["put", [["a"], "k", {}], {}]] * 6, "writes more than 5 times"),
        ([["search", [["a"]], {"limit": 5000}]], "finds at most 1000 items"),
        ([["put", [["a"], "k" * 600, {}], {}]], "longer than 500 bytes"),
    ],
)
async def test_what_it_does_not_hold_is_said(replica: HostedReplica, script: list[Any], said: str) -> None:
    run = await replica.run("notes", {"script": [script, [], [], []], "messages": []})
    assert (run.state, run.stop_reason) == (RunState.FAILED, "node_failed")
    assert said in run.error


async def test_a_search_that_the_database_gives_up_ends_the_run(
    replica: HostedReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    too_long = "SELECT pg_cancel_backend(pg_backend_pid()), pg_sleep(60)"
    monkeypatch.setattr("services.runtime.hosted.store.query", lambda _: too_long)
    async with asyncio.timeout(20):
        run = await noted(replica, "one")
    assert (run.state, run.epoch) == (RunState.FAILED, 1)
    assert "the search took longer than the database allows" in run.error


async def test_what_a_node_writes_and_does_not_come_to_an_end_with_is_not_there(replica: HostedReplica) -> None:
    assert (await noted(replica, "failed", "fail")).state is RunState.FAILED
    assert found_by(await noted(replica, "again", "fail once")) == []
    asked = await noted(replica, "asked", "ask")
    assert asked.state is RunState.AWAITING_INPUT
    assert found_by(await replica.answer(asked, "yes")) == ["again 0"]
    assert found_by(await noted(replica, "last")) == ["again 0", "asked 1"]


async def test_a_replica_that_has_lost_the_run_writes_nothing(replica: HostedReplica) -> None:
    STOPPED["at"], STOPPED["on"] = asyncio.Event(), asyncio.Event()
    run = await replica.create("noting", {"note": "lost", "then": "wait"}, thread_id="f")
    await STOPPED["at"].wait()
    async with replica.pools.calls.connection() as connection:
        await connection.execute(
            "UPDATE platform.runs SET owner = 'gone', claim_id = gen_random_uuid(), epoch = epoch + 1 "
            "WHERE run_id = %s",
            [run.run_id],
        )
    STOPPED["on"].set()
    # Whose claim it seems to be is gone, so that it is claimed once more; what was written in vain is not found.
    ended = await replica.left_off(run)
    assert (ended.state, ended.epoch > 2, found_by(ended)) == (RunState.SUCCEEDED, True, [])
    assert found_by(await noted(replica, "after", thread="f")) == ["lost 0"]


async def test_items_last_as_long_as_they_are_to(replica: HostedReplica) -> None:
    short, tool = 0.02 / 60, [["search", [["t"]], {}]]
    script = [[["put", [["t"], "soon", {}], {"ttl": short}], ["put", [["t"], "late", {}], {"ttl": 60}]], [], [], tool]
    run = await replica.run("notes", {"script": script, "messages": []})
    while "soon" in output_of(run)["told"][-1]:
        run = await replica.run("notes", {"script": [[], [], [], tool], "messages": []})
    assert "late" in output_of(run)["told"][-1]
    async with replica.pools.calls.connection() as connection:
        cursor = await connection.execute(
            "SELECT expires_at > updated_at + interval '1 hour' FROM platform.store WHERE key = 'late'"
        )
        # The search has begun its time anew.
        assert await cursor.fetchone() == (True,)
    pruner = pruner_of(replica)
    due = [removal for removal in await pruner.due() if removal.kind is RetainedData.STORE]
    batch = await pruner.prune(wait=True)
    assert batch is not None
    assert [(each.kind, each.row_count) for each in batch.removals] == [(RetainedData.STORE, 1)]
    assert [removal.row_count for removal in due] == [1]


def pruner_of(replica: HostedReplica, policy: RetentionPolicy | None = None) -> Pruner:
    policies = {"default": policy} if policy else {}
    return Pruner(replica.pools.calls, CheckpointHistory(replica.pools.steps, make_serde()), policies)


async def test_items_that_are_read_are_no_writes_and_late_writes_are_refused(platform_dsn: str) -> None:
    late: list[asyncio.Task[None]] = []

    async def note(state: Noting, runtime: Runtime) -> dict[str, Any]:
        store = runtime.store
        assert store is not None

        async def write_late() -> None:
            await asyncio.sleep(0.05)
            await store.aput(("late",), "note", {})

        if state["note"] == "put":
            for key in ("a", "b"):
                await store.aput(("kept",), key, {}, ttl=60)
        else:
            for _ in range(3):
                await store.asearch(("kept",))
            await store.aput(("kept",), "c", {})
        late.append(asyncio.create_task(write_late()))
        return {}

    async def rest(state: Noting) -> dict[str, Any]:
        del state
        await asyncio.wait(late)
        return {}

    graph = StateGraph(Noting).add_node("note", note).add_node("rest", rest)
    graph.add_edge(START, "note").add_edge("note", "rest")
    stores = {"reader": StorePolicy(most_writes=2)}
    async with hosted_replica(platform_dsn, loaded("reader", graph), stores=stores) as replica:
        for said in ("put", "read"):
            run = await replica.run("reader", {"note": said})
            assert run.state is RunState.SUCCEEDED, run.error
        assert [type(each.exception()) for each in late] == [StoreRefused, StoreRefused]


async def test_what_is_a_threads_goes_with_it_and_what_is_a_callers_when_it_is_erased(replica: HostedReplica) -> None:
    await noted(replica, "one")
    await noted(replica, "one", thread="u")
    threads = ThreadStore(replica.pools.calls, make_serde(), replica.store, replica.agents)
    await threads.delete(CALLER, "t")
    assert found_by(await noted(replica, "two")) == []
    every = RetentionPolicy(1e-9, 1e-9, 1e-9, 1e-9, 1e-9)
    await pruner_of(replica, every).prune(wait=True)
    assert found_by(await noted(replica, "three")) == []
    await noted(replica, "four")
    await replica.run("tally", {"until": 2}, caller=OTHER)
    await replica.run("notes", {"script": [[["put", [["a"], "k", {}], {}]], [], [], []], "messages": []})
    erase = pruner_of(replica).erase_store
    # Two of threads and one of the caller's; of the agent's, those that the other caller has written.
    assert [await erase(subject) for subject in ("27", "28", "27")] == [3, 4, 0]
