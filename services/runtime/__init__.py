"""Executes the agents' graphs: run lifecycle, checkpoints, routing, the decision ledger."""

# What `signalbox` runs in the image of this service.
COMMANDS = {
    "compat-check": "services.runtime.compat_check",
    "migrate": "services.runtime.migrate",
    "prove": "services.runtime.prove",
}
