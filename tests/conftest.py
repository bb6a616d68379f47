"""Fixtures that tests of every kind may use."""

pytest_plugins = ["tests.fixtures.postgres", "tests.fixtures.platform"]
