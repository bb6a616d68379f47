"""What queries of the graph found, as rows: a wording of it has to keep to them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from services.kit.statements.tables import Table

# As `query_graph` tells of a node; what `cypher_query` found is an object a line.
_NODE: Final = re.compile(r"\(\w+ (?:'(?P<key>[^'\n]*)'|\"(?P<quoted>[^\"\n]*)\") (?=\{)")
_DECODER: Final = json.JSONDecoder()


def table_of(texts: Iterable[str]) -> Table:
    """Returns a row for each line that tells of a path or a record."""
    records = [record for text in texts for line in text.splitlines() if (record := _record(line))]
    columns = list(dict.fromkeys(name for record in records for name in record))
    return Table([[record.get(name) for name in columns] for record in records], columns)


def _record(line: str) -> dict[str, Any]:
    try:
        if line.startswith("{"):
            return _flat(json.loads(line))
        record: dict[str, Any] = {}
        for at, match in enumerate(_NODE.finditer(line)):
            properties, _ = _DECODER.raw_decode(line, match.end())
            key = match["key"] if match["key"] is not None else match["quoted"]
            record |= {f"{name}{' ' * at}": value for name, value in _flat({"key": key, **properties}).items()}
    except ValueError:
        return {}
    return record


def _flat(given: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in given.items():
        if isinstance(value, Mapping):
            flat |= {inner if inner not in flat else f"{name}.{inner}": each for inner, each in _flat(value).items()}
        elif not isinstance(value, Sequence) or isinstance(value, str):
            flat[name] = value
    return flat
