"""The cluster of these tests, and Signalbox on it as docs/operations.md installs it.

KUBECONFIG names a cluster whose pods run; its nodes have, or can pull, the images IMAGE_PREFIX<service>:IMAGE_TAG, and
CLUSTER_DSN is a Postgres superuser's URL that leads there from the pods and from here. CLUSTER_CALLER, if there is one,
is this machine's address for the pods. Or KUBEBUILDER_ASSETS is a folder with the programs of a control plane, which is
started here: its pods are made up, and what needs real ones is skipped. With NODE_ENGINE, podman or docker, it has two
nodes on this machine, whose pods have the images of that engine.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import pytest_asyncio

from tests.cluster.cluster import NAMESPACE, Cluster, Refused
from tests.cluster.control_plane import ControlPlane, control_plane
from tests.cluster.given import Given, given, image_prefix, image_tag
from tests.cluster.kubelet import ADDRESS, Engine, real_nodes
from tests.cluster.nodes import simulated_nodes
from tests.contract.deploy import services
from tests.contract.deploy.helm import ROOT, locate
from tests.fixtures.page import Page

# Folders of tests that ask what others ask of a platform of processes.
ASKED_OF_THE_RELEASE = ("end_to_end", "agents")
MISSING = "no cluster: give KUBECONFIG, IMAGE_PREFIX and CLUSTER_DSN, or KUBEBUILDER_ASSETS (`make kubernetes`)"


def pytest_configure(config: pytest.Config) -> None:
    """Registers what tests here need of a cluster."""
    config.addinivalue_line("markers", "real_pods: needs a cluster whose containers run")
    config.addinivalue_line("markers", "made_up_pods: needs pods whose fate can be chosen")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Has tests share a platform's event loop; skips what this cluster can't show, and says why."""
    real = bool(os.environ.get("CLUSTER_DSN") or os.environ.get("NODE_ENGINE"))
    for item in items:
        if not item.nodeid.startswith("tests/cluster/"):
            continue
        if not os.environ.get("CLUSTER_DSN") and not os.environ.get("KUBEBUILDER_ASSETS"):
            item.add_marker(pytest.mark.skip(reason=MISSING))
        if item.path.parent.name in ASKED_OF_THE_RELEASE:
            item.add_marker(pytest.mark.real_pods)
            if pytest_asyncio.is_async_test(item):
                # That of the platform that they share.
                item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
        if item.get_closest_marker("real_pods") and not real:
            item.add_marker(pytest.mark.skip(reason="needs containers that run (CLUSTER_DSN, NODE_ENGINE)"))
        if item.get_closest_marker("made_up_pods") and real:
            item.add_marker(pytest.mark.skip(reason="needs pods whose fate can be chosen"))


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The control plane that is started here."""
    assets = Path(os.environ["KUBEBUILDER_ASSETS"]).resolve()
    with control_plane(assets, tmp_path_factory.mktemp("kubernetes")) as started:
        yield started


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster without the namespace of the docs, which goes again at the end."""
    home = tmp_path_factory.mktemp("operator")
    with ExitStack() as running:
        # Not by KUBECONFIG alone, which many shells have, for a cluster that this must not touch.
        if dsn := os.environ.get("CLUSTER_DSN"):
            named = Path(os.environ["KUBECONFIG"]).resolve()
            found = Cluster(named, _tools(home, locate("kubectl")), home, dsn, os.environ.get("CLUSTER_CALLER", ""))
        else:
            here: ControlPlane = request.getfixturevalue("plane")
            found = Cluster(here.kubeconfig, _tools(home, here.assets / "kubectl"), home)
            if program := os.environ.get("NODE_ENGINE"):
                folder = Path(running.enter_context(TemporaryDirectory(prefix="signalbox-node-")))
                images = [f"{image_prefix()}{each.replace('_', '-')}:{image_tag()}" for each in services.in_chart()]
                dsn = running.enter_context(real_nodes(here, Engine(program, images), folder))
                found = replace(found, dsn=dsn, here=ADDRESS)
            else:
                running.enter_context(simulated_nodes(here, found))
        if NAMESPACE in found.kubectl("get", "namespaces", "--output=jsonpath={.items[*].metadata.name}").split():
            pytest.fail(
                f"the cluster has a namespace {NAMESPACE} already: these tests make and remove one of that name"
            )
        yield found
        found.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found")


def _tools(home: Path, kubectl: Path) -> Path:
    tools = home / "tools"
    tools.mkdir()
    (tools / "helm").symlink_to(locate("helm"))
    (tools / "kubectl").symlink_to(kubectl)
    return tools


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def what_is_given(cluster: Cluster) -> AsyncIterator[Given]:
    """What an operator has before they begin: databases, keys of an issuer, and the files that the page names."""
    async with given(cluster) as ready:
        yield ready


@pytest.fixture(scope="session")
def page(what_is_given: Given, cluster: Cluster) -> Page:
    """An operator at the top of the page, of whose blocks these tests run those that call for a cluster."""
    for name in ("examples", "charts"):
        (what_is_given.folder / name).symlink_to(ROOT / name)
    return Page(what_is_given.folder, cluster.env, "sh", "sh cluster", calling=("kubectl ", "helm "))


@pytest.fixture(scope="session")
def installed(page: Page, cluster: Cluster) -> Cluster:
    """The cluster, once Signalbox is on it by the page's commands, from its namespace to Helm."""
    page.run("kubectl create namespace")
    page.run("openssl genpkey")
    page.run("signalbox-sql-database")
    page.run("signalbox-examples")
    page.run("git-read-only")
    page.run("test-caller")
    page.run("helm install", timeout_s=900)
    return cluster


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds to a failure what the cluster has to say."""
    report = yield
    found = getattr(item, "funcargs", {}).get("cluster")
    if report.failed and isinstance(found, Cluster):
        for words in (["get", "pods", "--output=wide"], ["get", "events", "--sort-by=.lastTimestamp"]):
            report.sections.append((" ".join(words), _said(found, words)[-4000:]))
    return report


def _said(cluster: Cluster, words: list[str]) -> str:
    try:
        return cluster.kubectl(*words)
    except (Refused, subprocess.TimeoutExpired) as error:
        return str(error)
