"""What each line of a piece of a file is, and which names it has, by the tree of the whole file."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from typing import Final, NamedTuple

from signalbox.v1 import code_reading_pb2
from tree_sitter import Node, Tree

from services.code_executor.languages import Language
from services.code_executor.syntax import field_of, walk

Kind = code_reading_pb2.LinePartKind
BLANK: Final = code_reading_pb2.LINE_PART_KIND_BLANK
CODE: Final = code_reading_pb2.LINE_PART_KIND_CODE
STRING: Final = code_reading_pb2.LINE_PART_KIND_STRING
COMMENT: Final = code_reading_pb2.LINE_PART_KIND_COMMENT
UNSURE: Final = code_reading_pb2.LINE_PART_KIND_UNSURE

# What no leaf of the tree stands for, nobody is sure of.
_BY_NUMBER: Final = (UNSURE, CODE, STRING, COMMENT, BLANK, UNSURE)
# Kinds that nodes give what is in them.
_COMMENTS: Final = ("comment", "line_comment", "block_comment", "html_comment", "hash_bang_line")
_STRINGS: Final = (
    "string", "string_literal", "raw_string_literal", "interpreted_string_literal", "template_string", "char_literal",
    "character_literal", "rune_literal", "regex", "jsx_text",
)  # fmt: skip
_INSERTS: Final = ("interpolation", "template_substitution")
_KINDS: Final[dict[str, Kind]] = {
    **dict.fromkeys(_COMMENTS, COMMENT),
    **dict.fromkeys(_STRINGS, STRING),
    **dict.fromkeys(_INSERTS, CODE),
    "ERROR": UNSURE,
}
_QUOTES: Final = re.compile("string_start|[\"'`]")
# Directives for editors and for who reads the compiler's output.
_IDLE_DIRECTIVES: Final = frozenset({b"#pragma", b"#warning", b"#error", b"#region", b"#endregion"})
_IDLE_SIGNS: Final = frozenset("()[],;+*%")
_BLOCKS: Final = frozenset({
    "module", "program", "translation_unit", "source_file", "block", "compound_statement", "statement_block",
    "statement_list", "case_statement", "switch_case", "switch_default", "switch_block_statement_group",
    "constructor_body",
})  # fmt: skip
_LEAVES: Final = frozenset({
    "return_statement", "raise_statement", "throw_statement", "continue_statement", "break_statement",
    "goto_statement",
})  # fmt: skip
_EXIT: Final = re.compile(rb"(?:sys\.exit|os\._exit)\(")
# What is reached although what stands before it leaves their block: by a jump, or as it is hoisted.
_REACHED: Final = frozenset({"labeled_statement", "function_declaration", "generator_function_declaration"})
_CONDITIONAL: Final = frozenset({"if_statement", "elif_clause", "while_statement", "preproc_if", "preproc_elif"})
_NEGATIONS: Final = frozenset({"not_operator", "unary_expression", "preproc_unary_expression"})
_TRUTHS: Final = {
    **dict.fromkeys((b"False", b"false", b"0", b"TYPE_CHECKING", b"typing.TYPE_CHECKING"), False),
    **dict.fromkeys((b"True", b"true", b"1"), True),
}
# Python's own; to others some of these are true.
_EMPTY: Final = frozenset({b"None", b"0.0", b"''", b'""', b"[]", b"()", b"{}"})
_CONDITION_DEPTH: Final = 8
_LONGEST_TEXT: Final = 256
_ASSIGNMENTS: Final = {
    **dict.fromkeys(("assignment", "augmented_assignment", "assignment_expression", "assignment_statement"), "left"),
    **dict.fromkeys(("augmented_assignment_expression", "short_var_declaration"), "left"),
    **dict.fromkeys(("variable_declarator", "var_spec", "const_spec"), "name"),
    "init_declarator": "declarator",
}
# To give a part of a thing a value is not to give its name one.
_PARTS: Final = frozenset({
    "attribute", "subscript", "member_expression", "subscript_expression", "selector_expression", "index_expression",
    "field_expression", "field_access", "array_access",
})  # fmt: skip
_MACRO: Final = re.compile(rb"""(?:"(?:\\.|[^"\\])*+"|'(?:\\.|[^'\\])*+'|(?!//)[^"'])*+""", re.DOTALL)
_NAME: Final = re.compile(rb"[^\W\d]\w*")


class Line(NamedTuple):
    """Where the shown part of a line is: its bytes, from `start` on."""

    start: int
    content: bytes


