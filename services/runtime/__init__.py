"""Executes the agents' graphs: run lifecycle, checkpoints, routing, the decision ledger."""

# What `signalbox` runs in the image of this service.
COMMANDS = {
    "compat-check": "services.runtime.commands.compat_check",
    "migrate": "services.runtime.commands.migrate",
    "prove": "services.runtime.commands.prove",
}
