"""The tables of values in the chart's README, made from values.yaml and its schema.

`python -m charts.values_page` writes them, `--check` fails when those that are there are others.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parent / "signalbox"
README = CHART / "README.md"
PARAGRAPH = "\n\n"
_HEAD = "| value | default | meaning |\n|---|---|---|\n"
# They keep their capitals.
_NAMES = ("Grafana", "Kubernetes", "Prometheus", "Secret ", "Gateways", "Helm")


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yields every scalar, list and empty mapping with its path."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, (*path, str(key)))
    else:
        yield path, value


def description(schema: dict[str, Any], path: tuple[str, ...]) -> str:
    """Returns what the schema says of a value: of the nearest part of its path that it describes."""
    here, told = schema, ""
    for part in path:
        patterns = [inner for pattern, inner in here.get("patternProperties", {}).items() if re.search(pattern, part)]
        found = here.get("properties", {}).get(part) or (patterns[0] if patterns else None)
        if found is None:
            raise LookupError(f"values.schema.json does not know {'.'.join(path)}")
        target = schema["definitions"][found["$ref"].rsplit("/", 1)[1]] if "$ref" in found else found
        told = found.get("description") or target.get("description") or told
        here = target
    return told


def rows(schema: dict[str, Any], values: dict[str, Any]) -> Iterator[str]:
    """Yields a row for each value."""
    for path, default in leaves(values):
        text = description(schema, path).rstrip(".").replace("|", "\\|")
        begin = text[:1].lower() if text[1:2].islower() and not text.startswith(_NAMES) else text[:1]
        shown = (
            json.dumps(default) if default in ("", True, False) or isinstance(default, dict | list) else str(default)
        )
        yield f"| `{'.'.join(path)}` | `{shown}` | {begin}{text[1:]} |\n"


def rendered() -> str:
    """Returns the README with its tables made anew."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    parts = {
        "### Of the installation": {key: value for key, value in values.items() if not key.startswith("service")},
        "### Of a service": {"serviceDefaults": values["serviceDefaults"]},
    }
    text = README.read_text()
    for heading, part in parts.items():
        table = _HEAD + "".join(rows(schema, part))
        before, found, rest = text.partition(f"{heading}\n")
        above, there, below = rest.partition("| value |")
        if not found or not there:
            raise LookupError(f"{README.name} has no table below {heading!r}")
        text = f"{before}{found}{above}{table}\n{below.partition(PARAGRAPH)[2]}"
    return text


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say whether they are stale")
    wanted = rendered()
    if parser.parse_args().check and wanted != README.read_text():
        print("charts/signalbox/README.md is stale; run `make docs`", file=sys.stderr)
        return 1
    README.write_text(wanted)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
