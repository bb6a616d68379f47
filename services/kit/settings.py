"""Settings of a service: read once from the environment, typed, checked before anything starts."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated, NoReturn, Self, TypeVar

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

EXIT_BAD_SETTINGS = 2
ENV_PREFIX = "SIGNALBOX_"
_FIELD = re.compile(r'for field "(\w+)"')


def _host_and_port(value: str) -> str:
    host, _, port = value.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError("must be host:port, for example 127.0.0.1:8443 (port 0 picks a free one)")
    return value


def _named(value: object) -> object:
    return value or None


Address = Annotated[str, AfterValidator(_host_and_port)]
# Who can't take a variable away empties it; `Path("")` would be the working directory.
OptionalFile = Annotated[Path | None, BeforeValidator(_named)]


class ServiceSettings(BaseSettings):
    """Settings that every service has; a service adds its own in a subclass."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, frozen=True, extra="ignore", hide_input_in_errors=True)

    listen: Address = Field("127.0.0.1:0", description="Address the service listens on; port 0 picks a free one.")
    metrics_listen: Address = Field(
        "127.0.0.1:0", description="Address, in plain HTTP, of /metrics, /healthz and /livez."
    )
    ready_file: OptionalFile = Field(
        None, description="File to write the bound addresses to once the service is ready."
    )
    otlp_endpoint: str = Field(
        "", description="OTLP/gRPC endpoint for traces, http://host:port; empty exports nothing."
    )
    trace_sample_ratio: float = Field(
        1.0,
        ge=0,
        le=1,
        description="Share of the traces that begin in this service to record, when there is an endpoint.",
    )
    revision: str = Field("", description="Commit that the service was built from; images set it.")
    log_level: str = Field("INFO", pattern="^(DEBUG|INFO|WARNING|ERROR)$", description="Lowest level that is logged.")
    shutdown_grace_s: float = Field(20.0, gt=0, le=600, description="Seconds that calls in flight get after SIGTERM.")
    max_message_bytes: int = Field(
        4 * 1024 * 1024, ge=65536, le=256 * 1024 * 1024, description="Largest gRPC message accepted, in bytes."
    )
    max_connection_age_s: float = Field(
        4,
        ge=0.1,
        le=86400,
        description="Seconds after which a client is asked to connect anew, so that new replicas get their share.",
    )
    connection_grace_s: float = Field(
        1800, ge=1, le=86400, description="Seconds that calls in flight on its old connection then have to end."
    )
    tls_cert: OptionalFile = Field(None, description="PEM certificate of the service; with key and CA, mTLS is on.")
    tls_key: OptionalFile = Field(None, description="PEM private key of the certificate.")
    tls_ca: OptionalFile = Field(None, description="PEM certificates of the authority that signs the peers.")

    tls_require_client_cert: bool = Field(
        True, description="Whether callers must show a certificate of that authority; used with mTLS only."
    )

    def name_of(self, service: str) -> str:
        """Returns what this process is called in logs, traces and metrics."""
        return service

    @model_validator(mode="after")
    def _tls_is_whole(self) -> Self:
        given = [self.tls_cert, self.tls_key, self.tls_ca]
        if any(given) and not all(given):
            raise ValueError("tls_cert, tls_key and tls_ca must be set together")
        return self


SettingsT = TypeVar("SettingsT", bound=ServiceSettings)


def load_settings(settings_class: type[SettingsT]) -> SettingsT:
    """Reads the settings from the environment, or prints what is wrong with them and exits with status 2."""
    try:
        return settings_class()
    except ValidationError as error:
        refuse([_told(settings_class, problem["loc"], problem["msg"]) for problem in error.errors()])
    except SettingsError as error:  # a value that should be JSON and is not
        refuse([_told_of_json(settings_class, error)])


def variable_of(settings_class: type[BaseSettings], name: str) -> str:
    """Returns the environment variable that fills a field, given by its name or its alias."""
    field = settings_class.model_fields.get(name)
    alias = field.validation_alias if field is not None else name
    if isinstance(alias, AliasChoices):
        alias = next((choice for choice in alias.choices if isinstance(choice, str)), None)
    if isinstance(alias, str):
        return alias
    return str(settings_class.model_config.get("env_prefix", "")) + name.upper()


def _told(settings_class: type[BaseSettings], location: tuple[int | str, ...], message: str) -> str:
    if not location:
        return message
    first, *inside = location
    where = "".join(f" [{part}]" for part in inside)
    return f"{variable_of(settings_class, str(first))}{where}: {message}"


def _told_of_json(settings_class: type[BaseSettings], error: SettingsError) -> str:
    # The field's name is in the words alone.
    field = _FIELD.search(str(error))
    if field is None:
        return str(error)
    return f"{variable_of(settings_class, field[1])}: not the JSON that it should be: {error.__cause__}"


def refuse(problems: list[str]) -> NoReturn:
    """Prints what is wrong, a line each, and ends the program with status 2."""
    for problem in problems:
        print(problem, file=sys.stderr)  # noqa: T201
    raise SystemExit(EXIT_BAD_SETTINGS)
