"""Nodes on this machine, whose pods are real: each a kubelet on a containerd of its own, in cgroups of its own.

CoreDNS and a Postgres that pods reach come with them. Needs root, containerd, runc and the CNI plugins (Debian:
containerd, containernetworking-plugins). Nothing of it is to be reached from elsewhere: pods, their nodes and what they
ask for are on a bridge of this machine alone.
"""

from __future__ import annotations

import json
import subprocess
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import yaml

from services.local.postgres import EmbeddedPostgres
from tests.cluster.control_plane import ControlPlane, program
from tests.cluster.forwarded import forwarded
from tests.fixtures.patience import START_TIMEOUT_S

CONTAINERD = Path("/usr/bin/containerd")
CNI_PLUGINS = "/usr/lib/cni"
BRIDGE = "signalbox0"
ADDRESS = "10.251.0.1"
NODES = {"one": "10.251.0.2", "two": "10.251.0.3"}
PODS = {"subnet": "10.251.0.0/24", "rangeStart": "10.251.0.10"}
PAUSE = "localhost/signalbox-pause:1"
LOG_LINKS = Path("/var/log/containers")
COMMAND_TIMEOUT_S = 300


@dataclass(frozen=True)
class Engine:
    """What holds the images that pods are to have: podman or docker."""

    program: str
    images: Sequence[str]


@contextmanager
def real_nodes(plane: ControlPlane, engine: Engine, folder: Path) -> Iterator[str]:
    """Has the control plane its nodes, and yields the URL of a Postgres superuser that leads there from their pods."""
    with ExitStack() as running:
        running.enter_context(_bridge())
        images = _saved(plane.assets, engine, folder)
        for name in NODES:
            running.enter_context(_node(plane, name, images, folder / name))
        images.unlink()
        running.enter_context(program(plane.assets / "coredns", folder, "-conf", str(_names(plane, folder))))
        server = running.enter_context(EmbeddedPostgres(durable=False, start_timeout_s=START_TIMEOUT_S))
        port = running.enter_context(forwarded(ADDRESS, server.port))
        yield server.dsn().replace(f"127.0.0.1:{server.port}", f"{ADDRESS}:{port}")


@contextmanager
def _node(plane: ControlPlane, name: str, images: Path, folder: Path) -> Iterator[None]:
    folder.mkdir()
    socket = folder / "containerd.sock"
    own = plane.credentials(f"system:node:{name}", group="system:nodes")
    served = plane.authority.issue(f"kubelet-{name}")
    with ExitStack() as running:
        running.enter_context(program(CONTAINERD, folder, f"--config={_containerd(folder, socket)}"))
        _call("ctr", "--address", socket, "--namespace", "k8s.io", "images", "import", images)
        cgroups = running.enter_context(_own_cgroups(name))
        root = running.enter_context(_kubelets_own(folder / "kubelet"))
        running.enter_context(
            program(
                plane.assets / "kubelet", folder, f"--config={_kubelet(plane, name, cgroups, folder, socket)}",
                f"--kubeconfig={own}", f"--hostname-override={name}", f"--node-ip={NODES[name]}",
                f"--node-labels=topology.kubernetes.io/zone=zone-{name}", f"--root-dir={root}",
                f"--tls-cert-file={served.cert}", f"--tls-private-key-file={served.key}",
            )
        )  # fmt: skip
        yield


@contextmanager
def _bridge() -> Iterator[None]:
    for words in (
        f"link add {BRIDGE} type bridge",
        *(f"address add {address}/24 dev {BRIDGE}" for address in (ADDRESS, *NODES.values())),
        f"link set {BRIDGE} up",
    ):
        _call("ip", *words.split())
    try:
        yield
    finally:
        _call("ip", "link", "delete", BRIDGE)


