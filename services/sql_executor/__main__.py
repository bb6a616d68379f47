"""Starts the SQL executor: `python -m services.sql_executor`."""

from services.kit.wire.server import main
from services.sql_executor.server import build
from services.sql_executor.settings import SqlExecutorSettings

if __name__ == "__main__":
    main("sql_executor", SqlExecutorSettings, build)
