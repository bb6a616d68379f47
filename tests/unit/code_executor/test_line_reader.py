"""What each line is, language by language, also where a piece of a file begins in the middle of a comment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from signalbox.v1 import code_reading_pb2

from services.code_executor.readings import AMBIGUOUS, MOST_YAML, NO_GRAMMAR, NOT_PARSED, TOO_LARGE, TOO_LONG
from tests.fixtures.code_readings import LIMITS, reading_of
from tests.fixtures.cost import growth

CODE = code_reading_pb2.LINE_PART_KIND_CODE
STRING = code_reading_pb2.LINE_PART_KIND_STRING
COMMENT = code_reading_pb2.LINE_PART_KIND_COMMENT
UNSURE = code_reading_pb2.LINE_PART_KIND_UNSURE
Reading = code_reading_pb2.LineReading


def of_kind(line: str, reading: Reading, *kinds: code_reading_pb2.LinePartKind) -> str:
    """What of a line is of some kinds, without the blanks around it."""
    shown, at = "", 0
    for part in reading.parts:
        piece = line[at : at + part.characters]
        at += part.characters
        shown += piece if part.kind in kinds else " " * len(piece)
    return " ".join(shown.split())


def carrying(path: str, text: str) -> set[int]:
    """The numbers of the lines that have words of code or strings."""
    pairs = zip(text.split("\n"), reading_of(path, text).lines, strict=False)
    words = (of_kind(line, reading, CODE, STRING) for line, reading in pairs)
    return {number for number, shown in enumerate(words, 1) if any(char.isalnum() for char in shown)}


# Path, text, the numbers of the lines that carry.
WHOLE: list[tuple[str, str, set[int]]] = [
    ("a.py", "# c\nx = 1  # c\n'''doc'''\n\n", {2}),
    ("a.py", 'def f():\n    """Doc.\n\n    x = eval(y)\n    """\n    return 1', {1, 6}),
    ("a.py", 'q = """\nSELECT 1\n"""\nf(\n    """SELECT 2""",\n)', {1, 2, 4, 5}),
    ("a.py", "'just a string'\n\"another\"\nr'raw'\nx = 'assigned'", {4}),
    ("a.py", "x = f'''{\n    run(y)\n}'''\n", {1, 2}),
    ("a.c", "// c\n/* c\n   x = 1;\n*/ int y = 2; /* c */\n\n#define A 1", {4, 6}),
    ("a.c", "#if 0\nint x = 1;\n#endif\nint y;", {1, 3, 4}),
    ("a.c", "#if 1\nint x;\n#else\nint y;\n#endif\nint z;", {1, 2, 5, 6}),
    ("a.c", "#define A(x) f(x) // approved\n#define B 'a' /* approved */\n", {1, 2}),
    ("a.cpp", "// c\nclass A { /* c */ int x; };\n", {2}),
    ("A.java", "/** Safe.\n * @param x\n */\nclass A { int f(int x) { return x; } }", {4}),
    ("a.go", "package a\n// c\nfunc f() {\n\tdb.Query(q) // c\n}", {1, 3, 4}),
    ("a.js", "// c\nconst s = '// no comment';\n/* c */", {2}),
    ("a.js", "const s = `a ${run(x)} /* no */`;", {1}),
    ("a.ts", "// c\nlet s: string = `/* no */`;", {2}),
    ("a.tsx", "// c\nconst a = <b>{/* c */ run()}</b>;\n", {2}),
    ("a.yaml", "# c\nkey: value # c\nurl: 'http://a#b'\ntext: |\n  # no comment\n", {2, 3, 4, 5}),
    ("a.toml", '# c\n[a] # c\nurl = "http://a/#b" # c\n', {2, 3}),
    ("a.json", '{\n  "a": "b",\n  "c": 1\n}\n', {2, 3}),
    # Strings that are statements say as much as a comment does, and do as little.
    ("a.py", 'def f():\n    u"""doc"""\n    return 1', {1, 3}),
    ("a.py", '("approved")\n"approved",\n"a" + "approved"\n"a"; "approved"\n"""a""" """approved"""\n', set()),
    ("a.py", '(\n    "approved by "\n    "all"\n)\n["approved"]\nx = (\n    "a"\n)\nf(\n    "b",\n)\n', {6, 7, 9, 10}),
    ("a.py", 'm = {\n    "a": 1,\n    "b": 2,\n}\n"%s" % (\n    x\n)\n', {1, 2, 3, 5, 6}),
    ("a.js", "'approved';\n`approved`;\nf(x)\nconst a = [\n  'b',\n];\n", {3, 4, 5}),
    ("a.c", 'char *a[] = {\n  "b",\n};\nvoid g() { f("c"\n  "d"); "approved"\n; }\n', {1, 2, 4, 5}),
    ("a.c", "#warning approved\n#pragma message approved\n#if A\n#endif\n", {3, 4}),
]


@pytest.mark.parametrize(("path", "text", "expected"), WHOLE)
def test_code_is_told_from_comments(path: str, text: str, expected: set[int]) -> None:
    assert carrying(path, text) == expected


@pytest.mark.parametrize(("path", "text", "expected"), WHOLE)
def test_a_carriage_return_before_the_line_feed_changes_nothing(path: str, text: str, expected: set[int]) -> None:
    assert carrying(path, text.replace("\n", "\r\n")) == expected


@pytest.mark.parametrize(("path", "text"), [case[:2] for case in WHOLE])
def test_a_piece_is_told_as_in_its_file(path: str, text: str) -> None:
    whole = reading_of(path, text).lines
    for first in range(1, len(whole) + 1):
        for last in range(first, len(whole) + 1):
            assert list(reading_of(path, text, first, last).lines) == whole[first - 1 : last], (first, last)


# Line, what of it is code: where a compiler ends a line, and with it a comment.
HIDDEN = [
    ("a.py", "x = f(y)  # a\rx = y", "x = f(y) x = y"),
    ("a.pyi", "# a\r# b\rx = y", "x = y"),
    ("a.py", "x = f(y)  # a\fx = y", "x = f(y)"),
    ("a.py", "x = f(y)  # a\u2028x = y", "x = f(y)"),
    ("a.js", "x = f(y)  // a\rx = y", "x = f(y) x = y"),
    ("a.js", "x = f(y)  // a\u2028x = y", "x = f(y) x = y"),
    ("A.java", "class A { int x = 1; // a\rint y; }", "class A { int x = 1; int y; }"),
    ("A.java", r"class A { int x = 1; } // a \\u000a int y;", "class A { int x = 1; }"),
]


@pytest.mark.parametrize(("path", "line", "code"), HIDDEN)
def test_code_behind_the_end_of_a_comment_is_code(path: str, line: str, code: str) -> None:
    [read] = reading_of(path, line).lines
    assert of_kind(line, read, CODE, STRING) == code


@pytest.mark.parametrize(
    ("path", "text", "why"),
    [
        ("a.rb", "x = 1 # c", NO_GRAMMAR),
        ("a.unheardof", "# c", NO_GRAMMAR),
        ("README.md", "This is a false positive.", NO_GRAMMAR),
        ("a.py", "x = 1\n" * (LIMITS.parse_bytes // 6 + 1), TOO_LARGE),
        # Of these, the parser would take gigabytes at their end.
        ("a.c", "%w(" * 5000, TOO_LONG),
        ("a.c", "x=>" * 5000, TOO_LONG),
        ("A.java", "a<" * 5000, TOO_LONG),
        ("a.yaml", "- " * 50_000, TOO_LARGE),
        ("a.yaml", "- " * 500, NOT_PARSED),
        ("a.yaml", "a: {{ b }}: c", NOT_PARSED),
        # Not for every compiler, or nobody knows.
        ("a.go", "x = f(y) // a\rx = y", AMBIGUOUS),
        ("a.c", "x = f(y); // a\rx = y;", AMBIGUOUS),
        ("a.yaml", "x: 1 # a\u2028y: 2", AMBIGUOUS),
        ("a.ts", "x = f(y)  // a\u2029x = y", AMBIGUOUS),
        # To a compiler of Java these are the characters themselves.
        ("A.java", r"x = f(y); // a \u000a x = y;", AMBIGUOUS),
        ("A.java", r"x = f(y); // a \uuu000Dx = y;", AMBIGUOUS),
        ("A.java", r"x = f(y); /* a \u002a\u002f x = y; /* b */", AMBIGUOUS),
        ("A.java", r"c = '\\\u0022'; x(); // a", AMBIGUOUS),
    ],
)
def test_what_nobody_can_tell_is_unread_and_says_why(path: str, text: str, why: str) -> None:
    assert reading_of(path, text) == code_reading_pb2.CodeReading(unread=why)


@pytest.mark.parametrize(
    ("path", "text", "unsure"),
    [
        ("a.py", "x = 1\ny = 'open\nz = '''a\nb'''\n", {2, 3, 4}),
        ("a.js", "f();\nlet x = `open;\ng(); // c\n", {2, 3}),
        ("a.c", "int x;\nint y = ) 2;\nint z;\n", {2}),
    ],
)
def test_what_does_not_parse_proves_nothing(path: str, text: str, unsure: set[int]) -> None:
    lines = enumerate(zip(text.split("\n"), reading_of(path, text).lines, strict=False), 1)
    assert {number for number, (line, read) in lines if of_kind(line, read, UNSURE)} == unsure


@pytest.mark.parametrize(
    ("path", "line", "names", "sets"),
    [
        ("a.py", "x: int = run(y, z=self.w)  # c", ["x", "run", "y", "z", "w"], ["x"]),
        ("a.py", "a, b = f'{c} d'", ["a", "b", "c"], ["a", "b"]),
        ("a.py", "a.b = c[d] = print(e)", ["a", "b", "c", "d", "e"], []),
        ("a.js", "const x = a.run(`${y}`), z = console;", ["x", "a", "run", "y", "z"], ["x", "z"]),
        ("a.ts", "let x: Id = y as string;", ["x", "Id", "y"], ["x"]),
        ("a.go", "func f() { x, y := run(len(z)) }", ["f", "x", "y", "run", "z"], ["x", "y"]),
        ("a.c", "int x = run(y); struct s *z;", ["x", "run", "y", "s", "z"], ["x"]),
        ("a.c", "#define A(x) f(x) // g", ["A", "x", "f"], []),
        ("A.java", "class A { Key k = make(this); }", ["A", "Key", "k", "make"], ["k"]),
    ],
)
def test_names_of_a_line(path: str, line: str, names: list[str], sets: list[str]) -> None:
    [read] = reading_of(path, line).lines
    assert (list(read.names), list(read.sets)) == (names, sets)


DEAD = [
    ("a.py", "def f():\n    a()  # c\r    return\n    b()\n    c()\nd()", {3, 4}),
    ("a.py", "if False:\n    a()\n  \fb()", {2}),
    ("a.py", "if a() and not True:\n    b()\nelif 0 or c:\n    d()\n", {2}),
    ("a.py", "while 1:\n    a()\n    continue\n    b()\nelse:\n    c()\n", {4}),
    ("a.py", "import sys\nsys.exit(1)\na()\ndef b():\n    pass\n", {3, 4, 5}),
    ("a.js", "function f() {\n  a(); // c\r  return;\n  b();\n}", {3}),
    ("a.js", "f();\nif (0 && x || y) {\n  a();\n}\n", set()),
    ("a.js", "function f() {\n  return g();\n  function g() {}\n  b();\n}", set()),
    ("a.c", "void f() {\n  goto end;\n  a();\nend:\n  b();\n}", {3}),
    ("A.java", "class A { void f() {\n  if (true) a();\n  else\n    b();\n} }", {4}),
    ("a.go", "package a\nfunc f() {\n  if !true {\n    a()\n  }\n  return\n  b()\n}", {4, 7}),
]


@pytest.mark.parametrize(("path", "text", "dead"), DEAD)
def test_lines_that_never_run(path: str, text: str, dead: set[int]) -> None:
    assert {number for number, line in enumerate(reading_of(path, text).lines, 1) if line.never_runs} == dead


def test_definitions_around_a_piece_are_told_in_full() -> None:
    text = "LIMIT = 1\n\n\nclass A:\n    def f(self):\n        a\n        b\n\n    def g(self):\n        c\n"
    found = [(one.name, one.first_line, one.last_line) for one in reading_of("a.py", text, 6, 6).definitions]
    assert found == [("A", 4, 10), ("f", 5, 7)]


@pytest.mark.parametrize("path", ["a.py", "a.c", "a.js", "a.yaml", "a.toml", "a.json", "A.java", "a.go", "a.cpp"])
@given(st.lists(st.text(max_size=60), max_size=8))
def test_parts_keep_their_line_s_shape(path: str, lines: list[str]) -> None:
    text = "\n".join(line.replace("\n", "").replace("\r", "") for line in [*lines, "end"])
    reading = reading_of(path, text)
    for line, read in zip(text.split("\n"), reading.lines, strict=not reading.unread):
        assert sum(part.characters for part in read.parts) <= len(line)
        assert all(part.characters > 0 for part in read.parts)
        covered = of_kind(line, read, CODE, STRING, COMMENT, UNSURE)
        assert covered.split() == line.split()


MOST = 32_000
HOSTILE = [
    ("a.py", "x = f'{" * 20_000), ("a.py", '"""' * 50_000), ("a.py", "if 0:" * 30_000), ("a.py", "'a';" * 40_000),
    ("a.py", "return\n" * 30_000),
    ("a.c", "#if 0\n" * 30_000), ("a.c", ";" * 150_000), ("a.c", "   \n" * 40_000), ("a.c", '"a"' * 40_000),
    ("a.cpp", "a<" * 60_000), ("a.cpp", 'R"a(' * 30_000), ("A.java", "a<" * 60_000), ("A.java", "a " * 60_000),
    ("a.go", "a," * 60_000), ("a.go", "`" * 100_000), ("a.js", "`${" * 40_000), ("a.js", "/* " * 40_000),
    ("a.ts", "a as " * 30_000), ("a.tsx", "<a>" * 40_000),
    ("a.yaml", "a: b\n" * 10_000), ("a.yaml", ("[" * 90 + "]" * 90 + ",") * 300), ("a.yaml", "a " * (MOST_YAML // 2)),
    ("a.yaml", "# \n" * 20_000), ("a.yaml", "a: |\n" + " b\n" * 20_000),
    ("a.json", "[" * 100_000), ("a.json", '"a":' * 40_000), ("a.toml", "[a]\n" * 30_000), ("a.toml", "a." * 60_000),
]  # fmt: skip


@pytest.mark.parametrize(("path", "text"), HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_files_cost_at_most_their_square_until_they_are_given_up(path: str, text: str) -> None:
    # Most are linear; what a grammar makes quadratic (comments begun within one in JavaScript) the bound of CPU ends.
    assert growth(lambda length: reading_of(path, text[:length]), min(len(text), MOST), 4) < 5
