"""Roles of models are what the agents' definitions name, wherever they are listed."""

from __future__ import annotations

import json
from pathlib import Path

from services.kit.models.roles import CALL_TOOLS, DEFAULT_ROLE, RETURN_STRUCTURED, ROLES
from services.local.keys import DevelopmentKeys
from services.local.topology import StackOptions, Topology, offline_endpoint
from services.runtime.agents.definition import DEFAULT_MODEL
from services.runtime.agents.registry import definitions

NAMED = {DEFAULT_MODEL, *(role for definition in definitions().values() for role in definition.models)}


def test_programs_beside_the_runtime_know_every_role_and_no_other() -> None:
    assert sorted(ROLES) == sorted(NAMED)
    assert DEFAULT_ROLE == DEFAULT_MODEL
    assert set(ROLES) >= CALL_TOOLS | RETURN_STRUCTURED


def test_a_local_platform_tells_the_runtime_the_model_of_every_role(tmp_path: Path) -> None:
    topology = Topology(StackOptions(), DevelopmentKeys.create(tmp_path))
    told = topology.runtime(1, offline_endpoint("h:1"), dsn="d", guard="h:2", sql_executor="h:3").env
    assert set(json.loads(told["SIGNALBOX_MODELS"])) == NAMED
