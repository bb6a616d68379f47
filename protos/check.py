"""Checks the protos: lint, no change that breaks the released contract, and stubs that are up to date.

The released contract is `released.binpb`, which `python protos/check.py --release` writes anew.
"""

from __future__ import annotations

import filecmp
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from generate import IMAGE, ROOT, generate

RELEASED = ROOT / "released.binpb"
STUBS = ROOT / "python"


def drifted(made: Path) -> list[str]:
    """Returns the generated files that differ from the ones checked in."""
    names = {str(p.relative_to(made)) for p in made.rglob("*_pb2*") if p.is_file()}
    kept = {str(p.relative_to(STUBS)) for p in STUBS.rglob("*_pb2*") if p.is_file() and p.suffix != ".pyc"}
    return sorted(
        n for n in names | kept
        if n not in names or n not in kept or not filecmp.cmp(made / n, STUBS / n, shallow=False)
    )  # fmt: skip


def buf(*arguments: str) -> bool:
    """Runs buf; returns whether it was content."""
    program = Path(sys.executable).parent / "buf"
    return subprocess.run([program, *arguments, "--config", "buf.yaml"], cwd=ROOT, check=False).returncode == 0


def main() -> int:
    """Returns the number of checks that failed."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder)
        generate(made)
        image = made / IMAGE
        if "--release" in sys.argv:
            shutil.copy(image, RELEASED)
        stale = drifted(made)
        if stale:
            print("stale stubs, run `make protos`:", *stale, sep="\n  ", file=sys.stderr)
        sound = [buf("lint", str(image)), buf("breaking", str(image), "--against", str(RELEASED)), not stale]
    return sound.count(False)


if __name__ == "__main__":
    raise SystemExit(main())
