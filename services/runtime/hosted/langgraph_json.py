"""`langgraph.json`, as LangGraph's own command reads it: what of it is honoured here, and what is refused.

{"dependencies": ["."], "graphs": {"support": "./support.py:graph"}, "env": ".env"}
"""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import orjson
from dotenv import dotenv_values
from langgraph.store.base import TTLConfig

from services.runtime.hosted.store_index import MOST_DIMS

FILE_NAME = "langgraph.json"
# Names of agents: keys of `graphs`, and names of entry points.
AGENT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
OWN_SETTINGS = "SIGNALBOX_"
_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_URL = re.compile(r"[a-z+]+://", re.IGNORECASE)
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_REFUSED: Mapping[str, str] = {
    "auth": "`auth` can't be honoured: the gateway says who a caller is; remove it",
    "encryption": "`encryption` can't be honoured: state is kept as the platform's database keeps it; remove it",
    "http": "`http` can't be honoured: the platform speaks gRPC, and serves no routes of yours; remove it",
    "ui": "`ui` can't be honoured: the console shows runs, and no components of yours; remove it",
    "node_version": "`node_version` can't be honoured: graphs are Python here; remove it",
    "dockerfile_lines": "`dockerfile_lines` can't be honoured: make an image `FROM` the runtime's; remove it",
}
# What says how an image is made, which is a team's own here.
_OF_IMAGES = frozenset(("base_image", "image_distro", "pip_config_file", "pip_installer", "keep_pkg_tools"))
# Of expired items none is ever read, and retention removes them.
_HONOURED_OF_TTL = frozenset(("default_ttl", "refresh_on_read"))
_HONOURED_OF_INDEX = frozenset(("embed", "dims", "fields"))
_HONOURED = frozenset(("$schema", "graphs", "dependencies", "env", "store", "python_version"))


class InvalidAgentsError(ValueError):
    """Agents that can't be hosted as they are; `problems` has a sentence for each thing that is wrong."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True)
class GraphReference:
    """Where a graph is: a file and a name in it."""

    agent: str
    file: Path
    attribute: str
    description: str = ""


@dataclass(frozen=True)
class IndexReference:
    """What embeds items of the store, `provider:model` or `./file.py:name`, and which fields of them."""

    embed: str
    dims: int
    fields: tuple[str, ...]
    # Where it is of the folder's own.
    file: Path | None = None


@dataclass(frozen=True)
class LanggraphFile:
    """A folder's `langgraph.json`, checked; `notes` say what of it has no effect yet."""

    folder: Path
    graphs: tuple[GraphReference, ...]
    import_paths: tuple[Path, ...]
    environment: Mapping[str, str]
    notes: tuple[str, ...] = ()
    store_ttl: TTLConfig | None = None
    store_index: IndexReference | None = None

    @property
    def dependencies_outside(self) -> tuple[Path, ...]:
        """The folders that its code is imported from, too, but for those in it."""
        return tuple(path for path in self.import_paths if not path.is_relative_to(self.folder))


def read_langgraph_file(folder: Path) -> LanggraphFile:
    """Returns what a folder's `langgraph.json` says. Raises InvalidAgentsError."""
    folder = folder.resolve()
    path = folder / FILE_NAME
    try:
        document = orjson.loads(path.read_bytes())
    except OSError as error:
        raise InvalidAgentsError([f"{path} can't be read: {error.strerror}"]) from error
    except orjson.JSONDecodeError as error:
        raise InvalidAgentsError([f"{path} is not JSON: {error}"]) from error
    if not isinstance(document, dict):
        raise InvalidAgentsError([f"{path} is not a JSON object"])
    problems = [sentence for key, sentence in _REFUSED.items() if document.get(key)]
    notes = [
        f"`{key}` has no effect here" + (": graphs run in the runtime's image" if key in _OF_IMAGES else "")
        for key in sorted(document.keys() - _REFUSED.keys() - _HONOURED)
    ]
    store_ttl = _store_ttl(document.get("store"), problems, notes)
    store_index = _store_index(folder, document.get("store"), problems, notes)
    notes += _python(document.get("python_version"))
    import_paths = _import_paths(folder, document.get("dependencies", []), problems, notes)
    graphs = _graphs(folder, document.get("graphs"), import_paths, problems)
    environment = _environment(folder, document.get("env"), problems, notes)
    if problems:
        raise InvalidAgentsError([f"{path}: {problem}" for problem in problems])
    return LanggraphFile(folder, tuple(graphs), tuple(import_paths), environment, tuple(notes), store_ttl, store_index)


def _python(wanted: Any) -> list[str]:
    """Returns that another Python runs here than the one that the folder's code is for."""
    here = ".".join(platform.python_version_tuple()[:2])
    return [f"`python_version` is {wanted}, and the runtime is Python {here}"] if wanted and wanted != here else []


def _graphs(folder: Path, given: Any, import_paths: Sequence[Path], problems: list[str]) -> list[GraphReference]:
    if not isinstance(given, dict) or not given:
        problems.append('`graphs` names none; write {"graphs": {"support": "./support.py:graph"}}')
        return []
    found = []
    for name, value in given.items():
        spec = value.get("path") if isinstance(value, dict) else value
        description = str(value.get("description") or "") if isinstance(value, dict) else ""
        if not AGENT_NAME.fullmatch(name):
            problems.append(f"graph {name!r}: a name is 1 to 64 letters, digits and `-_`, a letter first")
        elif not isinstance(spec, str) or ":" not in spec:
            problems.append(f"graph {name!r}: {spec!r} is no `./file.py:name`")
        else:
            file, _, attribute = spec.rpartition(":")
            path = _file_of(folder, file, import_paths)
            if path.suffix != ".py" or not path.is_file():
                problems.append(f"graph {name!r}: there is no Python file {file}")
            elif not any(map(path.is_relative_to, (folder, *import_paths))):
                problems.append(f"graph {name!r}: {file} is outside of the folder and of its dependencies")
            else:
                found.append(GraphReference(name, path, attribute, description))
    return found


