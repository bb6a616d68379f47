"""`python -m services.kit.known_settings SERVICE NAME…`: which variables a service has no setting for.

A service reads what it knows and leaves the rest, as its environment is full of what others put there. Whoever sets
something on purpose wants to be told of a slip. Prints each unknown name; exit status 2 when there is one.
"""

from __future__ import annotations

import importlib
import sys

from services.kit.settings import EXIT_BAD_SETTINGS, ServiceSettings, variable_of


def unknown(service: str, names: list[str]) -> list[str]:
    """The names that are no variable of a service's settings."""
    module = importlib.import_module(f"services.{service}.settings")
    classes = [each for each in vars(module).values() if isinstance(each, type) and issubclass(each, ServiceSettings)]
    known = {variable_of(each, field) for each in classes for field in each.model_fields}
    return [name for name in names if name not in known]


def main(arguments: list[str]) -> int:
    """Checks the names; returns the exit status."""
    service, *names = arguments
    slips = unknown(service, names)
    for name in slips:
        print(f"{service} has no setting {name}", file=sys.stderr)  # noqa: T201
    return EXIT_BAD_SETTINGS if slips else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
