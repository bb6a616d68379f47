"""An API server takes the custom resources of the chart by the rules of those who read them, CEL among these."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster, Refused
from tests.contract.deploy.custom_resources import DEFINITIONS
from tests.contract.deploy.helm import Helm, Manifest, locate
from tests.contract.deploy.manifests import of_kind
from tests.contract.deploy.test_chart_options import rendered_with
from tests.contract.deploy.test_custom_resources import EVERYTHING, POD_MONITOR

# Whose cluster this is, has operators of their own.
pytestmark = pytest.mark.skipif(bool(os.environ.get("CLUSTER_DSN")), reason="declares kinds of its own in the cluster")


@pytest.fixture(scope="module")
def declared(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with the operators' definitions, without the operators."""
    definitions = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(DEFINITIONS.values())})
    cluster.kubectl("create", "--filename", "-", stdin=definitions)
    names = [f"customresourcedefinition/{each['metadata']['name']}" for each in DEFINITIONS.values()]
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=2m", *names)
    yield cluster
    cluster.kubectl("delete", *names)


def rendered(folder: Path) -> list[Manifest]:
    """The custom resources of an installation that asks for all there is."""
    helm = Helm(locate(), folder)
    monitors = {**EVERYTHING["metrics"], **POD_MONITOR, "serviceMonitor": {"enabled": False}}
    sets = [rendered_with(helm, folder, EVERYTHING), rendered_with(helm, folder, EVERYTHING | {"metrics": monitors})]
    found = [manifest for manifests in sets for manifest in of_kind(manifests, *DEFINITIONS)]
    assert {manifest["kind"] for manifest in found} == DEFINITIONS.keys()
    return found


def test_it_takes_every_one_as_it_is(declared: Cluster, tmp_path: Path) -> None:
    for manifest in rendered(tmp_path):
        taken = declared.kubectl(
            "create", "--dry-run=server", "--validate=strict", "--output=json", "--filename=-",
            namespace="default", stdin=json.dumps(manifest),
        )  # fmt: skip
        assert json.loads(taken)["kind"] == manifest["kind"]


def test_it_refuses_what_none_of_them_declares(declared: Cluster, tmp_path: Path) -> None:
    for manifest in rendered(tmp_path):
        manifest["spec"]["unheard"] = "of"
        with pytest.raises(Refused, match=r'unknown field "spec\.unheard"'):
            declared.kubectl(
                "create", "--dry-run=server", "--validate=strict", "--filename=-",
                namespace="default", stdin=json.dumps(manifest),
            )  # fmt: skip