def _file_of(folder: Path, named: str, import_paths: Sequence[Path]) -> Path:
    """Returns the file that is named by its path, or as a module that is imported from one of the folders."""
    if not named.endswith(".py") and _MODULE.fullmatch(named):
        below = Path(*named.split("."))
        for root in import_paths:
            for path in (root / below.with_suffix(".py"), root / below / "__init__.py"):
                if path.is_file():
                    return path.resolve()
    return (folder / named).resolve()


def _import_paths(folder: Path, given: Any, problems: list[str], notes: list[str]) -> list[Path]:
    """Returns the folders that modules are imported from; packages must be installed already."""
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        problems.append("`dependencies` is no list of texts")
        return []
    paths = []
    for each in given:
        if each.startswith("."):
            path = (folder / each).resolve()
            if not path.is_dir():
                problems.append(f"dependency {each!r}: there is no such folder")
            else:
                # A project with a `src` folder is imported from there once it is installed.
                paths += [path, *([path / "src"] if (path / "src").is_dir() else [])]
            continue
        if _URL.match(each):
            notes.append(
                f"dependency {each!r}: whether it is installed beside the runtime can't be told by its address"
            )
            continue
        name = _REQUIREMENT.match(each)
        try:
            metadata.distribution(name[0] if name else each)
        except (metadata.PackageNotFoundError, ValueError):
            problems.append(f"dependency {each!r} is not installed beside the runtime; install it there")
    return paths


def _store_ttl(given: Any, problems: list[str], notes: list[str]) -> TTLConfig | None:
    """Returns how long items of the store last; the store itself is the platform's."""
    if not given:
        return None
    ttl = given.get("ttl") if isinstance(given, dict) else None
    if not isinstance(given, dict) or not isinstance(ttl or {}, dict):
        problems.append('`store` is no object such as {"ttl": {"default_ttl": 60}}')
        return None
    if given.get("path"):
        problems.append("`store.path` can't be honoured: the store is the platform's; remove it")
    if ttl is None:
        return None
    notes += [f"`store.ttl.{key}` has no effect here" for key in sorted(ttl.keys() - _HONOURED_OF_TTL)]
    minutes = ttl.get("default_ttl")
    if minutes is not None and (isinstance(minutes, bool) or not isinstance(minutes, int | float) or minutes <= 0):
        problems.append("`store.ttl.default_ttl` is no number of minutes above 0")
        return None
    return TTLConfig(default_ttl=minutes, refresh_on_read=bool(ttl.get("refresh_on_read", True)))


def _store_index(folder: Path, given: Any, problems: list[str], notes: list[str]) -> IndexReference | None:
    """Returns by what items of the store are found by meaning."""
    index = given.get("index") if isinstance(given, dict) else None
    if not index:
        return None
    if not isinstance(index, dict):
        problems.append('`store.index` is no object such as {"embed": "openai:text-embedding-3-small", "dims": 1536}')
        return None
    embed, dims, fields = index.get("embed"), index.get("dims"), index.get("fields", ["$"])
    if not isinstance(embed, str) or not 1 <= len(embed) <= 200:
        problems.append('`store.index.embed` is neither "provider:model" nor "./file.py:name"')
    elif isinstance(dims, bool) or not isinstance(dims, int) or not 1 <= dims <= MOST_DIMS:
        problems.append(f"`store.index.dims` is no number from 1 to {MOST_DIMS}")
    elif not isinstance(fields, list) or not fields or not all(isinstance(each, str) and each for each in fields):
        problems.append('`store.index.fields` is no list of paths such as ["$"] or ["text", "tags[*]"]')
    else:
        notes += [f"`store.index.{key}` has no effect here" for key in sorted(index.keys() - _HONOURED_OF_INDEX)]
        name, _, attribute = embed.rpartition(":")
        file = (folder / name).resolve() if name.endswith(".py") and attribute else None
        if file is None or (file.is_file() and file.is_relative_to(folder)):
            return IndexReference(embed, dims, tuple(fields), file)
        problems.append(f"`store.index.embed`: there is no Python file {name} in the folder")
    return None


def _environment(folder: Path, given: Any, problems: list[str], notes: list[str]) -> Mapping[str, str]:
    if given is None:
        return {}
    if isinstance(given, str):
        path = folder / given
        if not path.is_file():
            # Templates name one that each who takes them makes; without, variables come from elsewhere.
            notes.append(f"`env`: there is no file {given}")
            return {}
        found = {name: value or "" for name, value in dotenv_values(path).items()}
    elif isinstance(given, dict):
        found = {str(name): str(value) for name, value in given.items()}
    else:
        problems.append("`env` is neither the name of a file nor an object")
        return {}
    problems += [
        f"`env`: {name} is a setting of the platform's; a graph can't set it"
        for name in found
        if name.startswith(OWN_SETTINGS)
    ]
    return found
