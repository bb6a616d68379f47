"""Folders with a `langgraph.json` and entry points: what is honoured of them, and what is refused in words."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, nullcontext
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from langgraph.store.base import PutOp
from signalbox.v1 import hosted_pb2, runs_pb2

from services.kit.identity.caller import Caller
from services.runtime.agents.assignment import Assignment
from services.runtime.errors import ConfigTooLate, StoreRefused
from services.runtime.hosted.definition import BUDGET, HostedDefinition, PinnedHosted
from services.runtime.hosted.executor_catalogs import ExecutorCatalogs
from services.runtime.hosted.langgraph_json import InvalidAgentsError, read_langgraph_file
from services.runtime.hosted.loading import load_graphs
from services.runtime.hosted.source import CodeSource
from services.runtime.hosted.types import allowed_types
from services.runtime.routing.state import NOTHING_SPENT

GRAPH = """
from typing import TypedDict
from langgraph.graph import START, StateGraph

class State(TypedDict):
    text: str

builder = StateGraph(State).add_node("only", lambda state: {"text": "x"}).add_edge(START, "only")
compiled = builder.compile()
number = 3

def fail():
    raise ValueError("no model")
"""
FACTORIES = (
    GRAPH
    + """
from langchain_core.runnables import RunnableConfig
from langgraph.func import entrypoint
from langgraph_sdk.runtime import ServerRuntime

def by_key(config: RunnableConfig):
    return builder if config["configurable"].get("model", "small") else None

def by_all(config):
    return builder if dict(**config["configurable"]) == {} else None

def by_server(config: RunnableConfig, runtime: ServerRuntime):
    return builder

@entrypoint()
def functional(text: str) -> str:
    return text
"""
)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with a module of graphs, which is forgotten afterwards, as all that it imports."""
    (tmp_path / "brought_graphs.py").write_text(GRAPH)
    before, loaded = list(sys.path), set(sys.modules)
    yield tmp_path
    for name in [name for name in sys.modules.keys() - loaded if name.startswith(("brought_", "own_", "installed_"))]:
        del sys.modules[name]
    sys.path[:] = before


def write(folder: Path, **document: Any) -> Path:
    given = {"dependencies": ["."], "graphs": {"only": "./brought_graphs.py:compiled"}, **document}
    (folder / "langgraph.json").write_text(json.dumps(given))
    return folder


async def refused(folder: Path) -> str:
    async with AsyncExitStack() as stack:
        with pytest.raises(InvalidAgentsError) as error:
            await load_graphs([folder], stack, packages=False)
    return str(error.value)


@pytest.mark.parametrize("key", ["auth", "encryption", "http", "ui", "node_version", "dockerfile_lines"])
async def test_what_can_not_be_honoured_is_refused_in_a_sentence(folder: Path, key: str) -> None:
    said = await refused(write(folder, **{key: {"path": "x"}}))
    assert f"`{key}` can't be honoured" in said


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"graphs": {}}, "`graphs` names none"),
        ({"graphs": {"9": "./brought_graphs.py:compiled"}}, "a letter first"),
        ({"graphs": {"only": "./absent.py:graph"}}, "there is no Python file ./absent.py"),
        ({"graphs": {"only": "../brought_graphs.py:graph"}}, "there is no Python file"),
        ({"graphs": {"only": "./brought_graphs.py:absent"}}, "AttributeError"),
        ({"graphs": {"only": "./brought_graphs.py:number"}}, "is int; it has to be a StateGraph"),
        ({"graphs": {"only": "./brought_graphs.py:fail"}}, "ValueError at brought_graphs.py:13: no model"),
        ({"graphs": {"only": "absent.graph:graph"}}, "there is no Python file absent.graph"),
        ({"dependencies": ["no-such-distribution>=2"]}, "is not installed beside the runtime"),
        ({"env": {"SIGNALBOX_DATABASE_DSN": "x"}}, "is a setting of the platform's"),
    ],
)
async def test_what_is_wrong_is_said(folder: Path, given: dict[str, Any], said: str) -> None:
    assert said in await refused(write(folder, **given))


async def test_a_file_that_can_not_be_imported_is_told_once_with_the_place(folder: Path) -> None:
    (folder / "brought_graphs.py").write_text("import json\njson.loads('{')\n")
    said = await refused(write(folder, graphs={"a": "./brought_graphs.py:one", "b": "./brought_graphs.py:two"}))
    assert "brought_graphs.py can't be imported: JSONDecodeError at" in said
    assert said.endswith("graphs: a, b")
    (folder / "brought_graphs.py").write_text("raise SystemExit('no key')\n")
    assert "SystemExit at brought_graphs.py:1: no key" in await refused(write(folder))


