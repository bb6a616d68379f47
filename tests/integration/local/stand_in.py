"""A stand-in for a service: `python -m tests.integration.local.stand_in <mode> <journal>`.

Writes its ready file, then obeys or ignores SIGTERM; or it fails, or never gets there, as its mode says.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType


def main(mode: str, journal: str) -> None:
    """Does what a mode says, and notes it."""
    name = os.environ.get("SIGNALBOX_NAME", "child")

    def note(what: str) -> None:
        with Path(journal).open("a") as file:
            file.write(f"{what} {name}\n")

    def on_term(_number: int, _frame: FrameType | None) -> None:
        note("stopped")
        sys.exit(0)

    if mode == "failing":
        sys.exit("SIGNALBOX_DATABASE_DSN: field required")
    if mode == "env":
        sys.stdout.write(json.dumps({"env": dict(os.environ), "directory": str(Path.cwd())}))
        return
    signal.signal(signal.SIGTERM, signal.SIG_IGN if mode == "stubborn" else on_term)
    sys.stdout.write(f"starting {name}\n")
    sys.stdout.flush()
    if mode == "silent":
        note(f"{os.getpid()}")
        time.sleep(60)
    listen, metrics = os.environ["SIGNALBOX_LISTEN"], os.environ["SIGNALBOX_METRICS_LISTEN"]
    content = "not an object" if mode == "garbage" else {"listen": listen, "metrics": metrics}
    ready = Path(os.environ["SIGNALBOX_READY_FILE"])
    part = ready.with_suffix(".part")
    part.write_text(json.dumps(content))
    note("ready")
    part.rename(ready)
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main(*sys.argv[1:])
