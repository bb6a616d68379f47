"""docs/settings.md, made from the settings classes; `python -m tests.contract.settings_page` writes it anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from services.kit.settings import ServiceSettings, variable_of
from tests.contract.deploy import services
from tests.contract.deploy.helm import ROOT

PAGE = ROOT / "docs" / "settings.md"
_HEAD = """# Settings

What each service is told by its environment: everything, and nothing else is read there. A service with a missing or
wrong setting does not start; it prints one line for each and exits with status 2.

Made from the `settings.py` of each service by `python -m tests.contract.settings_page`; a test fails when it is stale.
"""
_TABLE = "| variable | default | meaning |\n|---|---|---|\n"


def own_settings(settings: type[ServiceSettings]) -> list[str]:
    """Returns the fields that a service adds to those of every service, or has otherwise than they."""
    common = ServiceSettings.model_fields
    return [
        name
        for name, field in settings.model_fields.items()
        if name not in common or (field.default, field.description) != (common[name].default, common[name].description)
    ]


def render() -> str:
    """Returns the page."""
    sections = [_HEAD, "## Every service\n", _table(ServiceSettings, list(ServiceSettings.model_fields))]
    for service in sorted(services.in_source()):
        settings = services.settings_class(service)
        sections += [f"## {service}\n", _table(settings, own_settings(settings))]
    return "\n".join(sections)


def _table(settings: type[ServiceSettings], names: list[str]) -> str:
    return _TABLE + "".join(_rows(settings, names))


def _rows(settings: type[ServiceSettings], names: list[str]) -> Iterator[str]:
    for name in names:
        field = settings.model_fields[name]
        meaning = (field.description or "").replace("|", "\\|")
        yield f"| `{variable_of(settings, name)}` | {_default(field)} | {meaning} |\n"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value: Any = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if isinstance(value, bool):
        value = str(value).lower()
    if isinstance(value, tuple | list | frozenset):
        value = ",".join(str(item) for item in value)
    if value is None or value == "":
        return "unset"
    return f"`{value.as_posix() if isinstance(value, Path) else value}`"


if __name__ == "__main__":
    PAGE.write_text(render())