@dataclass
class LineReader:
    """Reads lines that follow one another off the tree of their file, in one walk over what of it they touch."""

    language: Language
    source: bytes
    lines: Sequence[Line]
    _kinds: list[tuple[int, Kind]] = field(default_factory=list)
    _blocks: list[int] = field(default_factory=list)
    _names: list[tuple[int, str]] = field(default_factory=list)
    _sets: set[int] = field(default_factory=set)
    # Where the thing that is given a value begins and ends; where what was painted whole, left out, or is dead, ends.
    _target: tuple[int, int] = (0, 0)
    _left_out: list[tuple[int, int]] = field(default_factory=list)
    _whole_end: int = 0
    _left_out_end: int = 0
    _dead_end: int = 0
    # The block in which what follows never runs, by its depth.
    _left_at: int = -1
    # From where on a quotation mark that the grammar could not pair makes strings of code, and code of strings.
    _unpaired_at: int = -1

    def __post_init__(self) -> None:
        self._start = self.lines[0].start
        self._end = self.lines[-1].start + len(self.lines[-1].content)
        self._classes = bytearray(self._end - self._start)
        self._dead = bytearray(self._end - self._start)

    def read(self, tree: Tree) -> list[code_reading_pb2.LineReading]:
        """Returns what is known of each line."""
        for node, depth in walk(tree, self._start, self._end):
            self._leave(depth)
            self._visit(node, node.type, depth)
        self._leave(-1)
        for start, end in self._left_out:
            self._paint(self._classes, start, end, COMMENT)
        if self._unpaired_at >= 0:
            self._paint(self._classes, self._unpaired_at, self._end, UNSURE)
        names = self._names_by_line()
        return [self._line(line, names[number]) for number, line in enumerate(self.lines)]

    def _leave(self, depth: int) -> None:
        """Leaves all nodes that are no deeper around what comes at some depth."""
        while self._kinds and self._kinds[-1][0] >= depth:
            self._kinds.pop()
        while self._blocks and self._blocks[-1] >= depth:
            self._blocks.pop()
        if self._left_at > depth:
            self._left_at = -1

    def _visit(self, node: Node, kind: str, depth: int) -> None:
        if self._blocks and self._blocks[-1] == depth - 1:
            self._visit_statement(node, kind, depth)
        if kind in _BLOCKS:
            self._blocks.append(depth)
        if kind in _CONDITIONAL:
            self._visit_condition(node)
        if kind in _ASSIGNMENTS:
            target = node.child_by_field_name(_ASSIGNMENTS[kind])
            self._target = (target.start_byte, target.end_byte) if target and target.type not in _PARTS else (0, 0)
        if kind == "preproc_call" and self._text(node.child_by_field_name("directive")) in _IDLE_DIRECTIVES:
            self._kinds.append((depth, COMMENT))
        around = self._kinds[-1][1] if self._kinds else CODE
        within = _KINDS.get(kind, around)
        if around in (UNSURE, COMMENT) and within != COMMENT:
            within = around
        if within in (STRING, COMMENT) and node.start_byte >= self._whole_end:
            # Some grammars have no node for what stands between a string's marks.
            self._whole_end = node.end_byte
            self._paint(self._classes, node.start_byte, node.end_byte, within)
        if node.child_count:
            if within != around:
                self._kinds.append((depth, within))
        else:
            self._visit_leaf(node, kind, within)

    def _visit_leaf(self, node: Node, kind: str, standing: Kind) -> None:
        if (standing == UNSURE or node.is_missing) and self._unpaired_at < 0 and _QUOTES.search(kind):
            self._unpaired_at = node.start_byte
        self._paint(self._classes, node.start_byte, node.end_byte, standing)
        if kind == "preproc_arg" and standing == CODE:
            self._visit_macro(node)
        elif standing == CODE and kind.endswith("identifier"):
            name = self._text(node).decode(errors="replace")
            if name and name not in self.language.own_names:
                self._names.append((node.start_byte, name))
                if self._target[0] <= node.start_byte < self._target[1]:
                    self._sets.add(node.start_byte)

    def _visit_macro(self, node: Node) -> None:
        """Reads the body of a macro, which the grammar leaves as it stands, with a comment at its end."""
        body = _MACRO.match(self.source, node.start_byte, node.end_byte)
        end = body.end() if body else node.start_byte
        self._paint(self._classes, end, node.end_byte, COMMENT if self.source.startswith(b"//", end) else UNSURE)
        names = _NAME.finditer(self.source, node.start_byte, end)
        self._names += [(found.start(), found[0].decode()) for found in names]

    def _visit_statement(self, node: Node, kind: str, depth: int) -> None:
        if self._left_at == depth:
            if kind in _REACHED:
                self._left_at = -1
            else:
                self._mark_dead(node)
        elif kind in _LEAVES or (kind == "expression_statement" and _EXIT.match(self._text(node))):
            self._left_at = depth
        if kind == "expression_statement" and _is_idle(node):
            self._leave_out(node.start_byte, node.end_byte)

    def _visit_condition(self, node: Node) -> None:
        condition = node.child_by_field_name("condition")
        holds = self._truth(condition) if condition is not None else None
        if holds is None or condition is None:
            return
        others = node.children_by_field_name("alternative")
        if node.type.startswith("preproc"):
            end = others[0].start_byte if others else node.children[-1].start_byte
            if not holds:
                self._leave_out(condition.end_byte, end)
            elif others:
                self._leave_out(others[0].start_byte, others[0].end_byte)
            return
        # The word `else` itself is no code of the branch.
        never = [each.children[-1] if each.type == "else_clause" else each for each in others]
        never = never if holds else list(filter(None, [field_of(node, ("consequence", "body"))]))
        if not (holds and node.type == "while_statement"):
            for each in never:
                self._mark_dead(each)

    def _truth(self, node: Node, depth: int = 0) -> bool | None:
        """Returns what a condition is as it is written, or None when that is for what its names hold to decide."""
        while node.type == "parenthesized_expression" and node.named_child_count == 1:
            node = node.named_children[0]
        text = self._text(node)
        if text in _TRUTHS or depth >= _CONDITION_DEPTH or not text:
            return _TRUTHS.get(text)
        if self.language.name == "python" and text in _EMPTY:
            return False
        if node.type in _NEGATIONS and text.startswith((b"not", b"!")):
            denied = field_of(node, ("argument", "operand"))
            inner = self._truth(denied, depth + 1) if denied is not None else None
            return None if inner is None else not inner
        left, sign, right = (node.child_by_field_name(name) for name in ("left", "operator", "right"))
        if left is None or right is None or sign is None or sign.type not in ("and", "or", "&&", "||"):
            return None
        either = sign.type in ("or", "||")
        return either if either in (self._truth(left, depth + 1), self._truth(right, depth + 1)) else None

    def _leave_out(self, start: int, end: int) -> None:
        # What is within what is left out is so already: hostile files nest these deep.
        if start >= self._left_out_end and start < end:
            self._left_out_end = end
            self._left_out.append((start, end))

    def _mark_dead(self, node: Node) -> None:
        if node.start_byte >= self._dead_end:
            self._dead_end = node.end_byte
            self._paint(self._dead, node.start_byte, node.end_byte, 1)

    def _paint(self, array: bytearray, start: int, end: int, kind: int) -> None:
        start, end = max(start, self._start) - self._start, min(end, self._end) - self._start
        if start < end:
            array[start:end] = bytes([kind]) * (end - start)

    def _text(self, node: Node | None) -> bytes:
        if node is None or node.end_byte - node.start_byte > _LONGEST_TEXT:
            return b""
        return self.source[node.start_byte : node.end_byte]

    def _line(self, line: Line, names: list[tuple[int, str]]) -> code_reading_pb2.LineReading:
        start, end = line.start - self._start, line.start - self._start + len(line.content)
        text = line.content.decode()
        # Of characters of several bytes, the first says what they are.
        firsts = range(end - start) if line.content.isascii() else _firsts(text)
        kinds = [
            BLANK if char.isspace() else _BY_NUMBER[self._classes[start + at]]
            for char, at in zip(text, firsts, strict=True)
        ]
        dead = [
            bool(self._dead[start + at])
            for char, at, kind in zip(text, firsts, kinds, strict=True)
            if kind in (CODE, STRING) and char.isalnum()
        ]
        standing = [(at, name) for at, name in names if self._classes[at - self._start] == CODE]
        return code_reading_pb2.LineReading(
            parts=parts_of(kinds),
            names=dict.fromkeys(name for _, name in standing),
            sets=dict.fromkeys(name for at, name in standing if at in self._sets),
            never_runs=bool(dead) and all(dead),
        )

    def _names_by_line(self) -> list[list[tuple[int, str]]]:
        starts = [line.start for line in self.lines]
        found: list[list[tuple[int, str]]] = [[] for _ in starts]
        for at, name in self._names:
            number = bisect_right(starts, at) - 1
            if number >= 0 and at < starts[number] + len(self.lines[number].content):
                found[number].append((at, name))
        return found


