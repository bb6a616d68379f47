"""Fixtures of the deployment tests: Helm, and the chart's examples rendered once."""

from __future__ import annotations

import pytest

from tests.contract.deploy.helm import EXAMPLES, Helm, Manifest, example_names, locate


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(locate(), tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="session")
def rendered(helm: Helm) -> dict[str, list[Manifest]]:
    """Every example of the chart, rendered now."""
    return {name: helm.manifests([EXAMPLES / name / "values.yaml"]) for name in example_names()}


@pytest.fixture(scope="session", params=example_names())
def manifests(request: pytest.FixtureRequest, rendered: dict[str, list[Manifest]]) -> list[Manifest]:
    """The manifests of one example."""
    return rendered[request.param]
