"""Definitions, calls and the function around a line, language by language."""

from __future__ import annotations

import pytest

from services.code_executor.languages import LANGUAGES, Language, language_of
from services.code_executor.symbols import FileSymbols, extract, split_symbol
from tests.fixtures.cost import growth

BY_NAME = {language.name: language for language in LANGUAGES}

PYTHON = """\
@route("/x")
@login
def view(request):
    return render(request)
class Store(Base):
    LIMIT = 3
    async def get(self, key):
        def inner():
            return self.db.find(key)
        local = 1
        return inner()
TIMEOUT: int = 5
if TIMEOUT:
    def late(): pass
"""
C = """\
static int *lookup(int a) { return find(a); }
struct point { int x; };
typedef struct { int y; } shape;
#define MAX(a) a
#define SIZE 3
enum color { RED };
int table[3];
char *name(void);
void (*handler)(int);
int main(void) {
    int local = 1;
    struct point *p = make();
    return p->run(1);
}
"""
CPP = """\
namespace net {
class Server : Base {
 public:
  int run() const { return poll<int>(1); }
  ~Server() {}
  bool operator==(const Server &other) { return true; }
  int stop();
};
}
int net::Server::stop() {
  auto s = new Server();
  s->run();
  return util::close(s);
}
template <class T>
T same(T x) { return x; }
using Alias = int;
"""
JAVA = """\
package a.b;
class Cache {
  static int SIZE = 1;
  Cache() { init(); }
  String get(String key) {
    return this.load(new Key<String>(key));
  }
}
interface Source { void open(); }
enum Mode { FAST }
record Pair(int a, int b) {}
"""
GO = """\
package p
func Open(name string) error { return os.Stat(name) }
func (s *Store[T]) Get(k string) T {
	return s.load(k)
}
type Store struct { size int }
type Reader interface { Read() }
const Max = 1
var (
	Default = 2
)
"""
JAVASCRIPT = """\
function handler(req) { return run(req.body); }
const arrow = (x) => x.trim();
class Api extends Base {
  get() { return this.#load(); }
  #load() { return new Client(); }
  handle = () => 1;
}
exports.helper = function () { return eval(1); };
const table = { entry: () => 1, other() {} };
export const LIMIT = 3;
export function outer() {
  const local = 1;
  return local;
}
"""
TYPESCRIPT = """\
interface User { name(): string }
type Id = string;
enum Role { Admin }
namespace Util { export function pad(s: string): string { return fill<string>(s); } }
abstract class Repo<T> {
  private cache = () => 1;
  abstract find(id: Id): T;
  save(t: T): void { store(t); }
}
export const limit: number = 1;
"""

