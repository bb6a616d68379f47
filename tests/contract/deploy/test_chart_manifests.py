"""The chart renders to manifests that a cluster takes, and the checked-in examples are what it renders to."""

from __future__ import annotations

import json
import re
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from services.code_executor.settings import CodeExecutorSettings
from tests.contract.deploy.helm import CHART, EXAMPLES, Helm, HelmError, Manifest, example_names, parse
from tests.contract.deploy.manifests import containers, named, of_kind, pod_spec, settings_of, workloads

# From the oldest version that Chart.yaml admits to the newest that the validator knows.
KUBERNETES_VERSIONS = ["1.29", kubernetes_validate.latest_version()]
# Not Kubernetes' own: the operator that reads it checks it.
CUSTOM_RESOURCES = {
    "BackendTLSPolicy",
    "Certificate",
    "GRPCRoute",
    "HTTPRoute",
    "PodMonitor",
    "PrometheusRule",
    "ScaledObject",
    "ServiceMonitor",
}
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
LONGEST_NAME = 63
OPTIONAL_KINDS = {
    "ConfigMap",
    "NetworkPolicy",
    "HorizontalPodAutoscaler",
    "ScaledObject",
    "Ingress",
    "GRPCRoute",
    "HTTPRoute",
    "BackendTLSPolicy",
}
SERVICE_KINDS = {"Deployment", "Service", "ServiceAccount", "PodDisruptionBudget"}


def test_lint_finds_nothing(helm: Helm) -> None:
    for name in example_names():
        assert "0 chart(s) failed" in helm.run("lint", "--strict", CHART, "--values", EXAMPLES / name / "values.yaml")


def test_the_oldest_version_tested_is_the_oldest_admitted() -> None:
    admitted = yaml.safe_load((CHART / "Chart.yaml").read_text())["kubeVersion"]
    assert admitted == f">={KUBERNETES_VERSIONS[0]}.0-0"


@pytest.mark.parametrize("version", KUBERNETES_VERSIONS)
def test_every_manifest_is_valid_kubernetes(manifests: list[Manifest], version: str) -> None:
    checked = [manifest for manifest in manifests if manifest["kind"] not in CUSTOM_RESOURCES]
    assert checked
    for manifest in checked:
        kubernetes_validate.validate(manifest, version, strict=True)


def test_the_validator_refuses_an_unknown_field(rendered: dict[str, list[Manifest]]) -> None:
    deployment = yaml.safe_load(yaml.safe_dump(named(rendered["minimal"], "Deployment", "signalbox-guard")))
    pod_spec_of = deployment["spec"]["template"]["spec"]
    pod_spec_of["containers"][0]["readOnly"] = True
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment, KUBERNETES_VERSIONS[0], strict=True)


@pytest.mark.parametrize("name", example_names())
def test_rendered_examples_are_current(name: str, rendered: dict[str, list[Manifest]]) -> None:
    checked_in = parse((EXAMPLES / name / "rendered.yaml").read_text())
    assert checked_in == rendered[name], "the chart has changed: run python -m tests.contract.deploy.helm"


def test_object_names_are_unique_and_short_enough(manifests: list[Manifest]) -> None:
    names = [(manifest["kind"], manifest["metadata"]["name"]) for manifest in manifests]
    assert len(names) == len(set(names))
    for _, name in names:
        assert re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", name)


def test_the_longest_names_admitted_still_give_valid_names(helm: Helm) -> None:
    longest = SCHEMA["properties"]["services"]["propertyNames"]["maxLength"] * "s"
    jobs = [f"services.{longest}.{job}.command={{sh}}" for job in ("migration", "compatCheck")]
    settings = [*jobs, f"services.{longest}.publicService.enabled=true", f"services.{longest}.image=tide:1"]
    chosen = [argument for setting in settings for argument in ("--set", setting)]
    text = helm.run("template", "a" * 53, CHART, "--values", EXAMPLES / "offline" / "values.yaml", *chosen)
    assert max(len(manifest["metadata"]["name"]) for manifest in parse(text)) == LONGEST_NAME
    for manifest in parse(text):
        assert len(manifest["metadata"]["name"]) <= LONGEST_NAME
        assert all(len(value) <= LONGEST_NAME for value in manifest["metadata"]["labels"].values())


