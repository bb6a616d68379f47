"""Generates the Python stubs and the descriptor image from the protos.

`buf/validate/validate.proto` is not vendored: the installed protovalidate package carries its descriptor, and protoc
takes a descriptor set in place of sources.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import grpc_tools
import protovalidate._gen.buf.validate.validate_pb as validate_pb
from google.protobuf import descriptor_pb2

ROOT = Path(__file__).parent
SOURCES = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("signalbox/**/*.proto"))
WELL_KNOWN = Path(grpc_tools.__file__).parent / "_proto"
IMAGE = "signalbox.binpb"
WELL_KNOWN_NAMES = ("descriptor", "duration", "field_mask", "struct", "timestamp")


def write_dependencies(path: Path) -> None:
    """Writes the descriptors of every import that is not ours to path."""
    names = [f"google/protobuf/{name}.proto" for name in WELL_KNOWN_NAMES]
    run_protoc("-I", str(WELL_KNOWN), f"--descriptor_set_out={path}", *names)
    files = descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes())
    files.file.add().ParseFromString(validate_pb.desc().proto.to_binary())
    path.write_bytes(files.SerializeToString())


def run_protoc(*arguments: str) -> None:
    """Runs protoc in the protos folder. Raises CalledProcessError with its message on stderr."""
    command = [sys.executable, "-m", "grpc_tools.protoc", *arguments]
    # protoc looks for its plugins on PATH; they are installed beside the interpreter.
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    subprocess.run(command, cwd=ROOT, check=True, env=environment, stdout=subprocess.DEVNULL)


def generate(out: Path) -> None:
    """Writes the stubs below out, and beside them the image: every descriptor, with the comments."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        dependencies = Path(folder) / "dependencies.binpb"
        write_dependencies(dependencies)
        inputs = ("-I", ".", f"--descriptor_set_in={dependencies}")
        run_protoc(*inputs, f"--python_out={out}", f"--pyi_out={out}", "buf/validate/validate.proto", *SOURCES)
        run_protoc(*inputs, f"--grpc_python_out={out}", f"--mypy_grpc_out={out}", *SOURCES)
        run_protoc(
            *inputs, "--include_imports", "--include_source_info",
            f"--descriptor_set_out={out / IMAGE}", *SOURCES,
        )  # fmt: skip


if __name__ == "__main__":
    generate(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "python").resolve())
