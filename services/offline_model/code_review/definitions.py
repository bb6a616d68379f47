"""Whose definition is worth asking for: nobody's that comes with Python."""

from __future__ import annotations

import builtins
import sys

from services.offline_model.code_review.opinion import Need

_STANDARD = frozenset(sys.stdlib_module_names) | frozenset(dir(builtins))


def is_standard(full_name: str) -> bool:
    """Tells whether a name is one of Python's own, or of its library."""
    return full_name.partition(".")[0] in _STANDARD


def definition_of(full_name: str) -> Need | None:
    """Returns the need for a definition by its last name; None for one that comes with Python."""
    return None if is_standard(full_name) else Need("definition", full_name.rpartition(".")[2])
