"""The harbour's incidents, on a cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from examples.harbour.incidents import repository
from tests.cluster.agents.backing import Agents
from tests.cluster.given import SUBJECT
from tests.e2e.test_incidents import (  # noqa: F401 - the tests that need no log and no trace
    Incidents,
    test_an_incident_is_one_run_and_another_by_its_id_is_refused,
    test_each_incident_comes_to_its_cause_or_to_none,
)
from tests.fixtures.client import RunClient


class _OfTenants(Incidents):
    """Callers whose graphs are named by their tenants, who are themselves."""

    def client(self, subject: str = SUBJECT) -> RunClient:
        return self.running.caller(subject, tenant=subject)


@pytest.fixture(scope="module")
def investigated(agents: Agents) -> Incidents:
    """The cluster's platform, and the repository by its URL."""
    made = repository.make(agents.folder / "services")
    return _OfTenants(agents.deployed, replace(made, path=f"{agents.url}services"))
