"""Errors of the offline model, in OpenAI's shape.

ApiError
├── BadRequest        400: the request is malformed or asks for what no skill has
│   └── ToolChoiceNotMet  400: the caller demanded a tool call that the skill has no arguments for
├── ModelNotFound     404: no skill has that model name
├── MethodNotAllowed  405
├── RouteNotFound     404
└── RequestTooLarge   413
"""

from __future__ import annotations

from typing import Any, ClassVar


class ApiError(Exception):
    """An error that the client is told about; leaves set the HTTP status, OpenAI's type and a code."""

    status: ClassVar[int] = 400
    type: ClassVar[str] = "invalid_request_error"
    code: ClassVar[str | None] = None

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param

    def body(self) -> dict[str, Any]:
        """Gives OpenAI's error object."""
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}


class BadRequest(ApiError):
    """The request is malformed, or asks for something that no skill has."""


class ToolChoiceNotMet(BadRequest):
    """The caller demanded a tool call, and the skill has nothing to call it with."""

    code = "tool_choice_not_met"


class ModelNotFound(ApiError):
    """No skill has that model name."""

    status = 404
    code = "model_not_found"


class RouteNotFound(ApiError):
    """The server has no such path."""

    status = 404
    code = "unknown_url"


class MethodNotAllowed(ApiError):
    """The path exists, but not for this method."""

    status = 405
    code = "method_not_supported"


class RequestTooLarge(ApiError):
    """The body is larger than the server accepts."""

    status = 413
    code = "request_too_large"
