"""The life of a run as its caller handles it, on a cluster."""

from tests.e2e.test_runs import *  # noqa: F403 - its tests, and the fixtures that it has for them
