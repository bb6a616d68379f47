"""skaffold.yaml builds every service of the chart, and puts each image where the chart reads it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.contract.deploy import services
from tests.contract.deploy.helm import CHART, ROOT, Helm
from tests.contract.deploy.manifests import containers, of_kind, workloads

CONFIG = yaml.safe_load((ROOT / "skaffold.yaml").read_text())
ARTIFACTS: list[dict[str, Any]] = CONFIG["build"]["artifacts"]
(RELEASE,) = CONFIG["deploy"]["helm"]["releases"]


def image_of(service: str) -> str:
    return f"signalbox-{service.replace('_', '-')}"


def variable_of(service: str) -> str:
    """The template variable that skaffold makes of an image name: dashes become underscores."""
    return "{{.IMAGE_FULLY_QUALIFIED_" + image_of(service).replace("-", "_") + "}}"


def test_the_schema_version_is_pinned() -> None:
    assert (CONFIG["apiVersion"], CONFIG["kind"]) == ("skaffold/v4beta14", "Config")


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
    assert used == set(built.values())
    models = [m for m in of_kind(manifests, "Deployment") if m["metadata"]["name"] == "signalbox-offline-model"]
    assert len(models) == 1
