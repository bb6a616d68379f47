"""What values say arrives as it was written, whatever YAML could take it for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.contract.deploy import services
from tests.contract.deploy.helm import CHART, EXAMPLES, Helm, HelmError, Manifest, parse
from tests.contract.deploy.manifests import containers, leaves, named, settings_of

MINIMAL = EXAMPLES / "minimal" / "values.yaml"
# What YAML reads as something other than text, and names of Kubernetes objects may be.
NOT_TEXT = ["123", "true", "null", "1e5", "0x10", "2026-01-01"]
NUMBERS = [
    ("SIGNALBOX_CODE_CACHE_BYTES", 8 * 1024**3, "8589934592"),
    ("SIGNALBOX_CODE_CACHE_BYTES", 10_000_000, "10000000"),
    ("SIGNALBOX_CODE_REPOSITORY_FILES", 300_000, "300000"),
    ("SIGNALBOX_CODE_SEARCH_TIMEOUT_S", 2.5, "2.5"),
    ("SIGNALBOX_TLS_REQUIRE_CLIENT_CERT", False, "false"),
]


def rendered_with(helm: Helm, folder: Path, values: dict[str, Any]) -> list[Manifest]:
    """Renders the smallest example with more values from a file, as an operator gives them."""
    more = folder / "more.json"
    more.write_text(json.dumps(values))
    return helm.manifests([MINIMAL, more])


@pytest.mark.parametrize(("setting", "value", "text"), NUMBERS, ids=[text for _, _, text in NUMBERS])
def test_a_number_in_a_values_file_reaches_the_service(
    helm: Helm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, value: float, text: str
) -> None:
    manifests = rendered_with(helm, tmp_path, {"services": {"code_executor": {"env": {setting: value}}}})
    environment = settings_of(named(manifests, "Deployment", "signalbox-code-executor"))
    assert environment[setting]["value"] == text
    for name, entry in environment.items():
        monkeypatch.setenv(name, entry["value"])
    services.settings_class("code_executor")()


def test_texts_and_files_reach_the_service_as_they_are(helm: Helm, tmp_path: Path) -> None:
    texts = ["a: b # c", "\"'`{{ x }}", "first\n  second\n", " padded ", *NOT_TEXT]
    contents = ["a: 1\n", "  a: 1\n  b: 2\n", "\n\na: 1", "a:\r\n  - b\r\n", "a: 'tr  '   \n\n\n"]
    env = {f"SIGNALBOX_TEXT_{number}": text for number, text in enumerate(texts)}
    files = dict(zip(["true", "123", "null", "notes.yaml", "1e5"], contents, strict=True))
    mounted = {f"SIGNALBOX_FILE_{n}": {"name": name, "content": text} for n, (name, text) in enumerate(files.items())}
    values = {"services": {"outside": {"image": "notes:1", "env": env, "files": mounted}}}
    manifests = rendered_with(helm, tmp_path, values)
    told = settings_of(named(manifests, "Deployment", "signalbox-outside"))
    assert {name: told[name]["value"] for name in env} == env
    assert named(manifests, "ConfigMap", "signalbox-outside")["data"] == files


@pytest.mark.parametrize("name", NOT_TEXT)
def test_names_that_are_not_text_to_yaml_stay_names(helm: Helm, tmp_path: Path, name: str) -> None:
    values = {
        "nameOverride": name if name.isalpha() else "box",
        "image": {"pullSecrets": [name]},
        "tls": {"secret": name},
        "secrets": {"database": name, "runToken": name},
        "serviceDefaults": {"priorityClassName": name},
        "services": {
            "sql_executor": {"configMap": name, "files": {"SIGNALBOX_SQL_POLICY": {"name": name}}},
            "runtime": {"secretEnv": {"SIGNALBOX_DATABASE_DSN": {"key": name}}},
        },
    }
    for manifest in rendered_with(helm, tmp_path, values):
        for path, value in _items(manifest):
            assert not (_text_is_due(path) and not isinstance(value, str)), (path, value)


@pytest.mark.parametrize("release", NOT_TEXT)
def test_a_release_name_that_is_not_text_to_yaml_stays_one(helm: Helm, release: str) -> None:
    text = helm.run("template", release, CHART, "--values", MINIMAL, "--set", "fullnameOverride=box")
    for manifest in parse(text):
        assert manifest["metadata"]["labels"]["app.kubernetes.io/instance"] == release


def test_a_release_name_that_no_service_may_have_is_refused(helm: Helm) -> None:
    with pytest.raises(HelmError, match="Service's name must begin with a letter: set fullnameOverride"):
        helm.run("template", "123", CHART, "--values", MINIMAL)


@pytest.mark.parametrize("left_out", ["null", "{enabled: false}"])
def test_the_notes_speak_of_what_is_installed(helm: Helm, tmp_path: Path, left_out: str) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(f"services: {{gateway: {left_out}}}\n")
    install = ["install", "box", str(CHART), "--dry-run=client", "--namespace", "yard", "--values", str(MINIMAL)]
    assert "port-forward deployment/box-signalbox-gateway 50051:50051" in helm.run(*install)
    notes = helm.run(*install, "--values", values).partition("NOTES:")[2]
    assert "box-signalbox-runtime.yard.svc:50051" in notes
    assert "gateway" not in notes


@pytest.mark.parametrize("more", [(), ("--set", "test.tokenSecret=caller")])
def test_the_notes_end_in_three_commands_that_this_release_takes(helm: Helm, more: tuple[str, ...]) -> None:
    install = ["install", "box", str(CHART), "--dry-run=client", "--namespace", "yard", "--values", str(MINIMAL)]
    told = helm.run(*install, *more)
    notes = told.partition("NOTES:")[2]
    wait, ask, forward = re.findall(r"^  ((?:kubectl|helm) .+)$", notes, re.MULTILINE)
    assert wait.startswith(
        "kubectl --namespace yard rollout status deployment --selector app.kubernetes.io/instance=box "
    )
    # Without --logs: Helm 3 looks for them when it has deleted the pod of a test that went well (helm/helm#9098).
    assert ask == "helm test box --namespace yard"
    gateway = named(parse(told.partition("MANIFEST:")[2].partition("NOTES:")[0]), "Deployment", "box-signalbox-gateway")
    port = containers(gateway)[0]["ports"][0]["containerPort"]
    assert forward == f"kubectl --namespace yard port-forward deployment/{gateway['metadata']['name']} 50051:{port}"


def _text_is_due(path: tuple[str, ...]) -> bool:
    """Whether the API takes nothing but text there: names, keys, paths, labels and annotations."""
    named_so = {"name", "key", "path", "secretName", "priorityClassName"}
    return path[-1] in named_so or bool({"labels", "matchLabels", "annotations"} & set(path))


def _items(manifest: Manifest) -> list[tuple[tuple[str, ...], Any]]:
    """Returns every scalar of a manifest with its path, those in lists included."""
    found: list[tuple[tuple[str, ...], Any]] = []
    waiting = list(leaves(manifest))
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, list):
            for item in value:
                waiting += leaves(item, path)
        else:
            found.append((path, value))
    return found
