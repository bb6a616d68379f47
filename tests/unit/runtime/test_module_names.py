"""What names of a module stand for: literals say it, and what is computed may be another value elsewhere."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from services.runtime.hosted.adoption.module_names import computed
from tests.lifting.agreement import lift

ROUTE = """
def route(state):
    return "a" if state["n"] < MOST else "b"
"""
Import = Callable[[str, str], ModuleType]


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Import]:
    """Imports a module of a source, by its name."""
    monkeypatch.syspath_prepend(tmp_path)
    made: list[str] = []

    def import_(source: str, name: str = "named_here") -> ModuleType:
        (tmp_path / f"{name}.py").write_text(source)
        made.append(name)
        return importlib.import_module(name)

    yield import_
    for name in made:
        del sys.modules[name]


def computed_in(module: ModuleType) -> list[str]:
    """Returns the names that the module's route asks and that are no literals."""
    return [each.name for each in computed(lift(module.route, nodes=["a", "b"]).table.named)]


@pytest.mark.parametrize(
    "source",
    [
        f"MOST = 3\n{ROUTE}",
        f"from typing import Final\nMOST: Final = 60 * -2\n{ROUTE}",
        f"ONE = 3\nMOST = ONE + 1\n{ROUTE}",
        f"from named_there import LIMIT as MOST\n{ROUTE}",
        "import named_there\ndef route(state): return 'a' if state['n'] < named_there.LIMIT else 'b'",
        "class Limits:\n    most = 3\ndef route(state): return 'a' if state['n'] < Limits.most else 'b'",
        "def route(state, most=3): return 'a' if state['n'] < most else 'b'",
        "KINDS = frozenset(['x', 'y'])\ndef route(state): return 'a' if state['n'] in KINDS else 'b'",
        "WAYS = {'x': 'a', 'y': 'b'}\ndef route(state): return WAYS.get(state['n'], 'a')",
        "from langgraph.graph import END\ndef route(state): return 'a' if state['n'] < 3 else END",
        f"MOST = 3\ndef other():\n    MOST = int('4')\n{ROUTE}",
    ],
)
def test_what_a_literal_says_is_the_same_everywhere(imported: Import, source: str) -> None:
    imported("LIMIT = 3\n", "named_there")
    assert computed_in(imported(source, "named_here")) == []


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (f'import os\nMOST = int(os.environ.get("NO_SUCH_LIMIT", "3"))\n{ROUTE}', "MOST"),
        (f"MOST = 3\nif __file__:\n    MOST = 4\n{ROUTE}", "MOST"),
        (f"MOST = 3\ndef set():\n    global MOST\n    MOST = 4\nset()\n{ROUTE}", "MOST"),
        (f"MOST = 3\nglobals()['MOST'] = 4\n{ROUTE}", "MOST"),
        (f"from named_there import COMPUTED as MOST\n{ROUTE}", "MOST"),
        (f"ONE = int('3')\nMOST = ONE + 1\n{ROUTE}", "MOST"),
        ("def made(most):\n    def route(state): return 'a' if state['n'] < most else 'b'\n    return route\n"
         "route = made(3)", "most"),
        ("def route(state, most=int('3')): return 'a' if state['n'] < most else 'b'", "most"),
        ("class Limits:\n    most = int('3')\ndef route(state): return 'a' if state['n'] < Limits.most else 'b'",
         "Limits.most"),
        ("KINDS = {'x'}\nKINDS.add(str('y'))\ndef route(state): return 'a' if state['n'] in KINDS else 'b'", "KINDS"),
    ],
)  # fmt: skip
def test_what_is_computed_may_be_another_elsewhere(imported: Import, source: str, name: str) -> None:
    imported("COMPUTED = int('3')\n", "named_there")
    assert computed_in(imported(source, "named_here")) == [name]
