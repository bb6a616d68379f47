"""Pods may do nothing they need not, and nothing secret is ever rendered."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from tests.contract.deploy.helm import CHART, EXAMPLES, Helm, HelmError, Manifest
from tests.contract.deploy.manifests import containers, named, of_kind, pod_spec, settings_of, workloads

SECRET_SETTING = re.compile(r"DSN|PASSWORD|API_KEY|SECRET|PRIVATE_KEY|CREDENTIALS")
PRODUCTION = [EXAMPLES / "production" / "values.yaml"]
IDS = ("runAsUser", "runAsGroup", "fsGroup")
FILES_OF_SECRETS = {"SIGNALBOX_CODE_GIT_CREDENTIALS"}  # a path by its setting, though its name does not say so
SECRET_TEXT = re.compile(r"-----BEGIN|[a-z]+://[^/\s:]+:[^/\s@]+@|\bsk-[A-Za-z0-9]{8}")


def test_pods_run_as_nobody_with_nothing(manifests: list[Manifest]) -> None:
    for workload in workloads(manifests):
        spec = pod_spec(workload)
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] == 65532
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
        for container in containers(workload):
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["readOnlyRootFilesystem"] is True
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert "privileged" not in context


def test_a_platform_may_say_whom_pods_run_as(helm: Helm) -> None:
    """OpenShift refuses pods that name a user or a group outside of their namespace's range."""
    for name in ("runAsUser", "runAsGroup", "fsGroup"):
        given = [f"podSecurity.{each}=null" for each in ("runAsUser", "runAsGroup", "fsGroup") if each != name]
        for workload in workloads(helm.manifests(PRODUCTION, settings=[*given, f"podSecurity.{name}=1000650000"])):
            context = pod_spec(workload)["securityContext"]
            assert {key: value for key, value in context.items() if key in IDS} == {name: 1000650000}
    for workload in workloads(helm.manifests(PRODUCTION, settings=[f"podSecurity.{each}=null" for each in IDS])):
        assert pod_spec(workload)["securityContext"] == {
            "runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}
        }  # fmt: skip
    with pytest.raises(HelmError, match="podSecurity"):
        helm.manifests(PRODUCTION, settings=["podSecurity.runAsUser=0"])


def test_accounts_carry_no_token(manifests: list[Manifest]) -> None:
    accounts = {account["metadata"]["name"] for account in of_kind(manifests, "ServiceAccount")}
    assert {pod_spec(workload)["serviceAccountName"] for workload in workloads(manifests)} == accounts
    for account in of_kind(manifests, "ServiceAccount"):
        assert account["automountServiceAccountToken"] is False


def quantity(text: str) -> int:
    """Bytes, as Kubernetes writes them."""
    number, unit = re.fullmatch(r"(\d+)(Mi|Gi)", text).groups()  # type: ignore[union-attr]
    return int(number) * {"Mi": 1024**2, "Gi": 1024**3}[unit]


def test_only_bounded_scratch_is_writable(manifests: list[Manifest]) -> None:
    for workload in workloads(manifests):
        volumes = {volume["name"]: volume for volume in pod_spec(workload)["volumes"]}
        for container in containers(workload):
            mounts = container["volumeMounts"]
            assert [mount["mountPath"] for mount in mounts if not mount.get("readOnly")] == ["/tmp"]  # noqa: S108
            assert {mount["name"] for mount in mounts} == volumes.keys()
        scratch = quantity(volumes["scratch"]["emptyDir"]["sizeLimit"])
        [container] = containers(workload)
        requests, limits = (container["resources"][kind]["ephemeral-storage"] for kind in ("requests", "limits"))
        # Beside it on the node's disk is what the container logs: fifty megabytes until the kubelet cuts it.
        assert scratch <= quantity(requests) <= quantity(limits)
        assert quantity(limits) >= scratch + 50 * 1024**2


def test_every_container_is_bounded(manifests: list[Manifest]) -> None:
    for workload in workloads(manifests):
        for container in containers(workload):
            assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
            assert "memory" in container["resources"]["limits"]


def test_every_service_is_probed_for_its_health(rendered: dict[str, list[Manifest]]) -> None:
    for example, manifests in rendered.items():
        for deployment in of_kind(manifests, "Deployment"):
            (container,) = containers(deployment)
            (port,) = (port for port in container["ports"] if port["name"] != "metrics")
            for kind in ("startupProbe", "livenessProbe"):
                assert container[kind]["httpGet"] == {"port": "metrics", "path": "/livez"}
            ready = container["readinessProbe"]
            # The kubelet has no certificate to show under mTLS, and what serves HTTP answers to its own name only.
            if port["name"] == "http" or example == "production":
                assert ready["httpGet"] == {"port": "metrics", "path": "/healthz"}
            else:
                assert ready["grpc"] == {"port": port["containerPort"]}
            assert settings_of(deployment)["SIGNALBOX_LISTEN"]["value"] == f"0.0.0.0:{port['containerPort']}"


