"""Models by role from the environment: JSON as it stands, or a file of YAML, with keys from where they are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.guard.settings import GuardSettings
from services.kit.settings import load_settings

YAML = """
default: {reasoning_effort: low}
guard:
  model: judge
  base_url: https://judge.example/v1
  api_key_env: JUDGE_KEY
  temperature: null
  fallbacks: [small]
"""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGNALBOX_RUN_TOKEN_PUBLIC_KEY_FILE", "run.pub")
    monkeypatch.setenv("SIGNALBOX_GUARD_MODEL", "otherwise")
    monkeypatch.delenv("JUDGE_KEY", raising=False)


def test_a_file_says_what_json_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "models.yaml"
    file.write_text(YAML)
    monkeypatch.setenv("SIGNALBOX_MODELS", str(file))
    monkeypatch.setenv("JUDGE_KEY", "secret-of-the-judge")
    model = load_settings(GuardSettings).model
    assert (model.model, model.key, model.temperature) == ("judge", "secret-of-the-judge", None)
    assert model.reasoning_effort == "low"
    assert [(each.model, each.key) for each in model.fallbacks] == [("small", "secret-of-the-judge")]


@pytest.mark.parametrize("services_own", ["", "of-the-service"])
def test_a_role_has_a_key_of_its_own_at_the_endpoint_of_the_service(
    monkeypatch: pytest.MonkeyPatch, services_own: str
) -> None:
    monkeypatch.setenv("SIGNALBOX_MODELS", '{"default": {"api_key_env": "JUDGE_KEY"}}')
    monkeypatch.setenv("SIGNALBOX_MODEL_API_KEY", services_own)
    monkeypatch.setenv("JUDGE_KEY", "of-the-judge")
    assert load_settings(GuardSettings).model.key == "of-the-judge"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (YAML, "guard] [key]: JUDGE_KEY: there is no such environment variable"),
        ("guard: {model: judge, temperatur: 0}", "SIGNALBOX_MODELS [guard]"),
        ("guard: {model: judge, api_key_env: A, api_key_file: b}", "one can be given"),
        ("guard: {model: [judge}", "not YAML"),
        ("- guard", "it has to be models by role"),
        (None, "neither JSON nor a file that can be read"),
    ],
)
def test_what_is_wrong_is_said_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str | None, said: str
) -> None:
    file = tmp_path / "models.yaml"
    if text is not None:
        file.write_text(text)
    monkeypatch.setenv("SIGNALBOX_MODELS", str(file))
    with pytest.raises(SystemExit):
        load_settings(GuardSettings)
    assert said in capsys.readouterr().err