DEFINITIONS = [
    ("python", PYTHON, [
        ("view", "function", 1, 4), ("Store", "class", 5, 11), ("Store.LIMIT", "variable", 6, 6),
        ("Store.get", "function", 7, 11), ("Store.get.inner", "function", 8, 9), ("TIMEOUT", "variable", 12, 12),
        ("late", "function", 14, 14),
    ]),
    ("c", C, [
        ("lookup", "function", 1, 1), ("point", "struct", 2, 2), ("shape", "type", 3, 3), ("MAX", "macro", 4, 4),
        ("SIZE", "macro", 5, 5), ("color", "enum", 6, 6), ("table", "variable", 7, 7), ("name", "declaration", 8, 8),
        ("handler", "declaration", 9, 9), ("main", "function", 10, 14),
    ]),
    ("cpp", CPP, [
        ("net", "namespace", 1, 9), ("net.Server", "class", 2, 8), ("net.Server.run", "function", 4, 4),
        ("net.Server.~Server", "function", 5, 5), ("net.Server.operator==", "function", 6, 6),
        ("net.Server.stop", "declaration", 7, 7), ("net.Server.stop", "function", 10, 14), ("same", "function", 15, 16),
        ("Alias", "type", 17, 17),
    ]),
    ("java", JAVA, [
        ("Cache", "class", 2, 8), ("Cache.SIZE", "variable", 3, 3), ("Cache.Cache", "function", 4, 4),
        ("Cache.get", "function", 5, 7), ("Source", "interface", 9, 9), ("Source.open", "function", 9, 9),
        ("Mode", "enum", 10, 10), ("Mode.FAST", "variable", 10, 10), ("Pair", "record", 11, 11),
    ]),
    ("go", GO, [
        ("Open", "function", 2, 2), ("Store.Get", "function", 3, 5), ("Store", "type", 6, 6), ("Reader", "type", 7, 7),
        ("Reader.Read", "declaration", 7, 7), ("Max", "variable", 8, 8), ("Default", "variable", 10, 10),
    ]),
    ("javascript", JAVASCRIPT, [
        ("handler", "function", 1, 1), ("arrow", "function", 2, 2), ("Api", "class", 3, 7),
        ("Api.get", "function", 4, 4), ("Api.load", "function", 5, 5),
        ("Api.handle", "function", 6, 6), ("exports.helper", "function", 8, 8),
        ("table", "variable", 9, 9), ("entry", "function", 9, 9), ("other", "function", 9, 9),
        ("LIMIT", "variable", 10, 10), ("outer", "function", 11, 14),
    ]),
    ("typescript", TYPESCRIPT, [
        ("User", "interface", 1, 1), ("User.name", "declaration", 1, 1), ("Id", "type", 2, 2), ("Role", "enum", 3, 3),
        ("Util", "namespace", 4, 4), ("Util.pad", "function", 4, 4), ("Repo", "class", 5, 9),
        ("Repo.cache", "function", 6, 6), ("Repo.find", "declaration", 7, 7), ("Repo.save", "function", 8, 8),
        ("limit", "variable", 10, 10),
    ]),
]  # fmt: skip
CALLS = [
    ("python", PYTHON, {"render": 4, "find": 9, "inner": 11, "login": 2, "route": 1}),
    ("c", C, {"find": 1, "make": 12, "run": 13}),
    ("cpp", CPP, {"poll": 4, "Server": 11, "run": 12, "close": 13}),
    ("java", JAVA, {"init": 4, "load": 6, "Key": 6}),
    ("go", GO, {"Stat": 2, "load": 4}),
    ("javascript", JAVASCRIPT, {"run": 1, "trim": 2, "load": 4, "Client": 5, "eval": 8}),
    ("typescript", TYPESCRIPT, {"fill": 4, "store": 8}),
]


def symbols(language: str, text: str) -> FileSymbols:
    return extract(text, BY_NAME[language])


@pytest.mark.parametrize(("language", "text", "expected"), DEFINITIONS, ids=[row[0] for row in DEFINITIONS])
def test_definitions(language: str, text: str, expected: list[tuple[str, str, int, int]]) -> None:
    found = [(d.qualified_name, d.kind, d.first_line, d.last_line) for d in symbols(language, text).definitions]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize(("language", "text", "expected"), CALLS, ids=[row[0] for row in CALLS])
def test_calls(language: str, text: str, expected: dict[str, int]) -> None:
    calls = symbols(language, text).calls
    assert {name: line for name, line in calls if name in expected} == expected


@pytest.mark.parametrize(
    ("language", "text", "line", "name"),
    [
        ("python", PYTHON, 1, "view"),
        ("python", PYTHON, 9, "Store.get.inner"),
        ("python", PYTHON, 10, "Store.get"),
        ("python", PYTHON, 6, "Store"),
        ("c", C, 12, "main"),
        ("cpp", CPP, 12, "net.Server.stop"),
        ("java", JAVA, 6, "Cache.get"),
        ("go", GO, 4, "Store.Get"),
        ("javascript", JAVASCRIPT, 12, "outer"),
        ("typescript", TYPESCRIPT, 8, "Repo.save"),
    ],
)
def test_the_function_around_a_line(language: str, text: str, line: int, name: str) -> None:
    around = symbols(language, text).enclosing(line)
    assert around is not None
    assert around.qualified_name == name