def _is_idle(statement: Node) -> bool:
    """Tells whether a statement is made of strings and signs: it runs, and does nothing."""
    string_at, has_string = None, False
    for node, depth in walk(statement):
        if string_at is not None and depth <= string_at:
            string_at = None
        if node.type in _STRINGS and string_at is None:
            string_at, has_string = depth, True
        elif node.type in _INSERTS or (string_at is None and not node.child_count and node.type not in _IDLE_SIGNS):
            return False
    return has_string


def _firsts(text: str) -> list[int]:
    """Returns the offset of each character's first byte."""
    return [0, *accumulate(len(char.encode()) for char in text)][: len(text)]


def parts_of(kinds: Sequence[Kind]) -> list[code_reading_pb2.LinePart]:
    """Returns runs of one kind; blanks between two of one kind are of it, and what ends a line needs no part."""
    parts: list[code_reading_pb2.LinePart] = []
    blanks = 0
    for kind, run in groupby(kinds):
        count = sum(1 for _ in run)
        if kind == BLANK:
            blanks = count
        elif parts and parts[-1].kind == kind:
            parts[-1].characters += blanks + count
            blanks = 0
        else:
            if blanks:
                parts.append(code_reading_pb2.LinePart(kind=BLANK, characters=blanks))
            parts.append(code_reading_pb2.LinePart(kind=kind, characters=count))
            blanks = 0
    return parts
