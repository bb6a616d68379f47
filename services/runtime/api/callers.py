"""Who calls the runtime: the gateway's word, on any service, and that of the service for batches, on their runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import grpc

from services.kit.identity.batch_tokens import BatchTokenVerifier
from services.kit.identity.bearer import bearer_token
from services.kit.identity.caller import Caller, TokenInvalid
from services.kit.identity.caller_tokens import CallerTokenVerifier
from services.kit.telemetry.names import LABEL_BATCH, ROLE_OPERATOR
from services.runtime.engine.admission import Admission
from services.runtime.engine.clock import ClockWatch
from services.runtime.errors import BatchRunsOnly, OperatorOnly

Context = grpc.aio.ServicerContext[Any, Any]


@dataclass(frozen=True)
class Acting:
    """A caller, or who acts for them: then for the runs of one batch alone."""

    caller: Caller
    batch_id: str = ""

    def check(self, subject: str, labels: Mapping[str, str]) -> None:
        """Checks that a run is one that this may be about. Raises BatchRunsOnly."""
        if self.batch_id and (subject != self.caller.subject or labels.get(LABEL_BATCH) != self.batch_id):
            raise BatchRunsOnly("a batch's token is for runs of that batch", metadata={"batch_id": self.batch_id})


class Callers:
    """Checks the gateway's tokens, and those of the service for batches where there is one."""

    def __init__(
        self,
        verifier: CallerTokenVerifier,
        clock: ClockWatch,
        admission: Admission | None = None,
        batches: BatchTokenVerifier | None = None,
    ) -> None:
        self.verifier = verifier
        self.clock = clock
        self._admission = admission
        self._batches = batches

    def caller(self, context: Context) -> Caller:
        """Returns who calls. Raises TokenInvalid, also for a batch's token, ClockOff, Overloaded."""
        return self.verifier.verify(self._token(context))

    def acting(self, context: Context) -> Acting:
        """Returns who calls, or for whom a batch's token is. Raises as `caller` does."""
        token = self._token(context)
        try:
            return Acting(self.verifier.verify(token))
        except TokenInvalid:
            if self._batches is None:
                raise
            claims = self._batches.verify(token)
            return Acting(claims.caller, claims.batch_id)

    def operator(self, context: Context) -> Caller:
        """Returns who calls. Raises OperatorOnly for everybody without that role, and as `caller` does."""
        caller = self.caller(context)
        if ROLE_OPERATOR not in caller.roles:
            raise OperatorOnly("this is for operators", metadata={"role": ROLE_OPERATOR})
        return caller

    def _token(self, context: Context) -> str:
        self.clock.check()
        if self._admission:
            self._admission.check_call()
        return bearer_token(context.invocation_metadata())
