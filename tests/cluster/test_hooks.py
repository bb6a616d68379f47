"""What stops an installation or an upgrade, and that the version that ran before goes on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.cluster import NAMESPACE, RELEASE, Cluster, Refused
from tests.cluster.given import Given
from tests.contract.deploy.helm import CHART, Manifest

pytestmark = pytest.mark.made_up_pods
ELSEWHERE = "signalbox-elsewhere"


@pytest.fixture
def elsewhere(cluster: Cluster) -> Iterator[str]:
    """Another namespace, which goes again."""
    cluster.kubectl("create", "namespace", ELSEWHERE)
    yield ELSEWHERE
    cluster.kubectl("delete", "namespace", ELSEWHERE)


def test_a_failed_check_stops_the_upgrade_before_anything_changes(installed: Cluster, what_is_given: Given) -> None:
    before = _deployed(installed)
    with pytest.raises(Refused, match="pre-upgrade hooks failed"):
        installed.upgrade(what_is_given.values, _image("runtime", "compat-check"))
    assert _deployed(installed) == before
    assert _jobs(installed) == {"signalbox-runtime-compat-check"}  # for its report; the migration has succeeded
    installed.upgrade(what_is_given.values)
    assert _deployed(installed) == before
    assert _jobs(installed) == set()


def test_what_never_gets_ready_takes_no_ready_pod_away(installed: Cluster, what_is_given: Given) -> None:
    before, ready = _deployed(installed), set(installed.ready("guard"))
    with pytest.raises(Refused, match=r"deadline|not ready|timed out"):
        installed.upgrade(what_is_given.values, _image("guard", "guard"), timeout="20s")
    assert set(installed.ready("guard")) == ready
    assert len(installed.pods("guard")) == len(ready) + 1
    installed.helm("rollback", RELEASE, "--wait", "--timeout=5m")
    assert _templates(_deployed(installed)) == _templates(before)
    assert set(installed.ready("guard")) == ready == {pod["metadata"]["name"] for pod in installed.pods("guard")}


def test_a_failed_migration_stops_the_installation_which_can_be_made_again(
    cluster: Cluster, elsewhere: str, what_is_given: Given
) -> None:
    install = ("install", RELEASE, CHART, "--values", what_is_given.values, "--wait", "--timeout=5m")
    with pytest.raises(Refused, match="migrate"):
        cluster.helm(*install, "--set", _image("runtime", "migrate"), namespace=elsewhere)
    assert cluster.all("deployments", namespace=elsewhere) == []
    assert _jobs(cluster, elsewhere) == {"signalbox-runtime-migrate"}
    cluster.helm("uninstall", RELEASE, namespace=elsewhere)
    cluster.helm(*install, namespace=elsewhere)
    assert _jobs(cluster, elsewhere) == set()
    assert len(cluster.ready("runtime", namespace=elsewhere)) == 2
    cluster.helm("uninstall", RELEASE, "--wait", namespace=elsewhere)


def _image(service: str, container: str) -> str:
    return f"services.{service}.image=signalbox-{service}:fails-{container}"


def _deployed(cluster: Cluster) -> dict[str, Manifest]:
    return {each["metadata"]["name"]: each["spec"] for each in cluster.all("deployments")}


def _templates(deployed: dict[str, Manifest]) -> dict[str, Manifest]:
    return {name: spec["template"] for name, spec in deployed.items()}


def _jobs(cluster: Cluster, namespace: str = NAMESPACE) -> set[str]:
    return {job["metadata"]["name"] for job in cluster.all("jobs", namespace=namespace)}
