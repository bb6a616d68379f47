"""What the local platform takes from the environment of whoever starts it."""

from __future__ import annotations

import os
from typing import Final

# What the services of a local platform see of the environment besides their own settings. No credentials, no proxies:
# they talk to loopback, and to the model endpoint by its settings.
_INHERITED: Final = (
    "PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "XDG_RUNTIME_DIR", "VIRTUAL_ENV",
    "SSL_CERT_FILE", "SSL_CERT_DIR",
)  # fmt: skip
# Where `python -m services.sql_executor.provisioning` is told of the database's owner.
DSN_VARIABLE: Final = "SIGNALBOX_OWNER_DSN"


def inherited_environment() -> dict[str, str]:
    """Returns the part of the environment that is passed on to the services of a local platform."""
    return {name: os.environ[name] for name in _INHERITED if name in os.environ}