async def test_what_a_run_gives_too_late_is_refused(folder: Path) -> None:
    (folder / "brought_graphs.py").write_text(FACTORIES)
    graphs = {"key": "./brought_graphs.py:by_key", "all": "./brought_graphs.py:by_all"}
    async with AsyncExitStack() as stack:
        by_key, by_all = await load_graphs([write(folder, graphs=graphs)], stack, packages=False)
    for loaded, refused in ((by_key, {"model": "large"}), (by_all, {"other": 1})):
        asked = hosted_pb2.GraphInput(agent=loaded.name)
        definition = HostedDefinition(loaded)
        definition.check_input(runs_pb2.RunInput(graph=asked))
        asked.configurable.update(refused)
        with pytest.raises(ConfigTooLate, match=f"its function asked for {', '.join(refused)}"):
            definition.check_input(runs_pb2.RunInput(graph=asked))
        # Another release, or another pool, may have taken it.
        begun = PinnedHosted(definition, definition.policy())
        given = Assignment("run", "correlation", Caller("ana"), runs_pb2.RunInput(graph=asked).SerializeToString(), [])
        with pytest.raises(ConfigTooLate):
            begun.first_state(given, started_at=datetime.now(UTC), budget=BUDGET, spend=NOTHING_SPENT)
    asked = hosted_pb2.GraphInput(agent="key")
    asked.configurable.update({"other": 1})
    HostedDefinition(by_key).check_input(runs_pb2.RunInput(graph=asked))


@pytest.mark.parametrize(
    ("name", "said"), [("by_server", "wants a ServerRuntime"), ("functional", "is of LangGraph's functional API")]
)
async def test_graphs_that_are_made_otherwise_are_refused_in_a_sentence(folder: Path, name: str, said: str) -> None:
    (folder / "brought_graphs.py").write_text(FACTORIES)
    assert said in await refused(write(folder, graphs={"only": f"./brought_graphs.py:{name}"}))


