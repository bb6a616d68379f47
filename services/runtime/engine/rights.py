"""What a caller may see of a run that was made with roles: all of it, while they still have them."""

from __future__ import annotations

from dataclasses import replace

from services.kit.identity.caller import Caller
from services.kit.telemetry.names import ROLE_OPERATOR
from services.runtime.engine.records import RunRecord


def has_rights_of(caller: Caller, run: RunRecord) -> bool:
    """Whether a caller has every role that a run was made with; operators see every run as it is."""
    return run.caller.roles <= caller.roles or ROLE_OPERATOR in caller.roles


def shown_to(caller: Caller, run: RunRecord) -> RunRecord:
    """Returns a run as a caller may see it: without output and question, once they lack a role it was made with."""
    return run if has_rights_of(caller, run) else replace(run, output=None, input_request=None)
