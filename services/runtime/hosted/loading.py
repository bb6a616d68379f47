"""Hosted graphs from where teams keep them: folders with a `langgraph.json`, and entry points of installed packages.

What a name stands for may be a `StateGraph`, a compiled graph, or a function of a config, or of nothing, that gives
one: as it is, as a coroutine, or as a context manager of either kind, which is open as long as the runtime is.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import itertools
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from textwrap import shorten
from types import ModuleType
from typing import Any

from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel
from langgraph.store.base import TTLConfig, ensure_embeddings

from services.kit.telemetry.logs import get_logger
from services.runtime.hosted.executor_catalogs import ExecutorCatalogs
from services.runtime.hosted.executor_tools import Catalog
from services.runtime.hosted.imports import imports_of_others
from services.runtime.hosted.langgraph_json import (
    AGENT_NAME,
    GraphReference,
    InvalidAgentsError,
    LanggraphFile,
    read_langgraph_file,
)
from services.runtime.hosted.source import CodeSource
from services.runtime.hosted.store_index import StoreIndex

log = get_logger()
ENTRY_POINTS = "signalbox.agents"
ANYTHING = "*"
LONGEST_ERROR = 500
# Where code is that is none of a team's: Python's own, and the runtime's.
_NOT_A_TEAMS = (sysconfig.get_path("stdlib"), f"{Path(__file__).parents[2]}{os.sep}")
# What code that is imported may raise, in place of what it was to do.
_RAISED = (Exception, SystemExit, KeyboardInterrupt)
Graph = CompiledStateGraph[Any, Any, Any, Any]


@dataclass(frozen=True)
class LoadedGraph:
    """A graph by the name that its agent has, and where it is from."""

    name: str
    description: str
    graph: Graph
    source: CodeSource
    store_ttl: TTLConfig | None = None
    catalogs: Mapping[str, Catalog] = field(default_factory=dict)
    store_index: StoreIndex | None = None
    # What of a run's config the function that made it has asked for; ANYTHING for all that is given.
    made_by: frozenset[str] = frozenset()


async def load_graphs(
    folders: Iterable[Path],
    stack: AsyncExitStack,
    *,
    packages: bool = True,
    catalogs: ExecutorCatalogs | None = None,
) -> list[LoadedGraph]:
    """Returns the graphs of folders and of installed packages. Raises InvalidAgentsError with all that is wrong.

    Without `catalogs` they can be looked at: the tools of executors that they want are no more than names, and nothing
    embeds items of their store.
    """
    runs = catalogs is not None
    catalogs = catalogs or ExecutorCatalogs.of_names()
    found: list[LoadedGraph] = []
    problems: list[str] = []
    for folder in folders:
        try:
            file = read_langgraph_file(folder)
            found += await _load_folder(file if runs else replace(file, store_index=None), stack, catalogs)
        except InvalidAgentsError as error:
            problems += error.problems
    try:
        found += await _load_entry_points(stack, catalogs) if packages else []
    except InvalidAgentsError as error:
        problems += error.problems
    names = [each.name for each in found]
    problems += [f"there are several graphs {name!r}" for name in sorted({n for n in names if names.count(n) > 1})]
    if problems:
        raise InvalidAgentsError(problems)
    return found


async def _load_folder(file: LanggraphFile, stack: AsyncExitStack, catalogs: ExecutorCatalogs) -> list[LoadedGraph]:
    for note in file.notes:
        log.warning("langgraph.json", folder=str(file.folder), note=note)
    for path in file.import_paths:
        _import_from(path)
    for name, value in file.environment.items():
        os.environ.setdefault(name, value)
    source = CodeSource.of_folder(file.folder, file.dependencies_outside)
    modules, problems = await _modules(file, catalogs)
    problems += imports_of_others(file)
    index = _index(file, problems)
    found = []
    for reference in file.graphs:
        if reference.file not in modules:
            continue
        try:
            given = getattr(modules[reference.file], reference.attribute)
            made, asked = await catalogs.loading(_made, given, reference.agent, stack)
        except InvalidAgentsError as error:
            problems += error.problems
        except _RAISED as error:
            log.exception("a graph can't be loaded", agent=reference.agent)
            problems.append(f"graph {reference.agent!r} can't be loaded: {_said(error)}")
        else:
            described = reference.description or _doc(made)
            found.append(
                LoadedGraph(reference.agent, described, made, source, file.store_ttl, catalogs.known, index, asked)
            )
    if problems:
        raise InvalidAgentsError([f"{file.folder}: {problem}" for problem in problems])
    return found


def _index(file: LanggraphFile, problems: list[str]) -> StoreIndex | None:
    """Returns by what items of the store are found by meaning; notes what is wrong with it."""
    given = file.store_index
    if given is None:
        return None
    try:
        embed: Any = given.embed
        if given.file is not None:
            attribute = given.embed.rpartition(":")[2]
            embed = getattr(_module(GraphReference("store.index", given.file, attribute), file), attribute)
        return StoreIndex(given.embed, ensure_embeddings(embed), given.dims, given.fields)
    except InvalidAgentsError as error:
        problems += error.problems
    except _RAISED as error:
        log.exception("what embeds items of the store can't be loaded", embed=given.embed)
        problems.append(f"`store.index.embed`: {given.embed} can't be loaded: {_said(error)}")
    return None


async def _modules(file: LanggraphFile, catalogs: ExecutorCatalogs) -> tuple[dict[Path, ModuleType], list[str]]:
    """Imports the files of a folder's graphs; what is wrong with one is told once, whatever graphs it has."""
    modules, problems = {}, []
    for path, references in itertools.groupby(sorted(file.graphs, key=lambda each: each.file), lambda each: each.file):
        first, *others = references
        try:
            modules[path] = await catalogs.loading(_imported, first, file)
        except InvalidAgentsError as error:
            problems += error.problems
        except _RAISED as error:
            log.exception("a file can't be imported", file=str(path))
            names = ", ".join(each.agent for each in (first, *others))
            problems.append(f"{path.name} can't be imported: {_said(error)}; graphs: {names}")
    return modules, problems


