"""Settings of the runtime whose text is JSON: a misspelt key of one stops the start, and is named."""

from __future__ import annotations

import pytest

from services.kit.settings import load_settings
from services.runtime.settings import RuntimeSettings

MISSPELT = [
    ("SIGNALBOX_RETENTION", '{"default": {"event_day": 7}}', "SIGNALBOX_RETENTION [default] [event_day]"),
    ("SIGNALBOX_MODEL_PRICES", '{"m": {"input": 1, "output": 2, "cache": 1}}', "SIGNALBOX_MODEL_PRICES [m] [cache]"),
]


@pytest.mark.parametrize(("name", "text", "named"), MISSPELT, ids=[name for name, _, _ in MISSPELT])
def test_a_misspelt_key_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, text: str, named: str
) -> None:
    monkeypatch.setenv(name, text)
    with pytest.raises(SystemExit):
        load_settings(RuntimeSettings)
    told = capsys.readouterr().err
    assert named in told, told
