"""What the guard accepts as settings."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from services.guard.settings import GuardSettings


def settings(monkeypatch: pytest.MonkeyPatch, **env: str) -> GuardSettings:
    monkeypatch.setenv("SIGNALBOX_GUARD_MODEL", "small")
    monkeypatch.setenv("SIGNALBOX_RUN_TOKEN_PUBLIC_KEY_FILE", "/keys/run.pem")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    return GuardSettings()


def test_the_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read = settings(
        monkeypatch,
        SIGNALBOX_RESTRICTED_TABLES="admin, hr.salaries, pay roll",
        SIGNALBOX_MODEL_BASE_URL="http://127.0.0.1:1/v1",
        SIGNALBOX_MODEL_API_KEY="k",
    )
    assert read.restricted_tables == ("admin", "salaries", "pay roll")
    assert read.model_base_url == "http://127.0.0.1:1/v1"
    assert read.model_api_key.get_secret_value() == "k"
    assert read.run_token_public_key_file == Path("/keys/run.pem")
    assert "k" not in repr(read.model_api_key)


def test_a_policy_may_restrict_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings(monkeypatch, SIGNALBOX_RESTRICTED_TABLES="").restricted_tables == ()


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("SIGNALBOX_RESTRICTED_TABLES", "admin;users", "is not a name"),
        ("SIGNALBOX_RESTRICTED_TABLES", "hr.", "is not a name"),
        ("SIGNALBOX_GUARD_MODEL", "", "at least 1 character"),
        ("SIGNALBOX_MODEL_BASE_URL", "localhost", "should match pattern"),
        ("SIGNALBOX_MODEL_TIMEOUT_S", "0", "greater than 0"),
    ],
)
def test_wrong_settings_are_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str, told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        settings(monkeypatch, **{name: value})
