"""Findings of static analysers about Python: decided where the flagged statement shows it, left to others elsewhere."""
