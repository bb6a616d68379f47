"""Settings: what a service says when they are wrong, and that each of them is documented."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import AliasChoices, Field

from services.cli.settings import CliSettings
from services.kit.settings import EXIT_BAD_SETTINGS, ServiceSettings, load_settings, variable_of
from services.local.settings import DSN_VARIABLE
from tests.contract import settings_page
from tests.contract.deploy import services

ROOT = Path(__file__).parents[3]
SERVICES = sorted(services.in_source())
# What programs besides the services read.
OTHER_VARIABLES = {DSN_VARIABLE}


class Thing(ServiceSettings):
    """A service's settings with every way to name one."""

    size: int = Field(ge=1, description="How big.")
    names: tuple[str, ...] = Field((), description="Who, as JSON.")
    url: str = Field("http://h", validation_alias="THING_URL", pattern="^http", description="Where.")
    either: int = Field(0, validation_alias=AliasChoices("ONE_NAME", "OTHER_NAME"), description="Two names.")
    prices: dict[str, int] = Field({}, validation_alias="PRICES", description="By name, as JSON.")


def refusal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], **env: str) -> list[str]:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as stopped:
        load_settings(Thing)
    assert stopped.value.code == EXIT_BAD_SETTINGS
    return capsys.readouterr().err.splitlines()


def test_every_wrong_setting_is_named_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = refusal(monkeypatch, capsys, SIGNALBOX_LISTEN="here", SIGNALBOX_LOG_LEVEL="loud")
    assert sorted(line.split(":")[0] for line in told) == ["SIGNALBOX_LISTEN", "SIGNALBOX_LOG_LEVEL", "SIGNALBOX_SIZE"]
    assert any("host:port" in line for line in told)
    assert any("SIGNALBOX_SIZE: Field required" in line for line in told)


def test_an_aliased_setting_is_named_as_the_environment_has_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = refusal(monkeypatch, capsys, SIGNALBOX_SIZE="1", THING_URL="ftp://h", OTHER_NAME="many")
    assert [line.split(":")[0] for line in told] == ["THING_URL", "ONE_NAME"]


@pytest.mark.parametrize(("value", "where"), [('["a", 1]', "SIGNALBOX_NAMES [1]:"), ("a,b", "SIGNALBOX_NAMES:")])
def test_a_wrong_part_of_a_setting_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], value: str, where: str
) -> None:
    [told] = refusal(monkeypatch, capsys, SIGNALBOX_SIZE="1", SIGNALBOX_NAMES=value)
    assert where in told


@pytest.mark.parametrize(
    ("variable", "value", "why"),
    [
        ("SIGNALBOX_NAMES", '["a", "hunter2"', "Expecting ',' delimiter: line 1 column 16"),
        ("PRICES", "{hunter2: 1}", "Expecting property name enclosed in double quotes: line 1 column 2"),
    ],
)
def test_what_is_no_json_is_told_by_its_variable_and_place(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], variable: str, value: str, why: str
) -> None:
    [told] = refusal(monkeypatch, capsys, **{"SIGNALBOX_SIZE": "1", variable: value})
    assert told.startswith(f"{variable}: not the JSON that it should be: {why}")
    assert "hunter2" not in told
    assert "Source" not in told


def test_a_secret_is_not_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    told = refusal(monkeypatch, capsys, SIGNALBOX_SIZE="hunter2")
    assert "hunter2" not in "\n".join(told)


def test_tls_is_all_or_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    told = refusal(monkeypatch, capsys, SIGNALBOX_SIZE="1", SIGNALBOX_TLS_CERT="/tls.crt")
    assert told == ["Value error, tls_cert, tls_key and tls_ca must be set together"]


def test_an_empty_variable_names_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SIGNALBOX_TLS_CERT", "SIGNALBOX_TLS_KEY", "SIGNALBOX_TLS_CA", "SIGNALBOX_READY_FILE"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("SIGNALBOX_SIZE", "1")
    settings = load_settings(Thing)
    assert (settings.tls_cert, settings.tls_ca, settings.ready_file) == (None, None, None)


@pytest.mark.parametrize("address", ["127.0.0.1", ":80", "h:", "h:x", "h:65536", "h:-1"])
def test_an_address_is_host_and_port(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], address: str
) -> None:
    [told] = refusal(monkeypatch, capsys, SIGNALBOX_SIZE="1", SIGNALBOX_METRICS_LISTEN=address)
    assert told.startswith("SIGNALBOX_METRICS_LISTEN: ")


@pytest.mark.parametrize("service", SERVICES)
def test_every_setting_of_a_service_is_described(service: str) -> None:
    fields = services.settings_class(service).model_fields
    assert [name for name, field in fields.items() if not field.description] == []


def test_the_page_of_settings_is_up_to_date() -> None:
    assert settings_page.PAGE.read_text() == settings_page.render(), "run `python -m tests.contract.settings_page`"


@pytest.mark.parametrize("service", SERVICES)
def test_every_setting_of_a_service_is_on_the_page_of_settings(service: str) -> None:
    _, _, rest = settings_page.PAGE.read_text().partition(f"\n## {service}\n")
    named = set(re.findall(r"^\| `([A-Z0-9_]+)` \|", rest.partition("\n## ")[0], flags=re.MULTILINE))
    settings = services.settings_class(service)
    assert {variable_of(settings, name) for name in settings_page.own_settings(settings)} == named


@pytest.mark.parametrize("readme", sorted(ROOT.glob("services/*/README.md")), ids=lambda path: path.parent.name)
def test_a_readme_names_no_setting_that_is_not_there(readme: Path) -> None:
    told = set(re.findall(r"`(SIGNALBOX_[A-Z0-9_]+)`", readme.read_text()))
    cli = {variable_of(CliSettings, name) for name in CliSettings.model_fields}
    known = cli.union(*(services.variables(service) for service in SERVICES))
    assert told <= known | OTHER_VARIABLES
    if readme.parent.name in SERVICES:
        assert "](../../docs/settings.md)" in readme.read_text(), "it should say where all settings are described"
