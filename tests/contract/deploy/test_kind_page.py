"""`docs/kind.md`, as far as it takes no cluster: what the chart refers to is made there, of files that there are."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from services.local.keys import DevelopmentKeys
from tests.contract.deploy.helm import ROOT, Helm

PAGE = (ROOT / "docs" / "kind.md").read_text()
COMMANDS = "\n".join(re.findall(r"```console\n(.*?)```", PAGE, flags=re.DOTALL)).replace("\\\n", " ")


def made() -> dict[tuple[str, str], dict[str, str]]:
    """What the page creates: keys with what each is made from, by kind and name."""
    found = {}
    for line in re.findall(r"^create ((?:secret generic|configmap) .+)$", COMMANDS, flags=re.MULTILINE):
        kind, name, *options = shlex.split(line.replace("secret generic", "secret"))
        given = [option.partition("=")[2] for option in options]
        # Without a key it is the file's name.
        keys = (each.partition("=") if "=" in each else (Path(each).name, "=", each) for each in given)
        found[kind, name] = {key: source for key, _, source in keys}
    return found


def referred(node: Any) -> Iterator[tuple[str, str, str]]:
    """Yields kind, name and key of each secret and ConfigMap that a manifest can't do without; no key: all of it."""
    if isinstance(node, list):
        for each in node:
            yield from referred(each)
    elif isinstance(node, dict) and not node.get("optional"):
        for kind, variable, volume in (
            ("secret", "secretKeyRef", "secret"),
            ("configmap", "configMapKeyRef", "configMap"),
        ):
            if variable in node:
                yield kind, node[variable]["name"], node[variable]["key"]
            held: Any = node.get(volume) if isinstance(node.get(volume), dict) else {}
            name = held.get("secretName") or held.get("name")
            if name and not held.get("optional"):
                yield from ((kind, name, item["key"]) for item in held.get("items", [{"key": ""}]))
        for each in node.values():
            yield from referred(each)


def installed(helm: Helm) -> list[dict[str, Any]]:
    """What the page's `helm install` installs."""
    [line] = re.findall(r"^helm install (.+)$", COMMANDS, flags=re.MULTILINE)
    words = shlex.split(line)
    settings = [after for word, after in pairwise(words) if word == "--set"]
    return helm.manifests([ROOT / words[words.index("--values") + 1]], settings=settings)


def test_what_the_chart_refers_to_is_made(helm: Helm) -> None:
    manifests = installed(helm)
    own = {(each["kind"].lower(), each["metadata"]["name"]) for each in manifests}
    wanted = {(kind, name, key) for each in manifests for kind, name, key in referred(each) if (kind, name) not in own}
    there = made()
    assert wanted
    assert [each for each in wanted if each[:2] not in there or (each[2] and each[2] not in there[each[:2]])] == []
    assert set(there) == {each[:2] for each in wanted}, "nothing is made that nobody reads"


def test_the_files_are_there(tmp_path: Path) -> None:
    DevelopmentKeys.create(tmp_path)
    sources = [
        source for keys in made().values() for source in keys.values() if "://" not in source and "$" not in source
    ]
    assert sources
    for source in sources:
        file = tmp_path / source.removeprefix("keys/") if source.startswith("keys/") else ROOT / source
        assert file.is_file(), source
    for named in re.findall(r"(?:charts|examples)/[\w./]+", COMMANDS):
        assert (ROOT / named).exists(), named
    assert (tmp_path / "callers.pem").is_file()


def test_images_and_the_gateway_are_called_what_the_chart_calls_them(helm: Helm) -> None:
    manifests = installed(helm)
    [prefix] = re.findall(r"IMAGE_PREFIX=(\S+)", COMMANDS)
    images = {
        container["image"]
        for each in manifests
        if each["kind"] in ("Deployment", "StatefulSet", "Job")
        for container in each["spec"]["template"]["spec"]["containers"]
    }
    assert images
    assert all(image.startswith(prefix) and image.endswith(":dev") for image in images), images
    [(name, port)] = re.findall(r"port-forward service/(\S+) \d+:(\d+)", COMMANDS)
    [service] = [each for each in manifests if (each["kind"], each["metadata"]["name"]) == ("Service", name)]
    assert int(port) in [each["port"] for each in service["spec"]["ports"]]
