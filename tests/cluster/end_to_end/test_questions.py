"""Questions that end well, and how the ledger says so, on a cluster."""

from tests.e2e.test_questions import *  # noqa: F403 - its tests, and the fixtures that it has for them
