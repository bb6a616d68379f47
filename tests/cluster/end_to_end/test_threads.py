"""Conversations, on a cluster."""

from tests.e2e.test_threads import *  # noqa: F403 - its tests, and the fixtures that it has for them