async def test_a_module_that_another_folder_has_too_is_told_where_it_would_be_imported_in_its_place(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (folder / "brought_graphs.py").write_text(f"import own_helper, own_other\n{GRAPH}")
    other = tmp_path_factory.mktemp("other")
    for place in (folder, other):
        (place / "own_helper.py").write_text(f"PLACE = {str(place)!r}\n")
        (place / "own_other.py").write_text("")
    (other / "brought_others.py").write_text(f"from own_helper import PLACE\n{GRAPH}")
    write(other, graphs={"other": "./brought_others.py:compiled"})
    async with AsyncExitStack() as stack:
        with pytest.raises(InvalidAgentsError) as error:
            await load_graphs([write(folder), other], stack, packages=False)
    [said] = error.value.problems
    assert f"'own_helper' is imported from {folder / 'own_helper.py'}, and not from the folder's own files" in said


async def test_a_package_of_the_runtimes_own_name_is_told(folder: Path) -> None:
    (folder / "services").mkdir()
    (folder / "services" / "llm.py").write_text("")
    (folder / "brought_graphs.py").write_text(f"import services.llm\n{GRAPH}")
    assert "'services' is imported from" in await refused(write(folder))


async def test_a_graph_is_named_by_its_file_or_its_module(folder: Path) -> None:
    (folder / "brought_package").mkdir()
    (folder / "brought_package" / "graphs.py").write_text(GRAPH)
    file = read_langgraph_file(write(folder, graphs={"only": "brought_package.graphs:compiled"}))
    assert [each.file for each in file.graphs] == [folder / "brought_package" / "graphs.py"]


async def test_folders_beside_it_are_code_of_its_own(folder: Path) -> None:
    team, library = folder / "team", folder / "library"
    for each in (team, library):
        each.mkdir()
    (library / "own_orders.py").write_text("import dataclasses\n@dataclasses.dataclass\nclass Order:\n    id: int\n")
    (library / "brought_library.py").write_text(f"import own_orders\n{GRAPH}")
    graphs = {"only": "../library/brought_library.py:compiled"}
    async with AsyncExitStack() as stack:
        [loaded] = await load_graphs([write(team, dependencies=["../library"], graphs=graphs)], stack, packages=False)
    assert ("own_orders", "Order") in allowed_types(loaded)
    (library / "own_orders.py").write_text("")
    assert CodeSource.of_folder(team, (library,)).version != loaded.source.version
    write(team, dependencies=["../library"], graphs={"only": "../brought_graphs.py:compiled"})
    assert "outside of the folder and of its dependencies" in await refused(team)


async def test_each_dependency_may_have_a_module_of_the_same_name(folder: Path) -> None:
    for name in ("brought_first", "brought_second"):
        (folder / name).mkdir()
        (folder / name / "brought_graphs.py").write_text(f"{GRAPH}\nclass Own(State): place: str\n")
    graphs = {
        "first": "./brought_first/brought_graphs.py:compiled",
        "second": "./brought_second/brought_graphs.py:compiled",
    }
    given = write(folder, dependencies=["./brought_first", "./brought_second"], graphs=graphs)
    for _ in range(2):
        async with AsyncExitStack() as stack:
            loaded = await load_graphs([given], stack, packages=False)
        assert [each.graph.builder.state_schema.__module__ for each in loaded] == [
            "brought_graphs",
            "brought_second.brought_graphs",
        ]


def test_what_has_no_effect_is_noted_key_by_key(folder: Path) -> None:
    given = {"base_image": "x", "pip_config_file": "pip.conf", "webhooks": {}, "$schema": "y"}
    notes = read_langgraph_file(write(folder, **given)).notes
    assert [note.split("`")[1] for note in notes] == ["base_image", "pip_config_file", "webhooks"]


def test_what_can_not_be_told_beforehand_is_noted(folder: Path) -> None:
    address = "git+https://example.org/a.git"
    file = read_langgraph_file(write(folder, python_version="3.99", dependencies=[".", address]))
    python, dependency = file.notes
    assert python.startswith("`python_version` is 3.99")
    assert address in dependency


async def test_all_that_is_wrong_is_said_at_once(folder: Path) -> None:
    said = await refused(write(folder, auth={"path": "x"}, graphs={"only": "./absent.py:graph"}))
    assert len(said.splitlines()) == 2


async def test_a_graph_is_the_same_whether_compiled_or_not(folder: Path) -> None:
    graphs = {"compiled": "./brought_graphs.py:compiled", "builder": "./brought_graphs.py:builder"}
    async with AsyncExitStack() as stack:
        loaded = await load_graphs([write(folder, graphs=graphs)], stack, packages=False)
    assert [(each.name, sorted(each.graph.builder.nodes)) for each in loaded] == [
        ("compiled", ["only"]),
        ("builder", ["only"]),
    ]


async def test_a_package_that_imports_its_graph_itself(folder: Path) -> None:
    package = folder / "src" / "brought_package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from brought_package.graph import graph\n__all__ = ['graph']\n")
    (package / "state.py").write_text("from typing import TypedDict\nclass State(TypedDict):\n    text: str\n")
    (package / "graph.py").write_text(
        "from langgraph.graph import START, StateGraph\nfrom brought_package.state import State\n"
        "graph = StateGraph(State).add_node('only', lambda state: state).add_edge(START, 'only').compile()\n"
    )
    async with AsyncExitStack() as stack:
        graphs = {"packaged": "./src/brought_package/graph.py:graph"}
        [loaded] = await load_graphs([write(folder, graphs=graphs)], stack, packages=False)
    assert loaded.graph.builder.state_schema.__module__ == "brought_package.state"
    assert loaded.graph is sys.modules["brought_package"].graph


async def test_what_is_installed_in_its_folder_is_none_of_its_types(folder: Path) -> None:
    installed = folder / ".venv" / "lib" / "site-packages" / "installed_module.py"
    installed.parent.mkdir(parents=True)
    for file, name in ((installed, "Theirs"), (folder / "own_module.py", "Own")):
        file.write_text(f"from enum import Enum\nclass {name}(Enum):\n    A = 1\n")
    (folder / "brought_graphs.py").write_text(f"import installed_module, own_module\n{GRAPH}")
    sys.path.append(str(installed.parent))
    async with AsyncExitStack() as stack:
        [loaded] = await load_graphs([write(folder)], stack, packages=False)
    allowed = allowed_types(loaded)
    assert ("own_module", "Own") in allowed
    assert ("installed_module", "Theirs") not in allowed


