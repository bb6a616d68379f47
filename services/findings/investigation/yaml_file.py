"""YAML files that people write, checked against a model, with errors that name the line's entry."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from services.findings.errors import BadFile, read_text
from services.kit.text.problems import problems_of
from services.kit.text.yaml_text import parse_yaml

ModelT = TypeVar("ModelT", bound=BaseModel)


def read_yaml(path: Path, model: type[ModelT]) -> ModelT:
    """Returns what a file says. Raises BadFile."""
    try:
        document = parse_yaml(read_text(path))
    except yaml.YAMLError as error:
        raise BadFile(f"{path} is not YAML: {str(error)[:300]}") from error
    return check(document, model, str(path))


def check(document: object, model: type[ModelT], name: str) -> ModelT:
    """Returns a document as its model. Raises BadFile that names what is wrong."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        lines = [f"  {problem}" for problem in problems_of(error)[:5]]
        raise BadFile(f"{name} is not as it should be:\n" + "\n".join(lines)) from error
