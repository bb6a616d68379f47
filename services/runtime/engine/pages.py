"""Pages of lists: how many messages of one go into the message that carries them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from google.protobuf.message import Message

# Half of the 4 MiB that gRPC takes by default: what else an answer holds has room beside it.
MOST_BYTES = 2 * 1024 * 1024
M = TypeVar("M", bound=Message | None)


def fitting(messages: Iterable[M]) -> list[M]:
    """Returns the first messages that are no larger together, and one at least; None takes no room."""
    page: list[M] = []
    size = 0
    for message in messages:
        size += message.ByteSize() if message is not None else 0
        if page and size > MOST_BYTES:
            break
        page.append(message)
    return page
