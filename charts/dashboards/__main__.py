"""Writes the dashboards' JSON into the chart, or with `--check` fails when what is there is not that."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from charts.dashboards import durability, executors, on_call, overview, routing
from charts.dashboards.panels import build

BOARDS = (on_call.BOARD, overview.BOARD, routing.BOARD, executors.BOARD, durability.BOARD)
FOLDER = Path(__file__).parents[1] / "signalbox" / "dashboards"


def rendered() -> dict[Path, str]:
    """Returns the text of each file."""
    encoder = JSONEncoder(sort_keys=True, indent=2)
    return {
        FOLDER / f"{board.uid.removeprefix('signalbox-')}.json": encoder.encode(build(board)) + "\n" for board in BOARDS
    }


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say which files are stale")
    arguments = parser.parse_args()
    files = rendered()
    there = {path: path.read_text() for path in FOLDER.glob("*.json")}
    stale = sorted(path.name for path in {*files, *there} if files.get(path) != there.get(path))
    if arguments.check:
        for name in stale:
            print(f"charts/signalbox/dashboards/{name} is stale; run `make docs`", file=sys.stderr)
        return 1 if stale else 0
    FOLDER.mkdir(exist_ok=True)
    for path in there.keys() - files.keys():
        path.unlink()
    for path, text in files.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
