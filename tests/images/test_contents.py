"""What is in an image, and what is not."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from tests.contract.deploy.dependencies import PROJECT, carried, locked_versions, normalised
from tests.contract.deploy.dockerfile import instructions
from tests.contract.deploy.helm import ROOT
from tests.images.engine import IMAGES, engine

BASE = next(rest.partition("=")[2] for word, rest in instructions() if rest.startswith("PYTHON_IMAGE="))
COMPILERS = {"gcc", "g++", "cc", "c++", "clang", "ld", "as", "make", "cmake", "go", "rustc", "cargo", "tcc", "javac"}
INSTALLERS = {"pip", "pip3", "pip3.11", "uv", "uvx", "easy_install", "conda", "npm"}
# What an image may have beside its base, in MB: a library that grows, or one that nobody meant to add, is noticed.
BUDGET_MB = {
    "batches": 130, "code_executor": 360, "evaluator": 125, "gateway": 130, "graph_executor": 130, "guard": 115,
    "http_api": 135, "offline_model": 135, "runtime": 245, "sql_executor": 185,
}  # fmt: skip
LOOK_AROUND = """
import json, os, stat, sys
found = {"setid": [], "writable": [], "tests": [], "programs": [], "installed": [], "pip": []}
for folder, folders, files in os.walk("/"):
    folders[:] = [each for each in folders if os.path.join(folder, each) not in ("/proc", "/sys", "/dev", "/tmp")]
    if folder.startswith("/opt/signalbox") and os.path.basename(folder) in ("tests", "test"):
        found["tests"].append(folder)
    for name in (*files, *folders):
        path = os.path.join(folder, name)
        info = os.lstat(path)
        if stat.S_ISLNK(info.st_mode):
            continue
        if info.st_mode & 0o6000 and stat.S_ISREG(info.st_mode):
            found["setid"].append(path)
        sticky = info.st_mode & stat.S_ISVTX
        if not sticky and (info.st_mode & 0o002 or 65532 in (info.st_uid, info.st_gid)):
            found["writable"].append(path)
        if name in ("pip", "ensurepip", "setuptools") and name in folders:
            found["pip"].append(path)
for folder in os.environ["PATH"].split(":"):
    found["programs"] += os.listdir(folder) if os.path.isdir(folder) else []
from importlib import metadata
found["installed"] = [[each.metadata["Name"], each.version] for each in metadata.distributions()]
print(json.dumps(found))
"""


@cache
def contents(service: str) -> dict[str, Any]:
    """Returns what the image of a service holds, as its root sees it."""
    return dict(json.loads(engine().python(service, LOOK_AROUND, "--user=0:0", "--cap-add=DAC_READ_SEARCH")))


@pytest.mark.parametrize("service", IMAGES)
def test_nothing_there_installs_compiles_or_becomes_root(service: str) -> None:
    held = contents(service)
    assert not COMPILERS & set(held["programs"])
    assert not INSTALLERS & set(held["programs"])
    assert held["pip"] == []
    assert held["setid"] == []
    assert held["tests"] == []


@pytest.mark.parametrize("service", IMAGES)
def test_its_user_may_write_nothing_of_it(service: str) -> None:
    assert contents(service)["writable"] == []
    assert engine().inspect(engine().image(service))["Config"]["User"] == "65532:65532"
    script = "import os, pathlib; print(os.getuid(), os.getgid()); pathlib.Path('/tmp/x').touch()\n"
    script += "for each in ('/x', '/opt/signalbox/x', '/etc/x', '/var/x'):\n"
    script += "    try: open(each, 'w')\n    except OSError as error: print(type(error).__name__)\n"
    said = engine().python(service, script).split()
    assert said[:2] == ["65532", "65532"]
    assert len(said) == 6


@pytest.mark.parametrize("service", IMAGES)
def test_it_holds_what_the_lock_file_says_and_its_bill_of_materials_tells(service: str) -> None:
    held = {(normalised(name), version) for name, version in contents(service)["installed"]}
    names = {name for name, _ in held}
    assert not names - carried(service) - {PROJECT}
    # What the lock file has for other systems and Pythons is not there.
    assert names >= {"grpcio", "protobuf", "pydantic"}
    assert all(version == locked_versions()[name] for name, version in held)
    bill = json.loads(engine().run(service, entry="cat", command=("/opt/signalbox/bom.cdx.json",)).out)
    assert bill["bomFormat"] == "CycloneDX"
    assert bill["metadata"]["component"]["name"] == "signalbox"
    told = {(normalised(each["name"]), each["version"]) for each in bill["components"]}
    assert told | {(PROJECT, bill["metadata"]["component"]["version"])} == held
    assert all(each["purl"].startswith("pkg:pypi/") for each in bill["components"])


@pytest.mark.parametrize("service", IMAGES)
def test_it_says_where_it_comes_from(service: str) -> None:
    here, base = engine().inspect(engine().image(service)), engine().inspect(BASE)
    labels = {name.removeprefix("org.opencontainers.image."): text for name, text in here["Config"]["Labels"].items()}
    assert labels["title"] == f"signalbox-{service}"
    revision = labels["revision"]
    assert len(revision) == 40
    assert f"SIGNALBOX_REVISION={revision}" in here["Config"]["Env"]
    assert labels["base.name"] == BASE
    assert labels["base.digest"] in {each.partition("@")[2] for each in base["RepoDigests"]}
    assert "source" in labels
    assert here["Config"]["StopSignal"] in ("SIGTERM", "15")


@pytest.mark.parametrize("service", IMAGES)
def test_it_is_no_larger_than_it_must_be(service: str) -> None:
    added = (engine().inspect(engine().image(service))["Size"] - engine().inspect(BASE)["Size"]) / 1e6
    assert added < BUDGET_MB[service], f"{added:.0f} MB beside the base"


def test_every_image_has_a_budget() -> None:
    assert BUDGET_MB.keys() == set(IMAGES)


@pytest.mark.parametrize("service", IMAGES)
def test_nothing_of_how_it_was_built_is_left(service: str) -> None:
    history = engine().call("history", "--no-trunc", engine().image(service)).out
    assert "BEGIN CERTIFICATE" not in history
    assert "INDEX_URL" not in history
    gone = ("/run/of-the-build.crt", "/etc/ssl/certs/of-the-build.crt", "/opt/bom", "/src", "/root/.cache")
    script = f"import os; print([each for each in {gone!r} if os.path.exists(each)])"
    assert engine().python(service, script, "--user=0:0").strip() == "[]"
    licence = engine().run(service, entry="cat", command=("/opt/signalbox/LICENSE",)).out
    assert licence == (ROOT / "LICENSE").read_text()
