"""Prompts as templates in a package beside the agent that uses them."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from string import Template


@cache
def template(package: str, name: str) -> Template:
    """Returns the template `prompts/<name>.txt` of a package."""
    return Template(files(package).joinpath("prompts", f"{name}.txt").read_text())