def test_every_service_becomes_the_same_kinds(manifests: list[Manifest]) -> None:
    for deployment in of_kind(manifests, "Deployment"):
        component = deployment["metadata"]["labels"]["app.kubernetes.io/component"]
        kinds = {
            manifest["kind"]
            for manifest in manifests
            if manifest["metadata"]["labels"].get("app.kubernetes.io/component") == component
        }
        # Nobody calls a pool.
        expected = SERVICE_KINDS - {"Service"} if component.startswith("pool-") else SERVICE_KINDS
        assert kinds - OPTIONAL_KINDS == expected


def test_selectors_match_their_own_pods_only(manifests: list[Manifest]) -> None:
    pods = {
        workload["metadata"]["name"]: workload["spec"]["template"]["metadata"]["labels"]
        for workload in workloads(manifests)
    }
    selectors = [
        (manifest["metadata"]["name"], manifest["spec"]["selector"]["matchLabels"])
        for manifest in of_kind(manifests, "Deployment", "PodDisruptionBudget")
    ]
    selectors += [
        (manifest["metadata"]["name"].removesuffix("-public"), manifest["spec"]["selector"])
        for manifest in of_kind(manifests, "Service")
    ]
    selectors += [
        (manifest["metadata"]["name"], constraint["labelSelector"]["matchLabels"])
        for manifest in of_kind(manifests, "Deployment")
        for constraint in pod_spec(manifest)["topologySpreadConstraints"]
    ]
    for owner, selector in selectors:
        assert [name for name, labels in pods.items() if selector.items() <= labels.items()] == [owner]


