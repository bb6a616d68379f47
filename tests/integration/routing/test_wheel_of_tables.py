"""The wheel of the library of tables, as somebody has it who has no platform."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[3]
LIBRARY = ROOT / "services" / "routing"
NEEDED = "langgraph"


def test_its_wheel_runs_what_its_page_shows_beside_langgraph_alone(tmp_path: Path) -> None:
    # By what is installed: a cache need not hold what built something else.
    options = ["--offline", "--no-build-isolation", "--python", sys.executable, "--quiet", "--wheel"]
    building = subprocess.run(
        [ROOT / ".uv" / "bin" / "uv", "build", *options, "--out-dir", tmp_path, LIBRARY],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert building.returncode == 0, building.stderr
    [wheel] = tmp_path.glob("*.whl")
    beside = tmp_path / "beside"
    beside.mkdir()
    for name in _needed_by(NEEDED, {}):
        _link(name, beside)
    page = (LIBRARY / "README.md").read_text(encoding="utf-8")
    shown, said = (re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL)[0] for kind in ("python", "text"))
    # Neither this environment nor its folders: a wheel is a place to import from.
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path += {[str(wheel), str(beside)]}\n{shown}"],
        capture_output=True, text=True, check=False, cwd=tmp_path, timeout=120,
    )  # fmt: skip
    assert (run.stdout, run.returncode) == (said, 0), run.stderr


def _needed_by(name: str, found: dict[str, None]) -> dict[str, None]:
    """Returns a distribution and all that it needs here, by name."""
    found[canonicalize_name(name)] = None
    for each in map(Requirement, distribution(name).requires or ()):
        if canonicalize_name(each.name) not in found and (each.marker is None or each.marker.evaluate({"extra": ""})):
            _needed_by(each.name, found)
    return found


def _link(name: str, folder: Path) -> None:
    """Links the files of an installed distribution into a folder; some share a package."""
    made = distribution(name)
    for file in made.files or ():
        if file.parts[0] in ("..", "__pycache__") or file.suffix == ".pyc":
            continue
        link = folder / file
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(Path(str(made.locate_file(file))).resolve())