async def _imported(reference: GraphReference, file: LanggraphFile) -> ModuleType:
    return _module(reference, file)


async def _load_entry_points(stack: AsyncExitStack, catalogs: ExecutorCatalogs) -> list[LoadedGraph]:
    found, problems = [], []
    for point in metadata.entry_points(group=ENTRY_POINTS):
        distribution = point.dist
        named = f"{distribution.name}@{distribution.version}" if distribution else ""
        if not AGENT_NAME.fullmatch(point.name):
            problems.append(f"{named}: {point.name!r}: a name is 1 to 64 letters, digits and `-_`, a letter first")
            continue
        try:
            made, asked = await catalogs.loading(_of_entry_point, point, stack)
        except InvalidAgentsError as error:
            problems += [f"{named}: {problem}" for problem in error.problems]
        except _RAISED as error:
            log.exception("a graph can't be loaded", agent=point.name)
            problems.append(f"{named}: graph {point.name!r} can't be loaded: {_said(error)}")
        else:
            source = CodeSource(None, named, named)
            found.append(LoadedGraph(point.name, _doc(made), made, source, catalogs=catalogs.known, made_by=asked))
    if problems:
        raise InvalidAgentsError(problems)
    return found


def _module(reference: GraphReference, file: LanggraphFile) -> ModuleType:
    """Imports a file by the name that the rest of its folder imports it by, so that it is one module and not two.

    Checkpoints name the types of values by their module: it is the same on every replica.
    """
    root, name = name_of_module(reference.file, file)
    known = sys.modules.get(name)
    if known is not None and not _is_of(known, reference.file) and not _is_in_package(reference.file, root):
        # Several folders may have an `agent.py`.
        name = f"{root.name}.{name}"
        known = sys.modules.get(name)
    elif known is None and "." in name:
        # Its package first, which often imports it: as Python does.
        _import_from(root)
        with contextlib.chdir(file.folder):
            known = importlib.import_module(name)
    if known is not None:
        if _is_of(known, reference.file):
            return known
        said = f"there is another module {name!r}; rename {reference.file.name}"
        raise InvalidAgentsError([f"graph {reference.agent!r}: {said}"])
    spec = importlib.util.spec_from_file_location(name, reference.file)
    if spec is None or spec.loader is None:
        raise InvalidAgentsError([f"graph {reference.agent!r}: {reference.file} can't be imported"])
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        # What it reads by relative paths is its folder's, as with LangGraph's own server.
        with contextlib.chdir(file.folder):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _is_of(module: ModuleType, file: Path) -> bool:
    return Path(getattr(module, "__file__", None) or "").resolve() == file


