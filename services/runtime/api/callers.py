"""Who calls the runtime: the gateway's word, on any service."""

from __future__ import annotations

from typing import Any

import grpc

from services.kit.identity.bearer import bearer_token
from services.kit.identity.caller import Caller
from services.kit.identity.caller_tokens import CallerTokenVerifier
from services.kit.telemetry.names import ROLE_OPERATOR
from services.runtime.engine.admission import Admission
from services.runtime.engine.clock import ClockWatch
from services.runtime.errors import OperatorOnly

Context = grpc.aio.ServicerContext[Any, Any]


class Callers:
    """Checks the gateway's tokens."""

    def __init__(self, verifier: CallerTokenVerifier, clock: ClockWatch, admission: Admission | None = None) -> None:
        self.verifier = verifier
        self.clock = clock
        self._admission = admission

    def caller(self, context: Context) -> Caller:
        """Returns who calls. Raises TokenInvalid, ClockOff, Overloaded."""
        self.clock.check()
        if self._admission:
            self._admission.check_call()
        return self.verifier.verify(bearer_token(context.invocation_metadata()))

    def operator(self, context: Context) -> Caller:
        """Returns who calls. Raises OperatorOnly for everybody without that role, and as `caller` does."""
        caller = self.caller(context)
        if ROLE_OPERATOR not in caller.roles:
            raise OperatorOnly("this is for operators", metadata={"role": ROLE_OPERATOR})
        return caller
