"""Ways into rendered manifests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.contract.deploy.helm import Manifest

Container = dict[str, Any]


def of_kind(manifests: list[Manifest], *kinds: str) -> list[Manifest]:
    """Returns the manifests of some kinds."""
    return [manifest for manifest in manifests if manifest["kind"] in kinds]


def named(manifests: list[Manifest], kind: str, name: str) -> Manifest:
    """Returns one manifest; raises LookupError when there is none."""
    for manifest in of_kind(manifests, kind):
        if manifest["metadata"]["name"] == name:
            return manifest
    raise LookupError(f"no {kind} {name}")


def workloads(manifests: list[Manifest]) -> list[Manifest]:
    """Returns what runs pods."""
    return of_kind(manifests, "Deployment", "Job")


def pod_spec(workload: Manifest) -> dict[str, Any]:
    """Returns the pod specification of a Deployment or Job."""
    return dict(workload["spec"]["template"]["spec"])


def containers(workload: Manifest) -> list[Container]:
    """Returns every container of a Deployment or Job, those that start first included."""
    spec = pod_spec(workload)
    return [*spec.get("initContainers", []), *spec["containers"]]


def settings_of(workload: Manifest) -> dict[str, dict[str, Any]]:
    """Returns the environment of the workload's container by name."""
    (container,) = containers(workload)
    return {entry["name"]: entry for entry in container["env"]}


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yields every scalar, empty mapping and list of nested mappings with its path."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, (*path, str(key)))
    else:
        yield path, value


def value_of(entry: Mapping[str, Any], manifests: list[Manifest], otherwise: str) -> str:
    """What a container is told by an entry of its environment; of a Secret, which no manifest has, `otherwise`."""
    if reference := entry.get("valueFrom", {}).get("configMapKeyRef"):
        return str(named(manifests, "ConfigMap", reference["name"])["data"][reference["key"]])
    return str(entry.get("value", otherwise))
