"""`signalbox up --prompts`: every service that asks a model is given the folder."""

from __future__ import annotations

from pathlib import Path

from services.cli.up import with_prompts


def test_a_folder_goes_to_each_service_that_has_prompts() -> None:
    own = {"guard": {"SIGNALBOX_PROMPTS_DIR": "/own"}, "gateway": {"SIGNALBOX_LOG_LEVEL": "DEBUG"}}
    assert with_prompts(own, Path("/words")) == {
        "runtime": {"SIGNALBOX_PROMPTS_DIR": "/words"},
        "guard": {"SIGNALBOX_PROMPTS_DIR": "/own"},
        "evaluator": {"SIGNALBOX_PROMPTS_DIR": "/words"},
        "gateway": {"SIGNALBOX_LOG_LEVEL": "DEBUG"},
    }
    assert with_prompts(own, None) == own
