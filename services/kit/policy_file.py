"""Policy files: YAML that is read once, checked whole, and refused with every error named."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from services.kit.problems import problems_of


class PolicyFileError(Exception):
    """The policy file can't be read or breaks its schema; the message names the file and every wrong field."""


class _UniqueKeyLoader(yaml.SafeLoader):
    """Refuses a key given twice: the last one would win without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=deep)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is given twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


PolicyT = TypeVar("PolicyT", bound=BaseModel)


def load_policy_file(path: Path, policy: type[PolicyT]) -> PolicyT:
    """Reads a policy file. Raises PolicyFileError."""
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _UniqueKeyLoader)  # noqa: S506 - a SafeLoader
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyFileError(f"{path}: can't be read: {error}") from error
    except yaml.YAMLError as error:
        raise PolicyFileError(f"{path}: is not YAML: {error}") from error
    try:
        return policy.model_validate(content)
    except ValidationError as error:
        raise PolicyFileError("\n".join(f"{path}: {problem}" for problem in problems_of(error))) from error
