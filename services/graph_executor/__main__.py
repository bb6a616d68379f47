"""Starts the graph executor: `python -m services.graph_executor`."""

from services.graph_executor.server import build
from services.graph_executor.settings import GraphExecutorSettings
from services.kit.wire.server import main

if __name__ == "__main__":
    main("graph_executor", GraphExecutorSettings, build)
