"""The runs that a batch asks for."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from signalbox.v1 import data_chat_pb2, incident_investigation_pb2, runs_pb2, runs_pb2_grpc

from services.batches.hindrances import ItemWay
from services.batches.records import BegunItem
from services.batches.runs import BatchRuns
from services.kit.identity.batch_tokens import BatchTokenClaims, BatchTokenMinter
from services.kit.identity.caller import Caller
from services.kit.identity.keys import generate_keypair

INCIDENT = runs_pb2.RunInput(
    incident_investigation=incident_investigation_pb2.IncidentInvestigationInput(incident_id="INC-1")
)
QUESTION = runs_pb2.RunInput(data_chat=data_chat_pb2.DataChatInput(question="How many?"))


class Runtime:
    """A runtime that makes every run."""

    def __init__(self) -> None:
        self.asked: list[runs_pb2.CreateRunRequest] = []

    async def CreateRun(self, request: runs_pb2.CreateRunRequest, **_: Any) -> runs_pb2.CreateRunResponse:  # noqa: N802
        """Makes it."""
        self.asked.append(request)
        return runs_pb2.CreateRunResponse(run=runs_pb2.Run(run_id="r"))


@pytest.mark.parametrize(("retry_count", "again"), [(0, False), (1, True)])
async def test_an_incident_that_is_run_again_is_investigated_anew(retry_count: int, again: bool) -> None:
    runtime = Runtime()
    tokens = BatchTokenMinter(generate_keypair().private_pem, BatchTokenClaims(Caller("27"), "b"))
    stub = cast("runs_pb2_grpc.RunServiceAsyncStub", runtime)
    runs = BatchRuns(stub, tokens, "b")
    for given in (INCIDENT, QUESTION):
        await runs.create(
            BegunItem(1, given.SerializeToString(), retry_count, ""), asyncio.Event(), ItemWay(lambda _: None)
        )
    incident, question = (asked.input for asked in runtime.asked)
    assert incident.incident_investigation.again is again
    assert question == QUESTION
