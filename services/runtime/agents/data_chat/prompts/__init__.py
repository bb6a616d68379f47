"""Prompts of `data_chat`, as templates beside this file."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from string import Template


@cache
def prompt(name: str) -> Template:
    """Returns the template `<name>.txt`."""
    return Template(files(__package__).joinpath(f"{name}.txt").read_text())
