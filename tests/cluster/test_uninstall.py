"""What is left of Signalbox: of these tests' modules the last, as it removes what the others share."""

from __future__ import annotations

from tests.cluster.cluster import Cluster, wait_until
from tests.fixtures.page import Page

# What the page had the operator make, and what every namespace has.
_OF_THE_OPERATOR = {
    "secret/signalbox-caller-token", "secret/signalbox-run-token", "secret/signalbox-database",
    "secret/signalbox-sql-database", "secret/signalbox-model", "secret/git-read-only", "secret/signalbox-test-caller",
    "secret/signalbox-examples",
    "configmap/fleet-sql-policy", "configmap/fleet-vocabulary", "configmap/signalbox-dev-callers",
    "configmap/kube-root-ca.crt", "serviceaccount/default",
}  # fmt: skip


def test_nothing_is_left_that_the_operator_did_not_make(page: Page, installed: Cluster) -> None:
    assert {"deployment.apps/signalbox-runtime", "poddisruptionbudget.policy/signalbox-runtime"} < installed.contents()
    page.run("helm uninstall", timeout_s=900)
    assert page.left == []
    wait_until("nothing is left of it", lambda: installed.contents() <= _OF_THE_OPERATOR)
