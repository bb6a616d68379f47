"""The types of its own that a graph may keep in its state: those of its schemas, and those that its folders define."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from langgraph._internal._serde import build_serde_allowlist
from langgraph.graph.state import CompiledStateGraph
from pydantic import BaseModel

from services.runtime.hosted.loading import LoadedGraph

# A folder's virtual environment may stand in it: what is installed there is not the folder's own.
_INSTALLED = f"site-packages{os.sep}"


def allowed_types(loaded: LoadedGraph) -> set[tuple[str, str]]:
    """Returns the types that checkpoints of a graph may hold, by module and name."""
    found: set[tuple[str, ...]] = set()
    for graph in _graphs(loaded.graph):
        builder = graph.builder
        schemas = [*builder.schemas, *(spec.input_schema for spec in builder.nodes.values())]
        found |= build_serde_allowlist(schemas=schemas, channels=dict(graph.channels))
    for folder in (loaded.source.folder, *loaded.source.outside):
        if folder is not None:
            found |= _types_of_folder(folder)
    return {(parts[0], parts[1]) for parts in found if len(parts) == 2}


def _graphs(graph: CompiledStateGraph[Any, Any, Any, Any]) -> Iterator[CompiledStateGraph[Any, Any, Any, Any]]:
    yield graph
    for spec in graph.builder.nodes.values():
        if isinstance(spec.runnable, CompiledStateGraph):
            yield from _graphs(spec.runnable)


def _types_of_folder(folder: Path) -> set[tuple[str, ...]]:
    found: set[tuple[str, ...]] = set()
    # Text, as thousands of modules are looked through for each graph, of which a folder has dozens.
    inside = f"{folder}{os.sep}"
    for name, module in list(sys.modules.items()):
        file = str(getattr(module, "__file__", None))
        if not file.startswith(inside) or _INSTALLED in file.removeprefix(inside):
            continue
        for value in list(vars(module).values()):
            if isinstance(value, type) and value.__module__ == name and _is_value_type(value):
                found.add((name, value.__name__))
    return found


def _is_value_type(kind: type) -> bool:
    return issubclass(kind, BaseModel | Enum) or dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")
