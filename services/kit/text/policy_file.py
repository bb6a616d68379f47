"""Policy files: YAML that is read once, checked whole, and refused with every error named."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from services.kit.text.problems import problems_of
from services.kit.text.yaml_text import parse_yaml

PolicyT = TypeVar("PolicyT", bound=BaseModel)


class PolicyFileError(Exception):
    """The policy file can't be read or breaks its schema; the message names the file and every wrong field."""


def load_policy_file(path: Path, policy: type[PolicyT]) -> PolicyT:
    """Reads a policy file. Raises PolicyFileError."""
    try:
        content = parse_yaml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyFileError(f"{path}: can't be read: {error}") from error
    except yaml.YAMLError as error:
        raise PolicyFileError(f"{path}: is not YAML: {error}") from error
    try:
        return policy.model_validate(content)
    except ValidationError as error:
        raise PolicyFileError("\n".join(f"{path}: {problem}" for problem in problems_of(error))) from error
