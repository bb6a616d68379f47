"""The code executor keeps the contract of every executor."""

from __future__ import annotations

import pytest

from services.kit.telemetry.names import AUDIENCE_CODE_EXECUTOR
from tests.contract.executor_conformance import ReadingExecutorContract
from tests.contract.executor_subject import Sample, Subject
from tests.integration.code_executor.conftest import Executor
from tests.integration.code_executor.git_repository import GitRepository


class TestCodeExecutor(ReadingExecutorContract):
    @pytest.fixture
    def subject(self, executor: Executor, repository: GitRepository) -> Subject:
        commit = repository.commit({"main.py": "print('one')\n"})
        source = {"repository": str(repository.path), "commit": commit}
        reading = Sample("read_file", {"source": source, "path": "main.py"})
        return Subject(executor.stub, executor.keys, reading, audience=AUDIENCE_CODE_EXECUTOR)
