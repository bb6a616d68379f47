"""The API of pods' CPU, which metrics-server has where kubelets are; here a test says how busy pods are."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.cluster.cluster import Cluster, wait_until
from tests.cluster.control_plane import LOOPBACK
from tests.fixtures.certificates import Authority

GROUP = "metrics.k8s.io"
VERSION = "v1beta1"
SYSTEM = "kube-system"
SERVICE = "pod-metrics"
_RESOURCES = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": f"{GROUP}/{VERSION}",
    "resources": [
        {"name": "pods", "singularName": "", "namespaced": True, "kind": "PodMetrics", "verbs": ["get", "list"]}
    ],
}


@dataclass
class Load:
    """How busy every pod is, in thousandths of a core."""

    millicores: int


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    cluster: Cluster
    load: Load


class _Answers(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        path = urlsplit(self.path)
        match path.path.strip("/").split("/"):
            case ["apis", _, _]:
                self._answer(200, _RESOURCES)
            case ["apis", _, _, "namespaces", namespace, "pods"]:
                selector = parse_qs(path.query).get("labelSelector", [""])[0]
                self._answer(200, self._metrics(namespace, selector))
            case _:
                self._answer(404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404})

    def _metrics(self, namespace: str, selector: str) -> dict[str, Any]:
        usage = {"cpu": f"{self.server.load.millicores}m", "memory": "128Mi"}
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        items = [
            {
                "metadata": {
                    "name": pod["metadata"]["name"],
                    "namespace": namespace,
                    "labels": pod["metadata"]["labels"],
                },
                "timestamp": now,
                "window": "1s",
                "containers": [{"name": each["name"], "usage": usage} for each in pod["spec"]["containers"]],
            }
            for pod in self.server.cluster.all("pods", selector, namespace=namespace)
        ]
        return {"kind": "PodMetricsList", "apiVersion": f"{GROUP}/{VERSION}", "metadata": {}, "items": items}

    def _answer(self, status: int, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Says nothing."""


@contextmanager
def metrics_of_pods(cluster: Cluster, authority: Authority, load: Load) -> Iterator[None]:
    """Serves the API, and has the cluster's server pass it on."""
    served = authority.issue(SERVICE, f"{SERVICE}.{SYSTEM}.svc")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(served.cert, served.key)
    with _Server((LOOPBACK, 0), _Answers) as server:
        server.cluster, server.load = cluster, load
        server.socket = context.wrap_socket(server.socket, server_side=True)
        Thread(target=server.serve_forever, daemon=True).start()
        name = f"{VERSION}.{GROUP}"
        cluster.apply(_service(), namespace=SYSTEM)
        cluster.apply(_api(name, server.server_port, served.ca.read_bytes()))
        try:
            wait_until("the API of metrics is there", lambda: _available(cluster, name))
            yield
        finally:
            cluster.kubectl("delete", "apiservice", name)
            cluster.kubectl("delete", "service", SERVICE, namespace=SYSTEM)
            server.shutdown()


def _available(cluster: Cluster, name: str) -> bool:
    conditions = cluster.get("apiservice", name).get("status", {}).get("conditions", [])
    return any(each["type"] == "Available" and each["status"] == "True" for each in conditions)


def _service() -> dict[str, Any]:
    spec = {"type": "ExternalName", "externalName": "localhost"}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": SERVICE}, "spec": spec}


def _api(name: str, port: int, authority: bytes) -> dict[str, Any]:
    spec = {
        "group": GROUP,
        "version": VERSION,
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "caBundle": base64.b64encode(authority).decode(),
        "service": {"name": SERVICE, "namespace": SYSTEM, "port": port},
    }
    return {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": name}, "spec": spec}
