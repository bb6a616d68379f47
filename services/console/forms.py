"""Forms as browsers send them."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl

from starlette.requests import Request

from services.console.errors import BadRequest, TooLarge

MAX_FIELDS = 128
FORM = "application/x-www-form-urlencoded"


async def read_form(request: Request, max_bytes: int) -> Mapping[str, str]:
    """Returns the fields of a form. Raises TooLarge, BadRequest."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        raise BadRequest("The browser has sent something else than a form.")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > max_bytes:
            raise TooLarge(f"The form has more than {max_bytes:,} bytes.")
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict")
    except ValueError as error:  # UnicodeDecodeError is one
        raise BadRequest("The form can't be read.") from error
    # Browsers end lines with both characters; who asked for a text did not.
    return {name: text.replace("\r\n", "\n") for name, text in pairs}
