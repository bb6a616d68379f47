"""Asks a question through the gateway as a caller does, and exits with 0 once the run has succeeded: `helm test`."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

import grpc
from signalbox.v1 import data_chat_pb2, runs_pb2, runs_pb2_grpc

from services.kit.identity.bearer import bearer_metadata
from services.kit.settings import ServiceSettings, load_settings
from services.kit.wire.client import connect
from services.kit.wire.event_kinds import RUN_ENDED

TIMEOUT_S = 300.0


async def ask(target: str, token: str, question: str, settings: ServiceSettings) -> runs_pb2.Run:
    """Returns the run, ended. Raises grpc.aio.AioRpcError."""
    asked = runs_pb2.RunInput(data_chat=data_chat_pb2.DataChatInput(question=question))
    request = runs_pb2.ExecuteRunRequest(create=runs_pb2.CreateRunRequest(input=asked))
    run = runs_pb2.Run()
    async with connect(target, settings) as channel:
        stub = runs_pb2_grpc.RunServiceStub(channel)
        metadata = (bearer_metadata(token),)
        # A gateway that has just been installed may take a moment.
        async for response in stub.ExecuteRun(request, metadata=metadata, timeout=TIMEOUT_S, wait_for_ready=True):
            if response.event.HasField(RUN_ENDED):
                run = response.event.run_ended.run
    return run


def main() -> int:
    """Returns the exit status: 1 when the question is not answered."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", required=True, help="gRPC target of the gateway")
    parser.add_argument("--token-file", required=True, type=Path, help="file with a caller's token")
    parser.add_argument("--question", required=True, help="what to ask")
    arguments = parser.parse_args()
    token = arguments.token_file.read_text().strip()
    settings = load_settings(ServiceSettings)
    try:
        run = asyncio.run(ask(arguments.target, token, arguments.question, settings))
    except grpc.aio.AioRpcError as error:
        return _said(f"the gateway answered {error.code().name}: {error.details()}", 1)
    if run.state != runs_pb2.RUN_STATE_SUCCEEDED:
        return _said(f"the run {run.run_id} ended as {runs_pb2.RunState.Name(run.state)}: {run.error}", 1)
    return _said(f"the run {run.run_id} answered: {run.output.data_chat.answer}", 0)


def _said(words: str, status: int) -> int:
    print(words)  # noqa: T201 - its output
    return status


if __name__ == "__main__":
    raise SystemExit(main())
