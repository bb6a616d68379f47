"""What of lines of a file is a comment, and what only looks like one."""

from __future__ import annotations

import pytest

from services.runtime.agents.incident_investigation.comments import MAX_CHARACTERS, part


@pytest.mark.parametrize(
    ("path", "line", "code", "comment"),
    [
        ("config.yaml", "timeout_ms: 50 # since 4.2.0", "timeout_ms: 50", "# since 4.2.0"),
        ("config.yaml", 'colour: "#fff" # as the logo', 'colour: "#fff"', "# as the logo"),
        ("a.py", 'colour = "#fff # not one"  # one', 'colour = "#fff # not one"', "# one"),
        ("a.py", "half = total // 2  # of all", "half = total // 2", "# of all"),
        ("run.sh", 'echo "${a#b} # c" a#b # say it', 'echo "${a#b} # c" a#b', "# say it"),
        ("a.toml", 'url = "http://a/#b" # where', 'url = "http://a/#b"', "# where"),
        ("a.go", 'url := "http://a" // where', 'url := "http://a"', "// where"),
        ("a.ts", "const url = `http://a`; /* where */", "const url = `http://a`;", "/* where */"),
        ("a.java", 'String s = "/* no */"; // yes', 'String s = "/* no */";', "// yes"),
        ("a.c", "#define LIMIT 50", None, None),
        ("a.c", "int n = 50; /* as before */", "int n = 50;", "/* as before */"),
        ("a.css", "a { color: #fff; } /* white */", "a { color: #fff; }", "/* white */"),
        ("a.sql", "SELECT '-- no' AS a -- yes", "SELECT '-- no' AS a", "-- yes"),
        ("a.html", "<b>x</b> <!-- why -->", "<b>x</b>", "<!-- why -->"),
        ("a.tf", 'size = "#1" # the first', 'size = "#1"', "# the first"),
        # No lexer knows these.
        ("a.conf", 'limit 50 "# no" a#b # as before', 'limit 50 "# no" a#b', "# as before"),
        (".env", "URL=http://a # as before", "URL=http://a", "# as before"),
        ("config.yaml", "# the pool is the cause", None, None),
        ("a.go", "// the pool is the cause", None, None),
        ("a.java", " * the pool is the cause", None, None),
    ],
)
def test_a_comment_is_told_from_code(path: str, line: str, code: str | None, comment: str | None) -> None:
    parted = part(path, f"{line}\nnext")
    assert [left.rstrip() for left in parted.code.split("\n")] == ([code] if code else []) + ["next"]
    assert [each.strip() for each in parted.comments] == ([comment] if comment else [])


def test_a_comment_that_goes_on_for_lines() -> None:
    parted = part("a.go", "n := 50 /* the pool\nis the cause\n*/\nm := 1")
    assert parted.code.split() == ["n", ":=", "50", "m", ":=", "1"]


@pytest.mark.parametrize(("path", "line"), [("A.java", "a " * 499), ("a.au3", " " * 999), ("a.ahk", "\t" * 999)])
def test_where_telling_takes_too_long_nothing_is_code(path: str, line: str) -> None:
    assert part(path, "\n".join([line] * 8)) == ("", (), True)


def test_a_text_is_as_long_as_a_tool_gives_at_once() -> None:
    assert part("a.conf", "a\n" * (MAX_CHARACTERS // 2)).code.count("a") == MAX_CHARACTERS // 2
    assert part("a.conf", "a\n" * (MAX_CHARACTERS // 2) + "a").unread
