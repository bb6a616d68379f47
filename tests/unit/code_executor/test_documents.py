"""Files as text, fragments of them, globs, and the schemas of the tools' arguments."""

from __future__ import annotations

import codecs
import hashlib
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import struct_pb2
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from services.code_executor.arguments import (
    INJECTED,
    FetchCode,
    FindFile,
    ListDirectory,
    ReadFile,
    SearchCodebase,
    ToolArguments,
    input_schema,
    read_arguments,
    split_location,
)
from services.code_executor.documents import _LIKE_ASCII, Document, decode
from services.code_executor.errors import ContentRefused
from services.code_executor.fragments import Budget, merge_ranges, show_line
from services.code_executor.limits import Limits
from services.code_executor.manifest import FILE, SYMLINK, Entry, read_manifest, shown, write_manifest
from services.code_executor.tree import matches_glob
from services.kit.tools.executor import ToolRefused

SOURCE = {"repository": "/r", "commit": "a" * 40}


def document(*lines: str) -> Document:
    return Document(Entry("a.py", b"a.py", FILE, 1, "0" * 40), "\n".join(lines), lines, None, ())


def struct(values: dict[str, Any]) -> struct_pb2.Struct:
    made = struct_pb2.Struct()
    made.update(values)
    return made


@pytest.mark.parametrize(
    ("content", "text", "note"),
    [
        (b"plain\n", "plain\n", ""),
        ("größe".encode(), "größe", ""),
        (b"\xef\xbb\xbfbom", "bom", ""),
        (b"caf\xe9", "caf\N{REPLACEMENT CHARACTER}", "not valid UTF-8"),
        ("abc".encode("utf-16"), "abc", "UTF-16"),
        (b"\xfe\xff\x00a\x00b", "ab", "UTF-16"),
        (b"x" * 9000 + b"\0", "x" * 9000 + "\N{REPLACEMENT CHARACTER}", ""),
    ],
)
def test_bytes_become_text(content: bytes, text: str, note: str) -> None:
    decoded, notes = decode(content, "x")
    assert decoded == text
    assert [note] == [note for said in notes if note in said] or (not note and notes == [])


@pytest.mark.parametrize("content", [b"\x7fELF\0\0", b"\0", b"PNG\r\n" + b"\0" * 10])
def test_binary_files_are_refused(content: bytes) -> None:
    with pytest.raises(ContentRefused) as refused:
        decode(content, "x")
    assert refused.value.reason == "binary_file"


@pytest.mark.parametrize(
    "head",
    [
        "# coding: utf-8\n", "# -*- coding: utf8 -*-\n", "# vim: set fileencoding=latin-1 :\n", "# coding: cp1252\n",
        "#!/usr/bin/python\n# coding: utf-8-unix\n", "# coding: us-ascii\r\n", "\ufeff# coding: utf-8\n",
        "x = 1\n# coding: utf_7\n", "\n\n# coding: utf_7\n", "x = '# coding: utf_7'\n", "",
    ],
)  # fmt: skip
def test_programs_that_are_what_their_bytes_show_are_shown(head: str) -> None:
    text, notes = decode(f"{head}x = 1\n".encode(), "app/a.py")
    assert (text, notes) == (f"{head}x = 1\n".removeprefix("\ufeff"), [])


@pytest.mark.parametrize(
    "head",
    [
        b"# coding: unicode_escape\n", b"# -*- coding: raw-unicode-escape -*-\n", b"# coding=utf_7\n",
        b"#!/usr/bin/python\n# coding: utf-7\n", b"\r# coding: utf_7\n", b"# a\r# coding: utf_7\r",
        b" \t\f# coding: utf-7\n", b"# caf\xe9 coding: unicode_escape\n", b"\xef\xbb\xbf# coding: utf_7\n",
        b"# coding: rot13\n", b"# coding: nobody-knows\n", b"# coding: shift_jis\n", b"# coding: UTF-16\n",
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["a.py", "app/B.PYW", "a.pyi", "a.pyx"])
def test_programs_that_are_others_than_their_bytes_show_are_refused(head: bytes, path: str) -> None:
    with pytest.raises(ContentRefused) as refused:
        decode(head + b"x = 1\n", path)
    assert (refused.value.reason, path in refused.value.message) == ("encoding_not_shown", True)
    assert decode(head + b"x = 1\n", "notes.txt")[0].endswith("x = 1\n")


def test_codecs_like_ascii_are_like_ascii() -> None:
    for codec in _LIKE_ASCII - {"utf-8", "utf-8-sig", "ascii"}:
        decoded = [bytes([byte]).decode(codec, "replace") for byte in range(256)]
        assert decoded[:128] == [chr(byte) for byte in range(128)], codec
        assert not any(text.isascii() or len(text) != 1 for text in decoded[128:]), codec
        assert codecs.lookup(codec).name == codec


def test_a_fragment_has_a_digest_of_its_lines() -> None:
    fragment = Budget(Limits()).take(document("a", "b", "c"), 2, 3)
    assert fragment is not None
    assert fragment.sha256 == hashlib.sha256(b"b\nc\n").hexdigest()
    assert fragment.as_text("c" * 40).splitlines()[1:] == ["2 | b", "3 | c"]


def test_a_budget_cuts_lines_and_says_where_to_go_on() -> None:
    budget = Budget(Limits(max_lines=3))
    first = budget.take(document(*"abcde"), 1, 5)
    assert first is not None
    assert (first.first_line, first.last_line) == (1, 3)
    assert budget.take(document("x"), 1, 1) is None
    assert "first_line 4" in budget.cuts[0]


def test_a_budget_cuts_characters_and_long_lines() -> None:
    budget = Budget(Limits(max_chars=20, line_chars=5))
    fragment = budget.take(document("123456789", "abcd", "efghijkl", "never"), 1, 4)
    assert fragment is not None
    assert fragment.lines == ("12345…", "abcd", "efghi…")
    assert fragment.cut_lines == (1, 3)
    assert len(budget.cuts) == 2


@pytest.mark.parametrize(
    ("line", "shown_line"),
    [("a\tb", "a\tb"), ("a\x1b[2J", "a<U+001B>[2J"), ("x\u202ey", "x<U+202E>y"), ("a\rb", "a<U+000D>b")],
)
def test_lines_cannot_move_the_readers_eye(line: str, shown_line: str) -> None:
    assert show_line(line) == shown_line


def test_ranges_are_joined() -> None:
    assert merge_ranges([(8, 9), (1, 3), (4, 5), (2, 2)]) == [(1, 5), (8, 9)]


@pytest.mark.parametrize(
    ("path", "glob", "matches"),
    [
        ("src/app.py", "*.py", True),
        ("src/app.py", "src/*.py", True),
        ("src/a/app.py", "src/*.py", False),
        ("src/a/b/app.py", "src/**/*.py", True),
        ("src/app.py", "src/**/*.py", True),
        ("src/app.py", "**/app.*", True),
        ("app.py", "**/app.py", True),
        ("src/app.py", "lib/**", False),
        ("src/app.py", "src/**", True),
        ("src/app.py", "[a-c]pp.py", True),
        ("a/b/c", "**/**/**/c", True),
        ("a/b/c", "/".join(["**"] * 40), False),
    ],
)
def test_globs(path: str, glob: str, matches: bool) -> None:
    assert matches_glob(path, glob) is matches


@given(st.text("a/*?[", max_size=40), st.text("a/", max_size=40))
def test_no_glob_takes_long(glob: str, path: str) -> None:
    assert matches_glob(path, glob) in (True, False)


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("a.py:3", ("a.py", 3, 3)),
        ("a.py:3-9", ("a.py", 3, 9)),
        ("a.py:3:9", ("a.py", 3, 9)),
        ("a.py#L3-L9", ("a.py", 3, 9)),
        ("a.py#L3", ("a.py", 3, 3)),
        ("a.py", None),
        ("a.py:", None),
        (":3", None),
    ],
)
def test_locations_are_split(path: str, location: tuple[str, int, int] | None) -> None:
    assert split_location(path) == location


