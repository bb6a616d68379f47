"""The one public gRPC API: authentication, quotas, validation, and streams that survive their replica."""

# What `signalbox` runs in the image of this service.
COMMANDS = {
    "ask": "services.gateway.ask",
}
