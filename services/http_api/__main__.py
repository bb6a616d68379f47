"""Starts the HTTP API."""

from services.http_api.server import NAME, build
from services.http_api.settings import HttpApiSettings
from services.kit.wire.web_service import main

if __name__ == "__main__":
    main(NAME, HttpApiSettings, build)
