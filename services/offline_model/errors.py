"""Errors of the offline model, in OpenAI's shape: a class for each code that a client could act on."""

from __future__ import annotations

from typing import Any, ClassVar


class ApiError(Exception):
    """The request is malformed, or asks for what no skill has; leaves set the HTTP status and OpenAI's code."""

    status: ClassVar[int] = 400
    code: ClassVar[str | None] = None

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param

    def body(self) -> dict[str, Any]:
        """Gives OpenAI's error object."""
        told = {"message": self.message, "type": "invalid_request_error", "param": self.param, "code": self.code}
        return {"error": told}


class ToolChoiceNotMet(ApiError):
    """The caller demanded a tool call, and the skill has nothing to call it with."""

    code = "tool_choice_not_met"


class ModelNotFound(ApiError):
    """No skill has that model name."""

    status = 404
    code = "model_not_found"


class RouteNotFound(ApiError):
    """The server has no such path, or not for this method."""

    status = 404
    code = "unknown_url"


class RequestTooLarge(ApiError):
    """The body is larger than the server accepts."""

    status = 413
    code = "request_too_large"
