"""One finding given to two agents: neither gets the other's verdict."""

from __future__ import annotations

from signalbox.v1 import sast_pb2

from services.cli.batch_gateway import BatchGateway
from services.cli.investigation import investigation_input
from services.cli.triage import triage_input
from services.findings.investigation.batch import Batch, BatchPolicy
from tests.integration.findings.conftest import Recorder, findings, serving
from tests.integration.findings.fake_platform import FakePlatform

SOURCE = sast_pb2.CodeSource(repository="/srv/repo", commit="a" * 40)


async def test_each_is_asked() -> None:
    wanted = findings(1)
    async with serving(FakePlatform()) as at:
        for make_input in (triage_input, investigation_input):
            for _ in range(2):
                await Batch(BatchGateway(at.gateway), SOURCE, BatchPolicy(), Recorder(), make_input).run(wanted)
        asked = [run.input.WhichOneof("agent") for run in at.platform.runs.values()]
    assert asked == ["sast_triage", "sast_investigation"]
