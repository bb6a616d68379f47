"""Threads and maintenance, on a cluster."""

from tests.e2e.test_operations import *  # noqa: F403 - its tests, and the fixtures that it has for them
