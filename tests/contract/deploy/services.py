"""The services as the source tree and the chart know them."""

from __future__ import annotations

import importlib
import inspect

import yaml
from pydantic.fields import FieldInfo

from services.kit.settings import ENV_PREFIX, ServiceSettings
from tests.contract.deploy.helm import CHART, ROOT


def in_source() -> set[str]:
    """Returns the packages of services/ that run a server."""
    return {path.parent.name for path in (ROOT / "services").glob("*/server.py")} - {"kit"}


def in_chart() -> set[str]:
    """Returns the services of the chart, those that are off by default included."""
    return set(yaml.safe_load((CHART / "values.yaml").read_text())["services"])


def settings_class(service: str) -> type[ServiceSettings]:
    """Returns the settings class of a service: the one in its `settings` module that no other there extends."""
    module = importlib.import_module(f"services.{service}.settings")
    defined = [
        value
        for _, value in inspect.getmembers(module, inspect.isclass)
        if issubclass(value, ServiceSettings) and value.__module__ == module.__name__
    ]
    (found,) = (value for value in defined if not any(value in other.__mro__[1:] for other in defined))
    return found


def variables(service: str) -> dict[str, FieldInfo]:
    """Returns the environment variables that a service reads, with the fields that they fill."""
    return {
        field.validation_alias if isinstance(field.validation_alias, str) else ENV_PREFIX + name.upper(): field
        for name, field in settings_class(service).model_fields.items()
    }
