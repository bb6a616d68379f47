"""Nodes without kubelets: kwok says of their pods what becomes of them (`stages.yaml`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.cluster import Cluster
from tests.cluster.control_plane import LOOPBACK, ControlPlane, program

NODES = ("one", "two", "three")


@contextmanager
def simulated_nodes(plane: ControlPlane, cluster: Cluster) -> Iterator[None]:
    """Has three nodes, each in a zone of its own, until the end."""
    stages = Path(__file__).with_name("stages.yaml")
    arguments = (
        f"--kubeconfig={plane.kubeconfig}", f"--config={stages}", "--manage-all-nodes=true", "--cidr=10.244.0.0/16",
        f"--node-ip={LOOPBACK}", "--node-lease-duration-seconds=40",
    )  # fmt: skip
    with program(plane.assets / "kwok", plane.folder, *arguments):
        for name in NODES:
            cluster.apply(
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": f"zone-{name}"}},
                }
            )
        cluster.kubectl("wait", "nodes", "--all", "--for=condition=Ready", "--timeout=60s")
        yield
