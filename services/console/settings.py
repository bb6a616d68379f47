"""Settings of the console. It reads no environment: the command that starts it says what is to be otherwise."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ConsoleSettings:
    """How the console serves, reads and follows. Port 0 is any that is free."""

    port: int = 0
    page_size: int = 50
    call_timeout_s: float = 30.0
    # Shadows read the ledger of the time that is asked for.
    shadow_timeout_s: float = 60.0
    shadow_concurrency: int = 2
    versions_shown: int = 5
    # Of the newest decisions, those that tell which versions of a policy there were.
    decisions_sampled: int = 500
    runs_read_at_once: int = 8
    # A run that awaits an answer has no events until it is given.
    answer_poll_s: float = 1.0
    gateway_retry_s: float = 2.0
    max_form_bytes: int = 64 * 1024
    shutdown_grace_s: int = 1
