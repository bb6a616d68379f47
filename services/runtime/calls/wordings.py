"""Whether a model's words hold what they word: counted, and shown in the run's explanation beside its calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from services.kit.telemetry.logs import get_logger
from services.runtime.metrics import WORDINGS
from services.runtime.routing.calls import MODEL, OK, note
from services.runtime.routing.recorder import CallRecord

log = get_logger()
WORDING: Final = "wording"
UNSUPPORTED: Final = "unsupported"


def note_wording(model: str, problems: Sequence[str]) -> None:
    """Notes a wording of a model; `problems` are the kinds of what it states that stands nowhere."""
    outcome = UNSUPPORTED if problems else OK
    WORDINGS.labels(outcome).inc()
    if problems:
        log.warning("a wording was not kept", model=model, problems=list(dict.fromkeys(problems)))
        kinds = ", ".join(dict.fromkeys(problems))
        outcome = f"{UNSUPPORTED}: {kinds}"
    record = CallRecord(kind=WORDING, name=model, outcome=outcome, elapsed_ms=0.0, input_tokens=0, output_tokens=0)
    note({**record, "service": MODEL})