MODELS: list[type[ToolArguments]] = [FetchCode, ReadFile, SearchCodebase, ListDirectory, FindFile]


@pytest.mark.parametrize("model", MODELS)
def test_schemas_stand_alone_and_mark_what_the_platform_fills(model: type[ToolArguments]) -> None:
    schema = input_schema(model)
    Draft202012Validator.check_schema(schema)
    assert "$ref" not in str(schema)
    assert [name for name, value in schema["properties"].items() if value.get(INJECTED)] == ["source"]
    assert all(value.get("description") for value in schema["properties"].values())
    assert schema["additionalProperties"] is False


def test_whole_numbers_of_a_struct_are_integers() -> None:
    read = read_arguments(ReadFile, struct({"source": SOURCE, "path": "a", "first_line": 3}))
    assert read.first_line == 3


WRONG = [
    ({}, "source_invalid"),
    ({"source": None}, "source_invalid"),
    ({"source": "x"}, "source_invalid"),
    ({"source": {"repository": "/r"}}, "source_invalid"),
    ({"source": {**SOURCE, "branch": "main"}}, "source_invalid"),
    ({"source": {**SOURCE, "commit": 7}}, "source_invalid"),
    ({"source": {"a": {"b": {"c": {"d": {"e": {}}}}}}}, "invalid_arguments"),
    ({"source": SOURCE, "path": 7}, "invalid_arguments"),
    ({"source": SOURCE, "path": ["a"]}, "invalid_arguments"),
    ({"source": SOURCE, "other": 1}, "invalid_arguments"),
    ({"source": SOURCE, "first_line": "3"}, "invalid_arguments"),
    ({"source": SOURCE, "first_line": 3.5}, "invalid_arguments"),
    ({"source": SOURCE, "first_line": True}, "invalid_arguments"),
    ({"source": SOURCE, "first_line": 0}, "invalid_arguments"),
    ({"source": SOURCE, "first_line": -1}, "invalid_arguments"),
    ({"source": SOURCE, "first_line": 1e300}, "invalid_arguments"),
    ({"source": SOURCE, "first_line": float("nan")}, "invalid_arguments"),
    ({"source": SOURCE, "first_line": float("inf")}, "invalid_arguments"),
    ({"source": SOURCE, "context_lines": 151}, "invalid_arguments"),
    ({"source": SOURCE, "symbol": ""}, "invalid_arguments"),
    ({"source": SOURCE, "symbol": "x" * 257}, "invalid_arguments"),
    ({"source": SOURCE, "symbol": "a\0b"}, "invalid_arguments"),
    ({"path": "a"}, "source_invalid"),
]


@pytest.mark.parametrize(("values", "reason"), WRONG, ids=range(len(WRONG)))
def test_wrong_arguments_are_refused(values: dict[str, Any], reason: str) -> None:
    with pytest.raises(ToolRefused) as refused:
        read_arguments(FetchCode, struct(values))
    assert refused.value.reason == reason


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    entries = [
        Entry("a", b"a", FILE, 3, "0" * 40),
        Entry(shown(b"\xff.py"), b"\xff.py", FILE, 3, "1" * 40, "too_large"),
        Entry("l", b"l", SYMLINK, 3, "2" * 40, target="a"),
    ]
    write_manifest(tmp_path / "m", entries)
    assert read_manifest(tmp_path / "m") == {entry.path: entry for entry in entries}