def test_liveness_is_more_patient_than_readiness(manifests: list[Manifest]) -> None:
    for deployment in of_kind(manifests, "Deployment"):
        (container,) = containers(deployment)
        patience = {
            kind: container[kind]["periodSeconds"] * container[kind]["failureThreshold"]
            for kind in ("readinessProbe", "livenessProbe")
        }
        assert patience["livenessProbe"] > patience["readinessProbe"]


def test_secret_settings_come_from_secrets_only(manifests: list[Manifest]) -> None:
    found = 0
    for workload in workloads(manifests):
        for name, entry in settings_of(workload).items():
            if not SECRET_SETTING.search(name):
                continue
            found += 1
            if name in FILES_OF_SECRETS or name.endswith("_FILE"):
                assert entry["value"].startswith("/etc/signalbox/secrets/")
            else:
                assert set(entry) == {"name", "valueFrom"}
                assert set(entry["valueFrom"]) == {"secretKeyRef"}
    assert found >= 5


def test_the_chart_makes_no_secret_and_renders_none(manifests: list[Manifest]) -> None:
    assert not of_kind(manifests, "Secret")
    assert not SECRET_TEXT.search(json.dumps(manifests))
    assert SECRET_TEXT.search("postgresql://user:word@host/db")


def test_default_values_hold_no_secret() -> None:
    assert not SECRET_TEXT.search((CHART / "values.yaml").read_text())


def test_a_pod_gets_the_keys_it_is_owed_and_no_other(manifests: list[Manifest]) -> None:
    """Private keys sign, public keys verify: who verifies must not be able to sign."""
    keys: dict[str, set[tuple[str, str]]] = {}
    for deployment in of_kind(manifests, "Deployment"):
        component = deployment["metadata"]["labels"]["app.kubernetes.io/component"]
        for volume in pod_spec(deployment)["volumes"]:
            for source in volume.get("projected", {}).get("sources", []):
                keys.setdefault(component, set()).update(
                    (source["secret"]["name"], item["key"]) for item in source["secret"]["items"]
                )
    signers = {
        secret: {component for component, held in keys.items() if (secret, "private.pem") in held}
        for secret in ("signalbox-run-token", "signalbox-caller-token")
    }
    assert signers == {"signalbox-run-token": {"runtime"}, "signalbox-caller-token": {"gateway"}}
    assert all(
        "secret" not in volume
        for deployment in of_kind(manifests, "Deployment")
        for volume in pod_spec(deployment)["volumes"]
        if volume["name"] != "tls"
    )


def test_file_settings_name_files_that_are_mounted(manifests: list[Manifest]) -> None:
    for workload in workloads(manifests):
        paths = set()
        mounts = {mount["name"]: mount["mountPath"] for mount in containers(workload)[0]["volumeMounts"]}
        for volume in pod_spec(workload)["volumes"]:
            items = [
                item for source in volume.get("projected", {}).get("sources", []) for item in source["secret"]["items"]
            ]
            items += volume.get("configMap", {}).get("items", [])
            paths |= {f"{mounts[volume['name']]}/{item['path']}" for item in items}
            if volume["name"] == "tls":
                paths |= {f"{mounts['tls']}/{name}" for name in ("tls.crt", "tls.key", "ca.crt")}
        used = {
            entry["value"]
            for entry in settings_of(workload).values()
            if str(entry.get("value", "")).startswith("/etc/signalbox/")
        }
        assert used <= paths


def test_mounted_configuration_has_the_keys_it_names(rendered: dict[str, list[Manifest]]) -> None:
    manifests = rendered["production"]
    config = named(manifests, "ConfigMap", "signalbox-sql-executor")
    assert yaml.safe_load(config["data"]["policy.yaml"])


@pytest.mark.parametrize("tls", ["", "signalbox-tls"])
def test_mtls_is_on_for_all_grpc_services_or_for_none(helm: Helm, tls: str) -> None:
    manifests = helm.manifests([EXAMPLES / "offline" / "values.yaml"], settings=[f"tls.secret={tls}"])
    names = {"SIGNALBOX_TLS_CERT", "SIGNALBOX_TLS_KEY", "SIGNALBOX_TLS_CA"}
    for deployment in of_kind(manifests, "Deployment"):
        speaks_grpc = deployment["metadata"]["name"] != "signalbox-offline-model"
        assert names & settings_of(deployment).keys() == (names if tls and speaks_grpc else set())
