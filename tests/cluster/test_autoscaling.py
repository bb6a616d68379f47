"""Replicas by CPU: the chart's HorizontalPodAutoscaler under the cluster's own controller."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.cluster import Cluster, Refused, wait_until
from tests.cluster.control_plane import ControlPlane
from tests.cluster.given import Given
from tests.cluster.metrics import Load, metrics_of_pods

pytestmark = pytest.mark.made_up_pods
SERVICE = "gateway"


@pytest.fixture
def load(cluster: Cluster, plane: ControlPlane) -> Iterator[Load]:
    """How busy pods are."""
    said = Load(millicores=1)
    with metrics_of_pods(cluster, plane.authority, said):
        yield said


def test_load_brings_replicas_and_turning_it_on_takes_none_away(
    installed: Cluster, what_is_given: Given, load: Load
) -> None:
    before = installed.ready(SERVICE)
    assert len(before) == 2
    scaling = f"services.{SERVICE}.autoscaling"
    installed.upgrade(what_is_given.values, f"{scaling}.by=cpu", f"{scaling}.minReplicas=2", f"{scaling}.maxReplicas=4")
    load.millicores = 1000
    wait_until("load has brought as many replicas as are allowed", lambda: len(installed.ready(SERVICE)) == 4)
    assert set(before) < set(installed.ready(SERVICE))
    # An upgrade leaves it to the autoscaler how many there are.
    installed.upgrade(what_is_given.values, f"{scaling}.by=cpu", f"{scaling}.minReplicas=2", f"{scaling}.maxReplicas=4")
    assert len(installed.ready(SERVICE)) == 4
    assert _scaled_down(installed) == []
    with pytest.raises(Refused, match="conflict"):
        installed.upgrade(what_is_given.values)
    installed.upgrade(what_is_given.values, forced=True)
    assert installed.all("horizontalpodautoscalers") == []
    wait_until("the replicas are those of the values again", lambda: len(installed.pods(SERVICE)) == 2)


def _scaled_down(cluster: Cluster) -> list[str]:
    events = [event for event in cluster.all("events") if event["involvedObject"]["name"] == f"signalbox-{SERVICE}"]
    return [event["message"] for event in events if "Scaled down" in event["message"]]