def test_services_are_headless_and_lead_to_a_port_of_the_pod(manifests: list[Manifest]) -> None:
    for service in of_kind(manifests, "Service"):
        name = service["metadata"]["name"]
        if not name.endswith("-public"):
            assert service["spec"]["clusterIP"] == "None"
        deployment = named(manifests, "Deployment", name.removesuffix("-public"))
        ports = {port["name"] for container in containers(deployment) for port in container["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports


def test_a_public_service_is_made_only_when_asked_for(rendered: dict[str, list[Manifest]]) -> None:
    def public(name: str) -> list[str]:
        names = [service["metadata"]["name"] for service in of_kind(rendered[name], "Service")]
        return [service for service in names if service.endswith("-public")]

    assert public("minimal") == []
    assert public("production") == ["signalbox-console-public", "signalbox-gateway-public"]


def test_targets_lead_to_ports_of_headless_services(manifests: list[Manifest]) -> None:
    addresses = {
        f"{service['metadata']['name']}.signalbox.svc:{port['port']}"
        for service in of_kind(manifests, "Service")
        for port in service["spec"]["ports"]
        if service["spec"].get("clusterIP") == "None"
    }
    targets = [
        entry["value"].removeprefix("dns:///")
        for workload in workloads(manifests)
        for name, entry in settings_of(workload).items()
        if name.endswith("_TARGET")
    ]
    assert len(targets) >= 3
    assert set(targets) <= addresses


def test_a_rollout_takes_no_pod_away_before_its_replacement_is_ready(manifests: list[Manifest]) -> None:
    for deployment in of_kind(manifests, "Deployment"):
        assert deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


def test_a_disruption_is_bounded_but_never_impossible(manifests: list[Manifest]) -> None:
    for budget in of_kind(manifests, "PodDisruptionBudget"):
        assert budget["spec"]["maxUnavailable"] in (1, "25%")
        assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


@pytest.mark.parametrize(("grace_s", "pod_s"), [("1", 11), ("20", 30), ("600", 610)])
def test_the_pod_waits_longer_than_the_service_drains(helm: Helm, grace_s: str, pod_s: int) -> None:
    manifests = helm.manifests([EXAMPLES / "minimal" / "values.yaml"], settings=[f"shutdownGraceS={grace_s}"])
    for deployment in of_kind(manifests, "Deployment"):
        assert settings_of(deployment)["SIGNALBOX_SHUTDOWN_GRACE_S"]["value"] == grace_s
        drain_s = int(settings_of(deployment).get("SIGNALBOX_DRAIN_S", {"value": "0"})["value"])
        assert pod_spec(deployment)["terminationGracePeriodSeconds"] == pod_s + drain_s
        assert all("lifecycle" not in container for container in containers(deployment))


def test_metrics_are_found_by_annotation_or_by_the_operator(rendered: dict[str, list[Manifest]]) -> None:
    for deployment in of_kind(rendered["minimal"], "Deployment"):
        annotations = deployment["spec"]["template"]["metadata"]["annotations"]
        ports = {port["name"]: port["containerPort"] for port in containers(deployment)[0]["ports"]}
        assert annotations["prometheus.io/port"] == str(ports["metrics"])
        assert settings_of(deployment)["SIGNALBOX_METRICS_LISTEN"]["value"] == f"0.0.0.0:{ports['metrics']}"
    (monitor,) = of_kind(rendered["production"], "PodMonitor")
    selector = monitor["spec"]["selector"]["matchLabels"]
    for deployment in of_kind(rendered["production"], "Deployment"):
        assert selector.items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
        assert "prometheus.io/scrape" not in deployment["spec"]["template"]["metadata"]["annotations"]


def test_a_new_chart_version_alone_rolls_no_pod(manifests: list[Manifest]) -> None:
    for workload in workloads(manifests):
        labels = workload["spec"]["template"]["metadata"]["labels"]
        assert not {"helm.sh/chart", "app.kubernetes.io/version"} & labels.keys()


def test_an_unwanted_service_can_be_left_out_altogether(helm: Helm) -> None:
    manifests = helm.manifests([EXAMPLES / "minimal" / "values.yaml"], settings=["services.offline_model=null"])
    assert "signalbox-offline-model" not in {manifest["metadata"]["name"] for manifest in manifests}


def test_a_changed_file_rolls_the_pods(helm: Helm) -> None:
    def checksum(content: str) -> Any:
        manifests = helm.manifests(
            [EXAMPLES / "production" / "values.yaml"],
            settings=[f"services.sql_executor.files.SIGNALBOX_SQL_POLICY.content={content}"],
        )
        pods = named(manifests, "Deployment", "signalbox-sql-executor")["spec"]["template"]
        return pods["metadata"]["annotations"]["checksum/files"]

    assert checksum("a: 1") != checksum("a: 2")
    assert checksum("a: 1") == checksum("a: 1")


def test_the_runtime_gets_time_to_hand_over_its_runs(manifests: list[Manifest]) -> None:
    assert int(settings_of(named(manifests, "Deployment", "signalbox-runtime"))["SIGNALBOX_DRAIN_S"]["value"]) > 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["model.baseUrl="], "model.baseUrl is empty"),
        (["services.gateway.env.SIGNALBOX_JWT_ISSUER="], "services.gateway.env.SIGNALBOX_JWT_ISSUER is empty"),
        (
            ["services.guard.enabled=false"],
            'services.runtime.targets.SIGNALBOX_GUARD_TARGET names "guard", which is not en',
        ),
        (["services.runtime.targets.SIGNALBOX_GUARD_TARGET=gurad"], 'names "gurad", which is not one of services'),
        (
            ["secrets.database=null"],
            "secrets.database is missing or empty, and services.runtime.secretEnv.SIGNALBOX_DATABASE",
        ),
        (
            ["services.runtime.env.SIGNALBOX_GUARD_TARGET=guard:1"],
            "services.runtime sets SIGNALBOX_GUARD_TARGET twice",
        ),
        (["secrets.gitCredentails=git"], "secrets.gitCredentails is used by no service; those that are: batchToken,"),
        (["services.sql_executor.configMap="], "services.sql_executor.files.SIGNALBOX_SQL_POLICY.content is empty"),
        (
            ["services.runtime.migration.settings={SIGNALBOX_X}"],
            "migration.settings names SIGNALBOX_X, which the service",
        ),
    ],
)
def test_values_that_cannot_work_are_refused_with_their_name(helm: Helm, settings: list[str], message: str) -> None:
    with pytest.raises(HelmError, match=re.escape(message)):
        helm.template([EXAMPLES / "minimal" / "values.yaml"], settings=settings)


def test_the_chart_alone_asks_for_what_it_needs(helm: Helm) -> None:
    with pytest.raises(HelmError, match="is empty"):
        helm.template()


