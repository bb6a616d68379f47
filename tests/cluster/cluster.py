"""A cluster as an operator has it: kubectl and Helm, and what they show."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.contract.deploy.helm import CHART, Manifest

NAMESPACE = "signalbox"
RELEASE = "signalbox"
COMMAND_TIMEOUT_S = 900
WAIT_S = 300.0
POLL_S = 0.25


class Refused(Exception):
    """A command ended with an error; the message is what it printed."""


@dataclass(frozen=True)
class Cluster:
    """A cluster that an operator's tools lead to.

    `dsn` is the URL of a Postgres superuser that leads there from its pods and from here; empty where no container
    runs, and the pods' fates are made up. `here` is the address of this machine by which pods call it; empty where they
    can't.
    """

    kubeconfig: Path
    tools: Path
    home: Path
    dsn: str = field(default="", repr=False)
    here: str = ""

    @property
    def env(self) -> dict[str, str]:
        """What an operator's shell has: the tools, this cluster, and nobody's own configuration."""
        path = f"{self.tools}{os.pathsep}{os.environ['PATH']}"
        return {"PATH": path, "HOME": str(self.home), "KUBECONFIG": str(self.kubeconfig)}

    def command(self, *arguments: str | Path, stdin: str = "") -> str:
        """Returns what a command printed; raises Refused."""
        done = subprocess.run(
            [*map(str, arguments)],
            env=self.env, cwd=self.home, timeout=COMMAND_TIMEOUT_S, input=stdin, text=True, capture_output=True,
            check=False,
        )  # fmt: skip
        if done.returncode:
            raise Refused(f"{' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}")
        return done.stdout

    def kubectl(self, *arguments: str | Path, namespace: str = NAMESPACE, stdin: str = "") -> str:
        """Returns what kubectl printed; raises Refused."""
        return self.command("kubectl", "--namespace", namespace, *arguments, stdin=stdin)

    def helm(self, *arguments: str | Path, namespace: str = NAMESPACE) -> str:
        """Returns what Helm printed; raises Refused."""
        return self.command("helm", "--namespace", namespace, *arguments)

    def upgrade(self, values: Path, *settings: str, timeout: str = "5m", forced: bool = False) -> str:
        """Upgrades the release to values, with `--set` settings on top; raises Refused.

        `forced` takes back what others have set since, such as how many replicas there are.
        """
        chosen = [argument for setting in settings for argument in ("--set", setting)]
        chosen += ["--force-conflicts"] if forced else []
        return self.helm("upgrade", RELEASE, CHART, "--values", values, "--wait", "--timeout", timeout, *chosen)

    def apply(self, manifest: Mapping[str, Any], *, namespace: str = NAMESPACE) -> None:
        """Makes an object, or brings it to what the manifest says; raises Refused."""
        self.kubectl("apply", "--filename", "-", namespace=namespace, stdin=json.dumps(manifest))

    def get(self, kind: str, name: str, *, namespace: str = NAMESPACE) -> Manifest:
        """Returns an object; raises Refused when it is not there."""
        return dict(json.loads(self.kubectl("get", kind, name, "--output", "json", namespace=namespace)))

    def all(self, kind: str, selector: str = "", *, namespace: str = NAMESPACE) -> list[Manifest]:
        """Returns the objects of a kind, of all labels or of some."""
        found = self.kubectl("get", kind, "--selector", selector, "--output", "json", namespace=namespace)
        return list(json.loads(found)["items"])

    def services(self) -> set[str]:
        """Returns the services that are deployed."""
        return {each["metadata"]["labels"]["app.kubernetes.io/component"] for each in self.all("deployments")}

    def pods(self, service: str, *, namespace: str = NAMESPACE) -> list[Manifest]:
        """Returns the pods of a service that are not going."""
        found = self.all("pods", f"app.kubernetes.io/component={service}", namespace=namespace)
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def ready(self, service: str, *, namespace: str = NAMESPACE) -> list[str]:
        """Returns the names of those of them that are ready."""
        return [pod["metadata"]["name"] for pod in self.pods(service, namespace=namespace) if is_ready(pod)]

    def contents(self, *, namespace: str = NAMESPACE) -> set[str]:
        """Returns all that is in a namespace, as `kind/name`, but for what the cluster writes down about it."""
        kinds = self.command("kubectl", "api-resources", "--namespaced", "--verbs=list", "--output=name").split()
        told = {"events", "events.events.k8s.io", "leases.coordination.k8s.io", "pods.metrics.k8s.io"}
        asked = ",".join(kind for kind in kinds if kind not in told)
        return set(self.kubectl("get", asked, "--output", "name", "--ignore-not-found", namespace=namespace).split())


def is_ready(pod: Manifest) -> bool:
    """Whether a pod takes calls."""
    conditions = pod.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def wait_until(what: str, holds: Callable[[], bool], *, within_s: float = WAIT_S) -> None:
    """Waits for something; raises TimeoutError that names it."""
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {within_s:.0f} s it is still not so that {what}")
        time.sleep(POLL_S)