def test_a_line_outside_everything_has_nothing_around_it() -> None:
    assert symbols("python", PYTHON).enclosing(12) is None


def test_callers_come_with_the_function_they_are_in() -> None:
    [(line, caller)] = symbols("python", PYTHON).callers("find")
    assert (line, caller.qualified_name if caller else None) == (9, "Store.get.inner")


def test_tsx_is_known() -> None:
    found = extract("const Page = () => <div onClick={() => save()}/>;", BY_NAME["tsx"])
    assert [d.name for d in found.definitions] == ["Page"]
    assert found.calls == (("save", 1),)


@pytest.mark.parametrize(
    ("symbol", "parts"),
    [
        ("run", ("run",)),
        ("Server.run", ("Server", "run")),
        ("net::Server::run", ("net", "Server", "run")),
        ("Server#run", ("Server", "run")),
        ("server->run", ("server", "run")),
        ("run()", ("run",)),
        ("Map<int>::get", ("Map", "get")),
        ("Map<Key<int>, int>::get", ("Map", "get")),
        ("A::operator==", ("A", "operator==")),
        ("operator->", ("operator->",)),
        ("operators.add", ("operators", "add")),
        ("~Server", ("~Server",)),
        ("$scope", ("$scope",)),
        ("größe", ("größe",)),
    ],
)
def test_names_are_split(symbol: str, parts: tuple[str, ...]) -> None:
    assert split_symbol(symbol) == parts


@pytest.mark.parametrize(
    ("asked", "matches"),
    [
        ("stop", True),
        ("Server.stop", True),
        ("net.Server.stop", True),
        ("Client.stop", False),
        ("x.net.Server.stop", False),
    ],
)
def test_a_partly_qualified_name_matches(asked: str, matches: bool) -> None:
    [_, definition] = [d for d in symbols("cpp", CPP).definitions if d.name == "stop"]
    assert definition.matches(split_symbol(asked)) is matches


@pytest.mark.parametrize(
    ("path", "language"),
    [
        ("a/b.py", "python"), ("x.C", "c"), ("x.hpp", "cpp"), ("x.h", "cpp"), ("X.java", "java"), ("x.go", "go"),
        ("x.mjs", "javascript"), ("x.ts", "typescript"), ("x.tsx", "tsx"), ("x.rb", None), ("py", None),
        (".py", "python"),
    ],
)  # fmt: skip
def test_languages_by_name(path: str, language: str | None) -> None:
    found = language_of(path)
    assert (found.name if found else None) == language


HOSTILE = [
    ("c", "*" * 300_000),
    ("javascript", "`${" * 100_000),
    ("cpp", "(" * 400_000),
    ("cpp", "a<" * 100_000),
    ("python", "x = " + "(" * 200_000),
    ("python", "x(" * 100_000),
    ("javascript", "function f(){" * 20_000),
    ("javascript", "void f(){" * 100_000),
    ("java", "class A{" * 60_000),
    ("javascript", "const a=1" + ",a=1" * 30_000),
    ("python", "a" + ".b" * 200_000 + "()"),
]


@pytest.mark.parametrize(("language", "text"), HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_files_neither_crash_nor_cost_much_more_than_their_length(language: str, text: str) -> None:
    assert growth(lambda length: symbols(language, text[:length]), len(text), 8) < 5


def test_a_file_that_takes_too_long_has_no_symbols() -> None:
    language: Language = BY_NAME["python"]
    assert extract("def f(): pass\n" * 50_000, language, timeout_s=0).definitions == ()


def test_carriage_returns_within_lines_hide_no_symbols_and_move_no_lines() -> None:
    text = "def f():\n    a()  # c\r    b()\n# c\rdef g():\r\n    return f()\r"
    found = extract(text, BY_NAME["python"])
    assert [(one.name, one.first_line, one.last_line) for one in found.definitions] == [("f", 1, 2), ("g", 3, 4)]
    assert found.calls == (("a", 2), ("b", 2), ("f", 4))
