"""The services as the source tree and the chart know them."""

from __future__ import annotations

from pydantic.fields import FieldInfo

from charts.values_schema import settings_class
from services.kit.settings import ENV_PREFIX
from tests.contract.deploy.helm import ROOT, chart_values

__all__ = ["in_chart", "in_source", "settings_class", "variables"]


def in_source() -> set[str]:
    """Returns the packages of services/ that run a server."""
    return {path.parent.name for path in (ROOT / "services").glob("*/server.py")} - {"kit"}


def in_chart() -> set[str]:
    """Returns the services of the chart, those that are off by default included."""
    return set(chart_values()["services"])


def variables(service: str) -> dict[str, FieldInfo]:
    """Returns the environment variables that a service reads, with the fields that they fill."""
    return {
        field.validation_alias if isinstance(field.validation_alias, str) else ENV_PREFIX + name.upper(): field
        for name, field in settings_class(service).model_fields.items()
    }
