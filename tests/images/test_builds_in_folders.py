"""Images built one after another, with a warm cache, hold each its own service as it is now.

The build stage's own steps are carried out in plain folders: this file needs no engine, and can be run by itself.
"""

from __future__ import annotations

import shutil
import stat
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.contract.deploy.dependencies import pyproject
from tests.contract.deploy.helm import ROOT
from tests.fixtures.patience import START_TIMEOUT_S
from tests.images.folders import Folders

# What the build context lets in of a checkout.
CONTEXT = ("LICENSE", "pyproject.toml", "uv.lock", "protos/python", "services")
SERVICES = ("guard", "gateway")
HELD = "import pkgutil, services; print(*sorted(each.name for each in pkgutil.iter_modules(services.__path__)))"
# It needs no other service, key or database.
STARTED = "offline_model"
VERSION = pyproject()["project"]["version"]
READ_EDIT = f"import services.{SERVICES[0]} as built; print(built.EDITED)"
EDIT = "EDITED = 'after the first build'\n"


@pytest.fixture
def context(tmp_path: Path) -> Path:
    """A copy of what an image is built from, to edit."""
    for name in CONTEXT:
        source, target = ROOT / name, tmp_path / "context" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, target)
    return tmp_path / "context"


@pytest.fixture
def folders(context: Path, tmp_path: Path) -> Folders:
    """One builder: its builds share a cache and work at one place, as those of a machine do."""
    # Bytecode of the dependencies would take the test longer than all the rest.
    env = {"UV_COMPILE_BYTECODE": "0"}
    return Folders(context, tmp_path / "src", tmp_path / "made" / "signalbox", ROOT / ".uv" / "bin" / "uv", env)


def edit(context: Path, service: str) -> None:
    with (context / "services" / service / "__init__.py").open("a") as file:
        file.write(EDIT)


def python(made: Path, *arguments: str) -> str:
    ran = subprocess.run(
        [made / "bin" / "python", "-P", *arguments],
        cwd=made, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_services_built_one_after_another_are_each_in_their_own_image(folders: Folders) -> None:
    for service in SERVICES:
        made = folders.build(service)
        assert python(made, "-c", HELD) == " ".join(sorted(("kit", service)))
        assert python(made, "-c", f"import services.{service}.server as server; print(server.__file__)").startswith(
            str(made)
        )
    check_commands(made)


def test_a_rebuild_after_an_edit_has_the_edit(folders: Folders, context: Path) -> None:
    folders.build(SERVICES[0])
    edit(context, SERVICES[0])
    made = folders.build(SERVICES[0])
    assert python(made, "-c", READ_EDIT) == "after the first build"


def test_everybody_may_read_an_image_built_from_a_private_checkout(folders: Folders, context: Path) -> None:
    for path in (context / "services").rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    made = folders.build(SERVICES[0])
    installed = Path(python(made, "-c", "import services.guard as built; print(built.__file__)")).parent
    assert {stat.S_IMODE(path.stat().st_mode) & 0o444 for path in installed.rglob("*")} == {0o444}


@contextmanager
def started(made: Path, settings: Mapping[str, str], folder: Path) -> Iterator[None]:
    """Has the launcher serve inside the context, with nothing of this environment but the settings; it ends well."""
    ready = Path(settings["SIGNALBOX_READY_FILE"])
    env = {"PATH": f"{made / 'bin'}:/usr/bin:/bin", "PYTHONSAFEPATH": "1", **settings}
    with (
        (folder / "served.log").open("w+") as log,
        subprocess.Popen(
            [made / "bin" / "serve"], cwd=folder, env=env, stdout=log, stderr=subprocess.STDOUT
        ) as process,
    ):
        try:
            for _ in range(int(START_TIMEOUT_S / 0.05)):
                if ready.exists() or process.poll() is not None:
                    break
                time.sleep(0.05)
            assert ready.exists(), Path(log.name).read_text()
            yield
        finally:
            process.terminate()
            status = process.wait(timeout=60)
        assert status == 0, Path(log.name).read_text()


def test_what_was_built_starts_serves_and_ends(folders: Folders, tmp_path: Path) -> None:
    """The launcher as the entry point calls it."""
    made = folders.build(STARTED)
    with started(made, {"SIGNALBOX_READY_FILE": str(tmp_path / "ready.json")}, tmp_path):
        assert python(made, "-c", "from importlib.metadata import version; print(version('signalbox'))") == VERSION


def check_commands(made: Path) -> None:
    """That the gateway's image has the command of the gateway, and no other."""
    command = [made / "bin" / "signalbox"]
    ran = subprocess.run([*command, "ask"], cwd=made, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, "--token-file" in ran.stderr) == (2, True), ran.stderr
    ran = subprocess.run([*command, "prove"], cwd=made, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (2, "signalbox: no command 'prove'; the image of gateway has: ask\n")
