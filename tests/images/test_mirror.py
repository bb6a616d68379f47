"""An image built from a mirror, behind an authority of its own, is the one that the lock file means."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.deploy.dependencies import normalised
from tests.contract.deploy.helm import ROOT
from tests.fixtures.certificates import Authority
from tests.images.engine import engine
from tests.images.mirror import mirror

SERVICE = "guard"
BUILD_S = 900
TAG = f"localhost/signalbox-mirrored:{os.getpid()}"


@pytest.fixture
def removed() -> Iterator[None]:
    """Leaves no image behind."""
    yield
    engine().call("rmi", "--force", TAG)


@pytest.mark.usefixtures("removed")
async def test_it_comes_from_the_mirror_alone_and_is_the_same(tmp_path: Path) -> None:
    certificate = Authority(tmp_path).issue("mirror")
    async with mirror(certificate) as index:
        # On the host's network: that is where the mirror is.
        built = await asyncio.to_thread(
            engine().call,
            "build", "--network=host", *shlex.split(os.environ.get("BUILD_FLAGS", "")), "--file=services/Dockerfile",
            f"--build-arg=SERVICE={SERVICE}", f"--build-arg=INDEX_URL={index.url}",
            f"--secret=id=ca,src={certificate.ca}", f"--tag={TAG}", ".",
            timeout_s=BUILD_S, cwd=ROOT,
        )  # fmt: skip
    assert built.status == 0, built.out[-3000:] + built.err[-3000:]
    bill = ("run", "--rm", "--network=none", "--pull=never", "--entrypoint=cat")
    mirrored = json.loads(engine().call(*bill, TAG, "/opt/signalbox/bom.cdx.json").out)
    usual = json.loads(engine().call(*bill, engine().image(SERVICE), "/opt/signalbox/bom.cdx.json").out)
    assert [each["purl"] for each in mirrored["components"]] == [each["purl"] for each in usual["components"]]
    held = {normalised(each["name"]) for each in mirrored["components"]} - {"signalbox"}
    taken = {normalised(re.split(r"-\d", name, maxsplit=1)[0]) for name in index.taken}
    assert held <= taken
