"""With `networkPolicy`, services reach what `targets` says, are reached by whom it says, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contract.deploy.helm import EXAMPLES, ROOT, Helm, Manifest
from tests.contract.deploy.manifests import named, of_kind, settings_of, workloads
from tests.contract.deploy.test_chart_options import rendered_with

COMPONENT = "app.kubernetes.io/component"
Edge = tuple[str, str]
MINIMAL = EXAMPLES / "minimal" / "values.yaml"
ON = "networkPolicy.enabled=true"
OUTSIDE = {"LoadBalancer", "NodePort"}


def component(manifest: Manifest) -> str:
    """What a manifest is of."""
    return str(manifest["metadata"]["labels"][COMPONENT])


def edges_by_settings(manifests: list[Manifest]) -> set[Edge]:
    """Who is told to call whom."""
    found = set()
    for deployment in of_kind(manifests, "Deployment"):
        for name, entry in settings_of(deployment).items():
            value = entry.get("value", "")
            if name.endswith("_TARGET") or (name == "SIGNALBOX_MODEL_BASE_URL" and ".svc:" in value):
                host = value.partition("//")[2].removeprefix("/").partition(".")[0]
                found.add((component(deployment), host.removeprefix("signalbox-")))
    return found


def chosen(selector: dict[str, Any]) -> list[str]:
    """The components that a pod selector of ours names."""
    exact = selector["matchLabels"].get(COMPONENT)
    return [exact] if exact else [value for each in selector["matchExpressions"] for value in each["values"]]


def peers(rules: list[dict[str, Any]], side: str) -> set[str]:
    """The components that rules let through."""
    selectors = [peer["podSelector"] for rule in rules for peer in rule.get(side, []) if peer.keys() == {"podSelector"}]
    return {name for selector in selectors for name in chosen(selector)}


def policies(manifests: list[Manifest]) -> list[Manifest]:
    """The policies of services and of their Jobs."""
    found = of_kind(manifests, "NetworkPolicy")
    return [policy for policy in found if COMPONENT in policy["metadata"]["labels"] and component(policy) != "test"]


def policies_of_services(manifests: list[Manifest]) -> list[Manifest]:
    """Those that are no Job's."""
    return [policy for policy in policies(manifests) if "annotations" not in policy["metadata"]]


GRAPH = ("services.graph_executor.enabled=true", "services.graph_executor.configMap=graph-policy")

DOORS = (
    "services.http_api.enabled=true",
    "services.mcp_executor.enabled=true",
    "services.mcp_executor.configMap=mcp-servers",
)
RENDERED = [("production",), ("minimal",), ("offline",), ("minimal", *GRAPH), ("production", *DOORS)]


@pytest.fixture(scope="module", params=RENDERED, ids=str)
def guarded(request: pytest.FixtureRequest, helm: Helm) -> list[Manifest]:
    """An example with policies."""
    example, *settings = request.param
    return helm.manifests([EXAMPLES / example / "values.yaml"], settings=[ON, *settings])


def test_nothing_goes_without_a_policy_of_its_own(guarded: list[Manifest]) -> None:
    denied = named(guarded, "NetworkPolicy", "signalbox-deny-all")["spec"]
    assert denied["policyTypes"] == ["Ingress", "Egress"]
    assert not {"ingress", "egress"} & denied.keys()
    for workload in workloads(guarded):
        labels = workload["spec"]["template"]["metadata"]["labels"]
        assert denied["podSelector"]["matchLabels"].items() <= labels.items()
        name = labels[COMPONENT]
        mine = [p for p in policies(guarded) if name in chosen(p["spec"]["podSelector"])]
        assert len(mine) == 1, f"{name} has {len(mine)} policies"


def test_a_job_brings_its_way_out_with_it(guarded: list[Manifest]) -> None:
    """A first installation migrates before the release's own policies are there, maybe where all is denied."""
    jobs = of_kind(guarded, "Job")
    assert jobs
    for job in jobs:
        policy = named(guarded, "NetworkPolicy", job["metadata"]["name"])
        hook, before = job["metadata"]["annotations"], policy["metadata"]["annotations"]
        assert before["helm.sh/hook"] == hook["helm.sh/hook"]
        assert int(before["helm.sh/hook-weight"]) < int(hook["helm.sh/hook-weight"])
        service = named(guarded, "NetworkPolicy", "signalbox-runtime")["spec"]
        anywhere = [rule for rule in service["egress"] if "to" not in rule and rule["ports"] == [{"port": 5432}]]
        assert policy["spec"]["egress"] == [service["egress"][0], *anywhere]
        assert anywhere
        assert "ingress" not in policy["spec"]


