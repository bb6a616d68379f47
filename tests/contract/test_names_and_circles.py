"""Within one service a class has a name of its own, and no module imports one that imports it, for types neither."""

from __future__ import annotations

import ast
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2] / "services"
SERVICES = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))


def public_classes(service: str) -> dict[str, list[str]]:
    """The modules of a service that define a class, by the class's name."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / service).rglob("*.py")):
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(statement, ast.ClassDef) and not statement.name.startswith("_"):
                found[statement.name].append(str(path.relative_to(ROOT)))
    return found


@pytest.mark.parametrize("service", SERVICES)
def test_no_two_public_classes_of_a_service_have_one_name(service: str) -> None:
    assert {name: places for name, places in public_classes(service).items() if len(places) > 1} == {}


def test_no_modules_import_one_another() -> None:
    graph = grimp.build_graph("services", exclude_type_checking_imports=False)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))
