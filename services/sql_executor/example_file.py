"""The file of question → SQL examples and business notes that teaches the model one database.

ExampleFileError   the file is missing, is not YAML, or breaks a rule; the message names each wrong field
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from services.kit.text.problems import problems_of
from services.kit.text.yaml_text import parse_yaml

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2_000, pattern=r"^[^\x00]*$")]
Statement = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=20_000, pattern=r"^[^\x00]*$")
]


class ExampleFileError(Exception):
    """The example file can't be used."""


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class ExampleEntry(_Strict):
    """One question and the SQL that answers it."""

    question: Text = Field(description="As a person would ask it.")
    sql: Statement = Field(description="One SELECT, without a filter for the caller's own rows.")


class ExampleFile(_Strict):
    """A file of examples and notes."""

    version: Literal[1] = Field(description="Version of this format.")
    examples: list[ExampleEntry] = Field(min_length=1, description="Questions with their SQL.")
    notes: list[Text] = Field(
        default_factory=list, description="What the words of this business mean, a sentence each."
    )

    @model_validator(mode="after")
    def _says_nothing_twice(self) -> Self:
        for kind, texts in (("examples", [each.question for each in self.examples]), ("notes", self.notes)):
            if repeated := _first_repeated(texts):
                raise ValueError(f"{kind}: {repeated!r} is there twice")
        return self


def read_example_file(path: Path) -> ExampleFile:
    """Reads and checks an example file; raises ExampleFileError."""
    try:
        content = parse_yaml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ExampleFileError(f"can't read the example file {path}: {error}") from error
    except yaml.YAMLError as error:
        raise ExampleFileError(f"the example file {path} is not YAML: {error}") from error
    try:
        return ExampleFile.model_validate(content)
    except ValidationError as error:
        problems = "\n".join(f"  {problem.place or 'file'}: {problem.what}" for problem in problems_of(error))
        raise ExampleFileError(f"the example file {path} is wrong:\n{problems}") from error


def _first_repeated(texts: Sequence[str]) -> str | None:
    seen: set[str] = set()
    for text in texts:
        key = " ".join(text.lower().split())
        if key in seen:
            return text
        seen.add(key)
    return None
