"""Filters of `signalbox runs` under a name: kept as they were written, and begun with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from signalbox.v1 import runs_pb2
from typer.testing import CliRunner, Result

from services.cli import runs as command
from services.cli.app import app


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[runs_pb2.ListRunsRequest]:
    """What the gateway would be asked for; with a home of the test's own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    requests: list[runs_pb2.ListRunsRequest] = []

    async def list_runs(_connection: object, request: runs_pb2.ListRunsRequest, *_: object, **__: object) -> int:
        requests.append(request)
        return 0

    monkeypatch.setattr(command, "list_runs", list_runs)
    monkeypatch.setenv("SIGNALBOX_GATEWAY", "127.0.0.1:1")
    monkeypatch.setenv("SIGNALBOX_TOKEN", "t")
    return requests


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["runs", *arguments])


def test_a_filter_is_kept_and_begun_with(asked: list[runs_pb2.ListRunsRequest], tmp_path: Path) -> None:
    kept = run("--state", "failed", "--since", "2h", "--label", "team=blue", "--label", "env=prod", "--save", "mine")
    assert kept.exit_code == 0, kept.output
    again = run("--filter", "mine", "--agent", "data_chat")
    assert again.exit_code == 0, again.output
    first, second = asked
    assert (second.state, dict(second.labels)) == (runs_pb2.RUN_STATE_FAILED, {"team": "blue", "env": "prod"})
    assert second.agent == "data_chat"
    # Two hours before each use.
    assert second.since_time.ToNanoseconds() >= first.since_time.ToNanoseconds() > 0
    file = tmp_path / "signalbox" / "filters.json"
    assert json.loads(file.read_text()) == {
        "mine": {"state": "failed", "since": "2h", "labels": ["team=blue", "env=prod"]}
    }
    assert str(file) in kept.output.replace("\n", "")


def test_what_is_given_counts_more_and_can_be_kept_as_another(asked: list[runs_pb2.ListRunsRequest]) -> None:
    run("--state", "failed", "--text", "hot", "--save", "one")
    run("--filter", "one", "--text", "cold", "--save", "two")
    run("--filter", "two")
    assert [(each.state, each.text) for each in asked[1:]] == [(runs_pb2.RUN_STATE_FAILED, "cold")] * 2
    assert "no filter is called two any more" in run("--save", "two").output
    assert run("--filter", "two").exit_code == 2


@pytest.mark.parametrize("kept", ["{", "[]", '{"mine": 1}', '{"mine": {"state": 1}}'])
def test_a_file_that_can_not_be_read_is_told(asked: list[runs_pb2.ListRunsRequest], tmp_path: Path, kept: str) -> None:
    (tmp_path / "signalbox").mkdir()
    (tmp_path / "signalbox" / "filters.json").write_text(kept)
    refused = run("--filter", "mine")
    assert (refused.exit_code, "can't be read" in refused.output, asked) == (2, True, [])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--filter", "x"), "no filter is called 'x'"),
        (("--save", "a b", "--state", "failed"), "no name"),
        (("--save",), "--save"),
    ],
)
def test_what_can_not_be_is_told(asked: list[runs_pb2.ListRunsRequest], arguments: Any, said: str) -> None:
    refused = run(*arguments)
    assert (refused.exit_code, said in refused.output, asked) == (2, True, [])


def test_a_value_that_does_not_fit_any_more_is_told(asked: list[runs_pb2.ListRunsRequest], tmp_path: Path) -> None:
    (tmp_path / "signalbox").mkdir()
    (tmp_path / "signalbox" / "filters.json").write_text('{"mine": {"since": "soon"}}')
    refused = run("--filter", "mine")
    assert (refused.exit_code, "soon" in refused.output, asked) == (2, True, [])
