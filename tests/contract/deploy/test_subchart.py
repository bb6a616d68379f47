"""The chart as a part of another: with values of its own under its name, and beside values that all charts share."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contract.deploy.helm import CHART, EXAMPLES, Helm, HelmError, parse
from tests.contract.deploy.manifests import named, of_kind, settings_of

MINIMAL: dict[str, Any] = yaml.safe_load((EXAMPLES / "minimal" / "values.yaml").read_text())
GLOBAL = {"imageRegistry": "registry.example.com", "deep": {"er": [1]}}
SWITCHED_ON = {"metrics": {"rules": {"enabled": True}, "dashboards": {"enabled": True}}}


def parent(folder: Path, values: dict[str, Any], *dependencies: dict[str, str]) -> Path:
    """A chart that is nothing but this one, which it depends on as it says, and its values."""
    made = folder / "yard"
    shutil.copytree(CHART, made / "charts" / "signalbox", ignore=shutil.ignore_patterns("examples"))
    chart = {"apiVersion": "v2", "name": "yard", "version": "1.0.0", "dependencies": list(dependencies)}
    (made / "Chart.yaml").write_text(json.dumps(chart))
    (made / "values.yaml").write_text(json.dumps({**values, "global": GLOBAL}))
    return made


def dependency(**more: str) -> dict[str, str]:
    """An entry of a parent's `dependencies`."""
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["version"]
    return {"name": "signalbox", "version": version, "repository": "https://charts.example.com", **more}


def test_it_renders_as_it_does_alone(helm: Helm, tmp_path: Path) -> None:
    chart = parent(tmp_path, {"signalbox": {**MINIMAL, **SWITCHED_ON}}, dependency(condition="signalbox.enabled"))
    within = parse(helm.run("template", "signalbox", chart, "--namespace", "signalbox"))
    alone = helm.manifests(
        [EXAMPLES / "minimal" / "values.yaml"],
        settings=["metrics.rules.enabled=true", "metrics.dashboards.enabled=true"],
    )
    assert within == alone
    assert len(of_kind(within, "ConfigMap")) >= 4
    assert named(within, "PrometheusRule", "signalbox")["spec"]["groups"][0]["rules"]


def test_its_parent_can_leave_it_out(helm: Helm, tmp_path: Path) -> None:
    chart = parent(tmp_path, {"signalbox": MINIMAL}, dependency(condition="signalbox.enabled"))
    assert parse(helm.run("template", "signalbox", chart, "--set", "signalbox.enabled=true"))
    assert parse(helm.run("template", "signalbox", chart, "--set", "signalbox.enabled=false")) == []


def test_what_is_wrong_in_its_part_is_refused(helm: Helm, tmp_path: Path) -> None:
    chart = parent(tmp_path, {"signalbox": MINIMAL}, dependency())
    with pytest.raises(HelmError, match=r"(?s)don't meet.*signalbox:.*/services/guard'.*'replica'"):
        helm.run("template", "yard", chart, "--set", "signalbox.services.guard.replica=1")
    with pytest.raises(HelmError, match=r"secrets\.databse is used by no service"):
        helm.run("template", "yard", chart, "--set", "signalbox.secrets.databse=x")


def test_two_of_it_in_one_release_have_nothing_in_common(helm: Helm, tmp_path: Path) -> None:
    sides = ("east", "west")
    values = {side: {**MINIMAL, **SWITCHED_ON, "networkPolicy": {"enabled": True}} for side in sides}
    chart = parent(tmp_path, values, *(dependency(alias=side, condition=f"{side}.enabled") for side in sides))
    manifests = parse(helm.run("template", "yard", chart, "--namespace", "yard"))
    names = [(manifest["kind"], manifest["metadata"]["name"]) for manifest in manifests]
    assert len(names) == len(set(names))
    for side in sides:
        mine = [each for each in manifests if each["metadata"]["labels"]["app.kubernetes.io/name"] == side]
        assert len(mine) * 2 == len(manifests)
        assert all(each["metadata"]["name"].startswith(f"yard-{side}") for each in mine)
        target = settings_of(named(mine, "Deployment", f"yard-{side}-gateway"))["SIGNALBOX_RUNTIME_TARGET"]["value"]
        assert target == f"dns:///yard-{side}-runtime.yard.svc:50051"


def test_a_package_of_it_is_all_there_is(helm: Helm, tmp_path: Path) -> None:
    helm.run("package", CHART, "--destination", tmp_path)
    [package] = tmp_path.glob("signalbox-*.tgz")
    production = EXAMPLES / "production" / "values.yaml"
    packed = helm.run("template", "signalbox", package, "--values", production, "--namespace", "signalbox")
    assert parse(packed) == helm.manifests([production])
