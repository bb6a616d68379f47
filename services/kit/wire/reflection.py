"""gRPC server reflection, in the version that clients of today ask for first (v1) and in the one before (v1alpha).

The two differ in their package's name alone (https://github.com/grpc/grpc/blob/master/doc/server-reflection.md), and
grpcio-reflection brings only the older: the newer is made of it. Both answer from one pool of descriptors, which also
holds google.rpc's types: with those a client decodes the details of an error.
"""

from __future__ import annotations

from collections.abc import Sequence

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool
from google.rpc import error_details_pb2  # noqa: F401 - to import it puts its types into the pool
from grpc_reflection.v1alpha import reflection, reflection_pb2

OLDER, NEWER = "grpc.reflection.v1alpha", "grpc.reflection.v1"
SERVICE = f"{NEWER}.ServerReflection"


def enable_reflection(services: Sequence[str], server: grpc.aio.Server) -> None:
    """Serves both versions, which tell of these services and of themselves."""
    names = [*services, SERVICE, reflection.SERVICE_NAME]
    reflection.enable_server_reflection(names, server)
    handler = grpc.stream_stream_rpc_method_handler(
        reflection.aio.ReflectionServicer(names).ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"ServerReflectionInfo": handler}),))


def _newer_file() -> bytes:
    file = descriptor_pb2.FileDescriptorProto()
    reflection_pb2.DESCRIPTOR.CopyToProto(file)
    file.name = f"{NEWER.replace('.', '/')}/reflection.proto"
    file.package = NEWER
    for message in file.message_type:
        for field in filter(lambda each: each.type_name, message.field):
            field.type_name = field.type_name.replace(f".{OLDER}.", f".{NEWER}.")
    for service in file.service:
        for method in service.method:
            method.input_type = method.input_type.replace(f".{OLDER}.", f".{NEWER}.")
            method.output_type = method.output_type.replace(f".{OLDER}.", f".{NEWER}.")
    return file.SerializeToString()


descriptor_pool.Default().AddSerializedFile(_newer_file())
