"""What an installation may have besides: autoscalers, routes, a certificate, a test, and whatever the operator adds."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.contract.deploy.helm import EXAMPLES, Helm, HelmError, Manifest
from tests.contract.deploy.manifests import containers, named, of_kind, pod_spec

MINIMAL = EXAMPLES / "minimal" / "values.yaml"
DIGEST = f"sha256:{'0a' * 32}"


def rendered_with(helm: Helm, folder: Path, values: dict[str, Any]) -> list[Manifest]:
    """The smallest example with more values."""
    more = folder / "more.json"
    more.write_text(json.dumps(values))
    return helm.manifests([MINIMAL, more])


def test_what_scales_has_no_number_of_its_own(rendered: dict[str, list[Manifest]]) -> None:
    production = rendered["production"]
    scaled = named(production, "ScaledObject", "signalbox-runtime")["spec"]
    assert scaled["scaleTargetRef"]["name"] == "signalbox-runtime"
    assert (scaled["minReplicaCount"], scaled["maxReplicaCount"]) == (3, 12)
    [trigger] = scaled["triggers"]
    # The value itself, not shared out among the replicas: one run waits as long however many there are.
    assert trigger["metricType"] == "Value"
    oldest = "max(signalbox_runs_pending_oldest_age_seconds"
    assert trigger["metadata"]["query"] == f'{oldest}{{namespace="signalbox",pool="runtime"}})'
    assert named(production, "HorizontalPodAutoscaler", "signalbox-gateway")["spec"]["minReplicas"] == 3
    for name, counted in (("runtime", False), ("gateway", False), ("guard", True)):
        assert ("replicas" in named(production, "Deployment", f"signalbox-{name}")["spec"]) == counted


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"autoscaling": {"by": "pending"}}, "needs autoscaling.prometheusUrl"),
        ({"autoscaling": {"by": "cpu", "minReplicas": 11}}, "maxReplicas is less than minReplicas"),
        ({"ingress": {"enabled": True, "host": "a.example.com"}}, "set services.gateway.publicService.enabled"),
        ({"grpcRoute": {"enabled": True}, "publicService": {"enabled": True}}, "services.gateway.grpcRoute.gateways"),
        ({"ingress": {"enabled": True}, "publicService": {"enabled": True}}, "services.gateway.ingress.host is empty"),
    ],
)
def test_halves_of_it_are_refused(helm: Helm, tmp_path: Path, values: dict[str, Any], message: str) -> None:
    with pytest.raises(HelmError, match=message):
        rendered_with(helm, tmp_path, {"services": {"gateway": values}})


def test_the_production_example_names_every_image_by_its_digest() -> None:
    images = set(re.findall(r"\bimage: (\S+)", (EXAMPLES / "production" / "rendered.yaml").read_text()))
    assert len(images) >= 7
    assert all(re.search(r"@sha256:[0-9a-f]{64}$", image) for image in images), images


def test_the_production_examples_alerts_lead_to_runbooks_that_can_be_opened(
    rendered: dict[str, list[Manifest]],
) -> None:
    [group] = named(rendered["production"], "PrometheusRule", "signalbox")["spec"]["groups"]
    for rule in group["rules"]:
        assert rule["annotations"]["runbook_url"].startswith("https://")


def test_routes_lead_to_the_public_service(helm: Helm, tmp_path: Path) -> None:
    gateway = {
        "publicService": {"enabled": True},
        "ingress": {"enabled": True, "host": "box.example.com", "className": "nginx", "tlsSecret": "box"},
        "grpcRoute": {"enabled": True, "gateways": [{"name": "internal"}]},
    }
    manifests = rendered_with(helm, tmp_path, {"services": {"gateway": gateway}})
    public = named(manifests, "Service", "signalbox-gateway-public")
    [rule] = named(manifests, "Ingress", "signalbox-gateway")["spec"]["rules"]
    backend = rule["http"]["paths"][0]["backend"]["service"]
    [port] = public["spec"]["ports"]
    assert (backend["name"], backend["port"]["name"]) == (public["metadata"]["name"], port["name"])
    [route] = named(manifests, "GRPCRoute", "signalbox-gateway")["spec"]["rules"]
    assert route["backendRefs"] == [{"name": public["metadata"]["name"], "port": port["port"]}]


ROUTED: dict[str, Any] = {
    "publicService": {"enabled": True},
    "ingress": {"enabled": True, "host": "box.example.com"},
    "grpcRoute": {"enabled": True, "gateways": [{"name": "internal"}], "backendTls": {"caConfigMap": "yard-ca"}},
}
NGINX = "nginx.ingress.kubernetes.io"


@pytest.mark.parametrize(("secret", "spoken"), [("", "GRPC"), ("box-tls", "GRPCS")])
def test_whoever_leads_to_the_service_is_told_what_it_speaks(
    helm: Helm, tmp_path: Path, secret: str, spoken: str
) -> None:
    manifests = rendered_with(helm, tmp_path, {"tls": {"secret": secret}, "services": {"gateway": ROUTED}})
    annotations = named(manifests, "Ingress", "signalbox-gateway")["metadata"]["annotations"]
    assert annotations[f"{NGINX}/backend-protocol"] == spoken
    # Longer than a stream is quiet while a run thinks.
    assert int(annotations[f"{NGINX}/proxy-read-timeout"]) >= 3600
    [port] = named(manifests, "Service", "signalbox-gateway-public")["spec"]["ports"]
    assert port.get("appProtocol") == (None if secret else "kubernetes.io/h2c")
    policies = of_kind(manifests, "BackendTLSPolicy")
    assert bool(policies) is bool(secret)
    for policy in policies:
        assert policy["spec"]["targetRefs"] == [{"group": "", "kind": "Service", "name": "signalbox-gateway-public"}]
        assert policy["spec"]["validation"] == {
            "hostname": "signalbox-gateway.signalbox.svc",
            "caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "yard-ca"}],
        }


def test_what_the_operator_says_of_it_goes_before(helm: Helm, tmp_path: Path) -> None:
    gateway = {
        **ROUTED,
        "publicService": {"enabled": True, "appProtocol": "https"},
        "ingress": {**ROUTED["ingress"], "annotations": {f"{NGINX}/proxy-read-timeout": "86400"}},
        "grpcRoute": {**ROUTED["grpcRoute"], "backendTls": {"enabled": False}},
    }
    manifests = rendered_with(helm, tmp_path, {"tls": {"secret": "box-tls"}, "services": {"gateway": gateway}})
    annotations = named(manifests, "Ingress", "signalbox-gateway")["metadata"]["annotations"]
    assert (annotations[f"{NGINX}/proxy-read-timeout"], annotations[f"{NGINX}/backend-protocol"]) == ("86400", "GRPCS")
    assert named(manifests, "Service", "signalbox-gateway-public")["spec"]["ports"][0]["appProtocol"] == "https"
    assert of_kind(manifests, "BackendTLSPolicy") == []
    without = {**ROUTED, "grpcRoute": {"enabled": True, "gateways": [{"name": "internal"}]}}
    with pytest.raises(HelmError, match=r"backendTls\.caConfigMap is empty"):
        rendered_with(helm, tmp_path, {"tls": {"secret": "box-tls"}, "services": {"gateway": without}})


def test_a_certificate_is_for_every_service_that_serves_tls(rendered: dict[str, list[Manifest]]) -> None:
    certificate = named(rendered["production"], "Certificate", "signalbox")["spec"]
    assert certificate["secretName"] == "signalbox-tls"
    assert {"server auth", "client auth"} <= set(certificate["usages"])
    services = {service["metadata"]["name"] for service in of_kind(rendered["production"], "Service")}
    named_so = {name.removesuffix(".signalbox.svc") for name in certificate["dnsNames"]}
    assert named_so == {name for name in services if not name.endswith("-public")}


def test_the_test_asks_the_gateway_with_the_callers_token(rendered: dict[str, list[Manifest]]) -> None:
    pod = named(rendered["production"], "Pod", "signalbox-test")
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    [container] = pod["spec"]["containers"]
    assert container["command"] == ["python", "-m", "services.gateway.ask"]
    assert "--target=dns:///signalbox-gateway.signalbox.svc:50051" in container["args"]
    mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    assert volumes["caller"]["secret"]["secretName"] == "signalbox-test-caller"
    assert mounts.keys() == volumes.keys()
    assert all(mount.get("readOnly") for name, mount in mounts.items() if name != "scratch")
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert of_kind(rendered["minimal"], "Pod") == []


def test_a_service_monitor_finds_the_metrics_of_every_service(helm: Helm, tmp_path: Path) -> None:
    manifests = rendered_with(helm, tmp_path, {"metrics": {"serviceMonitor": {"enabled": True}}})
    [monitor] = of_kind(manifests, "ServiceMonitor")
    [endpoint] = monitor["spec"]["endpoints"]
    wanted = monitor["spec"]["selector"]["matchLabels"]
    assert of_kind(manifests, "PodMonitor") == []
    for deployment in of_kind(manifests, "Deployment"):
        service = named(manifests, "Service", deployment["metadata"]["name"])
        assert wanted.items() <= service["metadata"]["labels"].items()
        ports = {port["name"]: port for port in service["spec"]["ports"]}
        served = {port["name"] for port in containers(deployment)[0]["ports"]}
        assert ports[endpoint["port"]]["targetPort"] in served
    both = {"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": True}}
    with pytest.raises(HelmError, match="each pod would be scraped twice"):
        rendered_with(helm, tmp_path, {"metrics": both})


def test_pods_are_spread_as_the_operator_says(helm: Helm, rendered: dict[str, list[Manifest]], tmp_path: Path) -> None:
    own = {"topologyKey": "example.com/rack", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"}
    manifests = rendered_with(helm, tmp_path, {"services": {"guard": {"spread": [own]}, "gateway": {"spread": []}}})
    guard = named(manifests, "Deployment", "signalbox-guard")
    [constraint] = pod_spec(guard)["topologySpreadConstraints"]
    assert own.items() <= constraint.items()
    assert constraint["labelSelector"]["matchLabels"] == guard["spec"]["selector"]["matchLabels"]
    assert "topologySpreadConstraints" not in pod_spec(named(manifests, "Deployment", "signalbox-gateway"))
    by_default = pod_spec(named(rendered["minimal"], "Deployment", "signalbox-guard"))["topologySpreadConstraints"]
    assert [each["topologyKey"] for each in by_default] == ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]


def test_what_the_operator_adds_is_there(helm: Helm, tmp_path: Path) -> None:
    values = {
        "extraObjects": [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ .Release.Name }}-extra"}, "data": {}}
        ],
        "services": {
            "guard": {
                "digest": DIGEST,
                "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
                "extraVolumes": [{"name": "authorities", "configMap": {"name": "authorities"}}],
                "extraVolumeMounts": [{"name": "authorities", "mountPath": "/etc/authorities", "readOnly": True}],
            },
        },
    }
    manifests = rendered_with(helm, tmp_path, values)
    assert named(manifests, "ConfigMap", "signalbox-extra")
    guard = named(manifests, "Deployment", "signalbox-guard")
    [container] = containers(guard)
    assert container["image"] == f"signalbox-guard@{DIGEST}"
    assert {"name": "HTTPS_PROXY", "value": "http://proxy:3128"} in container["env"]
    assert "authorities" in {volume["name"] for volume in pod_spec(guard)["volumes"]}
    assert "authorities" in {mount["name"] for mount in container["volumeMounts"]}


def test_what_is_said_of_one_object_stands_over_what_is_said_of_all(helm: Helm, tmp_path: Path) -> None:
    labels = {"team": "yard", "site": "north"}
    own = {"enabled": True, "labels": {"team": "metrics"}}
    values = {
        "commonLabels": labels,
        "metrics": {"podMonitor": own, "rules": own, "dashboards": own},
        "services": {
            "runtime": {"podLabels": {"team": "runs"}, "podAnnotations": {"prometheus.io/scrape": "false"}},
            "guard": {"podLabels": {"team": ""}},
        },
    }
    # A key given twice would be refused, as kustomize and the API's stricter readers refuse it.
    manifests = rendered_with(helm, tmp_path, values)
    runtime = named(manifests, "Deployment", "signalbox-runtime")
    pods = [each["spec"]["template"]["metadata"] for each in (runtime, *of_kind(manifests, "Job"))]
    assert all((pod["labels"]["team"], pod["labels"]["site"]) == ("runs", "north") for pod in pods)
    assert runtime["metadata"]["labels"].items() >= labels.items()
    guard = named(manifests, "Deployment", "signalbox-guard")["spec"]["template"]["metadata"]
    assert guard["labels"]["team"] == ""
    scraped = [pod["annotations"]["prometheus.io/scrape"] for pod in (pods[0], guard)]
    assert scraped == ["false", "true"]
    dashboards = [each for each in of_kind(manifests, "ConfigMap") if "dashboard" in each["metadata"]["name"]]
    for manifest in (*of_kind(manifests, "PodMonitor", "PrometheusRule"), *dashboards):
        found = manifest["metadata"]["labels"]
        assert (found["team"], found["site"]) == ("metrics", "north")


def test_jobs_are_scheduled_as_their_service_is(helm: Helm, tmp_path: Path) -> None:
    affinity: dict[str, Any] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
    runtime: dict[str, Any] = {
        "affinity": affinity, "priorityClassName": "high", "podLabels": {"cost": "platform"},
        "extraVolumes": [{"name": "database-ca", "configMap": {"name": "database-ca"}}],
        "extraVolumeMounts": [{"name": "database-ca", "mountPath": "/etc/database-ca", "readOnly": True}],
    }  # fmt: skip
    manifests = rendered_with(helm, tmp_path, {"services": {"runtime": runtime}})
    jobs = of_kind(manifests, "Job")
    assert len(jobs) == 2
    for job in jobs:
        assert pod_spec(job)["affinity"] == affinity
        assert pod_spec(job)["priorityClassName"] == "high"
        assert job["spec"]["template"]["metadata"]["labels"]["cost"] == "platform"
        # They are given the DSN, and so what its TLS takes.
        assert runtime["extraVolumes"][0] in pod_spec(job)["volumes"]
        assert runtime["extraVolumeMounts"][0] in containers(job)[0]["volumeMounts"]


def test_prompts_are_mounted_where_a_model_is_asked(helm: Helm, tmp_path: Path) -> None:
    texts = {"data_chat.system.txt": "Other words.", "sast_investigation.xss.yaml": "name: xss"}
    own = rendered_with(helm, tmp_path, {"prompts": {"files": texts}})
    assert named(own, "ConfigMap", "signalbox-prompts")["data"] == texts
    for values, name in (({"files": texts}, "signalbox-prompts"), ({"configMap": "words"}, "words")):
        told = rendered_with(helm, tmp_path, {"prompts": values})
        mounted = {
            each["metadata"]["name"]: volume["configMap"]["name"]
            for each in of_kind(told, "Deployment")
            for volume in pod_spec(each)["volumes"]
            if volume["name"] == "prompts"
        }
        assert mounted == {f"signalbox-{service}": name for service in ("runtime", "guard", "evaluator")}
        [container] = containers(named(told, "Deployment", "signalbox-guard"))
        [mount] = [each for each in container["volumeMounts"] if each["name"] == "prompts"]
        assert {"name": "SIGNALBOX_PROMPTS_DIR", "value": mount["mountPath"]} in container["env"]


def test_prompts_come_from_one_place(helm: Helm, tmp_path: Path) -> None:
    values = {"prompts": {"files": {"guard.goal.txt": "ALLOW or BLOCK"}, "configMap": "words"}}
    with pytest.raises(HelmError, match=r"prompts\.files and prompts\.configMap are both set"):
        rendered_with(helm, tmp_path, values)
