"""Runs as test cases: replayed through their graph with what their nodes heard, without model or executor."""
