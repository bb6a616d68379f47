"""`adopt`: tables of a graph's path functions in its own code, which run without the platform."""

from __future__ import annotations

import importlib
import json
import linecache
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.runtime.commands import adopt as command

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples" / "graphs"
STATES = "300"
# A graph of each kind of edge; what is in it is asked for by name below.
ODD = """
from enum import Enum
from typing import TypedDict

from langchain_core.messages import AIMessage
from langgraph.graph import END, START, StateGraph

KINDS = {"draft", "letter"}
NEXT = {"a": "write", "b": "check"}


class Stage(Enum):
    FIRST = 1


class State(TypedDict):
    kind: str
    messages: list
    stage: Stage
    next: str


def by_last(state):
    if any(isinstance(each, AIMessage) and each.content == "stop" for each in state["messages"]):
        return "stop"
    if state["kind"] not in KINDS:
        raise ValueError("of no kind")
    if state.get("next"):
        return NEXT.get(state["next"], "write")


def by_stage(state):
    return "write" if state["stage"] == Stage.FIRST else "check"


builder = StateGraph(State)
for name in ("begin", "write", "check"):
    builder.add_node(name, lambda state: {})
builder.add_edge(START, "begin")
builder.add_conditional_edges("begin", by_last, {"stop": END, "write": "write", "check": "check"})
builder.add_conditional_edges("write", by_stage)
builder.add_conditional_edges("check", lambda state: state["kind"], {"draft": "write", "letter": END})
graph = builder.compile()
"""
# Two graphs of one function, one that asks what is computed, and another in a file that has the name of tests.
SHARED = """
from langgraph.graph import END, START, StateGraph


def build():
    made = StateGraph(dict)
    made.add_node("agent", lambda state: state)
    made.add_edge(START, "agent")
    made.add_conditional_edges("agent", lambda state: "agent" if state["n"] < 3 else END)
    return made.compile()


short, long = build(), build()
MOST = int("3")
asked = StateGraph(dict)
asked.add_node("asker", lambda state: state)
asked.add_edge(START, "asker")
asked.add_conditional_edges("asker", lambda state: "asker" if state["n"] < MOST else END)
"""


def adopt_here(folder: Path, agent: str, *options: str) -> int:
    """Runs the command in this process."""
    return command.main([agent, "--agents", str(folder), "--states", "50", *options])


def forget() -> None:
    """Has modules of such a folder read anew."""
    for name in ("adopted_graphs", "test_another", "asked_routing"):
        sys.modules.pop(name, None)
    importlib.invalidate_caches()
    linecache.checkcache()


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of graphs, whose modules this process forgets again."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "adopted_graphs.py").write_text(SHARED)
    (tmp_path / "test_another.py").write_text("from adopted_graphs import short as graph\n")
    graphs = {name: f"./adopted_graphs.py:{name}" for name in ("short", "long", "asked")} | {
        "fourth": "./test_another.py:graph"
    }
    (tmp_path / "langgraph.json").write_text(json.dumps({"graphs": graphs, "dependencies": ["."]}))
    yield tmp_path
    forget()


