"""What the chart makes for operators of others is what those operators read."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.contract.deploy.custom_resources import DEFINITIONS, validate
from tests.contract.deploy.helm import Helm, HelmError, Manifest
from tests.contract.deploy.manifests import of_kind
from tests.contract.deploy.test_chart_options import rendered_with

LONGEST_HOST = f"*.{'.'.join(['a' * 60] * 4)}"
# Everything that custom resources are made for, with every value that they take from an operator given.
EVERYTHING: dict[str, Any] = {
    "commonLabels": {"team": "yard"},
    "tls": {
        "secret": "box-tls",
        "certificate": {"enabled": True, "issuer": "yard", "issuerKind": "ClusterIssuer", "duration": "720h"},
    },
    "autoscaling": {"prometheusUrl": "https://prometheus.example.com:9090"},
    "metrics": {
        "serviceMonitor": {"enabled": True, "interval": "500ms", "labels": {"release": "prometheus"}},
        "rules": {
            "enabled": True, "interval": "1m", "labels": {"release": "prometheus"}, "disabled": ["SignalboxClockOff"],
            "windows": {"moment": "0s", "short": "500ms", "day": "1d"}, "goals": {"pendingAgeS": 1},
        },
    },
    "services": {
        "runtime": {"autoscaling": {"by": "pending", "minReplicas": 1, "maxReplicas": 40, "pendingAgeS": 1}},
        "evaluator": {"autoscaling": {"by": "pending"}},
        "gateway": {
            "publicService": {"enabled": True, "port": 8443},
            "grpcRoute": {
                "enabled": True,
                "gateways": [{"name": "internal"}, {"name": "public.edge", "namespace": "edge", "sectionName": "grpc"}],
                "hostnames": ["box.example.com", LONGEST_HOST],
                "backendTls": {"caConfigMap": "yard-ca", "hostname": "box.yard.svc"},
            },
        },
    },
}  # fmt: skip
POD_MONITOR = {"podMonitor": {"enabled": True, "interval": "2m", "labels": {"release": "prometheus"}}}
MISSPELT = {
    "BackendTLSPolicy": ("validation", "hostnames"),
    "Certificate": ("issuerRef", "sort"),
    "GRPCRoute": ("rules", 0, "backendRefs", 0, "portName"),
    "HTTPRoute": ("rules", 0, "backendRefs", 0, "portName"),
    "PodMonitor": ("podMetricsEndpoints", 0, "intervall"),
    "PrometheusRule": ("groups", 0, "rules", 0, "form"),
    "ScaledObject": ("scaleTargetRef", "nome"),
    "ServiceMonitor": ("endpoints", 0, "intervall"),
}


@pytest.fixture(scope="module")
def custom(helm: Helm, rendered: dict[str, list[Manifest]], tmp_path_factory: pytest.TempPathFactory) -> list[Manifest]:
    """Every custom resource of the examples, and of an installation that asks for all there is."""
    folder = tmp_path_factory.mktemp("custom")
    monitors = {**EVERYTHING["metrics"], **POD_MONITOR, "serviceMonitor": {"enabled": False}}
    sets = [
        *rendered.values(),
        rendered_with(helm, folder, EVERYTHING),
        rendered_with(helm, folder, EVERYTHING | {"metrics": monitors}),
    ]
    return [manifest for manifests in sets for manifest in of_kind(manifests, *DEFINITIONS)]


def test_every_one_is_what_its_operator_declares(custom: list[Manifest]) -> None:
    assert {manifest["kind"] for manifest in custom} == DEFINITIONS.keys()
    for manifest in custom:
        validate(manifest)


@pytest.mark.parametrize("kind", sorted(MISSPELT))
def test_a_misspelt_field_is_noticed(custom: list[Manifest], kind: str) -> None:
    manifest = deepcopy(of_kind(custom, kind)[0])
    *path, unknown = MISSPELT[kind]
    inner = manifest["spec"]
    for part in path:
        inner = inner[part]
    inner[unknown] = "x"
    with pytest.raises(jsonschema.ValidationError, match=f"'{unknown}' was unexpected"):
        validate(manifest)


@pytest.mark.parametrize("kind", sorted(MISSPELT))
def test_another_version_than_the_operators_is_noticed(custom: list[Manifest], kind: str) -> None:
    manifest = {**of_kind(custom, kind)[0], "apiVersion": "example.com/v0"}
    with pytest.raises(jsonschema.ValidationError, match=r"example\.com/v0"):
        validate(manifest)


@pytest.mark.parametrize(
    ("route", "where"),
    [
        ({"hostnames": ["box..example.com"]}, "/grpcRoute/hostnames/0"),
        ({"hostnames": ["box-.example.com"]}, "/grpcRoute/hostnames/0"),
        ({"hostnames": ["a" * 254]}, "/grpcRoute/hostnames/0"),
        ({"hostnames": [f"{n}.example.com" for n in range(17)]}, "/grpcRoute/hostnames"),
        ({"gateways": [{"name": ""}]}, "/grpcRoute/gateways/0/name"),
        ({"gateways": [{"name": "a", "namespace": "a.b"}]}, "/grpcRoute/gateways/0/namespace"),
        ({"gateways": [{"name": "a", "sectionName": "A"}]}, "/grpcRoute/gateways/0/sectionName"),
        ({"gateways": [{"name": f"g{n}"} for n in range(33)]}, "/grpcRoute/gateways"),
        ({"gateways": [{"name": "a"}, {"name": "a"}]}, "/grpcRoute/gateways"),
    ],
)
def test_what_a_gateway_would_refuse_is_refused_before(
    helm: Helm, tmp_path: Path, route: dict[str, Any], where: str
) -> None:
    whole = {"enabled": True, "gateways": [{"name": "internal"}], **route}
    gateway = {"publicService": {"enabled": True}, "grpcRoute": whole}
    with pytest.raises(HelmError, match=f"(?s)don't meet the specifications.*/services/gateway{where}"):
        rendered_with(helm, tmp_path, {"services": {"gateway": gateway}})
