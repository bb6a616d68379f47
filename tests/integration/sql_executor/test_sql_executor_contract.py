"""The SQL executor keeps the contract of every executor."""

from __future__ import annotations

import pytest

from services.sql_executor.tools import QUERY_TOOL
from tests.contract.executor_conformance import ReadingExecutorContract, Sample, Subject
from tests.integration.sql_executor.conftest import USER, Executor


@pytest.mark.asyncio(loop_scope="module")
class TestSqlExecutor(ReadingExecutorContract):
    @pytest.fixture
    def subject(self, executor: Executor) -> Subject:
        reading = Sample(QUERY_TOOL, {"query": "SELECT count(*) FROM devices"})
        return Subject(executor.stub, executor.keys, reading, caller=USER)