def _containerd(folder: Path, socket: Path) -> Path:
    network = {
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {
                "type": "bridge", "bridge": BRIDGE, "isGateway": True, "hairpinMode": True,
                # The nodes share the bridge, so they take turns at its addresses.
                "ipam": {"type": "host-local", "ranges": [[PODS]], "routes": [{"dst": "0.0.0.0/0"}],
                         "dataDir": str(folder.parent / "addresses")},
            },
        ],
    }  # fmt: skip
    (folder / "network").mkdir()
    (folder / "network" / "pods.conflist").write_text(json.dumps(network))
    path = folder / "containerd.toml"
    # The kubelet asks for less harm by the kernel's hand than a container of this machine may have.
    path.write_text(
        dedent(f"""\
            version = 2
            root = "{folder / "containerd"}"
            state = "{folder / "state"}"
            [grpc]
              address = "{socket}"
            [plugins."io.containerd.grpc.v1.cri"]
              sandbox_image = "{PAUSE}"
              restrict_oom_score_adj = true
              [plugins."io.containerd.grpc.v1.cri".cni]
                bin_dir = "{CNI_PLUGINS}"
                conf_dir = "{folder / "network"}"
            """)
    )
    return path


def _saved(assets: Path, engine: Engine, folder: Path) -> Path:
    """Writes the images to a file, and with them the one that holds a pod's namespaces."""
    with tarfile.open(folder / "pause.tar", "w") as archive:
        archive.add(assets / "pause", "pause")
    entry = 'ENTRYPOINT ["/pause"]'
    _call(engine.program, "import", "--change", entry, "--change", "USER 65535:65535", folder / "pause.tar", PAUSE)
    archived = folder / "images.tar"
    multiple = ("--multi-image-archive",) if Path(engine.program).name == "podman" else ()
    _call(engine.program, "save", *multiple, "--output", archived, PAUSE, *engine.images)
    _call(engine.program, "rmi", PAUSE)
    return archived


def _kubelet(plane: ControlPlane, name: str, cgroups: str, folder: Path, socket: Path) -> Path:
    path = folder / "kubelet.yaml"
    (folder / "resolv.conf").touch()  # pods ask for names of the cluster only
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
                "failCgroupV1": False, "cgroupDriver": "cgroupfs", "enforceNodeAllocatable": [], "failSwapOn": False,
                "cgroupRoot": cgroups, "containerRuntimeEndpoint": f"unix://{socket}", "address": NODES[name],
                "healthzPort": 0, "makeIPTablesUtilChains": False,
                "clusterDNS": [ADDRESS], "clusterDomain": "cluster.local", "resolvConf": str(folder / "resolv.conf"),
                "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": False},
                                   "x509": {"clientCAFile": str(plane.folder / "authority.crt")}},
                "authorization": {"mode": "AlwaysAllow"}, "podLogsDir": str(folder / "pods"),
                "volumePluginDir": str(folder / "plugins"),
                # Whoever shares this machine fills its disk; that is no reason to evict pods of a test.
                "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
                "imageGCHighThresholdPercent": 100,
            }
        )
    )  # fmt: skip
    return path


@contextmanager
def _own_cgroups(name: str) -> Iterator[str]:
    """A place in every hierarchy for the pods of one node: a kubelet ends what it finds in its own and doesn't know."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    places = [Path(words[1]) / f"signalbox-{name}" for words in mounts if words[2] in ("cgroup", "cgroup2")]
    for place in places:
        place.mkdir(exist_ok=True)
    try:
        yield f"/signalbox-{name}"
    finally:
        for place in places:
            for each in sorted((path for path in place.rglob("*") if path.is_dir()), reverse=True):
                each.rmdir()
            place.rmdir()


@contextmanager
def _kubelets_own(folder: Path) -> Iterator[Path]:
    """A folder for the kubelet, which mounts it onto itself and leaves it so, and links to its logs from elsewhere."""
    folder.mkdir()
    try:
        yield folder
    finally:
        if any(line.split()[1] == str(folder) for line in Path("/proc/self/mounts").read_text().splitlines()):
            _call("umount", "--recursive", folder)
        for link in LOG_LINKS.glob("*.log"):
            if link.is_symlink() and link.readlink().is_relative_to(folder.parent):
                link.unlink()


def _names(plane: ControlPlane, folder: Path) -> Path:
    path = folder / "Corefile"
    asks = f"kubeconfig {plane.kubeconfig} here"
    path.write_text(f"cluster.local:53 {{\n bind {ADDRESS}\n errors\n kubernetes {{\n  {asks}\n  ttl 5\n }}\n}}\n")
    return path


def _call(*words: str | Path) -> None:
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, words))}: {done.stderr}")
