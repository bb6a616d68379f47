"""values.schema.json refuses what is unknown or wrong, and README.md describes every value."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.deploy.helm import CHART, EXAMPLES, ROOT, Helm, HelmError, chart_values
from tests.contract.deploy.manifests import leaves

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
VALUES = chart_values()
README = (CHART / "README.md").read_text()
# The API server checks what is inside these.
OPEN_OBJECTS = {"nodeAffinity", "podAffinity", "podAntiAffinity", "items"}
# Helm's, for all charts; and limits of agents from outside.
OPEN_OBJECTS |= {"global", "^[a-z][a-z0-9_]*$"}
# Models by role, whose parameters the services check.
OPEN_OBJECTS |= {"models"}

WRONG = [
    ("unknown=1", "additional properties 'unknown'"),
    ("image.name=x", "/image"),
    ("image.prefix=UPPER", "/image/prefix"),
    ("image.prefix=", "/image/prefix"),
    ("image.tag=a b", "/image/tag"),
    ("image.pullPolicy=Sometimes", "/image/pullPolicy"),
    ("image.pullSecrets=one", "/image/pullSecrets"),
    ("nameOverride=-a", "/nameOverride"),
    ("fullnameOverride=A", "/fullnameOverride"),
    ("commonLabels.team=1", "/commonLabels/team"),
    ("commonLabels.team=the yard", "/commonLabels/team"),
    (r"commonLabels.app\.kubernetes\.io/name=x", "app.kubernetes.io/name"),
    (r"services.guard.podLabels.app\.kubernetes\.io/component=x", "app.kubernetes.io/component"),
    ("services.nineteen_characters.replicas=1", "nineteen_characters"),
    ("logLevel=debug", "/logLevel"),
    ("otlpEndpoint=collector:4317", "/otlpEndpoint"),
    ("shutdownGraceS=0", "/shutdownGraceS"),
    ("shutdownGraceS=601", "/shutdownGraceS"),
    ("shutdownGraceS=soon", "/shutdownGraceS"),
    ("tls.secret=Not_A_Name", "/tls/secret"),
    ("tls.enabled=true", "/tls"),
    ("metrics.port=80", "/metrics/port"),
    ("metrics.scrapeAnnotations=maybe", "/metrics/scrapeAnnotations"),
    ("metrics.podMonitor.interval=soon", "/metrics/podMonitor/interval"),
    ("metrics.podMonitor.scheme=https", "/metrics/podMonitor"),
    ("serviceDefaults.spread[0].maxSkew=0", "/serviceDefaults/spread/0/maxSkew"),
    ("model.baseUrl=models.example.com", "/model/baseUrl"),
    ("model.apiKey=sk-1", "/model/apiKey"),
    ("model.apiKey.value=sk-1", "/model/apiKey"),
    ("secrets.database.dsn=x", "/secrets/database"),
    ("secrets.Database=x", "/secrets"),
    ("services.Guard.replicas=1", "/services"),
    ("services.sql-executor.replicas=1", "/services"),
    ("services.guard.replica=1", "/services/guard"),
    ("services.guard.replicas=-1", "/services/guard/replicas"),
    ("services.guard.replicas=two", "/services/guard/replicas"),
    ("services.guard.enabled=yes please", "/services/guard/enabled"),
    ("services.guard.port=443", "/services/guard/port"),
    ("services.guard.port=65536", "/services/guard/port"),
    ("services.guard.protocol=udp", "/services/guard/protocol"),
    ("services.guard.drainS=301", "/services/guard/drainS"),
    ("services.guard.image=no-tag", "/services/guard/image"),
    ("services.guard.lists.SIGNALBOX_GUARD_MODEL.service=guard", "missing properties 'file', 'key'"),
    ("services.guard.lists.SIGNALBOX_GUARD_MODEL.value=a", "/services/guard/lists/SIGNALBOX_GUARD_MODEL"),
    ("services.guard.env.GUARD_MODEL=x", "/services/guard/env"),
    ("services.guard.env.SIGNALBOX_GUARD_MODLE=x", "/services/guard/env"),
    ("services.guard.env.SIGNALBOX_GUARD_MODEL=1", "/services/guard/env/SIGNALBOX_GUARD_MODEL"),
    ("services.guard.env.SIGNALBOX_MODEL_TIMEOUT_S=soon", "/services/guard/env/SIGNALBOX_MODEL_TIMEOUT_S"),
    ("services.runtime.env.SIGNALBOX_LEASE_S=0", "/services/runtime/env/SIGNALBOX_LEASE_S"),
    ("services.runtime.env.SIGNALBOX_DATABASE_PREPARE=perhaps", "/services/runtime/env/SIGNALBOX_DATABASE_PREPARE"),
    ("services.runtime.env.SIGNALBOX_DATABASE_DSN=postgresql://u:p@h/d", "/services/runtime/env"),
    ("services.runtime.env.SIGNALBOX_LISTEN=0.0.0.0:1", "/services/runtime/env"),
    ("services.runtime.secretEnv.SIGNALBOX_DATABASE_DNS.secret=database", "/services/runtime/secretEnv"),
    ("services.gaurd.replica=3", "/services/gaurd"),
    ("services.guard.targets.SIGNALBOX_RUNTIME_TARGET=run-time", "/services/guard/targets/SIGNALBOX_RUNTIME_TARGET"),
    ("services.guard.secretEnv.SIGNALBOX_X=word", "/services/guard/secretEnv/SIGNALBOX_X"),
    ("services.guard.secretEnv.SIGNALBOX_X.secret=model", "missing property 'key'"),
    ("services.guard.secretFiles.SIGNALBOX_X.value=word", "/services/guard/secretFiles/SIGNALBOX_X"),
    ("services.guard.files.SIGNALBOX_X.content=word", "missing property 'name'"),
    ("services.guard.files.SIGNALBOX_X.name=../x", "/services/guard/files/SIGNALBOX_X/name"),
    ("services.guard.configMap=A", "/services/guard/configMap"),
    ("services.guard.migration.command=sh", "/services/guard/migration/command"),
    ("services.guard.migration.image=sh", "/services/guard/migration"),
    ("services.runtime.compatCheck.enabled=maybe", "/services/runtime/compatCheck/enabled"),
    ("services.guard.resources.limits.cpus=1", "/services/guard/resources/limits"),
    ("services.guard.resources.limits.memory=much", "/services/guard/resources/limits/memory"),
    ("services.guard.scratch=1 GB", "/services/guard/scratch"),
    ("services.guard.maxUnavailable=0", "/services/guard/maxUnavailable"),
    ("services.guard.maxUnavailable=100%", "/services/guard/maxUnavailable"),
    ("services.guard.publicService.type=ExternalName", "/services/guard/publicService/type"),
    ("services.guard.publicService.port=0", "/services/guard/publicService/port"),
    ("services.guard.securityContext.privileged=true", "/services/guard"),
    ("services.guard.tolerations[0].effect=Never", "/services/guard/tolerations/0/effect"),
    ("services.guard.affinity.pods=x", "/services/guard/affinity"),
    ("services.guard.priorityClassName=High", "/services/guard/priorityClassName"),
    ("serviceDefaults.replicas=many", "/serviceDefaults/replicas"),
    ("serviceDefaults.hostNetwork=true", "/serviceDefaults"),
]


@pytest.mark.parametrize(("setting", "where"), WRONG, ids=[setting for setting, _ in WRONG])
def test_wrong_values_are_refused_where_they_are(helm: Helm, setting: str, where: str) -> None:
    with pytest.raises(HelmError, match="(?s)don't meet the specifications.*" + re.escape(where)):
        helm.template([EXAMPLES / "minimal" / "values.yaml"], settings=[setting])


def objects(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields every schema of an object with its path."""
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield path, schema
        for key, inner in schema.items():
            yield from objects(inner, f"{path}/{key}")


