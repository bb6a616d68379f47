"""An answer that is checked as a whole, told while it comes: sentence by sentence, as far as each holds.

Nothing is told that the check would hold back: neither a number or a link that was made up, nor reasoning. What was
told is withdrawn all the same where the whole does not stand (docs/adr/0067-token-chunks.md).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Self
from uuid import uuid4

from services.kit.models.reasoning import without_reasoning
from services.runtime.calls.token_chunks import RERUN, WITHDRAWN, StreamedMessage, TokenChunks, token_chunks

_END: Final = re.compile(r"(?:[.!?\u2026:;][\"'\u201d\u2019)\]]*\s+|\n)")
# Its end may come in two parts.
LONGEST_END: Final = 4


class ToldAnswer:
    """Hears an answer and tells what holds of it; `holds` says so of a sentence."""

    def __init__(self, chunks: TokenChunks, node: str, holds: Callable[[str], bool]) -> None:
        self._chunks = chunks
        self._node = node
        self._holds = holds
        self._heard = ""
        self._told = ""
        self._message: StreamedMessage | None = None
        self._stopped = False

    @classmethod
    def of(cls, node: str, check: Callable[[], Callable[[str], bool] | None]) -> Self | None:
        """Returns one where somebody asks for chunks, and the answer may be told before it is there.

        `check` makes what says of a sentence that it holds, or nothing where none may be told; it may take a while.
        """
        chunks = token_chunks()
        holds = check() if chunks and chunks.wanted else None
        return cls(chunks, node, holds) if chunks and holds else None

    def begin(self) -> None:
        """Begins anew."""
        if self._told:
            self._chunks.reset(self._node, RERUN)
        self._heard, self._told, self._stopped = "", "", False
        self._message = self._chunks.message(self._node, uuid4().hex, provisional=True)

    def say(self, text: str) -> None:
        """Hears what follows, and tells the sentences that are whole."""
        begin = max(0, len(self._heard) - LONGEST_END)
        self._heard += text
        if self._stopped or _END.search(self._heard, begin) is None:
            return
        said = without_reasoning(self._heard).lstrip()
        if not said.startswith(self._told):
            self._stopped = True  # what was told has turned out to be reasoning
        for found in _END.finditer(said, len(self._told)):
            if not self._stopped:
                self._tell(said[len(self._told) : found.end()])

    def stands(self, answer: str) -> None:
        """Tells the rest of an answer that stands, or withdraws what is no part of it."""
        if self._message is not None and answer and answer.startswith(self._told):
            self._message.say(answer[len(self._told) :])
        else:
            self.withdraw()

    def withdraw(self) -> None:
        """Withdraws what was told."""
        if self._told:
            self._chunks.reset(self._node, WITHDRAWN)
        self._told = ""

    def _tell(self, sentence: str) -> None:
        if self._message is None or not self._holds(sentence):
            self._stopped = True
            return
        self._message.say(sentence)
        self._told += sentence