def test_a_file_of_variables_may_be_missing(folder: Path) -> None:
    assert read_langgraph_file(write(folder, env=".env")).notes == ("`env`: there is no file .env",)
    (folder / ".env").write_text("MODEL='x'\n")
    assert read_langgraph_file(write(folder, env=".env")).environment == {"MODEL": "x"}


def test_of_a_store_the_time_that_items_last_is_honoured(folder: Path) -> None:
    file = read_langgraph_file(write(folder, store={"ttl": {"default_ttl": 60, "sweep_interval_minutes": 5}}))
    assert file.store_ttl == {"default_ttl": 60, "refresh_on_read": True}
    assert file.notes == ("`store.ttl.sweep_interval_minutes` has no effect here",)
    assert read_langgraph_file(write(folder, store={})).store_ttl is None


@pytest.mark.parametrize(
    ("store", "said"),
    [
        ({"path": "./store.py:store"}, "the store is the platform's"),
        ({"ttl": {"default_ttl": 0}}, "no number of minutes above 0"),
        ({"ttl": 60}, "no object such as"),
        ("ours", "no object such as"),
        ({"index": "openai:text-embedding-3-small"}, "no object such as"),
        ({"index": {"dims": 3}}, 'neither "provider:model"'),
        ({"index": {"embed": "openai:text-embedding-3-small", "dims": True}}, "no number from 1 to"),
        ({"index": {"embed": "openai:text-embedding-3-small", "dims": 3, "fields": []}}, "no list of paths"),
        ({"index": {"embed": "./none.py:embed", "dims": 3}}, "there is no Python file ./none.py"),
        ({"index": {"embed": "../other.py:embed", "dims": 3}}, "in the folder"),
    ],
)
def test_a_store_of_its_own_is_refused(folder: Path, store: Any, said: str) -> None:
    with pytest.raises(InvalidAgentsError, match=said):
        read_langgraph_file(write(folder, store=store))


async def test_what_embeds_items_is_of_the_folder_or_a_model(folder: Path) -> None:
    (folder / "words.py").write_text(
        "async def embed(texts):\n    return [[float(len(each)), 1.0] for each in texts]\nbroken = 3\n"
    )

    def store(embed: str) -> dict[str, Any]:
        return {"index": {"embed": embed, "dims": 2, "fields": ["text"], "distance_type": "l2"}}

    file = read_langgraph_file(write(folder, store=store("./words.py:embed")))
    assert file.notes == ("`store.index.distance_type` has no effect here",)
    async with AsyncExitStack() as stack:
        [loaded] = await load_graphs([folder], stack, packages=False, catalogs=ExecutorCatalogs.of_names())
        assert loaded.store_index is not None
        op = PutOp(("a",), "b", {"text": "four"})
        texts = list(loaded.store_index.texts_of(op).values())
        vectors = await loaded.store_index.aembedded(texts, [], lambda *_: nullcontext())
        assert vectors.texts == {"four": [4.0, 1.0]}
        with pytest.raises(StoreRefused, match="101 texts"):
            loaded.store_index.texts_of(PutOp(("a",), "b", {"tags": ["x"] * 101}, index=["tags[*]"]))
        # Who only looks at graphs embeds nothing.
        assert [each.store_index for each in await load_graphs([folder], stack, packages=False)] == [None]
        for embed in ("./words.py:none", "nobody:nothing"):
            with pytest.raises(InvalidAgentsError, match=rf"`store.index.embed`: {embed} can't be loaded"):
                await load_graphs(
                    [write(folder, store=store(embed))], stack, packages=False, catalogs=ExecutorCatalogs.of_names()
                )


def test_other_code_is_another_version(folder: Path) -> None:
    before = CodeSource.of_folder(write(folder)).version
    (folder / "notes.txt").write_text("no code")
    assert CodeSource.of_folder(folder).version == before
    (folder / "brought_graphs.py").write_text(GRAPH + "\n")
    assert CodeSource.of_folder(folder).version != before


async def test_an_installed_package_offers_graphs_by_its_entry_points(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(folder))
    point = metadata.EntryPoint("support", "brought_graphs:builder", "signalbox.agents")
    vars(point)["dist"] = SimpleNamespace(name="support-graphs", version="2.1")
    monkeypatch.setattr(metadata, "entry_points", lambda group: [point] if group == "signalbox.agents" else [])
    async with AsyncExitStack() as stack:
        [loaded] = await load_graphs([], stack)
    assert (loaded.name, loaded.source.version) == ("support", "support-graphs@2.1")
