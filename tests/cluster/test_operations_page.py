"""The rest of docs/operations.md that calls for a cluster, once Signalbox is installed, in the page's order."""

from __future__ import annotations

from base64 import b64decode

import pytest

from tests.cluster.cluster import RELEASE, Cluster, Refused
from tests.fixtures.page import Page

# Who reads keys of the run token, after which step of their rotation.
_READERS = ("guard", "evaluator", "sql-executor", "code-executor")


def test_a_question_is_answered(page: Page, installed: Cluster) -> None:
    said = page.run("helm test")
    assert "Phase:          Succeeded" in said
    with pytest.raises(Refused, match="not found"):
        installed.get("pod", "signalbox-test")


def test_an_upgrade_and_the_way_back(page: Page, installed: Cluster) -> None:
    images = _images(installed)
    values = installed.home / "values.yaml"
    first = values.read_text()
    values.write_text(first + "commonLabels: {release: next}\n")
    page.run("helm upgrade", timeout_s=900)
    assert _labels(installed) == {"next"}
    assert installed.all("jobs") == []
    values.write_text(first)
    page.run("helm rollback", timeout_s=900)
    assert _labels(installed) == {None}
    assert _images(installed) == images


def test_keys_are_rotated(page: Page, installed: Cluster) -> None:
    held = installed.get("secret", "signalbox-run-token")["data"]
    for folder in ("old", "new"):
        (installed.home / folder).mkdir()
    for name, text in held.items():
        (installed.home / "old" / name).write_bytes(b64decode(text))
    new = installed.home / "new"
    installed.command("openssl", "genpkey", "-algorithm", "ed25519", "-out", new / "private.pem")
    installed.command("openssl", "pkey", "-in", new / "private.pem", "-pubout", "-out", new / "public.pem")
    page.run("both.pem")
    before = _started(installed)
    page.run("1-verify-both.yaml", timeout_s=900)
    after = _started(installed)
    assert {service for service in before if before[service].isdisjoint(after[service])} == set(_READERS)
    for step, services in (("2-sign-with-new", ["runtime"]), ("3-verify-new", _READERS)):
        installed.kubectl("apply", "--filename", f"{step}.yaml")
        installed.kubectl("rollout", "restart", "deployment", *(f"signalbox-{service}" for service in services))
        installed.kubectl("rollout", "status", "deployment", "--timeout=5m")
        installed.helm("test", RELEASE)
    assert (
        b64decode(installed.get("secret", "signalbox-run-token")["data"]["public.pem"])
        == (new / "public.pem").read_bytes()
    )


def test_the_development_clusters_files(page: Page, installed: Cluster) -> None:
    page.run("fleet-sql-policy")
    assert "readings" in installed.get("configmap", "fleet-sql-policy")["data"]["policy.yaml"]
    assert {"fleet-vocabulary", "signalbox-dev-callers"} < {
        each["metadata"]["name"] for each in installed.all("configmaps")
    }


def _images(cluster: Cluster) -> dict[str, str]:
    found = cluster.all("deployments")
    return {each["metadata"]["name"]: each["spec"]["template"]["spec"]["containers"][0]["image"] for each in found}


def _labels(cluster: Cluster) -> set[str | None]:
    return {pod["metadata"]["labels"].get("release") for service in cluster.services() for pod in cluster.pods(service)}


def _started(cluster: Cluster) -> dict[str, set[str]]:
    return {service: {pod["metadata"]["name"] for pod in cluster.pods(service)} for service in cluster.services()}
