"""What the cluster lets Signalbox be and do: no more than a restricted namespace allows, and nothing in the cluster."""

from __future__ import annotations

import pytest

from tests.cluster.cluster import NAMESPACE, RELEASE, Cluster, Refused, is_ready
from tests.cluster.given import Given
from tests.contract.deploy.helm import Manifest
from tests.contract.deploy.services import in_chart

SERVICES = in_chart() - {"batches", "graph_executor"}


def test_the_namespace_refuses_pods_that_are_not_restricted(installed: Cluster) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "unrestricted"},
        "spec": {"containers": [{"name": "unrestricted", "image": "nothing.invalid/nothing"}]},
    }
    with pytest.raises(Refused, match='violates PodSecurity "restricted'):
        installed.apply(pod)


def test_every_pod_of_the_release_is_admitted_and_ready(installed: Cluster) -> None:
    deployments = installed.all("deployments", f"app.kubernetes.io/instance={RELEASE}")
    assert len(deployments) == len(SERVICES)
    for deployment in deployments:
        service = deployment["metadata"]["labels"]["app.kubernetes.io/component"]
        pods = installed.pods(service)
        assert len(pods) == deployment["spec"]["replicas"], service
        assert all(is_ready(pod) for pod in pods), service


def test_no_service_may_do_anything_in_the_cluster(installed: Cluster) -> None:
    accounts = [each["metadata"]["name"] for each in installed.all("serviceaccounts")]
    assert len(accounts) == len(SERVICES) + 1  # one of each service, and the namespace's own
    rights = {name: _rights(installed, name) for name in accounts}
    assert all(rights[name] == rights["default"] for name in accounts)
    for name in accounts:
        with pytest.raises(Refused, match="no"):
            installed.kubectl("auth", "can-i", "get", "secrets", f"--as=system:serviceaccount:{NAMESPACE}:{name}")


def _rights(cluster: Cluster, account: str) -> set[str]:
    return set(
        cluster.kubectl("auth", "can-i", "--list", f"--as=system:serviceaccount:{NAMESPACE}:{account}").split("\n")
    )


def test_no_pod_has_a_token_of_the_cluster(installed: Cluster) -> None:
    """The server adds one to every pod that does not decline it."""
    for pod in installed.all("pods"):
        sources = [
            source for volume in pod["spec"]["volumes"] for source in volume.get("projected", {}).get("sources", [])
        ]
        assert not any("serviceAccountToken" in source for source in sources), pod["metadata"]["name"]


def test_every_network_policy_is_about_the_pods_of_its_service(installed: Cluster, what_is_given: Given) -> None:
    installed.upgrade(what_is_given.values, "networkPolicy.enabled=true")
    policies = installed.all("networkpolicies")
    assert len(policies) == len(SERVICES) + 2  # of each service, of `helm test`, and the one that denies all
    for policy in policies:
        service = policy["metadata"]["labels"].get("app.kubernetes.io/component")
        of_it = installed.pods(service) if service else installed.all("pods")
        chosen = installed.all("pods", _selector(policy["spec"]["podSelector"]))
        assert _names(chosen) == _names(of_it), policy["metadata"]["name"]
    installed.upgrade(what_is_given.values)
    assert installed.all("networkpolicies") == []


def _selector(selector: Manifest) -> str:
    """A selector as kubectl takes it."""
    labels = [f"{key}={value}" for key, value in selector.get("matchLabels", {}).items()]
    for each in selector.get("matchExpressions", []):
        assert each["operator"] == "In"
        labels.append(f"{each['key']} in ({','.join(each['values'])})")
    return ",".join(labels)


def _names(pods: list[Manifest]) -> set[str]:
    return {pod["metadata"]["name"] for pod in pods}
