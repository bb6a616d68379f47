"""Batches: many inputs of agents, each a run of its own, paced for callers who need not be there."""
