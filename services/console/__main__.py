"""Starts a team's console: `python -m services.console`."""

from services.console.server import NAME, build
from services.console.sessions import KeysUnusable
from services.console.settings import TeamConsoleSettings
from services.kit.wire.web_service import main

if __name__ == "__main__":
    main(NAME, TeamConsoleSettings, build, KeysUnusable)
