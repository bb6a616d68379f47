"""What is misspelt or of the wrong type stops the installation, and Helm says what would have been right."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from services.runtime.agents.registry import built_in_limits, definitions, limits_in_force
from services.runtime.settings import PolicySettings
from tests.contract.deploy import services
from tests.contract.deploy.helm import Helm, HelmError
from tests.contract.deploy.manifests import containers, named, of_kind, settings_of
from tests.contract.deploy.test_chart_options import rendered_with

KNOWN = ", ".join(sorted(services.in_source()))
SOMEBODYS = {"services": {"outside": {"image": "outside:1", "usesPolicies": True}}}


def of_service(name: str, **block: Any) -> dict[str, Any]:
    """Values of one service."""
    return {"services": {name: block}}


REFUSED: list[tuple[dict[str, Any], str]] = [
    (of_service("gaurd", replicas=3), f"services.gaurd is none of {KNOWN}; one from outside says its image"),
    (of_service("gaurd", enabled=False), f"services.gaurd is none of {KNOWN}; one from outside says its image"),
    (
        of_service("runtime", optionalTargets={"SIGNALBOX_GRAPH_EXECUTOR_TARGET": "graf"}),
        'services.runtime.optionalTargets.SIGNALBOX_GRAPH_EXECUTOR_TARGET names "graf", which is not one of services',
    ),
    (
        of_service("runtime", secretFiles={"SIGNALBOX_BATCH_TOKEN_PUBLIC_KEY_FILE": {"with": "batchs"}}),
        'services.runtime.secretFiles.SIGNALBOX_BATCH_TOKEN_PUBLIC_KEY_FILE goes with "batchs", which is not one of',
    ),
    (
        of_service("guard", extraEnv=[{"name": "SIGNALBOX_GUARD_MODEL", "value": "other"}]),
        "services.guard.extraEnv names SIGNALBOX_GUARD_MODEL: settings go to env, secretEnv, secretFiles or files",
    ),
    (
        {"policies": {"data_caht": {"max_iterations": 5}}},
        f"policies.data_caht: there is no such agent; there are {', '.join(sorted(definitions()))}",
    ),
    ({"policies": {"data_chat": {"max_iteration": 5}}}, "at '/policies/data_chat': additional properties"),
    ({"policies": {"data_chat": {"max_iterations": 101}}}, "at '/policies/data_chat/max_iterations': maximum: got 101"),
    ({"policies": {"data_chat": {"max_iterations": 1.5}}}, "at '/policies/data_chat/max_iterations': got number"),
    ({"policies": {"data_chat": {"budget": {"tokens": 1e11}}}}, "at '/policies/data_chat/budget/tokens': maximum"),
    ({"policies": {"data_chat": {"budget": {"toknes": 1}}}}, "at '/policies/data_chat/budget': additional properties"),
    ({"policies": {"graph_editor": {"approval_role": 7}}}, "at '/policies/graph_editor/approval_role': got number"),
    (
        of_service("runtime", env={"SIGNALBOX_RETENTION": {"default": {"event_day": 7}}}),
        "at '/services/runtime/env/SIGNALBOX_RETENTION/default': additional properties 'event_day' not allowed",
    ),
    (
        of_service("runtime", env={"SIGNALBOX_MODEL_PRICES": {"large": {"input": "cheap", "output": 2}}}),
        "at '/services/runtime/env/SIGNALBOX_MODEL_PRICES/large/input': got string, want number",
    ),
    (
        of_service("runtime", env={"SIGNALBOX_MODEL_PRICES": "large=2"}),
        "at '/services/runtime/env/SIGNALBOX_MODEL_PRICES': 'large=2' does not match pattern",
    ),
    (
        of_service("runtime", env={"SIGNALBOX_MODEL_PRICES": '{"large": {"input": 1,}}'}),
        "services.runtime.env.SIGNALBOX_MODEL_PRICES is not JSON",
    ),
    ({"metrics": {"rules": {"goals": {"latencyAgents": "data_chat|("}}}}, "at '/metrics/rules/goals/latencyAgents'"),
    ({"enabled": False}, "enabled is false: it is for a chart that this one is a part of, whose dependency"),
]  # fmt: skip


@pytest.mark.parametrize(("values", "words"), REFUSED, ids=[words[:60] for _, words in REFUSED])
def test_the_refusal_says_what_is_wrong(helm: Helm, tmp_path: Path, values: dict[str, Any], words: str) -> None:
    with pytest.raises(HelmError, match=re.escape(words)):
        rendered_with(helm, tmp_path, values)


def test_an_agent_of_somebody_elses_runtime_may_have_limits_of_its_own(helm: Helm, tmp_path: Path) -> None:
    limits = {"word_count": {"max_words": 7, "exact": True}}
    manifests = rendered_with(helm, tmp_path, {**SOMEBODYS, "policies": limits})
    given = settings_of(named(manifests, "Deployment", "signalbox-outside"))["SIGNALBOX_POLICIES"]["value"]
    assert json.loads(given) == limits


def test_every_limit_of_every_agent_can_be_given(helm: Helm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {agent: {**built.pin.limits, "budget": dict(built.budget)} for agent, built in built_in_limits().items()}
    limits["graph_editor"] |= {"approval_role": "approver", "expiry_declines": True}
    manifests = rendered_with(helm, tmp_path, {"policies": limits})
    given = settings_of(named(manifests, "Deployment", "signalbox-runtime"))["SIGNALBOX_POLICIES"]["value"]
    monkeypatch.setenv("SIGNALBOX_POLICIES", given)
    monkeypatch.setenv("SIGNALBOX_DATABASE_DSN", "postgresql://signalbox@db.invalid/signalbox")
    in_force = limits_in_force(PolicySettings())
    assert {agent: asdict(each.policy) for agent, each in in_force.items()} == {
        agent: {name: value for name, value in given.items() if name != "budget"} for agent, given in limits.items()
    }


def test_a_setting_that_is_json_can_be_given_as_what_it_says(helm: Helm, tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "SIGNALBOX_MODEL_PRICES": {"large": {"input": 2.5, "output": 10}},
        "SIGNALBOX_RETENTION": {"default": {"event_days": 7, "checkpoint_days": 7}, "data_chat": {"run_days": 90}},
    }
    manifests = rendered_with(helm, tmp_path, of_service("runtime", env=settings))
    environment = settings_of(named(manifests, "Deployment", "signalbox-runtime"))
    assert {name: json.loads(environment[name]["value"]) for name in settings} == settings


def test_a_runtime_and_an_executor_from_outside_take_values_alone(helm: Helm, tmp_path: Path) -> None:
    """Agents of one's own are in a runtime of one's own, and call an executor that this chart does not know."""
    runtime = {
        "image": "registry.example.com/yard/runtime:7",
        "usesModel": True,
        "usesPolicies": True,
        "drainS": 10,
        "targets": {
            "SIGNALBOX_GUARD_TARGET": "guard",
            "SIGNALBOX_SQL_EXECUTOR_TARGET": "sql_executor",
            "SIGNALBOX_TIDE_EXECUTOR_TARGET": "tide_executor",
        },
        "env": {"SIGNALBOX_AGENT_MODEL": "large", "SIGNALBOX_FORMAT_MODEL": "large"},
        "secretEnv": {"SIGNALBOX_DATABASE_DSN": {"secret": "database", "key": "dsn"}},
        "secretFiles": {
            "SIGNALBOX_RUN_TOKEN_PRIVATE_KEY_FILE": {"secret": "runToken", "key": "private.pem"},
            "SIGNALBOX_CALLER_TOKEN_PUBLIC_KEY_FILE": {"secret": "callerToken", "key": "public.pem"},
        },
        "migration": {
            "command": ["python", "-m", "services.runtime.commands.migrate"],
            "settings": ["SIGNALBOX_DATABASE_DSN"],
        },
    }
    key = {"SIGNALBOX_RUN_TOKEN_PUBLIC_KEY_FILE": {"secret": "runToken", "key": "public.pem"}}
    values = {
        "networkPolicy": {"enabled": True},
        "policies": {"tide_watch": {"max_iterations": 3}},
        "services": {
            "runtime": {"enabled": False},
            "yard_runtime": runtime,
            "tide_executor": {"image": "registry.example.com/yard/tide:7", "secretFiles": key},
            "gateway": {"targets": {"SIGNALBOX_RUNTIME_TARGET": "yard_runtime"}},
        },
    }
    manifests = rendered_with(helm, tmp_path, values)
    own = settings_of(named(manifests, "Deployment", "signalbox-yard-runtime"))
    assert own["SIGNALBOX_TIDE_EXECUTOR_TARGET"]["value"] == "dns:///signalbox-tide-executor.signalbox.svc:50051"
    [job] = of_kind(manifests, "Job")
    assert containers(job)[0]["image"] == runtime["image"]
    policy = named(manifests, "NetworkPolicy", "signalbox-tide-executor")["spec"]["ingress"]
    assert "yard-runtime" in json.dumps(policy)