def adopt(folder: Path, agent: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs the command as somebody would."""
    given = (agent, "--agents", str(folder), "--states", STATES, *options)
    return subprocess.run(
        [sys.executable, "-m", command.MODULE, *given], cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the examples, and the odd graph beside them."""
    made = tmp_path / "graphs"
    shutil.copytree(EXAMPLES, made, ignore=shutil.ignore_patterns("__pycache__"))
    (made / "odd").mkdir()
    (made / "odd" / "odd.py").write_text(ODD)
    (made / "odd" / "langgraph.json").write_text('{"graphs": {"odd": "./odd.py:graph"}, "dependencies": ["."]}')
    return made


def passed(folder: Path, module: str) -> str:
    """Runs a graph's tests without the platform: with the library and LangGraph, in the graph's own folder."""
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", folder, f"test_{module}.py"],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT / "services" / "routing")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout
    return run.stdout


def test_tables_are_the_edges_of_a_graph(folder: Path) -> None:
    written = adopt(folder, "calculator", "--write")
    assert written.returncode == 0, written.stderr
    assert '+builder.add_conditional_edges("model", route_after_model)' in written.stdout
    assert "1 tables agree with their functions on 300 states" in written.stdout
    assert "wrote calculator.py" in written.stdout
    assert "max_rounds: int = 4" in (folder / "calculator_routing.py").read_text()
    assert "3 passed" in passed(folder, "calculator_routing")
    # LangGraph knows where it leads.
    ends = "import calculator; print(calculator.builder.branches['model']['route_after_model'].ends)"
    run = subprocess.run([sys.executable, "-c", ends], cwd=folder, capture_output=True, text=True, check=False)
    assert run.stdout == "{'__end__': '__end__', 'give_up': 'give_up', 'tools': 'tools'}\n", run.stderr


def test_tables_are_written_once(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = own / "adopted_graphs.py"
    graph.write_text(text := SHARED.replace('int("3")', "3"))
    assert adopt_here(own, "asked") == 0
    assert '+asked.add_conditional_edges("asker", route_after_asker)' in capsys.readouterr().out
    assert graph.read_text() == text
    assert adopt_here(own, "asked", "--write") == 0
    told = capsys.readouterr().out
    assert "asked_routing.py is as it was" in told
    assert "wrote adopted_graphs.py" in told
    forget()
    assert adopt_here(own, "asked", "--write") == 0
    assert capsys.readouterr().out == "asked.route_after_asker is a table already\nthere is nothing to write\n"


def test_what_somebody_wrote_is_not_written_over(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    theirs = own / "short_routing.py"
    theirs.write_text("# ours\n")
    assert adopt_here(own, "short", "--write") == 1
    assert "short_routing.py: there already, and not the same; --force writes over it" in capsys.readouterr().err
    assert theirs.read_text() == "# ours\n"
    assert not (own / "test_short_routing.py").exists()
    assert adopt_here(own, "short", "--force") == 0
    assert "class ShortLimits" in theirs.read_text()


@pytest.mark.parametrize("module", ["adopted_graphs", "another"])
def test_no_graphs_file_is_written_over(own: Path, capsys: pytest.CaptureFixture[str], module: str) -> None:
    before = {path: path.read_text() for path in own.glob("*.py")}
    assert adopt_here(own, "short", "--module", module, "--force", "--write") == 1
    assert "give --module another" in capsys.readouterr().err
    assert {path: path.read_text() for path in own.glob("*.py")} == before


def test_a_limit_that_is_computed_is_not_written_down(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert adopt_here(own, "asked") == 1
    told = "asked.route_after_asker stays as it is: it asks `MOST`, which is no literal of its module, and may differ"
    assert told in capsys.readouterr().out
    assert not (own / "asked_routing.py").exists()


def test_an_edge_that_another_graph_has_too_is_as_it_was(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = own / "adopted_graphs.py"
    assert adopt_here(own, "short", "--write") == 1
    told = capsys.readouterr().err
    assert "adopted_graphs.py is as it was: with its edges written so, " in told
    assert "; long.route_after_agent would be decided by the table short.route_after_agent of short_routing" in told
    assert graph.read_text() == SHARED


def test_an_edge_that_is_not_found_for_certain_is_shown(folder: Path) -> None:
    graph = folder / "release.py"
    graph.write_text(graph.read_text() + '\nother = StateGraph(Release).add_node("lint", lambda _: {})\n'
                     'other.add_conditional_edges("lint", lambda state: END)\n')  # fmt: skip
    shown = adopt(folder, "release", "--write")
    assert 'to be written by hand in release.py: add_conditional_edges("lint", route_after_checks_lint)' in shown.stdout
    assert "builder.add_conditional_edges(START, route_after_start)" in graph.read_text()


def test_edges_of_many_kinds_come_to_the_same_or_stay(folder: Path) -> None:
    shown = adopt(folder / "odd", "odd", "--write")
    assert shown.returncode == 0, shown.stderr
    told = "odd.route_after_write stays as it is: it compares with Stage::FIRST, a member of an enumeration"
    assert told in shown.stdout
    assert "2 tables agree" in shown.stdout
    text = (folder / "odd" / "odd_routing.py").read_text()
    assert "from langchain_core.messages import AIMessage" in text
    assert '~after_begin.kind.is_in(("draft", "letter"))' in text
    assert 'raises="no way leads on from here"' in text
    assert "passed" in passed(folder / "odd", "odd_routing")
