"""What the offline reviewer must not be sure of: each case was once settled with confidence, and wrongly."""

from __future__ import annotations

import time

import pytest

from services.offline_model.code_review.opinion import FALSE_POSITIVE, NEEDS_REVIEW, TRUE_POSITIVE, Need
from services.offline_model.code_review.review import Finding, review
from services.offline_model.code_review.shown import Shown
from tests.unit.offline_model.reviews import (
    CODE,
    COMMAND,
    CRYPTO,
    LOADS,
    PATHS,
    SECRET,
    SQL,
    URLS,
    XSS,
    read,
    verdict,
)

CASES: list[tuple[str, str, str, str]] = [
    # What a name holds.
    ("a default that only a missing argument gets", XSS, NEEDS_REVIEW, """
        def show(text=None):
            if not text:
                text = "nothing"
            return mark_safe(text)  # <-
     """),
    ("a list that grows", COMMAND, NEEDS_REVIEW, """
        def copy(source, target):
            command = ["scp", "-q"]
            command.extend([source, target])
            subprocess.Popen(" ".join(command), shell=True)  # <-
     """),
    ("a list that grows by the request", COMMAND, TRUE_POSITIVE, """
        def copy():
            command = ["scp", "-q"]
            command.append(request.args["from"])
            subprocess.Popen(" ".join(command), shell=True)  # <-
     """),
    ("a map that is written to", SQL, NEEDS_REVIEW, """
        COLUMNS = {"n": "name"}

        def learn(key, column):
            COLUMNS[key] = column

        def sort(db, by):
            return db.execute("SELECT * FROM t ORDER BY " + COLUMNS[by])  # <-
     """),
    ("a value that the next turn of the loop changes", COMMAND, TRUE_POSITIVE, """
        def follow():
            command = "true"
            while command:
                os.system(command)  # <-
                command = request.args["next"]
     """),
    ("a name that a function sets", COMMAND, NEEDS_REVIEW, """
        SHELL = "true"

        def choose(shell):
            global SHELL
            SHELL = shell

        def run():
            os.system(SHELL)  # <-
     """),
    ("a name that is set twice at the top", COMMAND, NEEDS_REVIEW, """
        TOOL = "true"
        if sys.platform == "win32":
            TOOL = find_tool()

        def run():
            os.system(TOOL)  # <-
     """),
    ("a value that was replaced before", COMMAND, FALSE_POSITIVE, """
        def run():
            command = request.args["command"]
            log(command)
            command = "true"
            os.system(command)  # <-
     """),
    ("one of two values", SQL, FALSE_POSITIVE, """
        def find(db):
            table, name = "ships", request.args["name"]
            return db.execute(f"SELECT * FROM {table} WHERE n = ?", (name,))  # <-
     """),
    # Who calls.
    ("a caller that leaves a safe argument out", COMMAND, FALSE_POSITIVE, """
        def run(options="-a"):
            os.system("df " + options)  # <-

        def disk():
            run()
     """),
    ("a caller that passes it on in a list", COMMAND, NEEDS_REVIEW, """
        def run(program, options):
            os.system("df " + options)  # <-

        def disk(given):
            run("df", "-a")
            run(*given)
     """),
    ("a method called like one of a map", PATHS, NEEDS_REVIEW, """
        class Files:
            def get(self, name):
                return open(name)  # <-

        def home(environment):
            return environment.get("HOME")
     """),
    ("another class is made", COMMAND, NEEDS_REVIEW, """
        class Server:
            def __init__(self, program):
                self.program = program

            def start(self):
                os.system(self.program)  # <-

        class Page:
            def __init__(self, handler):
                super().__init__(handler)

        class Other(Page):
            def __init__(self):
                Page.__init__(self, request.args["handler"])
     """),
    ("the class is made of the request", COMMAND, TRUE_POSITIVE, """
        class Server:
            def __init__(self, program):
                self.program = program

            def start(self):
                os.system(self.program)  # <-

        def serve():
            Server(request.args["program"]).start()
     """),
    ("the function is handed on", COMMAND, NEEDS_REVIEW, """
        def run(command):
            os.system(command)  # <-

        def start(commands):
            run("true")
            pool.map(run, commands)
     """),
    ("what it returns was not shown", COMMAND, NEEDS_REVIEW, """
        def command_of(name):
            yield name

        def run(name):
            os.system(command_of(name))  # <-
     """),
    # What a check or a function is good for.
    ("quoted for a URL", COMMAND, TRUE_POSITIVE, """
        from urllib.parse import quote

        def ping():
            os.system("ping " + quote(request.args["host"]))  # <-
     """),
    ("escaped for a pattern", XSS, TRUE_POSITIVE, """
        import re

        def hello():
            return Markup("<b>" + re.escape(request.args["name"]) + "</b>")  # <-
     """),
    ("a quoted host is still the request's", URLS, TRUE_POSITIVE, """
        from urllib.parse import quote

        def fetch():
            return requests.get("http://" + quote(request.args["host"]))  # <-
     """),
    ("an answer that was asked for", URLS, NEEDS_REVIEW, """
        def fetch(base):
            request = urllib.request.Request(base)
            return urlopen(request.url)  # <-
     """),
    # What a weakness is about.
    ("the file's name is constant, not what is in it", LOADS, NEEDS_REVIEW, """
        def restore():
            return torch.load("weights.pth")  # <-
     """),
    ("a document of a file", "CWE-776", NEEDS_REVIEW, """
        import xml.etree.ElementTree as ET

        def read():
            return ET.parse("settings.xml")  # <-
     """),
    ("defusedxml beside another parser", "CWE-776", NEEDS_REVIEW, """
        from defusedxml.minidom import parseString
        from xml.etree.ElementTree import fromstring

        def read():
            return fromstring(request.data)  # <-
     """),
    ("a shell of its own", COMMAND, TRUE_POSITIVE, """
        def run():
            subprocess.run(["bash", "-c", request.args["command"]])  # <-
     """),
    ("a shell in exec", COMMAND, TRUE_POSITIVE, """
        def run():
            os.execl("/bin/sh", "sh", "-c", request.args["command"])  # <-
     """),
    ("an option of the request's", COMMAND, NEEDS_REVIEW, """
        def show():
            subprocess.run(["git", "log", request.args["branch"]])  # <-
     """),
    ("an argument behind two dashes", COMMAND, FALSE_POSITIVE, """
        def show():
            subprocess.run(["git", "log", "--", request.args["path"]])  # <-
     """),
    ("a query that a function is given", SQL, NEEDS_REVIEW, """
        def rows(statement):
            return []

        def find(name):
            return rows("SELECT * FROM t WHERE n = '%s'" % name)  # <-
     """),
    ("another join", PATHS, TRUE_POSITIVE, """
        def download():
            return ",".join(["a", "b"]) + open(request.args["name"]).read()  # <-
     """),
    ("templates that may escape", XSS, NEEDS_REVIEW, """
        def build(escape):
            return Environment(loader=loader, autoescape=escape)  # <-
     """),
    ("what the function is called says nothing", CRYPTO, NEEDS_REVIEW, """
        def make():
            return "job-" + "".join(random.sample(LETTERS, 8))  # <-
     """),
    ("evaluating what the user of a tool typed", CODE, NEEDS_REVIEW, """
        def calculate():
            return eval(sys.argv[1])  # <-
     """),
    # Secrets.
    ("a password that is a word", SECRET, NEEDS_REVIEW, 'EMAIL_PASSWORD = "secret"  # <-'),
    ("a phrase to compare with", SECRET, NEEDS_REVIEW, 'if user.password == "this cool password":  # <-\n    pass'),
    ("a password by default", SECRET, NEEDS_REVIEW, 'def login(user, password="blerg"):  # <-\n    pass'),
    ("a password of digits", SECRET, TRUE_POSITIVE, 'info = {"password": "71034592"}  # <-'),
    ("a comparison with nothing", SECRET, FALSE_POSITIVE, """
        def check(password):
            if password == "":  # <-
                raise ValueError("Xk9-there must be a 2nd one")
     """),
    ("a token of a grammar", SECRET, FALSE_POSITIVE, """
        def parse(token):
            if token == "{":  # <-
                return "open-4711-Brace"
     """),
    ("a secret that holds the word test", SECRET, TRUE_POSITIVE, 'API_TOKEN = "live-test-8f3kQ92xPz"  # <-'),
    ("a placeholder", SECRET, FALSE_POSITIVE, 'API_TOKEN = "<your token here>"  # <-'),
    ("no secret at all beside one", SECRET, FALSE_POSITIVE,
     'field(name="Xk9-4711-abc", password_header="X-Password")  # <-'),
]  # fmt: skip


