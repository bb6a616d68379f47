"""Starts the code executor."""

from services.code_executor.server import build
from services.code_executor.settings import CodeExecutorSettings
from services.kit.wire.server import main

if __name__ == "__main__":
    main("code_executor", CodeExecutorSettings, build)
