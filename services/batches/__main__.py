"""Starts the service for batches: `python -m services.batches`."""

from services.batches.server import build
from services.batches.settings import BatchesSettings
from services.kit.wire.server import main

if __name__ == "__main__":
    main("batches", BatchesSettings, build)
