"""A trace collector in a process of its own: takes what it is sent, counts the spans, and says how many at the end."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc


class SpanCollector(trace_service_pb2_grpc.TraceServiceServicer):
    """Counts the spans that it is sent."""

    def __init__(self) -> None:
        self.spans = 0

    async def Export(  # noqa: N802 - the proto's name
        self, request: trace_service_pb2.ExportTraceServiceRequest, _context: object
    ) -> trace_service_pb2.ExportTraceServiceResponse:
        """Takes a batch."""
        self.spans += sum(len(scope.spans) for resource in request.resource_spans for scope in resource.scope_spans)
        return trace_service_pb2.ExportTraceServiceResponse()


class CollectorProcess:
    """The process: its endpoint, and once it has ended how many spans it was sent."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.spans = 0


@asynccontextmanager
async def collector_process() -> AsyncIterator[CollectorProcess]:
    """Runs the collector inside the context."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", __name__, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    made = CollectorProcess(json.loads(await process.stdout.readline())["endpoint"])
    try:
        yield made
    finally:
        process.terminate()
        said = await process.stdout.read()
        await process.wait()
    made.spans = int(json.loads(said)["spans"])


async def serve() -> None:
    """Serves until it is told to end."""
    collector, server, told = SpanCollector(), grpc.aio.server(), asyncio.Event()
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(collector, server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    await server.start()
    sys.stdout.write(json.dumps({"endpoint": f"http://127.0.0.1:{port}"}) + "\n")
    sys.stdout.flush()
    await told.wait()
    await server.stop(1)
    sys.stdout.write(json.dumps({"spans": collector.spans}) + "\n")


if __name__ == "__main__":
    asyncio.run(serve())
