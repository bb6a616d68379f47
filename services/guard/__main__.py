"""Starts the guard."""

from services.guard.server import build
from services.guard.settings import GuardSettings
from services.kit.wire.server import main

if __name__ == "__main__":
    main("guard", GuardSettings, build)
