"""Roles of models are what the agents' definitions name, wherever they are listed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from services.cli.configured import stack_options
from services.cli.settings import CliSettings
from services.evaluator.settings import EvaluatorSettings
from services.guard.settings import GuardSettings
from services.kit.models.parameters import ModelParameters
from services.kit.models.roles import CALL_TOOLS, DEFAULT_ROLE, RETURN_STRUCTURED, ROLES
from services.kit.settings import load_settings
from services.local.keys import DevelopmentKeys
from services.local.topology import GUARD, RUNTIME, StackOptions, Topology, offline_endpoint
from services.runtime.agents.definition import DEFAULT_MODEL
from services.runtime.agents.registry import definitions
from services.runtime.settings import RuntimeSettings

NAMED = {DEFAULT_MODEL, *(role for definition in definitions().values() for role in definition.models)}


def test_programs_beside_the_runtime_know_every_role_and_no_other() -> None:
    assert sorted(ROLES) == sorted(NAMED)
    assert DEFAULT_ROLE == DEFAULT_MODEL
    assert set(ROLES) >= CALL_TOOLS | RETURN_STRUCTURED


def test_a_local_platform_tells_the_runtime_the_model_of_every_role(tmp_path: Path) -> None:
    topology = Topology(StackOptions(), DevelopmentKeys.create(tmp_path))
    told = topology.runtime(1, offline_endpoint("h:1"), dsn="d", guard="h:2", sql_executor="h:3").env
    assert set(json.loads(told["SIGNALBOX_MODELS"])) == NAMED


GIVEN = {
    "default": {"model": "large", "base_url": "https://large.example/v1", "api_key_env": "LARGE_KEY"},
    "plan": "largest",
    "guard": {
        "model": "judge",
        "base_url": "https://judge.example/v1",
        "api_key_env": "JUDGE_KEY",
        "temperature": None,
    },
    "evaluator": {"reasoning_effort": "high"},
}


@pytest.mark.parametrize("endpoint", ["", "https://endpoint.example/v1"])
def test_models_of_a_local_platform_reach_all_that_ask_them(
    endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {"LARGE_KEY": "of the large", "JUDGE_KEY": "of the judge"}
    own = {"OPENAI_BASE_URL": endpoint, "SIGNALBOX_AGENT_MODEL": "small", "SIGNALBOX_MODELS": json.dumps(GIVEN)}
    for name, value in {**own, **keys}.items():
        monkeypatch.setenv(name, value)
    options = stack_options(CliSettings())
    topology = Topology(options, DevelopmentKeys.create(tmp_path))
    model = options.model or offline_endpoint("h:1", options.models)
    programs = [
        topology.runtime(1, model, dsn="postgresql://h/d", guard="h:2", sql_executor="h:3"),
        topology.guard(model, [], []),
        topology.evaluator(model),
    ]
    told: dict[str, ModelParameters] = {}
    for name in own:
        monkeypatch.delenv(name)
    for program in programs:
        with monkeypatch.context() as environment:
            for name in keys:
                environment.delenv(name)
            for name, value in program.env.items():
                environment.setenv(name, value)
            if program.name == RUNTIME:
                told |= {role: load_settings(RuntimeSettings).model_of(role) for role in ROLES}
            elif program.name == GUARD:
                told[program.name] = load_settings(GuardSettings).model
            else:
                told[program.name] = load_settings(EvaluatorSettings).model
            assert all(each.key for each in told.values())
    places = {role: (each.model, each.base_url) for role, each in told.items()}
    large = "https://large.example/v1"
    assert places.pop("guard") == ("judge", "https://judge.example/v1")
    assert places.pop("plan") == ("largest", large)
    assert set(places.values()) == {("large", large)}
    assert (told["guard"].temperature, told["evaluator"].reasoning_effort) == (None, "high")


def test_a_role_with_a_model_of_its_own_leaves_the_others_to_the_offline_model() -> None:
    given = offline_endpoint("h:1", {"plan": {"model": "large", "base_url": "https://large.example/v1"}})
    assert (given.model_of("plan"), given.model_of("parse")) == ("large", "signalbox-offline-parse")
