"""Starts the runtime."""

from services.kit.wire.server import main
from services.runtime.server import build
from services.runtime.settings import RuntimeSettings

if __name__ == "__main__":
    main("runtime", RuntimeSettings, build)
