"""What the chart knows of the code: which services there are and their settings, which agents and their limits.

`python -m charts.values_schema` writes it into values.schema.json, and the names into a template for what a schema
can't say; `--check` fails when what is there is not that.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import sys
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from services.kit.settings import ENV_PREFIX, ServiceSettings
from services.runtime.agents.policies import BUDGET, BUDGET_BOUNDS, Limits, bounds_of
from services.runtime.agents.registry import built_in_limits

ROOT = Path(__file__).parents[1]
SCHEMA = ROOT / "charts" / "signalbox" / "values.schema.json"
NAMES = ROOT / "charts" / "signalbox" / "templates" / "_names.tpl"
# What the chart sets itself: from its own values, or so that the pod works.
CHARTS_OWN = frozenset(
    ENV_PREFIX + name
    for name in (
        "LISTEN", "METRICS_LISTEN", "READY_FILE", "REVISION", "LOG_LEVEL", "SHUTDOWN_GRACE_S", "DRAIN_S",
        "OTLP_ENDPOINT", "TLS_CERT", "TLS_KEY", "TLS_CA", "MODEL_BASE_URL", "MODEL_API_KEY",
        "RELEASE_REVISION", "CHANGED_BY", "CHANGE_REASON",
    )
)  # fmt: skip
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_BY_PLACE = ("secretEnv", "secretFiles", "files", "targets", "optionalTargets", "lists")


def services() -> list[str]:
    """Returns the packages of services/ that run a server."""
    return sorted(path.parent.name for path in (ROOT / "services").glob("*/server.py") if path.parent.name != "kit")


def settings_class(service: str) -> type[ServiceSettings]:
    """Returns the settings class of a service: the one in its `settings` module that no other there extends."""
    module = importlib.import_module(f"services.{service}.settings")
    defined = [
        value
        for _, value in inspect.getmembers(module, inspect.isclass)
        if issubclass(value, ServiceSettings) and value.__module__ == module.__name__
    ]
    (found,) = (value for value in defined if not any(value in other.__mro__[1:] for other in defined))
    return found


def block(service: str) -> dict[str, Any]:
    """Returns the schema of a service's block, beyond that of every service."""
    described = settings_class(service).model_json_schema(by_alias=True)
    fields = {_variable(name): _inlined(_plain(field), described) for name, field in described["properties"].items()}
    own = {name: field for name, field in sorted(fields.items()) if name not in CHARTS_OWN}
    plain = {name: _value(field) for name, field in own.items() if not field.get("writeOnly")}
    named = {"additionalProperties": False, "properties": dict.fromkeys(own, True)}
    return {
        "description": f"The {service} service.",
        "properties": {
            "env": {"additionalProperties": False, "properties": plain},
            **dict.fromkeys(_BY_PLACE, named),
        },
    }


def _variable(name: str) -> str:
    return name if name.startswith(ENV_PREFIX) else ENV_PREFIX + name.upper()


def _plain(field: dict[str, Any]) -> dict[str, Any]:
    """Returns a field without its other choice, which is to leave it out."""
    chosen = [choice for choice in field.get("anyOf", []) if choice.get("type") != "null"]
    return {**field, **chosen[0]} if chosen else field


def _inlined(field: Any, described: dict[str, Any]) -> Any:
    """Returns a field with what it refers to in its place."""
    if isinstance(field, list):
        return [_inlined(each, described) for each in field]
    if not isinstance(field, dict):
        return field
    if reference := field.get("$ref"):
        return _inlined(described["$defs"][reference.rpartition("/")[2]], described)
    return {key: _inlined(value, described) for key, value in field.items()}


def _value(field: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of a value as operators write it; empty text is for the chart to complain of, in words."""
    kind = field.get("type", "string")
    if kind in ("integer", "number"):
        return {"type": kind, **{name: field[name] for name in _BOUNDS if name in field}}
    if kind == "boolean":
        return {"type": "boolean"}
    if "pattern" in field:
        return {"type": "string", "pattern": f"^$|{field['pattern']}"}
    if kind == "object":
        # As what it says, or as the environment has it: as text.
        return {"type": ["object", "string"], "pattern": r"^\s*\{", **_entries(field)}
    # Lists are given as the environment has them: as text.
    return {"type": "string"}


def _entries(field: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of what a map holds, without what pydantic says for its own documents."""
    entry = field.get("additionalProperties")
    if not isinstance(entry, dict) or "properties" not in entry:
        return {"additionalProperties": entry}
    properties = {
        name: {
            "description": f"{each['title']}.",
            **{key: each[key] for key in each if key not in ("title", "default")},
        }
        for name, each in entry["properties"].items()
    }
    kept = {key: entry[key] for key in ("type", "required", "additionalProperties") if key in entry}
    return {"additionalProperties": {**kept, "properties": properties}}


def json_settings() -> list[str]:
    """Returns the settings of all services whose text is a JSON object."""
    return sorted(
        {
            _variable(name)
            for service in services()
            for name, field in settings_class(service).model_json_schema(by_alias=True)["properties"].items()
            if _plain(field).get("type") == "object"
        }
    )


def limits_block(agent: str, limits: Limits) -> dict[str, Any]:
    """Returns the schema of an agent's limits, by name and below `budget`."""
    policy = {
        name: {"description": f"Built in: {json.dumps(getattr(limits.policy, name))}.", **_typed(bound)}
        for name, bound in bounds_of(type(limits.policy)).items()
    }
    budget = {
        name: {"description": f"Built in: {json.dumps(dict(limits.budget)[name])}; 0 means no limit.", **_typed(bound)}
        for name, bound in BUDGET_BOUNDS.items()
    }
    return {
        "description": f"Limits of {agent}.",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            **policy,
            BUDGET: {
                "description": "What a run may spend.",
                "type": "object",
                "additionalProperties": False,
                "properties": budget,
            },
        },
    }


def _typed(bound: Any) -> dict[str, Any]:
    return dict(TypeAdapter(bound).json_schema())


def completed(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns the values schema with the blocks of the services, and the limits of agents, as their code has them."""
    schema["properties"]["services"]["properties"] = {name: block(name) for name in services()}
    limits = {agent: limits_block(agent, each) for agent, each in built_in_limits().items()}
    schema["properties"]["policies"]["properties"] = limits
    return schema


def names() -> str:
    """Returns the template that tells the others what there is."""
    lists = {"services": services(), "agents": sorted(built_in_limits()), "jsonSettings": json_settings()}
    made = "{{/* Made from the code by `python -m charts.values_schema`: lists of names, parted by spaces. */}}\n"
    return made + "".join(
        f'{{{{- define "signalbox.names.{name}" -}}}}{" ".join(found)}{{{{- end -}}}}\n'
        for name, found in lists.items()
    )


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say whether it is stale")
    arguments = parser.parse_args()
    schema = json.dumps(completed(json.loads(SCHEMA.read_text())), indent=2) + "\n"
    stale = {path: text for path, text in ((SCHEMA, schema), (NAMES, names())) if path.read_text() != text}
    if arguments.check:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is stale; run `make docs`", file=sys.stderr)
        return 1 if stale else 0
    for path, text in stale.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
