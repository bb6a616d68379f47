"""The SQL executor keeps the contract of every executor."""

from __future__ import annotations

import pytest

from services.kit.telemetry.names import AUDIENCE_SQL_EXECUTOR
from services.kit.tools.names import EXECUTE_DB_QUERY
from tests.contract.executor_conformance import ReadingExecutorContract
from tests.contract.executor_subject import Sample, Subject
from tests.integration.sql_executor.conftest import USER, Executor


@pytest.mark.asyncio(loop_scope="module")
class TestSqlExecutor(ReadingExecutorContract):
    @pytest.fixture
    def subject(self, executor: Executor) -> Subject:
        reading = Sample(EXECUTE_DB_QUERY, {"query": "SELECT count(*) FROM devices"})
        return Subject(executor.stub, executor.keys, reading, caller=USER, audience=AUDIENCE_SQL_EXECUTOR)
