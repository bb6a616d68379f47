"""Reasoning about findings in Python code, from the lines that a prompt shows and from nothing else."""
