"""Benchmarks: ratios measured side by side in one run, never absolute limits."""
