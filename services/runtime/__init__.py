"""Executes the agents' graphs: run lifecycle, checkpoints, routing, the decision ledger."""
