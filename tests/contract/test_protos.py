"""The contract builds from its folder alone, says what generators of other languages ask, and is what is enforced."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import protovalidate
import protovalidate._gen.buf.validate.validate_pb as validate_pb
import pytest
import signalbox.v1
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from signalbox.v1 import runs_pb2

from services.kit.wire import event_kinds

ROOT = Path(__file__).parents[2]
PROTOS = ROOT / "protos"
BUF = Path(sys.executable).with_name("buf")
VALIDATE = "buf/validate/validate.proto"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> descriptor_pb2.FileDescriptorSet:
    """What `buf build` makes of a copy of the folder, with an empty cache and no way out."""
    alone = tmp_path_factory.mktemp("alone")
    shutil.copytree(PROTOS, alone / "protos", ignore=shutil.ignore_patterns("python", "*.binpb", "__pycache__"))
    nowhere = "http://127.0.0.1:1"
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(alone), "BUF_CACHE_DIR": str(alone / "cache"),
        "HTTPS_PROXY": nowhere, "HTTP_PROXY": nowhere,
    }  # fmt: skip
    built = subprocess.run(
        [BUF, "build", "-o", alone / "image.binpb"],
        cwd=alone / "protos", env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    return descriptor_pb2.FileDescriptorSet.FromString((alone / "image.binpb").read_bytes())


def test_it_builds_alone_with_every_file(image: descriptor_pb2.FileDescriptorSet) -> None:
    ours = {str(path.relative_to(PROTOS)) for path in (PROTOS / "signalbox").rglob("*.proto")}
    assert ours <= {file.name for file in image.file}
    assert VALIDATE in {file.name for file in image.file}


def test_every_file_has_a_go_and_a_java_package(image: descriptor_pb2.FileDescriptorSet) -> None:
    for file in image.file:
        if file.name.startswith("signalbox/"):
            assert file.options.go_package == "signalbox/v1;signalboxv1", file.name
            assert file.options.java_package == "signalbox.v1", file.name
            assert file.options.java_multiple_files, file.name


def test_the_rules_it_declares_are_those_that_the_gateway_enforces(image: descriptor_pb2.FileDescriptorSet) -> None:
    """The vendored file is the one that the installed protovalidate was made of, but for other languages' names."""
    installed = descriptor_pb2.FileDescriptorProto.FromString(validate_pb.desc().proto.to_binary())
    vendored = descriptor_pb2.FileDescriptorProto()
    vendored.CopyFrom(next(file for file in image.file if file.name == VALIDATE))
    for file in (installed, vendored):
        file.ClearField("options")
        file.ClearField("source_code_info")
        for field in (each for message in file.message_type for each in message.field):
            field.ClearField("json_name")
    assert [each.name for each in vendored.message_type] == [each.name for each in installed.message_type]
    assert vendored.message_type == installed.message_type
    assert vendored.enum_type == installed.enum_type
    assert vendored.extension == installed.extension


# What they are told they keep in no database of Postgres's, which takes no character 0.
WITHOUT_DATABASE = {"EvaluatorService", "GuardService", "ToolExecutorService"}


def texts_of_requests() -> Iterator[tuple[MethodDescriptor, FieldDescriptor]]:
    """The fields of requests that are one text, each with its method."""
    names = [each.name for each in iter_modules(signalbox.v1.__path__) if each.name.endswith("_pb2")]
    modules = [import_module(f"signalbox.v1.{name}") for name in names]
    services = [service for module in modules for service in module.DESCRIPTOR.services_by_name.values()]
    for method in (method for service in services for method in service.methods):
        for field in method.input_type.fields:
            if field.type == FieldDescriptor.TYPE_STRING and not field.is_repeated:
                yield method, field


def test_no_text_that_is_looked_up_may_hold_what_no_database_takes() -> None:
    tried = 0
    for method, field in texts_of_requests():
        if method.containing_service.name not in WITHOUT_DATABASE:
            request = GetMessageClass(method.input_type)(**{field.name: "a\0b"})
            assert field.name in wrong_fields(request), f"{method.full_name}: {field.name}"
            tried += 1
    assert tried > 40


NAMED = {
    "agent": "Support-team",
    "router": "Support-team.route_after_checks/lint",
    "rule": "tools, ?",
    "destination": "checks/lint, proof",
}


def test_graphs_of_teams_are_named_in_requests_as_they_are() -> None:
    tried = [(method, field) for method, field in texts_of_requests() if field.name in NAMED]
    assert {field.name for _, field in tried} == NAMED.keys()
    for method, field in tried:
        request = GetMessageClass(method.input_type)(**{field.name: NAMED[field.name]})
        assert field.name not in wrong_fields(request), f"{method.full_name}: {field.name}"


def wrong_fields(request: Message) -> set[str]:
    """The fields in which a request breaks its rules."""
    paths = (each.proto.field for each in protovalidate.collect_violations(request))
    return {path.elements[0].field_name for path in paths if path is not None and path.elements}


def test_the_kinds_of_events_are_those_of_the_contract_and_spelt_in_one_place() -> None:
    known = {value for name, value in vars(event_kinds).items() if name.isupper() and isinstance(value, str)}
    assert known == {field.name for field in runs_pb2.RunEvent.DESCRIPTOR.oneofs_by_name["event"].fields}
    spelt = re.compile(rf"""(?:==|!=|\bin \(|HasField\()\s*["'](?:{"|".join(sorted(known))})["']""")
    sources = [path for path in (ROOT / "services").rglob("*.py") if spelt.search(path.read_text())]
    assert sources == []
