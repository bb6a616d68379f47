"""Paths of another machine: found again by what the results of a run agree on, at a cost that stays in proportion."""

from __future__ import annotations

from typing import Any

import pytest

from services.findings.sarif.annotate import annotate
from services.findings.sarif.findings import read_results
from services.findings.sarif.log import Log, Run
from services.findings.sarif.outcome import Outcome, Verdict
from services.findings.sarif.paths import RepositoryPaths
from tests.fixtures.steps import steps

# One name in every folder, as `__init__.py` and `index.js` have it.
FILES = [f"src/part{number}/index.js" for number in range(400)]
WAYS = {
    "absolute": "file:///home/ci/build/{path}",
    "on Windows": "file:///D:/build/{path}",
    "from a folder within": "{inner}",
    "deep": "file:///" + "d/" * 40 + "{path}",
}


def log(results: int, way: str) -> dict[str, Any]:
    """A log with so many results, each on a file and a line of its own."""
    uris = (way.format(path=path, inner=path.removeprefix("src/")) for path in FILES * (results // len(FILES) + 1))
    return {
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "x"}},
                "results": [
                    {
                        "ruleId": "X",
                        "message": {"text": "m"},
                        "locations": [
                            {
                                "physicalLocation": {
                                    "artifactLocation": {"uri": uri},
                                    "region": {"startLine": number + 1},
                                }
                            }
                        ],
                    }
                    for number, uri in zip(range(results), uris, strict=False)
                ],
            }
        ],
    }


def _read(run: Run) -> list[str]:
    paths = RepositoryPaths(root="/here", files=FILES)
    places = [location.physical_location for result in run.results or () for location in result.locations]
    return [paths.of(place.artifact_location, run) for place in places if place]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_twice_the_results_are_twice_the_work(way: str) -> None:
    few, many = (Log.model_validate(log(count, way)).runs[0] for count in (200, 400))
    assert _read(many) == FILES
    assert steps(lambda: _read(many)) < 3 * steps(lambda: _read(few))


def test_runs_of_one_log_have_their_roots_each() -> None:
    document = log(3, WAYS["absolute"])
    document["runs"] += log(3, "file:///elsewhere/{path}")["runs"]
    paths = RepositoryPaths(root="/here", files=FILES)
    results = read_results(document, paths)
    assert [one.finding.location.file for one in results] == FILES[:3] * 2
    outcomes = [Outcome(one.fingerprint, Verdict.NEEDS_REVIEW, None, "unclear") for one in results]
    annotated = annotate(document, outcomes, paths)
    assert all(one["properties"] for run in annotated["runs"] for one in run["results"])


def test_the_root_is_what_most_results_share() -> None:
    document = log(3, WAYS["absolute"])
    odd = log(1, "file:///home/ci/build/deps/{path}")["runs"][0]["results"]
    document["runs"][0]["results"] = odd + document["runs"][0]["results"]
    results = read_results(document, RepositoryPaths(root="/here", files=FILES))
    assert [one.located for one in results] == [False, True, True, True]