@pytest.mark.parametrize(("cwe", "expected", "code"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_settled_only_by_what_was_shown(cwe: str, expected: str, code: str) -> None:
    assert verdict(cwe, code) == expected


def test_other_callers_are_asked_for_before_one_is_believed() -> None:
    shown, line = read("""
        def run(command):
            os.system(command)  # <-

        def disk():
            run("df -h")
    """)
    opinion = review(Finding("B605", COMMAND, "app/service.py", line, line), shown)
    assert opinion.verdict == FALSE_POSITIVE
    assert opinion.needs == (Need("callers", "run"),)


def test_what_is_only_passed_along_is_not_called_a_constant() -> None:
    shown, line = read("""
        def kill(job):
            subprocess.call(["kill", "--", job])  # <-
    """)
    opinion = review(Finding("B603", COMMAND, "app/service.py", line, line), shown)
    assert opinion.verdict == FALSE_POSITIVE
    assert "very value" not in opinion.justification + opinion.evidence[0].claim


def test_a_partial_path_is_another_question() -> None:
    for command, expected in (('["df", "-h"]', NEEDS_REVIEW), ('["/bin/df", "-h"]', FALSE_POSITIVE)):
        shown, line = read(f"subprocess.call({command})  # <-")
        assert review(Finding("B607", COMMAND, "app/service.py", line, line), shown).verdict == expected


@pytest.mark.parametrize(
    ("rule", "cwe", "line"),
    [
        ("B113", "CWE-400", "requests.get(url)"),
        ("B501", "CWE-295", "requests.get(url, verify=False)"),
        ("B324", "CWE-327", "hashlib.md5(password)"),
    ],
)
def test_what_a_test_does_is_left_to_a_person(rule: str, cwe: str, line: str) -> None:
    for path, expected in (("app/net.py", TRUE_POSITIVE), ("app/test/test_net.py", NEEDS_REVIEW)):
        shown = Shown()
        shown.add(path, {1: line})
        assert review(Finding(rule, cwe, path, 1, 1), shown).verdict == expected


def test_claims_cite_the_head_of_what_holds_more() -> None:
    shown, line = read("""
        def run():
            with subprocess.Popen(request.args["x"], shell=True) as process:  # <-
                process.wait()
                process.close()
    """)
    opinion = review(Finding("B602", COMMAND, "app/service.py", line, line), shown)
    assert (opinion.evidence[0].first_line, opinion.evidence[0].last_line) == (2, 2)


def test_a_maze_of_calls_is_given_up_in_time() -> None:
    """Every function calls two others, so the ways through them double at each."""

    def maze(depth: int) -> float:
        functions = [
            f"def f{n}(a, b):\n    c = f{n + 1}(a, b) + f{n + 1}(b, a)\n    return c + f{n + 1}(c, a)\n"
            for n in range(depth)
        ]
        code = "\n".join([*functions, f"def f{depth}(a, b):\n    return a + b\n", "os.system(f0(x, y))  # <-\n"])
        shown, line = read(code)
        start = time.process_time()
        assert review(Finding("B605", COMMAND, "app/service.py", line, line), shown).verdict == NEEDS_REVIEW
        return time.process_time() - start

    maze(2)
    assert maze(24) < 40 * max(maze(6), 0.01)
