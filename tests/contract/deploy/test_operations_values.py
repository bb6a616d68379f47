"""What docs/operations.md and docs/mcp.md give as values the chart takes; and who has a secret, as its table says."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import TypeAdapter

from services.runtime.engine.retention_policy import RetentionPolicy
from tests.contract.deploy.helm import ROOT, Helm, Manifest
from tests.contract.deploy.manifests import of_kind
from tests.contract.deploy.test_chart_options import rendered_with
from tests.contract.deploy.test_chart_values import VALUES as DEFAULTS
from tests.contract.deploy.test_chart_values import schema_knows
from tests.fixtures.page import blocks

OPERATIONS = (ROOT / "docs" / "operations.md").read_text()
TEST_POD = "the pod of `helm test`"
# Every secret that the page speaks of is there.
ALL_SECRETS: dict[str, Any] = {
    "tls": {"secret": "tls.secret"},
    "test": {"tokenSecret": "test.tokensecret", "tokenKey": "test.tokenKey"},
    "secrets": {"examples": "signalbox-examples", "git": "git-read-only"},
    "services": {
        "batches": {"enabled": True},
        "graph_executor": {"enabled": True, "configMap": "graph-policy"},
        "mcp_executor": {"enabled": True, "configMap": "mcp-servers"},
        "http_api": {"enabled": True},
        "console": {
            "enabled": True,
            "env": {
                "SIGNALBOX_PUBLIC_URL": "https://console.example.com",
                "SIGNALBOX_OIDC_ISSUER": "https://login.example.com",
                "SIGNALBOX_OIDC_CLIENT_ID": "console",
            },
        },
        "sql_executor": {"secretEnv": {"SIGNALBOX_EXAMPLES_DSN": {"secret": "examples", "key": "dsn"}}},
        "code_executor": {
            "secretFiles": {"SIGNALBOX_CODE_GIT_CREDENTIALS": {"secret": "git", "key": "credentials"}},
        },
    },
    "pools": [
        {
            "name": "support",
            "image": "registry.example.com/support/agents:1",
            "secretFiles": {"SIGNALBOX_RUN_TOKEN_PRIVATE_KEY_FILE": {"secret": "runToken", "key": "private.pem"}},
        }
    ],
}
OF_MCP = [block for block in blocks(["yaml"], ROOT / "docs" / "mcp.md") if block.startswith("services:")]
VALUES = [yaml.safe_load(block) for block in (*blocks(["yaml"]), *OF_MCP)]
RETENTION = TypeAdapter(dict[str, RetentionPolicy])


@pytest.mark.parametrize("values", VALUES, ids=lambda values: " ".join(values))
def test_the_chart_takes_the_pages_values(helm: Helm, tmp_path: Path, values: dict[str, object]) -> None:
    assert rendered_with(helm, tmp_path, values)


def test_every_value_that_the_page_names_is_one() -> None:
    named = {word for word in re.findall(r"`([a-zA-Z.<>_]+)(?:: [^`]+)?`", OPERATIONS) if "." in word}
    named = {word for word in named if word.partition(".")[0] in DEFAULTS} - {"tls.key"}  # that is of the Secret
    assert len(named) > 30
    unknown = [word for word in named if not schema_knows(tuple(word.replace("<name>", "guard").split(".")))]
    assert unknown == []


def test_the_runtime_takes_the_pages_retention() -> None:
    [block] = blocks(["json"])
    assert RETENTION.validate_python(json.loads(block))["default"] == RetentionPolicy()


def test_the_page_says_who_has_which_secret(helm: Helm, tmp_path: Path) -> None:
    holders = defaultdict(set)
    for manifest in of_kind(rendered_with(helm, tmp_path, ALL_SECRETS), "Deployment", "Job", "Pod"):
        name = manifest["metadata"]["labels"]["app.kubernetes.io/component"].replace("-", "_")
        name = "pools" if name.startswith("pool_") else name
        who = {"Deployment": name, "Job": f"Jobs of {name.partition('_')[0]}", "Pod": TEST_POD}
        for held in secrets_of(manifest):
            holders[held].add(who[manifest["kind"]])
    table = OPERATIONS.partition("| secret | key | who has it |")[2].partition("\n\n")[0]
    told = {
        (secret.lower(), key): set(
            re.sub(r"pools [^,]+", "pools", re.sub(r"(\w+) and its Jobs", r"\1, Jobs of \1", who)).split(", ")
        )
        for secret, key, who in re.findall(r"^\| `([^`]+)` \| `([^`]+)` \| ([^|]+) \|", table, re.MULTILINE)
    }
    assert told == holders


def test_the_page_restarts_all_who_verify_the_run_token(helm: Helm, tmp_path: Path) -> None:
    [block] = [block for block in blocks(["sh cluster"]) if "rollout restart" in block]
    chosen = re.search(r"app\.kubernetes\.io/component in \(([^)]+)\)", block)
    assert chosen
    readers = {
        manifest["metadata"]["labels"]["app.kubernetes.io/component"]
        for manifest in of_kind(rendered_with(helm, tmp_path, ALL_SECRETS), "Deployment")
        if ("signalbox-run-token", "public.pem") in secrets_of(manifest)
    }
    assert set(chosen[1].split(", ")) == readers


def secrets_of(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """The keys of Secrets that a pod is given, by name."""
    spec = manifest["spec"] if manifest["kind"] == "Pod" else manifest["spec"]["template"]["spec"]
    for container in spec["containers"]:
        for entry in container.get("env", []):
            if ref := entry.get("valueFrom", {}).get("secretKeyRef"):
                yield ref["name"], ref["key"]
    for volume in spec["volumes"]:
        if whole := volume.get("secret"):
            # cert-manager's Secret has a certificate and an authority beside the key, which open nothing.
            yield from ((whole["secretName"], item["key"]) for item in whole.get("items", [{"key": "tls.key"}]))
        for source in volume.get("projected", {}).get("sources", []):
            yield from ((source["secret"]["name"], item["key"]) for item in source["secret"]["items"])
