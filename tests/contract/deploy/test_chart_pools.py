"""Pools of the chart: a runtime from a team's image, with none of the platform's keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from services.runtime.settings import RuntimeSettings
from tests.contract.deploy.helm import Helm, HelmError, Manifest
from tests.contract.deploy.manifests import containers, named, of_kind, pod_spec, settings_of, value_of
from tests.contract.deploy.test_chart_options import rendered_with

POOL = {"name": "support", "image": "registry.example.com/support:1"}


def test_a_pool_has_the_database_and_its_own_keys(
    rendered: dict[str, list[Manifest]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = named(rendered["production"], "Deployment", "signalbox-pool-support")
    settings = settings_of(pool)
    assert settings["SIGNALBOX_POOL"]["value"] == "support"
    assert settings["SIGNALBOX_AGENT_FOLDERS"]["value"] == "/agents"
    assert (
        settings["SIGNALBOX_DATABASE_DSN"]
        == settings_of(named(rendered["production"], "Deployment", "signalbox-runtime"))["SIGNALBOX_DATABASE_DSN"]
    )
    secret = {setting for setting, each in settings.items() if "secretKeyRef" in each.get("valueFrom", {})}
    assert secret == {"SIGNALBOX_DATABASE_DSN", "OPENAI_API_KEY"}
    [mounted] = [each["projected"]["sources"] for each in pod_spec(pool)["volumes"] if "projected" in each]
    assert [source["secret"]["items"] for source in mounted] == [
        [{"key": "public.pem", "path": "callerToken/public.pem"}]
    ]
    assert {each["name"] for each in pod_spec(pool)["volumes"]} == {"scratch", "secrets"}
    # What the pod is told is all that a runtime of a pool needs.
    for setting, each in settings.items():
        told = value_of(each, rendered["production"], "postgresql://somebody@somewhere/platform")
        monkeypatch.setenv(setting, told)
    monkeypatch.delenv("SIGNALBOX_OTLP_ENDPOINT")
    assert RuntimeSettings().is_pool


def test_nobody_calls_a_pool_and_it_calls_no_service(rendered: dict[str, list[Manifest]]) -> None:
    policy = named(rendered["production"], "NetworkPolicy", "signalbox-pool-support")["spec"]
    assert [rule["ports"] for rule in policy["ingress"]] == [[{"port": 9464}]]
    ports = [port["port"] for rule in policy["egress"] for port in rule["ports"]]
    assert ports == [53, 53, 5432, 443, 4317]
    called = {each["metadata"]["name"] for each in of_kind(rendered["production"], "Service")}
    assert "signalbox-pool-support" not in called


def test_each_pool_has_its_own_of_everything(helm: Helm, tmp_path: Path) -> None:
    asking = {"targets": {"SIGNALBOX_SQL_EXECUTOR_TARGET": "sql_executor"}, "tlsSecret": "sales-tls"}
    other = {
        **POOL,
        **asking,
        "name": "sales-desk",
        "replicas": 1,
        "succeeds": ["support"],
        "env": {"SIGNALBOX_LEASE_S": 20},
    }
    own = {"SIGNALBOX_DATABASE_DSN": {"secret": "database", "key": "support-dsn"}}
    manifests = rendered_with(helm, tmp_path, {"pools": [{**POOL, "secretEnv": own}, other]})
    for kind in ("Deployment", "ServiceAccount", "PodDisruptionBudget"):
        assert {"signalbox-pool-support", "signalbox-pool-sales-desk"} <= {
            each["metadata"]["name"] for each in of_kind(manifests, kind)
        }
    support, sales = (named(manifests, "Deployment", f"signalbox-pool-{name}") for name in ("support", "sales-desk"))
    assert settings_of(support)["SIGNALBOX_DATABASE_DSN"]["valueFrom"]["secretKeyRef"]["key"] == "support-dsn"
    assert settings_of(sales)["SIGNALBOX_POOL_SUCCEEDS"]["value"] == "support"
    assert settings_of(sales)["SIGNALBOX_SQL_EXECUTOR_TARGET"]["value"].startswith("dns:///signalbox-sql-executor.")
    assert ("SIGNALBOX_TLS_CERT" in settings_of(sales), "SIGNALBOX_TLS_CERT" in settings_of(support)) == (True, False)
    assert settings_of(sales)["SIGNALBOX_LEASE_S"]["value"] == "20"
    assert [containers(each)[0]["image"] for each in (support, sales)] == ["registry.example.com/support:1"] * 2


@pytest.mark.parametrize(
    ("pools", "message"),
    [
        ([POOL, POOL], "there are two of the name support"),
        ([{"name": "support"}], "image"),
        ([{**POOL, "name": "runtime"}], "pools"),
        ([{**POOL, "publicService": {"enabled": True}}], "publicService"),
    ],
)
def test_what_is_no_pool_is_refused(helm: Helm, tmp_path: Path, pools: list[Any], message: str) -> None:
    with pytest.raises(HelmError, match=message):
        rendered_with(helm, tmp_path, {"pools": pools})
