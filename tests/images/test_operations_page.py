"""The commands of docs/operations.md that need a container engine, in order, and what comes of them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from services.local.database import WORLD_EXAMPLES, WORLD_POLICY, prepare_databases
from services.local.keys import DevelopmentKeys
from services.local.postgres import EmbeddedPostgres
from services.local.topology import StackOptions, Topology
from tests.contract.deploy.helm import ROOT
from tests.fixtures.page import Page
from tests.fixtures.patience import START_TIMEOUT_S
from tests.images.containers import environment
from tests.images.engine import engine

BUILD_S = 3000
BUILD_ARGUMENTS = ("BUILD_FLAGS", "CA_FILE", "INDEX_URL", "DEBIAN_MIRROR", "PYTHON_IMAGE")
PASSWORD = "of-the-reader-and-of-nobody-else"
SECRET = "5ec7e7" * 11


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the operator works, with the files that the page names; the images' user may look into it."""
    tmp_path.chmod(0o755)
    shutil.copy(WORLD_POLICY, tmp_path / "policy.yaml")
    shutil.copy(WORLD_EXAMPLES, tmp_path / "examples.yaml")
    return tmp_path


async def test_the_page_is_true_where_it_needs_containers(folder: Path) -> None:
    env = {**environment(), **{name: os.environ[name] for name in BUILD_ARGUMENTS if name in os.environ}}
    env |= {"ENGINE": engine().program, "IMAGE_PREFIX": engine().prefix, "IMAGE_TAG": engine().tag}
    operator = Page(folder, env, "sh images")
    operator.run("make images", folder=ROOT, timeout_s=BUILD_S)
    with EmbeddedPostgres(durable=False, start_timeout_s=START_TIMEOUT_S) as server:
        options = StackOptions(postgres_dsn=server.dsn())
        topology = Topology(options, DevelopmentKeys.create(folder))
        async with prepare_databases(options, topology, folder, lambda _: None) as databases:
            (folder / "owner.secrets").write_text(f"{databases.world_dsn} {PASSWORD} {SECRET}\n")
            (folder / "examples.secrets").write_text(f"{databases.world_dsn} {PASSWORD}\n")
            said = operator.run("sql-policy")
            assert said.endswith(": as the policy promises\n")
            operator.run("load-examples")
    assert operator.left == []
