"""A Kubernetes control plane on loopback, with its data and certificates in a folder that goes with the test.

with control_plane(assets, folder) as plane:
    subprocess.run([assets / "kubectl", "--kubeconfig", plane.kubeconfig, "get", "namespaces"])

Its programs are in one folder, by envtest's convention; `make kubernetes` builds them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from services.local import tether
from tests.fixtures.certificates import Authority, Certificate
from tests.fixtures.patience import START_TIMEOUT_S
from tests.fixtures.ports import reserved_port

STOP_TIMEOUT_S = 60
POLL_S = 0.2
ADMINISTRATORS = "system:masters"
SERVICE_ACCOUNTS = "service-accounts"
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class ControlPlane:
    """A control plane that is ready."""

    assets: Path
    folder: Path
    server: str
    authority: Authority
    kubeconfig: Path

    def credentials(self, name: str, group: str = "") -> Path:
        """Makes a kubeconfig for a user, who may be one of a group."""
        return _kubeconfig(self.folder, self.server, name, self.authority.issue(name, group=group))


@contextmanager
def program(path: Path, folder: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a program, which ends with this process whatever happens to that; it writes its log into the folder."""
    with (folder / f"{path.name}.log").open("wb") as log:
        running = subprocess.Popen(
            [sys.executable, "-I", "-S", tether.__file__, str(os.getpid()), "--", str(path), *arguments],
            stdout=log, stderr=subprocess.STDOUT, cwd=folder,
        )  # fmt: skip
    try:
        yield running
    finally:
        running.terminate()
        try:
            running.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()


@contextmanager
def control_plane(assets: Path, folder: Path) -> Iterator[ControlPlane]:
    """Starts etcd, the API server, the controllers and the scheduler."""
    authority = Authority(folder)
    with ExitStack() as running:
        store, peers, port, of_controllers, of_scheduler = (running.enter_context(reserved_port()) for _ in range(5))
        running.enter_context(program(assets / "etcd", folder, *_etcd(folder, store, peers)))
        server = f"https://{LOOPBACK}:{port}"
        administrator = _kubeconfig(
            folder, server, "administrator", authority.issue("administrator", group=ADMINISTRATORS)
        )
        plane = ControlPlane(assets, folder, server, authority, administrator)
        api = running.enter_context(program(assets / "kube-apiserver", folder, *_api_server(plane, store, port)))
        _wait_until_ready(plane, api)
        for name, secure_port, more in (
            ("kube-controller-manager", of_controllers, _controllers(plane)),
            ("kube-scheduler", of_scheduler, []),
        ):
            own = plane.credentials(f"system:{name}")
            running.enter_context(program(assets / name, folder, *_controller(own, secure_port), *more))
        yield plane


def _etcd(folder: Path, port: int, peers: int) -> list[str]:
    client, peer = f"http://{LOOPBACK}:{port}", f"http://{LOOPBACK}:{peers}"
    return [
        f"--data-dir={folder / 'etcd'}", f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",  # its data goes with the test
    ]  # fmt: skip


def _api_server(plane: ControlPlane, store: int, port: int) -> list[str]:
    served = plane.authority.issue("kube-apiserver")
    to_kubelets = plane.authority.issue("kube-apiserver-kubelet-client", group=ADMINISTRATORS)
    # Whom an aggregated server (that of metrics) is to trust in the name of others.
    front = plane.authority.issue("front-proxy-client")
    accounts = plane.authority.issue(SERVICE_ACCOUNTS)
    return [
        f"--etcd-servers=http://{LOOPBACK}:{store}", f"--bind-address={LOOPBACK}", f"--secure-port={port}",
        f"--tls-cert-file={served.cert}", f"--tls-private-key-file={served.key}", f"--client-ca-file={served.ca}",
        f"--kubelet-client-certificate={to_kubelets.cert}", f"--kubelet-client-key={to_kubelets.key}",
        f"--proxy-client-cert-file={front.cert}", f"--proxy-client-key-file={front.key}",
        f"--requestheader-client-ca-file={front.ca}", "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={accounts.cert}",
        f"--service-account-signing-key-file={accounts.key}", "--authorization-mode=Node,RBAC",
        "--service-cluster-ip-range=10.96.0.0/16", "--kubelet-preferred-address-types=InternalIP",
        # The address that `kubernetes.default` has must be no loopback one; nothing here asks for it.
        "--advertise-address=192.0.2.1", "--endpoint-reconciler-type=none",
    ]  # fmt: skip


def _controller(credentials: Path, port: int) -> list[str]:
    uses = [f"--{use}={credentials}" for use in ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")]
    return [*uses, f"--bind-address={LOOPBACK}", f"--secure-port={port}", "--leader-elect=false"]


def _controllers(plane: ControlPlane) -> list[str]:
    return [
        f"--service-account-private-key-file={plane.folder / SERVICE_ACCOUNTS}.key",
        f"--root-ca-file={plane.folder / 'authority.crt'}", "--use-service-account-credentials=true",
        "--horizontal-pod-autoscaler-sync-period=2s", "--horizontal-pod-autoscaler-cpu-initialization-period=1s",
        "--horizontal-pod-autoscaler-initial-readiness-delay=1s",
    ]  # fmt: skip


def _kubeconfig(folder: Path, server: str, name: str, certificate: Certificate) -> Path:
    path = folder / f"{name.replace(':', '-')}.kubeconfig"
    cluster = {"server": server, "certificate-authority": str(certificate.ca)}
    user = {"client-certificate": str(certificate.cert), "client-key": str(certificate.key)}
    context = {"cluster": "here", "user": name}
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1", "kind": "Config", "current-context": "here",
                "clusters": [{"name": "here", "cluster": cluster}], "users": [{"name": name, "user": user}],
                "contexts": [{"name": "here", "context": context}],
            }
        )
    )  # fmt: skip
    path.chmod(0o600)
    return path


def _wait_until_ready(plane: ControlPlane, server: subprocess.Popen[bytes]) -> None:
    ask = [str(plane.assets / "kubectl"), "--kubeconfig", str(plane.kubeconfig), "get", "--raw", "/readyz"]
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        asked = subprocess.run(ask, capture_output=True, text=True, timeout=STOP_TIMEOUT_S, check=False)
        if asked.returncode == 0:
            return
        if server.poll() is not None or time.monotonic() > deadline:
            log = (plane.folder / "kube-apiserver.log").read_text(errors="replace")
            raise RuntimeError(f"the API server is not ready: {asked.stderr}\nIts log ends:\n{log[-3000:]}")
        time.sleep(POLL_S)
