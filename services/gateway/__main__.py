"""Starts the gateway: `python -m services.gateway`."""

from services.gateway.server import build
from services.gateway.settings import GatewaySettings
from services.kit.wire.server import main

if __name__ == "__main__":
    main("gateway", GatewaySettings, build)
