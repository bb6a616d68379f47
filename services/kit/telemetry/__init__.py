"""Traces, logs and metrics, and the names that they share."""
