"""Checks the protos: they build alone, pass lint, break nothing of the released contract, and the stubs are up to date.

The released contract is `released.binpb`, and `released.commit` names the release's code, from which upgrades are
tested. `python protos/check.py --release` writes both anew, for the commit that is checked out.
"""

from __future__ import annotations

import filecmp
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from generate import COMMENTS, IMAGE, ROOT, generate

RELEASED = ROOT / "released.binpb"
RELEASED_COMMIT = ROOT / "released.commit"
STUBS = ROOT / "python"


def drifted(made: Path) -> list[str]:
    """Returns the generated files that differ from the ones checked in."""
    names = {COMMENTS, *(str(p.relative_to(made)) for p in made.rglob("*_pb2*") if p.is_file())}
    kept = {str(p.relative_to(STUBS)) for p in STUBS.rglob("*_pb2*") if p.is_file() and p.suffix != ".pyc"} | {COMMENTS}
    return sorted(
        n for n in names | kept
        if n not in names or n not in kept or not filecmp.cmp(made / n, STUBS / n, shallow=False)
    )  # fmt: skip


def buf(*arguments: str) -> bool:
    """Runs buf; returns whether it was content."""
    program = Path(sys.executable).parent / "buf"
    return subprocess.run([program, *arguments], cwd=ROOT, check=False).returncode == 0


def main() -> int:
    """Returns the number of checks that failed."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder)
        generate(made)
        image = made / IMAGE
        if "--release" in sys.argv:
            shutil.copy(image, RELEASED)
            RELEASED_COMMIT.write_bytes(subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=ROOT))
        stale = drifted(made)
        if stale:
            print("stale stubs, run `make protos`:", *stale, sep="\n  ", file=sys.stderr)
        sound = [buf("build"), buf("lint"), buf("breaking", "--against", RELEASED.name), not stale]
    return sound.count(False)


if __name__ == "__main__":
    raise SystemExit(main())
