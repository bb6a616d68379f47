"""The setting `SIGNALBOX_MODELS`: JSON as it stands, or the path of a YAML file that says the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BeforeValidator
from pydantic_settings import NoDecode

from services.kit.models.parameters import ModelParameters
from services.kit.text.yaml_text import parse_yaml


def _read(value: Any) -> Any:
    """Returns what models are by role. Raises ValueError for what is neither JSON nor a file of YAML."""
    if not isinstance(value, str) or not value.strip():
        return value or {}
    if value.lstrip().startswith("{"):
        try:
            return json.loads(value)
        except ValueError as error:
            raise ValueError(f"not the JSON that it should be: {error}") from error
    path = Path(value)
    try:
        given = parse_yaml(path.read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"neither JSON nor a file that can be read: {path}: {error}") from error
    except yaml.YAMLError as error:
        raise ValueError(f"{path}: not YAML: {error}") from error
    if not isinstance(given, dict):
        raise ValueError(f"{path}: it has to be models by role, such as `default: {{model: …}}`")  # noqa: TRY004 - told
    return given


# As it stands, for who passes it on.
GivenModels = Annotated[dict[str, Any], NoDecode, BeforeValidator(_read)]
Models = Annotated[dict[str, str | ModelParameters], NoDecode, BeforeValidator(_read)]
