"""What an operator has before they begin to install: databases, an issuer's keys, and the files that the page names."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from services.local.database import WORLD_POLICY, WORLD_VOCABULARY, prepare_databases
from services.local.keys import DEVELOPMENT_AUDIENCE, DEVELOPMENT_ISSUER, DevelopmentKeys, mint_issuer_token
from services.local.topology import StackOptions, Topology
from tests.cluster.cluster import Cluster
from tests.contract.deploy.helm import EXAMPLES

SUBJECT = "27"
ASKED = "How many devices do I have?"
# Small: the cluster may be one machine, which several tests share.
_REQUESTS = {"cpu": "20m", "memory": "128Mi"}


@dataclass(frozen=True)
class Given:
    """The files' folder, and what signs the tokens of callers."""

    folder: Path
    keys: DevelopmentKeys

    @property
    def values(self) -> Path:
        """The values that the page installs with."""
        return self.folder / "values.yaml"

    def token(
        self, subject: str = SUBJECT, roles: Iterable[str] = (), claims: Mapping[str, str] = MappingProxyType({})
    ) -> str:
        """A caller's token."""
        return mint_issuer_token(
            self.keys.signing_key,
            subject=subject,
            roles=roles,
            issuer=DEVELOPMENT_ISSUER,
            audience=DEVELOPMENT_AUDIENCE,
            claims=claims,
        )


def image_prefix() -> str:
    """Returns what the images' names begin with."""
    return os.environ.get("IMAGE_PREFIX", "signalbox-")


def image_tag() -> str:
    """Returns the images' tag."""
    return os.environ.get("IMAGE_TAG", "0.1.0")


@asynccontextmanager
async def given(cluster: Cluster) -> AsyncIterator[Given]:
    """Makes them in the operator's folder; the databases only where pods will ask them."""
    folder = cluster.home
    (folder / "keys").mkdir()
    made = Given(folder, DevelopmentKeys.create(folder / "keys"))
    _write(folder, {"model.key": "none", "credentials": "https://user:token@git.invalid", "caller.jwt": made.token()})
    (folder / "jwks.json").write_text(made.keys.jwks.read_text())
    made.values.write_text(yaml.safe_dump(values(made)))
    if not cluster.dsn:
        nobody = "postgresql://nobody@postgres.invalid/nothing"
        _write(
            folder,
            {
                "platform.dsn": nobody,
                "reader.dsn": nobody,
                "examples.dsn": nobody,
                "caller-secret": secrets.token_hex(32),
            },
        )
        yield made
        return
    options = StackOptions(postgres_dsn=cluster.dsn)
    async with prepare_databases(options, Topology(options, made.keys), folder, lambda _: None) as databases:
        asked = databases.user_database
        _write(folder, {"platform.dsn": databases.platform_dsn, "reader.dsn": asked.reader_dsn})
        _write(folder, {"examples.dsn": asked.examples_dsn, "caller-secret": asked.caller_secret})
        yield made


def values(made: Given) -> dict[str, Any]:
    """Returns the chart's offline example, with two replicas of all and the files that it takes from ConfigMaps."""
    chosen: dict[str, Any] = yaml.safe_load((EXAMPLES / "offline" / "values.yaml").read_text())
    services = chosen["services"]
    files = {
        ("gateway", "SIGNALBOX_JWKS_FILE", "jwks.json"): made.keys.jwks,
        ("sql_executor", "SIGNALBOX_SQL_POLICY", "policy.yaml"): WORLD_POLICY,
        ("offline_model", "SIGNALBOX_VOCABULARY_FILE", "vocabulary.yaml"): WORLD_VOCABULARY,
    }
    for (service, setting, name), path in files.items():
        services[service].pop("configMap")
        services[service].setdefault("files", {})[setting] = {"name": name, "content": path.read_text()}
    for setting in ("SIGNALBOX_RESTRICTED_TABLES", "SIGNALBOX_OWNER_COLUMNS"):
        services["guard"]["env"].pop(setting)  # the chart sees the policy
    services["gateway"]["env"] |= {
        "SIGNALBOX_JWT_ISSUER": DEVELOPMENT_ISSUER,
        "SIGNALBOX_JWT_AUDIENCE": DEVELOPMENT_AUDIENCE,
    }
    services["sql_executor"]["secretEnv"] = {"SIGNALBOX_EXAMPLES_DSN": {"secret": "examples", "key": "dsn"}}
    for service in ("runtime", "code_executor"):
        services[service]["resources"] = {"requests": _REQUESTS}
    return chosen | {
        "image": {"prefix": image_prefix(), "tag": image_tag()},
        "serviceDefaults": {"replicas": 2, "resources": {"requests": _REQUESTS}},
        "secrets": {"examples": "signalbox-examples"},
        "test": {"tokenSecret": "signalbox-test-caller"},
        "logLevel": "INFO",
    }


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.write_text(text)
        path.chmod(0o600)