def test_names_are_asked_for_at_the_cluster_and_nowhere_else(guarded: list[Manifest]) -> None:
    for policy in of_kind(guarded, "NetworkPolicy"):
        for rule in policy["spec"].get("egress", []):
            if any(port["port"] == 53 for port in rule.get("ports", [])):
                [peer] = rule["to"]
                assert peer["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "kube-system"}
                assert peer["podSelector"]["matchLabels"] == {"k8s-app": "kube-dns"}


def test_names_are_asked_for_where_a_cluster_has_them(helm: Helm, tmp_path: Path) -> None:
    openshift = {"to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "openshift-dns"}}}]}
    manifests = rendered_with(helm, tmp_path, {"networkPolicy": {"dns": {**openshift, "port": 5353}}})
    rules = [
        policy["spec"]["egress"][0] for policy in of_kind(manifests, "NetworkPolicy") if "egress" in policy["spec"]
    ]
    assert all(rule["to"] == openshift["to"] for rule in rules)
    assert {port["port"] for rule in rules for port in rule["ports"]} == {5353}


def test_each_edge_is_open_at_both_ends_and_there_is_no_other(guarded: list[Manifest]) -> None:
    wanted = edges_by_settings(guarded)
    assert len(wanted) >= 5
    leaving = {(component(p), other) for p in policies(guarded) for other in peers(p["spec"]["egress"], "to")}
    coming = {
        (other, component(p)) for p in policies_of_services(guarded) for other in peers(p["spec"]["ingress"], "from")
    }
    assert leaving == wanted
    assert coming - {("test", "gateway")} == wanted


def test_an_edge_is_open_at_the_port_that_is_served(guarded: list[Manifest]) -> None:
    for policy in policies_of_services(guarded):
        served = {
            port["port"]
            for service in of_kind(guarded, "Service")
            if component(service) == component(policy) and service["spec"].get("clusterIP") == "None"
            for port in service["spec"]["ports"]
        }
        for rule in policy["spec"]["ingress"]:
            assert {port["port"] for port in rule["ports"]} in (served, {9464})


def test_the_outside_is_open_where_a_service_has_something_there(helm: Helm) -> None:
    manifests = helm.manifests(
        [MINIMAL], settings=[ON, "model.baseUrl=https://models.example.com:8443/v1", "otlpEndpoint=http://otel:4317"]
    )

    def outside(name: str) -> set[int]:
        rules = named(manifests, "NetworkPolicy", f"signalbox-{name}")["spec"]["egress"]
        return {port["port"] for rule in rules if "to" not in rule for port in rule["ports"]}

    assert outside("runtime") == {5432, 8443, 4317}
    assert outside("sql-executor") == {5432, 4317}
    assert outside("guard") == {8443, 4317}
    assert outside("gateway") == {443, 4317}


def test_the_graph_executor_is_called_by_the_runtime_and_calls_its_database(helm: Helm) -> None:
    manifests = helm.manifests([MINIMAL], settings=[ON, *GRAPH])
    assert ("runtime", "graph-executor") in edges_by_settings(manifests)
    policy = named(manifests, "NetworkPolicy", "signalbox-graph-executor")["spec"]
    assert peers(policy["ingress"], "from") == {"runtime"}
    assert {port["port"] for rule in policy["egress"] for port in rule["ports"]} == {53, 6379}


def test_the_graph_executor_reaches_another_graph_database_by_what_the_operations_page_sets(helm: Helm) -> None:
    section = (ROOT / "docs" / "operations.md").read_text().partition("#### Another graph database")[2]
    values = yaml.safe_load(section.partition("```yaml\n")[2].partition("```")[0])
    chosen = values["services"]["graph_executor"]
    [port], name = chosen["egressPorts"], chosen["env"]["SIGNALBOX_GRAPH_NAME"]
    executor = "services.graph_executor"
    more = [f"{executor}.egressPorts={{{port}}}", f"{executor}.env.SIGNALBOX_GRAPH_NAME={name}"]
    manifests = helm.manifests([MINIMAL], settings=[ON, *GRAPH, *more])
    policy = named(manifests, "NetworkPolicy", "signalbox-graph-executor")["spec"]
    assert {each["port"] for rule in policy["egress"] for each in rule["ports"]} == {53, 7687}


def test_callers_from_outside_are_admitted_where_an_example_has_an_address_for_them(
    rendered: dict[str, list[Manifest]],
) -> None:
    found = 0
    for manifests in rendered.values():
        public = {component(each) for each in of_kind(manifests, "Service") if each["spec"].get("type") in OUTSIDE}
        for policy in policies_of_services(manifests):
            if component(policy) in public:
                callers = [peer for rule in policy["spec"]["ingress"] for peer in rule["from"]]
                # A selector chooses pods; who comes through a load balancer is none.
                assert any("ipBlock" in peer for peer in callers), f"{component(policy)} admits pods alone"
                found += 1
    assert found


def test_every_example_asks_for_them_and_there_are_none_unless_asked_for(
    helm: Helm, rendered: dict[str, list[Manifest]]
) -> None:
    for manifests in rendered.values():
        assert of_kind(manifests, "NetworkPolicy")
    assert of_kind(helm.manifests([MINIMAL], settings=["networkPolicy.enabled=false"]), "NetworkPolicy") == []


def test_the_operations_page_says_who_may_reach_what(helm: Helm) -> None:
    """Its table against the policies, with every service that it speaks of enabled."""
    table = (
        (ROOT / "docs" / "operations.md").read_text().partition("### Who may reach what")[2].partition("\n| secret")[0]
    )
    told = {
        (caller.replace("_", "-"), word.replace("_", "-"))
        for callers, what in re.findall(r"^\| ([a-z_, ]+) \| (.+) \|$", table, re.MULTILINE)
        for caller in callers.split(", ")
        for word in re.findall(r"[a-z_]+", what)
    }
    graph = "services.runtime.targets.SIGNALBOX_GRAPH_EXECUTOR_TARGET=graph_executor"
    manifests = helm.manifests([MINIMAL], settings=[ON, "services.graph_executor.enabled=true", graph])
    names = {component(policy) for policy in policies(manifests)}
    assert {(caller, other) for caller, other in told if {caller, other} <= names} == edges_by_settings(manifests)
    rows = dict(re.findall(r"^\| ([a-z_]+) \| (.+) \|$", table, re.MULTILINE))
    for name in ("runtime", "sql_executor", "graph_executor", "code_executor"):
        rules = named(manifests, "NetworkPolicy", f"signalbox-{name.replace('_', '-')}")["spec"]["egress"]
        anywhere = {port["port"] for rule in rules if "to" not in rule for port in rule["ports"]}
        # The model's port is of its URL.
        for port in anywhere - ({443} if name == "runtime" else set()):
            assert f"port {port}" in rows[name], f"{name} reaches port {port}, and the page does not say so"
