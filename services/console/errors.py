"""Errors of the console, each a page that says what happened and what to do.

ConsoleError
├── BadRequest       400: what is asked for can't be read, or the gateway refuses it
├── TokenRefused     401: the gateway does not accept the caller's token, or no longer does
├── BrowserNotPaired         403: the browser has not shown that it is the user's, or asks from elsewhere
├── NotLoggedIn      401: of a team's console, a request without a session, or whose session has ended
├── AskedFromElsewhere       403: of a team's console, what another site has sent, or what asks for another host
├── LoginFailed      403: the issuer, or what came back from it, does not let anybody in
├── NotAllowed       403: the caller's roles are not enough
├── NotFound         404
├── WrongMethod      405
├── Conflict         409: what is asked for no longer fits, as an answer to a question that has one
├── TooLarge         413: a form of more bytes than any of the console's
├── Busy             429: the gateway asks to wait
├── NotOffered       501: the platform's release is older than what is asked for
├── GatewayFailed    502
├── IssuerAway       503: the issuer does not answer where somebody has to log in; the page tries again
├── GatewayAway      503: nobody answers at the gateway's address, or it has lost the platform; the page tries again
└── TooLate          504
"""

from __future__ import annotations

from typing import ClassVar

import grpc

from services.kit.errors import FieldViolation, error_detail


class ConsoleError(Exception):
    """An error as a page: leaves set the HTTP status, a title, what to do, and whether the page tries again."""

    status: ClassVar[int] = 500
    title: ClassVar[str] = "Something went wrong"
    advice: ClassVar[str] = "The terminal that the console runs in tells more."
    # The same for a team's console, where it is another.
    team_advice: ClassVar[str] = ""
    tries_again: ClassVar[bool] = False

    def __init__(self, message: str, *, reason: str = "", violations: tuple[FieldViolation, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.violations = violations


class BadRequest(ConsoleError):
    """What is asked for can't be read, or the gateway refuses it."""

    status = 400
    title = "The request is not valid"
    advice = "Correct it and ask again."


class TokenRefused(ConsoleError):
    """The gateway does not accept the caller's token, or no longer does."""

    status = 401
    title = "The gateway does not accept your token"
    advice = "It may have expired. Start the console again with a valid one in SIGNALBOX_TOKEN."
    team_advice = "Log in again. If that does not help, the gateway trusts another issuer or another audience."


class NotLoggedIn(ConsoleError):
    """There is no session, or none any more."""

    status = 401
    title = "You are not logged in"
    advice = "Log in and try again; a form that you had filled in has to be filled in again."


class AskedFromElsewhere(ConsoleError):
    """Another site has sent the request, or it asks for another host."""

    status = 403
    title = "This request does not come from the console"
    advice = "Open the console by the address that it is known by, and ask from one of its pages."


class LoginFailed(ConsoleError):
    """The issuer, or what came back from it, does not let anybody in."""

    status = 403
    title = "You could not be logged in"
    advice = "Log in once more; if that fails as well, the console's log says more."


class BrowserNotPaired(ConsoleError):
    """The browser has not shown that it is the user's, or asks from elsewhere."""

    status = 403
    title = "This browser is not paired with the console"
    advice = "Open the address that `signalbox console` printed when it started."


class NotAllowed(ConsoleError):
    """The caller's roles are not enough."""

    status = 403
    title = "You may not do this"
    advice = "You need a token with a role that permits it."


class NotFound(ConsoleError):
    """There is no such thing, or not for this caller."""

    status = 404
    title = "Not found"
    advice = "It may belong to another caller, or retention has removed it."


class NoPage(NotFound):
    """The address is of nothing that the console has, whoever asks."""

    advice = "Start from one of the pages above."


class WrongMethod(ConsoleError):
    """The page does not accept the request's method."""

    status = 405
    title = "This page does not accept that method"
    advice = "Start from one of the pages above."


class Conflict(ConsoleError):
    """The request no longer fits the present state."""

    status = 409
    title = "The state has changed"
    advice = "Open it again to see its present state."


class TooLarge(ConsoleError):
    """The form is larger than any of the console's."""

    status = 413
    title = "The request is too large"
    advice = "An answer has at most 4,000 characters; start a run of much input with `signalbox run`."


class Busy(ConsoleError):
    """The gateway asks to wait."""

    status = 429
    title = "The gateway asks you to wait"
    advice = "Try again in a moment."
    tries_again = True


class NotOffered(ConsoleError):
    """The platform's release is older than what is asked for."""

    status = 501
    title = "The platform does not offer this"
    advice = "Its release is older than this command."


class GatewayFailed(ConsoleError):
    """The gateway answered with an error of its own."""

    status = 502
    title = "The gateway reported an error"
    advice = "Look in its log, for the trace id if there is one."


class IssuerAway(ConsoleError):
    """The issuer of callers' tokens does not answer."""

    status = 503
    title = "The place to log in does not answer"
    advice = "This page tries again every few seconds until it does."
    tries_again = True


class GatewayAway(ConsoleError):
    """Nobody answers at the gateway's address, or it has lost the platform."""

    status = 503
    title = "The gateway does not answer"
    advice = "This page tries again every few seconds until the gateway answers."
    tries_again = True


class TooLate(ConsoleError):
    """The gateway did not answer in time."""

    status = 504
    title = "The gateway did not answer in time"
    advice = "Ask for less, such as a shorter time, or try again."


_OF_CODE: dict[grpc.StatusCode, type[ConsoleError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: BadRequest,
    grpc.StatusCode.OUT_OF_RANGE: BadRequest,
    grpc.StatusCode.UNAUTHENTICATED: TokenRefused,
    grpc.StatusCode.PERMISSION_DENIED: NotAllowed,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.FAILED_PRECONDITION: Conflict,
    grpc.StatusCode.ABORTED: Conflict,
    grpc.StatusCode.UNIMPLEMENTED: NotOffered,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Busy,
    grpc.StatusCode.UNAVAILABLE: GatewayAway,
    grpc.StatusCode.CANCELLED: GatewayAway,  # what a gateway that stops says to calls that still arrive
    grpc.StatusCode.DEADLINE_EXCEEDED: TooLate,
}


def from_rpc(error: grpc.aio.AioRpcError, address: str) -> ConsoleError:
    """Returns the page of a failed call."""
    detail = error_detail(error)
    kind = _OF_CODE.get(detail.code, GatewayFailed)
    if kind is Busy and detail.reason == detail.code.name:
        # The gateway says why. Without that it is gRPC that refuses an answer, which stays as large as it is.
        kind = GatewayFailed
    message = detail.message or detail.code.name
    if kind is GatewayAway and detail.reason == detail.code.name:  # gRPC's own words are for programs
        message = f"Nobody answers at {address}."
    return kind(message, reason=detail.reason, violations=detail.violations)
