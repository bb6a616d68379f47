"""The executor as a process of its own, with many calls at once: what git and ripgrep find is what there is."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
from signalbox.v1 import tools_pb2_grpc

from services.kit.identity.keys import generate_keypair
from services.local.processes import Program, ServiceProcess
from services.local.settings import inherited_environment
from tests.fixtures.patience import START_TIMEOUT_S
from tests.integration.code_executor.conftest import Executor
from tests.integration.code_executor.git_repository import GitRepository

FUNCTIONS = 40


async def test_every_symbol_is_found(root: Path, tmp_path: Path) -> None:
    names = [f"function_{number}" for number in range(FUNCTIONS)]
    repository = GitRepository(root / "project")
    commit = repository.commit({f"app/{name}.py": f"def {name}():\n    return 1\n" for name in names})
    keys = generate_keypair()
    (tmp_path / "run.pem").write_text(keys.public_pem)
    settings = {
        "SIGNALBOX_RUN_TOKEN_PUBLIC_KEY_FILE": str(tmp_path / "run.pem"),
        "SIGNALBOX_CODE_LOCAL_ROOTS": f'["{root}"]',
        "SIGNALBOX_CODE_CACHE_DIR": str(tmp_path / "cache"),
    }
    program = Program("code_executor", ["-m", "services.code_executor"], {**inherited_environment(), **settings})
    process = ServiceProcess(program, tmp_path, ready_timeout_s=START_TIMEOUT_S)
    ready = await process.start()
    try:
        async with grpc.aio.insecure_channel(ready.listen) as channel:
            executor = Executor(tools_pb2_grpc.ToolExecutorServiceStub(channel), keys, tmp_path / "cache")
            answers = await asyncio.gather(
                *(executor.call("fetch_code", repository, commit, symbol=name) for name in names)
            )
    finally:
        await process.stop()
    assert {answer.reason for answer in answers} == {""}
    assert [answer.text.split()[0] for answer in answers] == [f"app/{name}.py" for name in names]
