"""skaffold.yaml is what skaffold reads, builds every service, and puts each image where the chart reads it."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonpatch
import jsonschema
import pytest
import yaml

from tests.contract.deploy import services
from tests.contract.deploy.dockerfile import instructions
from tests.contract.deploy.helm import CHART, ROOT, Helm
from tests.contract.deploy.manifests import containers, named, of_kind, workloads

CONFIG = yaml.safe_load((ROOT / "skaffold.yaml").read_text())
ARTIFACTS: list[dict[str, Any]] = CONFIG["build"]["artifacts"]
(RELEASE,) = CONFIG["deploy"]["helm"]["releases"]


def image_of(service: str) -> str:
    return f"signalbox-{service.replace('_', '-')}"


def variable_of(service: str) -> str:
    """The template variable that skaffold makes of an image name: dashes become underscores."""
    return "{{.IMAGE_FULLY_QUALIFIED_" + image_of(service).replace("-", "_") + "}}"


SCHEMA = json.loads((Path(__file__).parent / "schemas" / "skaffold-v4beta13.json").read_text())
PROFILES = {profile["name"]: profile for profile in CONFIG["profiles"]}


def valid(config: dict[str, Any]) -> None:
    """Raises jsonschema.ValidationError where skaffold would refuse the configuration."""
    jsonschema.Draft7Validator(SCHEMA).validate(config)


def with_profiles(*names: str) -> dict[str, Any]:
    """The configuration with some profiles: what they hold in place of its own, and then their patches made."""
    config: dict[str, Any] = deepcopy(CONFIG)
    for name in names:
        config |= {key: value for key, value in PROFILES[name].items() if key not in ("name", "patches", "activation")}
        config = jsonpatch.apply_patch(config, PROFILES[name].get("patches", []))
    return config


def test_it_is_what_its_version_of_skaffold_reads() -> None:
    assert CONFIG["apiVersion"] == "skaffold/v4beta13"
    valid(CONFIG)


@pytest.mark.parametrize("names", [("dev",), ("debug",), ("dev", "debug")], ids="+".join)
def test_so_it_is_with_its_profiles(names: tuple[str, ...]) -> None:
    valid(with_profiles(*names))


def test_a_misspelt_key_is_refused() -> None:
    config = deepcopy(CONFIG)
    config["deploy"]["helm"]["releases"][0]["valueFiles"] = []
    with pytest.raises(jsonschema.ValidationError, match="valueFiles"):
        valid(config)


def test_artifacts_give_arguments_that_the_dockerfile_takes() -> None:
    known = {rest.partition("=")[0] for word, rest in instructions() if word == "ARG"}
    for artifact in ARTIFACTS:
        assert artifact["docker"]["buildArgs"].keys() <= known


def test_debuggers_come_with_their_command_and_meet_one_replica_of_each(helm: Helm) -> None:
    assert PROFILES["debug"]["activation"] == [{"command": "debug"}]
    config = with_profiles("dev", "debug")
    [release] = config["deploy"]["helm"]["releases"]
    images = [f"services.{service}.image=local/{image_of(service)}:dev" for service in services.in_chart()]
    set_values = [f"{key}={json.dumps(value).strip(chr(34))}" for key, value in release["setValues"].items()]
    manifests = helm.manifests([ROOT / path for path in release["valuesFiles"]], settings=[*images, *set_values])
    deployments = of_kind(manifests, "Deployment")
    assert {deployment["spec"]["replicas"] for deployment in deployments} == {1}
    [forwarded] = config["portForward"]
    gateway = named(manifests, "Deployment", forwarded["resourceName"])
    assert forwarded["port"] in {port["containerPort"] for port in containers(gateway)[0]["ports"]}
    assert of_kind(manifests, "NetworkPolicy") == []
    # By this it knows Python, whatever the entry point's name (pkg/skaffold/debug/transform_python.go).
    assert any(word == "ENV" and "PYTHONUNBUFFERED=" in rest for word, rest in instructions())


def test_every_service_has_one_artifact() -> None:
    built = [(artifact["image"], artifact["docker"]["buildArgs"]) for artifact in ARTIFACTS]
    expected = [(image_of(service), {"SERVICE": service}) for service in services.in_chart()]
    assert sorted(built, key=str) == sorted(expected, key=str)


@pytest.mark.parametrize("artifact", ARTIFACTS, ids=lambda artifact: str(artifact["image"]))
def test_an_artifact_builds_from_the_repository_with_the_one_dockerfile(artifact: dict[str, Any]) -> None:
    assert artifact["context"] == "."
    assert (ROOT / artifact["context"] / artifact["docker"]["dockerfile"]).is_file()


def test_the_release_is_the_chart_with_every_image_set() -> None:
    assert (ROOT / RELEASE["chartPath"]).samefile(CHART)
    assert RELEASE["setValueTemplates"] == {
        f"services.{service}.image": variable_of(service) for service in services.in_chart()
    }


def test_the_dev_profile_installs_what_was_built(helm: Helm) -> None:
    (profile,) = (profile for profile in CONFIG["profiles"] if profile["name"] == "dev")
    (patch,) = profile["patches"]
    assert patch["path"] == "/deploy/helm/releases/0/valuesFiles"
    built = {f"services.{service}.image": f"local/{image_of(service)}:dev" for service in services.in_chart()}
    manifests = helm.manifests(
        [ROOT / path for path in patch["value"]], settings=[f"{key}={image}" for key, image in built.items()]
    )
    used = {container["image"] for workload in workloads(manifests) for container in containers(workload)}
    # What is off there too needs a server or a key that a development cluster is not given.
    off = {"batches", "console", "graph_executor", "http_api", "mcp_executor"}
    assert used == {image for key, image in built.items() if key.split(".")[1] not in off}
    models = [m for m in of_kind(manifests, "Deployment") if m["metadata"]["name"] == "signalbox-offline-model"]
    assert len(models) == 1