def test_a_new_service_needs_a_block_of_values_and_no_template(helm: Helm) -> None:
    manifests = helm.manifests(
        [EXAMPLES / "minimal" / "values.yaml"],
        settings=[
            "services.tide_table.image=registry.example.com/tide:2",
            "services.tide_table.port=50070",
            "services.tide_table.env.SIGNALBOX_TIDE=high",
            "services.runtime.targets.SIGNALBOX_SQL_EXECUTOR_TARGET=tide_table",
        ],
    )
    kinds = {manifest["kind"] for manifest in manifests if manifest["metadata"]["name"] == "signalbox-tide-table"}
    assert kinds == {*SERVICE_KINDS, "NetworkPolicy"}
    (container,) = containers(named(manifests, "Deployment", "signalbox-tide-table"))
    assert container["image"] == "registry.example.com/tide:2"
    runtime = settings_of(named(manifests, "Deployment", "signalbox-runtime"))
    assert runtime["SIGNALBOX_SQL_EXECUTOR_TARGET"]["value"] == "dns:///signalbox-tide-table.signalbox.svc:50070"


def test_the_agents_that_read_code_can_be_left_out(helm: Helm) -> None:
    left_out = [
        "services.code_executor.enabled=false",
        "services.evaluator.enabled=false",
        "services.runtime.targets.SIGNALBOX_CODE_EXECUTOR_TARGET=null",
        "services.runtime.targets.SIGNALBOX_EVALUATOR_TARGET=null",
    ]
    manifests = helm.manifests([EXAMPLES / "minimal" / "values.yaml"], settings=left_out)
    deployments = {manifest["metadata"]["name"] for manifest in of_kind(manifests, "Deployment")}
    assert deployments == {f"signalbox-{name}" for name in ("gateway", "runtime", "guard", "sql-executor")}
    runtime = settings_of(named(manifests, "Deployment", "signalbox-runtime"))
    assert not {"SIGNALBOX_CODE_EXECUTOR_TARGET", "SIGNALBOX_EVALUATOR_TARGET"} & runtime.keys()


TARGET = "SIGNALBOX_GRAPH_EXECUTOR_TARGET"
WITH_GRAPH = ("services.graph_executor.enabled=true", "services.graph_executor.configMap=graph-policy")


@pytest.mark.parametrize("more", [(), (f"services.runtime.targets.{TARGET}=graph_executor",)])
def test_the_runtime_is_told_of_the_graph_executor_where_there_is_one(helm: Helm, more: tuple[str, ...]) -> None:
    minimal = [EXAMPLES / "minimal" / "values.yaml"]
    without = settings_of(named(helm.manifests(minimal), "Deployment", "signalbox-runtime"))
    assert TARGET not in without
    manifests = helm.manifests(minimal, settings=[*WITH_GRAPH, *more])
    runtime = settings_of(named(manifests, "Deployment", "signalbox-runtime"))
    assert runtime[TARGET]["value"] == "dns:///signalbox-graph-executor.signalbox.svc:50051"
    assert {name: entry for name, entry in runtime.items() if name != TARGET} == without


def test_the_graph_executor_is_given_the_authority_of_its_database(helm: Helm) -> None:
    ca = "services.graph_executor.secretFiles.SIGNALBOX_GRAPH_CA"
    settings = [*WITH_GRAPH, f"{ca}.secret=graph", f"{ca}.key=ca.crt"]
    manifests = helm.manifests([EXAMPLES / "minimal" / "values.yaml"], settings=settings)
    executor = named(manifests, "Deployment", "signalbox-graph-executor")
    path = settings_of(executor)["SIGNALBOX_GRAPH_CA"]["value"]
    (container,) = containers(executor)
    [mount] = [each for each in container["volumeMounts"] if path.startswith(each["mountPath"] + "/")]
    [volume] = [each for each in executor["spec"]["template"]["spec"]["volumes"] if each["name"] == mount["name"]]
    [source] = [
        each["secret"] for each in volume["projected"]["sources"] if each["secret"]["name"] == "signalbox-graph"
    ]
    [item] = source["items"]
    assert (item["key"], f"{mount['mountPath']}/{item['path']}") == ("ca.crt", path)


def test_the_cache_of_repositories_has_room_in_its_volume(manifests: list[Manifest]) -> None:
    executor = named(manifests, "Deployment", "signalbox-code-executor")
    cache = settings_of(executor)["SIGNALBOX_CODE_CACHE_DIR"]["value"]
    assert cache.startswith("/tmp/")  # noqa: S108 - the pod's own
    (scratch,) = [volume["emptyDir"] for volume in pod_spec(executor)["volumes"] if volume["name"] == "scratch"]
    most = CodeExecutorSettings.model_fields["code_cache_bytes"].default
    assert int(scratch["sizeLimit"].removesuffix("Gi")) * 1024**3 >= most * 1.5
