"""Reflection as clients use it: both versions, every type of the contract, and what error details are made of."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.rpc import status_pb2
from grpc_reflection.v1alpha import reflection_pb2
from signalbox.v1 import guard_pb2, guard_pb2_grpc

from services.kit.errors import FieldViolation, SignalboxError
from services.kit.settings import ServiceSettings
from services.kit.wire.client import connect
from services.kit.wire.server import Registration, Service, running

VERSIONS = ("grpc.reflection.v1", "grpc.reflection.v1alpha")
Describe = Callable[[reflection_pb2.ServerReflectionRequest], reflection_pb2.ServerReflectionResponse]


class Refused(SignalboxError):
    """A leaf for these tests."""

    reason = "REFUSED"
    code = grpc.StatusCode.INVALID_ARGUMENT


class Refusing(guard_pb2_grpc.GuardServiceServicer):
    """Refuses everything, in detail."""

    async def Screen(self, _request, _context):  # type: ignore[no-untyped-def]  # noqa: N802
        raise Refused("no", retry_after_s=2, violations=[FieldViolation("question", "is wrong")], metadata={"k": "v"})


async def build(_settings: ServiceSettings, _stack: AsyncExitStack) -> Service:
    return Service(
        [Registration(guard_pb2_grpc.add_GuardServiceServicer_to_server, Refusing(), "signalbox.v1.GuardService")]
    )


@pytest.fixture
async def channel() -> AsyncIterator[grpc.aio.Channel]:
    settings = ServiceSettings()
    async with running("refusing", settings, build) as service, connect(f"ipv4:{service.address}", settings) as opened:
        yield opened


async def ask(
    channel: grpc.aio.Channel, version: str, request: reflection_pb2.ServerReflectionRequest
) -> reflection_pb2.ServerReflectionResponse:
    """Asks a version of reflection; the two have the same messages, but for their package."""
    call = channel.stream_stream(
        f"/{version}.ServerReflection/ServerReflectionInfo",
        request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
        response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
    )
    stream = call(iter([request]), timeout=60)
    async for response in stream:
        return response
    pytest.fail("no answer")


async def pool_of(channel: grpc.aio.Channel, version: str, symbol: str) -> descriptor_pool.DescriptorPool:
    """What a client that knows nothing learns of a symbol: its file, and the files that need."""
    request = reflection_pb2.ServerReflectionRequest(file_containing_symbol=symbol)
    response = await ask(channel, version, request)
    assert not response.HasField("error_response"), response.error_response
    files = {
        file.name: file
        for file in map(
            descriptor_pb2.FileDescriptorProto.FromString, response.file_descriptor_response.file_descriptor_proto
        )
    }
    pool = descriptor_pool.DescriptorPool()

    async def add(file: descriptor_pb2.FileDescriptorProto) -> None:
        for name in file.dependency:
            if name not in files:
                asked = reflection_pb2.ServerReflectionRequest(file_by_filename=name)
                [raw, *_] = (await ask(channel, version, asked)).file_descriptor_response.file_descriptor_proto
                files[name] = descriptor_pb2.FileDescriptorProto.FromString(raw)
            await add(files[name])
        pool.Add(file)

    for file in list(files.values()):
        await add(file)
    return pool


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_service_is_named_and_described(channel: grpc.aio.Channel, version: str) -> None:
    listed = await ask(channel, version, reflection_pb2.ServerReflectionRequest(list_services="*"))
    names = {service.name for service in listed.list_services_response.service}
    assert names == {
        "signalbox.v1.GuardService", "grpc.health.v1.Health", *(f"{each}.ServerReflection" for each in VERSIONS),
    }  # fmt: skip
    for name in names:
        pool = await pool_of(channel, version, name)
        for method in pool.FindServiceByName(name).methods:
            assert message_factory.GetMessageClass(method.input_type)() is not None


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_details_of_an_error_decode_by_what_reflection_says(channel: grpc.aio.Channel, version: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await guard_pb2_grpc.GuardServiceStub(channel).Screen(guard_pb2.ScreenRequest(question="?"), timeout=60)
    trailers = dict(caught.value.trailing_metadata() or ())
    status = status_pb2.Status.FromString(trailers["grpc-status-details-bin"])
    names = [detail.type_url.rpartition("/")[2] for detail in status.details]
    assert set(names) == {"google.rpc.ErrorInfo", "google.rpc.RetryInfo", "google.rpc.BadRequest"}
    for name, detail in zip(names, status.details, strict=True):
        pool = await pool_of(channel, version, name)
        decoded = message_factory.GetMessageClass(pool.FindMessageTypeByName(name)).FromString(detail.value)
        assert {field.name: value for field, value in decoded.ListFields()}.get("reason", "REFUSED") == "REFUSED"
        assert len(decoded.ListFields()) == len(type(decoded).DESCRIPTOR.fields)
