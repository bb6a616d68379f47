"""Generates the Python stubs and the descriptor image from the protos."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import grpc_tools
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet

ROOT = Path(__file__).parent
SOURCES = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("signalbox/**/*.proto"))
WELL_KNOWN = Path(grpc_tools.__file__).parent / "_proto"
IMAGE = "signalbox.binpb"
# What the fields of inputs mean, for `signalbox run --schema`: the stubs have no comments.
COMMENTS = "signalbox/v1/comments.json"
INPUT = ".signalbox.v1.RunInput"
# As in buf.yaml; protoc brings Google's own files.
INPUTS = ("-I", ".", "-I", "third_party/protovalidate", "-I", str(WELL_KNOWN))


def run_protoc(*arguments: str) -> None:
    """Runs protoc in the protos folder. Raises CalledProcessError with its message on stderr."""
    command = [sys.executable, "-m", "grpc_tools.protoc", *arguments]
    # protoc looks for its plugins on PATH; they are installed beside the interpreter.
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    subprocess.run(command, cwd=ROOT, check=True, env=environment, stdout=subprocess.DEVNULL)


def generate(out: Path) -> None:
    """Writes the stubs below out, and beside them the image: every descriptor, with the comments."""
    out.mkdir(parents=True, exist_ok=True)
    run_protoc(*INPUTS, f"--python_out={out}", f"--pyi_out={out}", "buf/validate/validate.proto", *SOURCES)
    run_protoc(*INPUTS, f"--grpc_python_out={out}", f"--mypy_grpc_out={out}", *SOURCES)
    run_protoc(
        *INPUTS, "--include_imports", "--include_source_info",
        f"--descriptor_set_out={out / IMAGE}", *SOURCES,
    )  # fmt: skip
    said = comments(FileDescriptorSet.FromString((out / IMAGE).read_bytes()))
    (out / COMMENTS).write_text(json.dumps(said, indent=0, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")


def comments(image: FileDescriptorSet) -> dict[str, str]:
    """Returns the comments of messages that inputs are made of, and of their fields, by full name."""
    messages: dict[str, DescriptorProto] = {}
    said: dict[str, str] = {}
    for file in image.file:
        at = {tuple(place.path): " ".join(place.leading_comments.split()) for place in file.source_code_info.location}
        for index, message in enumerate(file.message_type):
            name = f".{file.package}.{message.name}"
            messages[name] = message
            said[name] = at.get((FileDescriptorProto.MESSAGE_TYPE_FIELD_NUMBER, index), "")
            for number, field in enumerate(message.field):
                path = (
                    FileDescriptorProto.MESSAGE_TYPE_FIELD_NUMBER,
                    index,
                    DescriptorProto.FIELD_FIELD_NUMBER,
                    number,
                )
                said[f"{name}.{field.name}"] = at.get(path, "")
    kept: dict[str, str] = {}
    waiting = [INPUT]
    while waiting:
        name = waiting.pop()
        if name in messages and name[1:] not in kept and name.startswith(".signalbox."):
            kept[name[1:]] = said[name]
            kept |= {f"{name[1:]}.{field.name}": said[f"{name}.{field.name}"] for field in messages[name].field}
            fields = messages[name].field
            waiting += [field.type_name for field in fields if field.type == FieldDescriptorProto.TYPE_MESSAGE]
    return {name: comment for name, comment in kept.items() if comment}


if __name__ == "__main__":
    generate(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "python").resolve())
