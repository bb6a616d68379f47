"""What a drained node may take: the budgets of the chart, as the eviction API keeps them."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain

import pytest

from tests.cluster.cluster import NAMESPACE, RELEASE, Cluster, Refused, wait_until
from tests.cluster.gateway import gateway
from tests.cluster.given import ASKED, SUBJECT, Given
from tests.contract.deploy.helm import Manifest
from tests.fixtures.client import RunClient

SERVICE = "guard"
RUNS = 4


@pytest.fixture
def no_room(installed: Cluster) -> Iterator[None]:
    """All nodes are closed: a pod that goes has no successor until they are open again."""
    nodes = [node["metadata"]["name"] for node in installed.all("nodes") if not node["spec"].get("unschedulable")]
    for name in nodes:
        installed.kubectl("cordon", name)
    yield
    for name in nodes:
        installed.kubectl("uncordon", name)
    wait_until("all pods are ready again", lambda: len(installed.ready(SERVICE)) == 2)


@pytest.mark.usefixtures("no_room")
def test_a_budget_gives_one_replica_and_no_second(cluster: Cluster) -> None:
    first, second = cluster.ready(SERVICE)
    wait_until("the budget has counted its pods", lambda: _allowed(cluster) == 1)
    _evict(cluster, first)
    wait_until("the pod is gone", lambda: cluster.ready(SERVICE) == [second])
    with pytest.raises(Refused, match="disruption budget"):
        _evict(cluster, second)
    assert cluster.ready(SERVICE) == [second]


@pytest.fixture
def nodes(installed: Cluster) -> list[str]:
    """The nodes that take pods, two or more; first those that have most."""
    counted = Counter(pod["spec"].get("nodeName") for pod in installed.all("pods"))
    names = [node["metadata"]["name"] for node in installed.all("nodes") if _takes_pods(node)]
    if len(names) < 2:
        pytest.skip("the cluster has one node: what is drained from it has nowhere to go")
    return sorted(names, key=lambda name: -counted[name])


@pytest.mark.real_pods
@pytest.mark.asyncio(loop_scope="session")
async def test_a_drained_node_takes_no_run_with_it(installed: Cluster, nodes: list[str], what_is_given: Given) -> None:
    """Asked by a gateway that stays."""
    staying = {pod["spec"]["nodeName"] for pod in installed.pods("gateway")}
    node = next(name for name in nodes if staying - {name})
    assert _on(installed, node)
    async with gateway(installed, what_is_given, elsewhere_than=node) as deployed:
        client = deployed.caller(SUBJECT)
        with _opened_again(installed, node):
            draining = asyncio.create_task(asyncio.to_thread(_drain, installed, node))
            states = await asyncio.gather(*(_states(client, until=draining) for _ in range(RUNS)))
            await draining
            assert not _on(installed, node)
    assert all(states)
    assert set(chain(*states)) == {"SUCCEEDED"}


async def _states(client: RunClient, until: asyncio.Task[None]) -> list[str]:
    """Asks for one run after the other until something has ended, and returns how they ended."""
    states = []
    while not until.done():
        states.append((await client.ask(ASKED)).state)
    return states


def test_a_drained_node_leaves_every_service_a_replica(installed: Cluster, nodes: list[str]) -> None:
    """Services of two replicas, of which a node may have both."""
    with _opened_again(installed, nodes[0]):
        assert _on(installed, nodes[0])
        _drain(installed, nodes[0])
        assert not _on(installed, nodes[0])
        assert all(installed.ready(service) for service in _with_budgets(installed))


def _takes_pods(node: Manifest) -> bool:
    spec = node["spec"]
    return not spec.get("unschedulable") and not any(
        taint["effect"] != "PreferNoSchedule" for taint in spec.get("taints", [])
    )


def _on(cluster: Cluster, node: str) -> set[str]:
    """The services that have a pod on a node."""
    return {
        service
        for service in cluster.services()
        if any(pod["spec"].get("nodeName") == node for pod in cluster.pods(service))
    }


def _with_budgets(cluster: Cluster) -> set[str]:
    return cluster.services() - {"offline-model"}  # one replica, for development


def _drain(cluster: Cluster, node: str) -> None:
    drain = ["drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=10m"]
    cluster.kubectl(*drain, f"--pod-selector=app.kubernetes.io/instance={RELEASE}")


@contextmanager
def _opened_again(cluster: Cluster, node: str) -> Iterator[None]:
    """Opens a node again that is drained, and returns when every service is whole."""
    everything = _with_budgets(cluster)
    try:
        yield
    finally:
        cluster.kubectl("uncordon", node)
    for service in everything:
        wait_until(f"{service} is whole again", lambda service=service: len(cluster.ready(service)) >= 2)  # type: ignore[misc]


def _allowed(cluster: Cluster) -> int:
    return int(cluster.get("poddisruptionbudget", f"signalbox-{SERVICE}")["status"]["disruptionsAllowed"])


def _evict(cluster: Cluster, pod: str) -> None:
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": NAMESPACE},
        "deleteOptions": {"gracePeriodSeconds": 1},
    }
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/eviction"
    cluster.kubectl("create", "--raw", path, "--filename", "-", stdin=json.dumps(eviction))
