"""Caps on what a call may take and give."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Caps; every result that meets one says so."""

    file_bytes: int = 4 * 1024**2
    repository_bytes: int = 2 * 1024**3
    repository_files: int = 300_000
    fetch_timeout_s: float = 300
    search_timeout_s: float = 10
    max_lines: int = 400
    max_chars: int = 60_000
    max_results: int = 200
    # A line longer than this is cut: minified code would fill a prompt by itself.
    line_chars: int = 1_000
    # Files that tree-sitter is given: what is larger is generated more often than written.
    parse_bytes: int = 1024**2
    # All files that are parsed for one result: of a search's many files, the first ones.
    parsed_bytes: int = 4 * 1024**2
    # Files parsed for one symbol.
    symbol_candidates: int = 300
    # Definitions shown for one symbol.
    symbol_definitions: int = 8
    symbol_callers: int = 50
    # A function is shown whole around a line when it is no longer than this; what is in none, from the top so far down.
    enclosing_lines: int = 200
    default_context_lines: int = 20
    # Bytes of ripgrep's own output that are read.
    search_output_bytes: int = 8 * 1024**2