def _is_in_package(file: Path, root: Path) -> bool:
    """Whether other modules of a package may import a file by its name."""
    return file.parent != root


def name_of_module(path: Path, file: LanggraphFile) -> tuple[Path, str]:
    """Returns from where a file of a folder is imported, and by which name."""
    roots = [root for root in file.import_paths if path.is_relative_to(root)]
    root = max(roots, key=lambda each: len(each.parts), default=file.folder)
    return root, ".".join(path.relative_to(root).with_suffix("").parts)


def _import_from(path: Path) -> None:
    if str(path) not in sys.path:
        # Behind all else: a folder of a team's never takes the place of what is installed.
        sys.path.append(str(path))


async def _of_entry_point(point: metadata.EntryPoint, stack: AsyncExitStack) -> tuple[Graph, frozenset[str]]:
    return await _made(point.load(), point.name, stack)


class _Asked(dict[str, Any]):
    """The `configurable` that a graph is made with: it has nothing, and notes what it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.names = set[str]()

    def __missing__(self, key: str) -> Any:
        self.names.add(key)
        raise KeyError(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.names.add(key)
        return default

    def __contains__(self, key: object) -> bool:
        self.names.add(str(key))
        return False

    def __iter__(self) -> Iterator[str]:
        self.names.add(ANYTHING)
        return super().__iter__()

    def keys(self) -> Any:
        self.names.add(ANYTHING)
        return super().keys()

    def items(self) -> Any:
        self.names.add(ANYTHING)
        return super().items()


async def _made(given: Any, name: str, stack: AsyncExitStack) -> tuple[Graph, frozenset[str]]:
    """Returns the graph that a name stands for, and what its function asked a run's config for when it made it."""
    made, asked = given, _Asked()
    if callable(made) and not isinstance(made, StateGraph | Pregel):
        made = made({"configurable": asked}) if _takes_config(made, name) else made()
    if inspect.isawaitable(made):
        made = await made
    if isinstance(made, AbstractAsyncContextManager):
        made = await stack.enter_async_context(made)
    elif isinstance(made, AbstractContextManager) and not isinstance(made, CompiledStateGraph):
        made = stack.enter_context(made)
    if isinstance(made, StateGraph):
        made = made.compile(name=name)
    if isinstance(made, CompiledStateGraph):
        return made, frozenset(asked.names)
    if isinstance(made, Pregel):
        said = "is of LangGraph's functional API, which has no nodes and edges to explain; make it a StateGraph"
    else:
        said = f"is {type(made).__name__}; it has to be a StateGraph or what that compiles to"
    raise InvalidAgentsError([f"graph {name!r} {said}"])


def _takes_config(function: Any, name: str) -> bool:
    """Whether a function that makes a graph wants a config: it has a parameter for it. Raises InvalidAgentsError."""
    parameters = inspect.signature(function).parameters.values()
    named = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    wanted = [each for each in parameters if each.kind in named]
    if any("ServerRuntime" in str(each.annotation) for each in parameters):
        said = "wants a ServerRuntime, by which LangGraph's server has a graph made for each run; here it is made once"
        raise InvalidAgentsError([f"graph {name!r} {said}: let its function take a config, or nothing"])
    return bool(wanted)


def _doc(graph: Graph) -> str:
    """Returns the first line of what a graph's state says of itself; a sentence where it says nothing."""
    text = (graph.builder.state_schema.__dict__.get("__doc__") or "").strip().partition("\n")[0]
    return text if text and not text.startswith("dict(") else "A hosted graph."


def _said(error: BaseException) -> str:
    """Returns what raised, in one line, and where in code of the team's own."""
    if isinstance(error, SyntaxError):
        place, said = (error.filename, error.lineno), error.msg
    else:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_a_teams(frame.filename)]
        place, said = (frames[-1].filename, frames[-1].lineno) if frames else (None, None), str(error)
    at = f" at {Path(place[0]).name}:{place[1]}" if place[0] else ""
    return f"{type(error).__name__}{at}: {shorten(said, LONGEST_ERROR, placeholder=' …')}"


def _is_a_teams(file: str) -> bool:
    return not file.startswith(("<", *_NOT_A_TEAMS)) and "site-packages" not in file