def test_every_object_of_the_schema_is_closed() -> None:
    opened = {
        path.rsplit("/", 1)[1] for path, schema in objects(SCHEMA) if schema.get("additionalProperties") is not False
    }
    assert opened == OPEN_OBJECTS


def test_every_property_of_the_schema_is_described() -> None:
    for path, schema in objects(SCHEMA):
        for name, inner in schema.get("properties", {}).items():
            target = SCHEMA["definitions"][inner["$ref"].rsplit("/", 1)[1]] if "$ref" in inner else inner
            assert target.get("description"), f"{path}/{name}"


def schema_knows(path: tuple[str, ...]) -> bool:
    """Whether the schema has a property, by name or by pattern, for each part of a path."""
    if path[0] == "services":
        return schema_has(SCHEMA["definitions"]["service"], path[2:]) and path[1] in VALUES["services"]
    return schema_has(SCHEMA, path)


def schema_has(schema: dict[str, Any], path: tuple[str, ...]) -> bool:
    """The same below a schema."""
    for part in path:
        patterns = [inner for pattern, inner in schema.get("patternProperties", {}).items() if re.search(pattern, part)]
        found = schema.get("properties", {}).get(part) or (patterns[0] if patterns else None)
        if found is None:
            return False
        schema = SCHEMA["definitions"][found["$ref"].rsplit("/", 1)[1]] if "$ref" in found else found
    return True


def documented() -> dict[str, str | None]:
    """Returns the values that the README's tables name, with their default where the table gives one."""
    rows = re.findall(r"^\| `([^`]+)` \|(?: `([^`]*)` \|)?", README, flags=re.MULTILINE)
    return {name: default or None for name, default in rows}


def test_every_value_is_documented_with_its_default() -> None:
    described = documented()
    for path, default in leaves({key: value for key, value in VALUES.items() if key != "services"}):
        name = ".".join(path)
        assert name in described, f"{name} is missing in the chart's README"
        shown = (
            json.dumps(default) if default in ("", True, False) or isinstance(default, (dict, list)) else str(default)
        )
        assert described[name] == shown, name


def test_every_setting_to_fill_is_documented() -> None:
    described = documented()
    for path, value in leaves(VALUES["services"], ("services",)):
        if value == "":
            name = ".".join(path).removesuffix(".content")
            assert name in described, f"{name} is missing in the chart's README"


def test_every_documented_value_exists() -> None:
    assert len(documented()) > 50
    for name in documented():
        assert schema_knows(tuple(name.split("."))), name
    for name in [name for name, default in documented().items() if default is None]:
        here: Any = VALUES
        for part in name.split("."):
            here = here[part]


def test_every_secret_is_in_the_operations_page_with_its_keys() -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    table = page.partition("| Secret | keys | used by |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", table, flags=re.MULTILINE)
    described = {name: set(re.findall(r"`([^`]+)`", keys)) for name, keys in rows}
    needed = [VALUES["model"]["apiKey"]]
    for service in VALUES["services"].values():
        needed += [*service.get("secretEnv", {}).values(), *service.get("secretFiles", {}).values()]
    for reference in needed:
        assert reference["key"] in described[VALUES["secrets"][reference["secret"]]]
    assert {VALUES["secrets"][reference["secret"]] for reference in needed} == set(VALUES["secrets"].values())


def test_a_service_block_knows_every_default_and_no_more() -> None:
    assert set(SCHEMA["definitions"]["service"]["properties"]) == set(VALUES["serviceDefaults"])
