"""Limits as callers see them, on a cluster."""

from tests.e2e.test_policies import (  # noqa: F401 - the tests that need no trace and no other agents
    test_a_budget_says_what_the_caller_asked_for,
    test_agents_are_listed_with_the_limits_in_force,
)
