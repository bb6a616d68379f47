"""Generates the Python stubs and the descriptor image from the protos."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import grpc_tools

ROOT = Path(__file__).parent
SOURCES = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("signalbox/**/*.proto"))
WELL_KNOWN = Path(grpc_tools.__file__).parent / "_proto"
IMAGE = "signalbox.binpb"
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


if __name__ == "__main__":
    generate(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "python").resolve())
