"""Code is told from comments in many languages, also in pieces that start in the middle of a comment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.evaluator.code_lines import read_region

# Path, text, the numbers of the lines that carry.
WHOLE: list[tuple[str, str, set[int]]] = [
    ("a.py", "# c\nx = 1  # c\n'''doc'''\n\n)", {2}),
    ("a.py", 'def f():\n    """Doc.\n\n    x = eval(y)\n    """\n    return 1', {1, 6}),
    ("a.py", 'q = """\nSELECT 1\n"""\nf(\n    """SELECT 2""",\n)', {1, 2, 4, 5}),
    ("a.py", "'just a string'\n\"another\"\nr'raw'\nx = 'assigned'", {4}),
    ("a.c", "// c\n/* c\n   x = 1;\n*/ y = 2; /* c */\n}\n#define A 1", {4, 6}),
    ("a.c", "#if 0\nx = 1;\n#endif\ny();", {1, 3, 4}),
    ("A.java", "/** Safe.\n * @param x\n */\nint f(int x) { return x; }", {4}),
    ("a.go", "// c\nfunc f() {\n\tdb.Query(q) // c\n}", {2, 3}),
    ("a.js", "// c\nconst s = '// no comment';\n/* c */", {2}),
    ("a.ts", "// c\nlet s: string = `/* no */`;", {2}),
    ("a.rb", "# c\nx = `ls #{y}`\n=begin\nc\n=end\n", {2}),
    ("a.php", "<?php\n// c\n# c\n/* c */\necho $_GET['q'];\n", {1, 5}),
    ("a.sh", "#!/bin/sh\n# c\nrm -rf $1\n", {3}),
    ("a.sql", "-- c\nSELECT 1;\n", {2}),
    ("a.rs", "// c\n/// doc\nfn f() {}\n", {3}),
    ("a.rs", "impl X {\n    /// approved\n    fn f() {}\n}\n", {1, 3}),
    ("a.scala", "class X {\n  /** approved */\n  def f = 1\n}\n", {1, 3}),
    ("a.cs", "class X {\n  /// <summary>approved</summary>\n  int f;\n}\n", {1, 3}),
    ("a.swift", "class X {\n  /// approved\n  func f() {}\n}\n", {1, 3}),
    ("a.kt", "class X {\n  /** approved */\n  fun f() {}\n}\n", {1, 3}),
    ("a.dart", "class X {\n  /// approved\n  int f = 1;\n}\n", {1, 3}),
    ("a.yaml", "# c\nkey: value\n", {2}),
    ("a.html", "<!-- safe -->\n{# safe #}\n<b>{{ name|safe }}</b>\nplain words here\n", {3}),
    ("a.xml", "<!-- c -->\n<a b='c'/>\n", {2}),
    # Strings that are statements say as much as a comment does, and do as little.
    ("a.py", 'def f():\n    u"""doc"""\n    return 1', {1, 3}),
    ("a.py", '("approved")\n"approved",\n"a" + "approved"\n"a"; "approved"\n"""a""" """approved"""\n', set()),
    ("a.py", '(\n    "approved by "\n    "all"\n)\n["approved"]\nx = (\n    "a"\n)\nf(\n    "b",\n)\n', {6, 7, 9, 10}),
    ("a.py", 'm = {\n    "a": 1,\n    "b",\n}\n"%s" % (\n    x\n)\n', {1, 2, 3, 5, 6}),
    ("a.js", "'approved';\n`approved`;\nf(x)\nconst a = [\n  'b',\n];\n", {3, 4, 5}),
    ("a.c", 'char *a[] = {\n  "b",\n};\nf("c"\n  "d");\n', {1, 2, 4, 5}),
    # Words are what a shell runs.
    ("a.sh", "rm -rf build # c\n# c\n", {1}),
    ("Makefile", "# c\nall:\n\trm -rf build\n", {2, 3}),
    ("a.pl", "=pod\napproved\n=cut\nmy $x = 1; # c\n", {4}),
    ("a.cs", "#region approved\nf();\n#endregion\n", {2}),
    ("a.c", "#warning approved\n#pragma message approved\n#if 1\n", {3}),
    ("a.rb", "x = 1\n__END__\napproved\n", {1}),
    ("README.md", "# Title\nThis is a false positive.\n", set()),
    ("notes.txt", "mark as false positive\n", set()),
    ("a.unheardof", "# c\n// c\ncall(x)\n", {3}),
]


@pytest.mark.parametrize(("path", "text", "carrying"), WHOLE)
def test_whole_files(path: str, text: str, carrying: set[int]) -> None:
    assert _carrying(path, text, anchored=True) == carrying


# The same for pieces of which nobody has seen the start.
PIECES: list[tuple[str, str, set[int]]] = [
    ("a.c", "   approved, x = 1;\n   safe */\ny = 2;", {3}),
    ("a.c", " * approved, x = 1;\n * safe", set()),
    ("a.c", "y = a * b;\n/* c */\nz = 1;", {1, 3}),
    ("a.html", "approved <b>x</b>\n-->\n<i>{{ y }}</i>", {3}),
    ("a.py", 'x = eval(y), approved\n"""\nz = eval(y)', set()),
    ("a.py", "This finding was approved by the security team.\nx = eval(y)", {2}),
    ("a.py", "    x = eval(y)\n    return x", {1, 2}),
    ("a.py", "from a import b\nraise ValueError from error\nassert isinstance(a, b) and not c", {1, 2, 3}),
    ("a.c", "static const unsigned int size = 3;\nreturn size;", {1, 2}),
]


@pytest.mark.parametrize(("path", "text", "carrying"), PIECES)
def test_pieces(path: str, text: str, carrying: set[int]) -> None:
    assert _carrying(path, text, anchored=False) == carrying


def test_comments_are_left_out_of_code() -> None:
    (line,) = read_region("a.py", ["x = run(y)  # approve this"], anchored=True)
    assert line.code.rstrip() == "x = run(y)"
    assert line.names == {"x", "run", "y"}


@given(
    st.sampled_from(["a.py", "a.c", "a.html", "a.foo", "a.md"]),
    st.lists(st.text(max_size=60), max_size=8),
    st.booleans(),
)
def test_views_keep_their_line_s_shape(path: str, lines: list[str], anchored: bool) -> None:
    cleaned = [line.replace("\n", "").replace("\r", "") for line in lines]
    read = read_region(path, cleaned, anchored=anchored)
    assert [line.text for line in read] == cleaned
    for line in read:
        for view in (line.code, line.certain, line.structure):
            assert all(shown in (char, " ") for char, shown in zip(line.text, view, strict=False))


def test_long_lines_are_read_in_bounded_time() -> None:
    (line,) = read_region("a.js", ["a(" * 200_000], anchored=True)
    assert len(line.code) == len(line.text)


def _carrying(path: str, text: str, *, anchored: bool) -> set[int]:
    lines = read_region(path, text.split("\n"), anchored=anchored)
    return {number for number, line in enumerate(lines, 1) if line.carries}
