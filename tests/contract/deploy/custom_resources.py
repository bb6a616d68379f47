"""Custom resources, held to what their operators declare of them: their definitions as released, in schemas/."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema

from tests.contract.deploy.helm import Manifest

FOLDER = Path(__file__).parent / "schemas" / "custom_resources"
# As an API server takes them: where they come from is for readers.
DEFINITIONS: dict[str, Manifest] = {
    path.stem: {key: value for key, value in json.loads(path.read_text()).items() if key != "$comment"}
    for path in sorted(FOLDER.glob("*.json"))
}
# What stands in these says more of the same values, and names no field that is not declared beside it.
_JUNCTORS = ("allOf", "anyOf", "oneOf", "not")


def validate(manifest: Manifest) -> None:
    """Raises jsonschema.ValidationError where an API server refuses a custom resource, strict about unknown fields."""
    definition = DEFINITIONS[manifest["kind"]]["spec"]
    group, _, version = manifest["apiVersion"].partition("/")
    served = {each["name"]: each["schema"]["openAPIV3Schema"] for each in definition["versions"] if each["served"]}
    if (group, version) not in {(definition["group"], name) for name in served}:
        raise jsonschema.ValidationError(f"{manifest['apiVersion']}: there is {definition['group']}, {sorted(served)}")
    jsonschema.Draft202012Validator(_strict(served[version])).validate(manifest)


def _strict(schema: dict[str, Any]) -> dict[str, Any]:
    """A structural schema as JSON Schema: an object holds what is declared, and nothing else unless that is said."""
    made = {key: value for key, value in schema.items() if key not in ("properties", "items", "additionalProperties")}
    if "properties" in schema:
        made["properties"] = {name: _strict(inner) for name, inner in schema["properties"].items()}
        made["additionalProperties"] = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    if isinstance(more := schema.get("additionalProperties"), dict):
        made["additionalProperties"] = _strict(more)
    if "items" in schema:
        made["items"] = _strict(schema["items"])
    for word in _JUNCTORS:
        if word in schema:
            made[word] = schema[word]
    if schema.get("nullable"):
        return {"anyOf": [{"type": "null"}, made]}
    return made
