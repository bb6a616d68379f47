"""`signalbox up`: what services are told of a folder of prompts, and of who starts them."""

from __future__ import annotations

import getpass
import json
from pathlib import Path

import pytest

from services.cli.up import notes_in, with_author, with_prompts


def test_a_folder_goes_to_each_service_that_has_prompts() -> None:
    own = {"guard": {"SIGNALBOX_PROMPTS_DIR": "/own"}, "gateway": {"SIGNALBOX_LOG_LEVEL": "DEBUG"}}
    assert with_prompts(own, Path("/words")) == {
        "runtime": {"SIGNALBOX_PROMPTS_DIR": "/words"},
        "guard": {"SIGNALBOX_PROMPTS_DIR": "/own"},
        "evaluator": {"SIGNALBOX_PROMPTS_DIR": "/words"},
        "gateway": {"SIGNALBOX_LOG_LEVEL": "DEBUG"},
    }
    assert with_prompts(own, None) == own


def test_who_starts_it_is_told_to_the_runtime_unless_somebody_else_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "ada")
    own = {"runtime": {"SIGNALBOX_LOG_LEVEL": "DEBUG"}}
    assert with_author(own) == {"runtime": {"SIGNALBOX_LOG_LEVEL": "DEBUG", "SIGNALBOX_CHANGED_BY": "ada"}}
    named = {"runtime": {"SIGNALBOX_CHANGED_BY": "grace"}}
    assert with_author(named) == named

    def nobody() -> str:
        raise OSError("no such user")

    monkeypatch.setattr(getpass, "getuser", nobody)
    assert with_author(own) == own


def test_notes_about_folders_are_read_among_what_code_of_graphs_prints() -> None:
    note = json.dumps({"event": "langgraph.json", "folder": "/graphs", "note": "base_image has no effect"})
    printed = ('  config = open("langgraph.json")', '"langgraph.json"', '{"config": "langgraph.json"}', "{")
    assert notes_in("\n".join((*printed, note, note, ""))) == ["/graphs: base_image has no effect"]
