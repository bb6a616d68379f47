"""Commands find runs and batches by the beginning of an id and as `last`, and go on with the one that is meant."""

from __future__ import annotations

import asyncio
import os
import re

import grpc
import pytest
from google.protobuf.message import Message
from signalbox.v1 import batches_pb2, runs_pb2, threads_pb2

from tests.fixtures.forked import program
from tests.integration.cli.fake_gateway import FakeGateway, serving

ONE, OTHER = "0199a0c0-0000-7000-8000-000000000001", "0299a0c0-0000-7000-8000-00000000000f"
RUN = runs_pb2.Run(run_id=ONE, agent="data_chat", state=runs_pb2.RUN_STATE_SUCCEEDED)
ANSWERS: dict[str, Message | grpc.StatusCode] = {
    "ListRuns": runs_pb2.ListRunsResponse(runs=[RUN]),
    "GetRun": runs_pb2.GetRunResponse(run=RUN),
    "ExplainRun": grpc.StatusCode.UNIMPLEMENTED,
    "ListDecisions": runs_pb2.ListDecisionsResponse(),
    "WatchRun": runs_pb2.WatchRunResponse(),
    "CancelRun": runs_pb2.CancelRunResponse(run=RUN),
    "GetRunState": threads_pb2.GetRunStateResponse(),
    "ListRecordedAnswers": runs_pb2.ListRecordedAnswersResponse(),
    "ExecuteRun": grpc.StatusCode.FAILED_PRECONDITION,
    "ListBatches": batches_pb2.ListBatchesResponse(
        batches=[batches_pb2.Batch(batch_id=each, state=batches_pb2.BATCH_STATE_ENDED) for each in (ONE, OTHER)]
    ),
    "GetBatch": batches_pb2.GetBatchResponse(batch=batches_pb2.Batch(batch_id=ONE)),
    "WatchBatch": batches_pb2.WatchBatchResponse(
        batch=batches_pb2.Batch(batch_id=ONE, state=batches_pb2.BATCH_STATE_ENDED)
    ),
    "CancelBatch": batches_pb2.CancelBatchResponse(batch=batches_pb2.Batch(batch_id=ONE)),
    "RetryBatch": batches_pb2.RetryBatchResponse(),
    "ExportBatch": batches_pb2.ExportBatchResponse(),
    "DeleteBatch": batches_pb2.DeleteBatchResponse(),
}


async def said(*arguments: str, answers: dict[str, Message | grpc.StatusCode] | None = None) -> tuple[FakeGateway, str]:
    """What a command asks, and all that it says."""
    fake = FakeGateway(ANSWERS | (answers or {}))
    fake.streams |= {"WatchBatch", "ExportBatch"}
    async with serving(fake) as address:
        env = {"PATH": os.environ["PATH"], "SIGNALBOX_GATEWAY": address, "SIGNALBOX_TOKEN": "token"}
        process = await asyncio.create_subprocess_exec(
            *program("services.cli"), *arguments, env=env,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        output, _ = await asyncio.wait_for(process.communicate(), 120)
    return fake, output.decode()


def asked_of(fake: FakeGateway, method: str) -> bytes:
    """The one request to a method."""
    return dict(zip(fake.asked, fake.requests, strict=True))[method]


@pytest.mark.parametrize(
    ("command", "name", "method"),
    [
        ("show", "last", "GetRun"),
        ("explain", ONE[:4], "GetRun"),
        ("cancel", ONE[:13].upper(), "CancelRun"),
        ("state", "last", "GetRunState"),
        ("pin", ONE[:4], "ListRecordedAnswers"),
        ("undo", "last", "ExecuteRun"),
    ],
)
async def test_commands_go_on_with_the_run_that_is_named(command: str, name: str, method: str) -> None:
    fake, told = await said(command, name)
    assert fake.asked[0] == "ListRuns", told
    assert ONE.encode() in asked_of(fake, method)


@pytest.mark.parametrize(
    ("command", "name", "method"),
    [
        ("show", "last", "GetBatch"),
        ("watch", ONE[:4], "WatchBatch"),
        ("cancel", ONE[:13].upper(), "CancelBatch"),
        ("retry", "last", "RetryBatch"),
        ("export", ONE[:4], "ExportBatch"),
        ("delete", ONE[:8], "DeleteBatch"),
    ],
)
async def test_commands_go_on_with_the_batch_that_is_named(command: str, name: str, method: str) -> None:
    fake, told = await said("batches", command, name)
    assert fake.asked[0] == "ListBatches", told
    assert ONE.encode() in asked_of(fake, method)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("0399", "of the newest 2 batches none is named 0399"),
        ("0x", "'0x' names no batch: give its id, 4 or more digits of that, or `last`"),
    ],
)
async def test_what_names_no_batch_is_said(name: str, told: str) -> None:
    fake, output = await said("batches", "show", name)
    assert told in " ".join(output.split())
    assert "`signalbox batches list`" in " ".join(output.split())
    assert "GetBatch" not in fake.asked


async def test_an_id_that_several_batches_begin_with_is_no_name() -> None:
    alike = batches_pb2.ListBatchesResponse(
        batches=[batches_pb2.Batch(batch_id=ONE), batches_pb2.Batch(batch_id=f"{ONE[:-1]}2")]
    )
    fake, output = await said("batches", "delete", ONE[:8], answers={"ListBatches": alike})
    assert re.search(r"begins several ids, such as", " ".join(output.split()))
    assert "DeleteBatch" not in fake.asked
