"""The reference executor as a process of its own: `python -m tests.contract.reference_process`."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

from pydantic import Field
from signalbox.v1 import tools_pb2_grpc

from services.kit.identity.run_tokens import RunTokenVerifier
from services.kit.settings import ServiceSettings
from services.kit.tools.executor import SERVICE_NAME
from services.kit.wire.server import Registration, Service, main
from tests.contract.executor_subject import AUDIENCE
from tests.contract.reference_executor import Effects, ReferenceExecutor, increment_counter, read_counter
from tests.contract.steps import Steps


class ReferenceSettings(ServiceSettings):
    """What the executor needs."""

    run_token_public_key_file: Path = Field(description="PEM Ed25519 key that verifies run tokens.")
    effects_file: Path = Field(description="Where effects and results are kept.")
    die_at_step: int = Field(0, description="Step at which the process kills itself; 0: none.")


async def build(settings: ReferenceSettings, _stack: AsyncExitStack) -> Service:
    """Wires the executor."""
    verifier = RunTokenVerifier(settings.run_token_public_key_file.read_text(encoding="ascii"), AUDIENCE)
    effects = Effects(settings.effects_file)
    steps = Steps(settings.die_at_step)
    steps.begin()
    tools = [increment_counter, read_counter]
    servicer = ReferenceExecutor(verifier, tools, effects, around=steps.around)
    add = tools_pb2_grpc.add_ToolExecutorServiceServicer_to_server
    return Service([Registration(add, servicer, SERVICE_NAME)])


if __name__ == "__main__":
    main("reference_executor", ReferenceSettings, build)
