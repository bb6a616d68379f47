"""Lines of code, with what a program does told from what its authors say about it.

Comments and docstrings are inert: they run nowhere, so no verdict may rest on them, and no judge needs to read them.
What is what was told by the code executor, which had the whole file.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from signalbox.v1 import code_reading_pb2

CODE_KIND, STRING_KIND, UNSURE_KIND, INERT_KIND = "c", "s", "u", " "
_CUT = "\N{HORIZONTAL ELLIPSIS}"
_LETTERS = {
    code_reading_pb2.LINE_PART_KIND_CODE: CODE_KIND,
    code_reading_pb2.LINE_PART_KIND_STRING: STRING_KIND,
    code_reading_pb2.LINE_PART_KIND_COMMENT: INERT_KIND,
    code_reading_pb2.LINE_PART_KIND_BLANK: INERT_KIND,
}


@dataclass(frozen=True)
class CodeLine:
    """One line.

    kinds: of each character, code, string, neither, or what nobody is sure of. names: what the code calls things; sets:
    those that it gives a value. is_cut: whether it goes on behind what is shown. unread: why nobody knows what of it is
    code; empty when that is known.
    """

    text: str
    kinds: str
    names: frozenset[str] = frozenset()
    sets: frozenset[str] = frozenset()
    never_runs: bool = False
    is_cut: bool = False
    unread: str = ""

    @classmethod
    def read(cls, text: str, reading: code_reading_pb2.LineReading) -> CodeLine:
        """Returns a line with what is known of it."""
        kinds = "".join(_LETTERS.get(part.kind, UNSURE_KIND) * part.characters for part in reading.parts)
        if UNSURE_KIND in kinds:
            # What is beside it is of the same statement.
            kinds = kinds.replace(CODE_KIND, UNSURE_KIND).replace(STRING_KIND, UNSURE_KIND)
        names, sets = frozenset(reading.names), frozenset(reading.sets)
        # The mark at which a line was cut is none of its parts.
        is_cut = text.endswith(_CUT) and len(kinds) < len(text)
        return cls(text, kinds[: len(text)].ljust(len(text)), names, sets, reading.never_runs, is_cut)

    @classmethod
    def not_read(cls, text: str, why: str) -> CodeLine:
        """Returns a line of which nothing is known."""
        return cls(text, INERT_KIND * len(text), unread=why)

    @cached_property
    def code(self) -> str:
        """What of it is code or may be; the rest stands as blanks."""
        return "".join(
            char if kind != INERT_KIND else " " for char, kind in zip(self.text, self.kinds, strict=True)
        ).rstrip()

    @property
    def carries(self) -> bool:
        """Whether the line is surely more than comments, blanks and brackets."""
        signs = zip(self.text, self.kinds, strict=True)
        return any(kind in (CODE_KIND, STRING_KIND) and (char == "_" or char.isalnum()) for char, kind in signs)

    @cached_property
    def squeezed(self) -> tuple[str, str]:
        """The text with each run of blanks made one, and each character's kind: code, string, or neither.

        It ends with a blank and starts with none; a line of blanks is empty.
        """
        text: list[str] = []
        kinds: list[str] = []
        for char, kind in zip(self.text + "\n", self.kinds + INERT_KIND, strict=True):
            if char.isspace() and (not text or text[-1] == " "):
                continue
            text.append(" " if char.isspace() else char)
            kinds.append(kind if kind in (CODE_KIND, STRING_KIND) and not char.isspace() else INERT_KIND)
        return "".join(text), "".join(kinds)
