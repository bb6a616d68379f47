"""Code is told from comments in many languages, also in pieces that start in the middle of a comment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.evaluator.code_lines import read_region
from services.evaluator.dead_code import dead_lines
from services.evaluator.languages import Family

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


# Line, what of it is code, what is surely code: where a compiler ends a line, and with it a comment.
HIDDEN = [
    ("a.py", "x = f(y)  # a\rx = y", "x = f(y) x = y", "x = f(y) x = y"),
    ("a.pyi", "# a\r# b\rx = y", "x = y", "x = y"),
    ("a.py", "x = f(y)  # a\fx = y", "x = f(y)", "x = f(y)"),
    ("a.py", "x = f(y)  # a\u2028x = y", "x = f(y)", "x = f(y)"),
    ("a.js", "x = f(y)  // a\rx = y", "x = f(y) x = y", "x = f(y) x = y"),
    ("a.js", "x = f(y)  // a\u2028x = y", "x = f(y) x = y", "x = f(y) x = y"),
    ("a.ts", "x = f(y)  // a\u2029x = y", "x = f(y) x = y", "x = f(y) x = y"),
    ("a.vue", "<script>x = f(y)  // a\u2028x = y</script>", "<script>x = f(y) x = y</script>", None),
    ("A.java", "x = f(y); // a\rx = y;", "x = f(y); x = y;", "x = f(y); x = y;"),
    ("A.java", r"x = f(y); // a \u000a x = y;", "x = f(y); x = y;", "x = f(y); x = y;"),
    ("A.java", r"x = f(y); // a \uuu000Dx = y;", "x = f(y); x = y;", "x = f(y); x = y;"),
    ("A.java", r"x = f(y); /* a \u002a\u002f x = y; /* b */", "x = f(y); x = y;", "x = f(y); x = y;"),
    ("A.java", r"x = f(y); // a \\u000a x = y;", "x = f(y);", "x = f(y);"),
    ("A.java", r"c = '\u0022'; x(); // a", r"c = '\u0022'; x();", r"c = '\u0022'; x();"),
    ("a.cs", "x = f(y); // a\x85x = y;", "x = f(y); x = y;", "x = f(y); x = y;"),
    ("a.php", "<?php $x = f($y); // a\r$x = $y;", "<?php $x = f($y); $x = $y;", None),
    # Not for every compiler, or nobody knows: such code is shown, and proves nothing.
    ("a.go", "x = f(y) // a\rx = y", "x = f(y) x = y", "x = f(y)"),
    ("a.c", "x = f(y); // a\rx = y;", "x = f(y); x = y;", "x = f(y);"),
    ("a.rb", "x = f(y) # a\rx = y", "x = f(y) x = y", "x = f(y)"),
    ("a.unheardof", "# a\rx = y", "x = y", ""),
]


@pytest.mark.parametrize(("path", "line", "code", "certain"), HIDDEN)
def test_code_behind_the_end_of_a_comment_is_code(path: str, line: str, code: str, certain: str | None) -> None:
    (read,) = read_region(path, [line], anchored=True)
    assert read.text == line
    assert " ".join(read.code.split()) == code
    assert " ".join(read.certain.split()) == (code if certain is None else certain)
    assert len(read.code) == len(line)


def test_names_behind_an_escape_are_those_of_their_line() -> None:
    first, second = read_region("A.java", [r"f(); // \u000a \u0067();", "h();"], anchored=True)
    assert first.names == {"f", "g"}
    assert second.names == {"h"}


@pytest.mark.parametrize(("path", "text", "carrying"), WHOLE)
def test_a_carriage_return_before_the_line_feed_changes_nothing(path: str, text: str, carrying: set[int]) -> None:
    lines = read_region(path, text.split("\n"), anchored=True)
    returned = read_region(path, [line + "\r" for line in text.split("\n")], anchored=True)
    assert [line.certain.rstrip() for line in returned] == [line.certain.rstrip() for line in lines]
    assert {number for number, line in enumerate(returned, 1) if line.carries} == carrying


def test_a_string_behind_a_form_feed_is_no_statement() -> None:
    (line,) = read_region("a.py", ["x = \f'run this'"], anchored=True)
    assert line.code == line.text


def test_lines_within_a_line_live_and_die_on_their_own() -> None:
    texts = ["def f():", "    a()  # c\r    return", "    b()", "    c()", "d()"]
    read = dict(enumerate(read_region("a.py", texts, anchored=True), 1))
    assert dead_lines(read, Family.PYTHON) == {3, 4}
    texts = ["if False:", "    a()", "  \fb()"]
    assert dead_lines(dict(enumerate(read_region("a.py", texts, anchored=True), 1)), Family.PYTHON) == {2}
    texts = ["f() {", "  a(); // c\r  return;", "  b();", "}"]
    assert dead_lines(dict(enumerate(read_region("a.js", texts, anchored=True), 1)), Family.BRACES) == {3}


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
