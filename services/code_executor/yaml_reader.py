"""What each line of a YAML file is, by PyYAML's scanner: tree-sitter's grammar of YAML crashes on nested lists."""

from __future__ import annotations

import re
from typing import Final

import yaml
from signalbox.v1 import code_reading_pb2

from services.code_executor.line_reader import BLANK, CODE, COMMENT, STRING, Kind, parts_of

# With each token the scanner looks at all lists around it.
_MOST_DEPTH: Final = 100
_OPENING: Final = (
    yaml.FlowSequenceStartToken, yaml.FlowMappingStartToken, yaml.BlockSequenceStartToken, yaml.BlockMappingStartToken,
)  # fmt: skip
_CLOSING: Final = (yaml.FlowSequenceEndToken, yaml.FlowMappingEndToken, yaml.BlockEndToken)
_HEADER_COMMENT: Final = re.compile(r"(?<=[ \t])#[^\n]*")


def read_yaml(text: str) -> list[code_reading_pb2.LineReading] | None:
    """Returns what is known of each line, or None when the text is no YAML, or nested too deep to be read soon."""
    kinds: list[Kind] = [COMMENT] * len(text)
    depth = 0
    try:
        for token in yaml.scan(text, Loader=yaml.SafeLoader):
            depth += isinstance(token, _OPENING) - isinstance(token, _CLOSING)
            if depth > _MOST_DEPTH:
                return None
            _mark(kinds, token, text)
    except yaml.YAMLError:
        return None
    lines, start = [], 0
    for line in text.split("\n"):
        within = zip(line, kinds[start : start + len(line)], strict=True)
        lines.append([BLANK if char.isspace() else kind for char, kind in within])
        start += len(line) + 1
    return [code_reading_pb2.LineReading(parts=parts_of(each)) for each in lines]


def _mark(kinds: list[Kind], token: yaml.Token, text: str) -> None:
    """Notes what a token's characters are; what no token has is a comment, or blank."""
    start, end = token.start_mark.index, token.end_mark.index
    is_string = isinstance(token, yaml.ScalarToken) and not token.plain
    kinds[start:end] = [STRING if is_string else CODE] * (end - start)
    if is_string and text[start] in "|>":
        header = text.find("\n", start, end)
        if comment := _HEADER_COMMENT.search(text, start, header if header >= 0 else end):
            kinds[comment.start() : comment.end()] = [COMMENT] * (comment.end() - comment.start())
