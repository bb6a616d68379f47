"""What an image carries, and what its code imports: both worked out without building it."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from tests.contract.deploy.helm import ROOT

PROJECT = "signalbox"
SOURCE_ROOTS = {
    "services": ROOT,
    "signalbox": ROOT / "protos/python",
    "buf": ROOT / "protos/python",
    "signalbox_routing": ROOT / "services/routing",
}
MODULE_FILE = re.compile(r"(\.(cpython|abi3)[^/]*)?\.(py|so|pyd)$")

# What it imports comes with an extra of a provider, which it asks for by name.
FOR_EXTRAS = "services.kit.models.provider_model"


def normalised(name: str) -> str:
    """Returns a distribution's name as the lock file spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def pyproject() -> dict[str, Any]:
    """Returns pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@cache
def _locked() -> dict[str, dict[str, Any]]:
    return {package["name"]: package for package in tomllib.loads((ROOT / "uv.lock").read_text())["package"]}


def locked_versions() -> dict[str, str]:
    """Returns the version of every distribution of the lock file that has one."""
    return {name: package["version"] for name, package in _locked().items() if "version" in package}


def declared(extra: str | None) -> set[str]:
    """Returns the distributions that pyproject.toml names for every service, or for an extra."""
    project = pyproject()["project"]
    requirements = project["optional-dependencies"][extra] if extra else project["dependencies"]
    return {normalised(re.split(r"[\s\[<>=!~;]", requirement, maxsplit=1)[0]) for requirement in requirements}


def carried(extra: str) -> set[str]:
    """Returns every distribution that the lock file installs for the project with one extra."""
    project = _locked()[PROJECT]
    found: set[str] = set()
    waiting = [*project["dependencies"], *project["optional-dependencies"].get(normalised(extra), [])]
    seen: set[str] = set()
    while waiting:
        dependency = waiting.pop()
        if str(dependency) in seen:
            continue
        seen.add(str(dependency))
        package = _locked()[dependency["name"]]
        found.add(package["name"])
        waiting += package.get("dependencies", [])
        for wanted in dependency.get("extra", []):
            waiting += package.get("optional-dependencies", {}).get(wanted, [])
    return found


@cache
def _owners() -> dict[str, str]:
    """Returns the distribution of every installed module."""
    owners: dict[str, str] = {}
    for distribution in metadata.distributions():
        name = normalised(distribution.metadata["Name"])
        for file in distribution.files or []:
            if MODULE_FILE.search(str(file)) and ".." not in file.parts:
                module = MODULE_FILE.sub("", str(file)).replace("/", ".").removesuffix(".__init__")
                owners[module] = name
    return owners


def owner(module: str) -> str | None:
    """Returns the distribution of an imported name, or None for what no distribution installs."""
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        found = _owners().get(".".join(parts[:length]))
        if found:
            return found
    return None


def source_of(module: str) -> Path | None:
    """Returns the source file of one of the project's own modules, or None."""
    root = SOURCE_ROOTS.get(module.split(".")[0])
    if root is None:
        return None
    path = root / module.replace(".", "/")
    candidates = [path.with_suffix(".py"), path / "__init__.py"]
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def _executed(tree: ast.AST) -> Iterator[ast.AST]:
    """Yields every node that runs: all but what only a type checker reads."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            for alternative in node.orelse:
                yield alternative
                yield from _executed(alternative)
            continue
        yield node
        yield from _executed(node)


@cache
def imports(path: Path, module: str) -> frozenset[str]:
    """Returns every name that a module imports, as far as it is known: `a.b.c` for `from a.b import c`."""
    found = set[str]()
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in _executed(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            start = ".".join([*above, *([node.module] if node.module else [])])
            found |= {f"{start}.{alias.name}" for alias in node.names}
    return frozenset(found)


def modules_of(service: str) -> set[str]:
    """Returns the modules of a service's package."""
    folder = ROOT / "services" / service
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in folder.rglob("*.py")
        if "__pycache__" not in path.parts
    }


@cache
def reached(service: str) -> tuple[set[str], set[str]]:
    """Follows a service's imports; returns the project's modules and the other names that it reaches."""
    own: set[str] = set()
    foreign: set[str] = set()
    waiting = modules_of(service)
    while waiting:
        name = waiting.pop()
        # In `from a.b import c`, c may be a module, or a name in the module a.b.
        module = next((candidate for candidate in (name, name.rpartition(".")[0]) if source_of(candidate)), None)
        path = source_of(module) if module else None
        if module is None or path is None:
            foreign.add(name)
        elif module not in own:
            own.add(module)
            waiting |= imports(path, module) if module != FOR_EXTRAS else set()
    return own, foreign
