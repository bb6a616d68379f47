"""The offline judge runs the code that a verdict is about, and shares nothing with the reviewer that drafted it."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from services.offline_model.conversation import Conversation
from services.offline_model.skills.judge_verdict import judge_verdict
from tests.unit.offline_model.false_protections import FALSE_PROTECTIONS
from tests.unit.offline_model.reviews import COMMAND, CRYPTO, LOADS, PATHS, REQUEST, SQL, URLS, XML, XSS, read
from tests.unit.offline_model.unseen_flows import UNSEEN_FLOWS

HOSTILE = [*UNSEEN_FLOWS, *FALSE_PROTECTIONS]
SERVICES = Path(__file__).parents[3] / "services" / "offline_model"
# What a run can't show: a check that does stop what is sent, folders whose names begin alike, defaults that live on,
# numbers that are made letters, names that code writes which is not followed. The reviewer has to stop these alone.
BEYOND_RUNNING = {
    "a prefix", "dots are looked for", "a default that changes", "a number made a character",
    "a name that an inner function writes", "a name that a text writes",
}  # fmt: skip


def judged(cwe: str, code: str, verdict: str) -> str:
    """The judge's outcome on a draft about the marked line."""
    shown, line = read(code)
    files = [
        {"file": file.path, "code": [f"{number} | {text}" for number, text in sorted(file.lines.items())]}
        for file in shown.files.values()
    ]
    case = {
        "task": "critique",
        "finding": {"rule": "", "cwe": cwe, "file": "app/service.py", "first_line": line, "last_line": line},
        "draft": {"verdict": verdict, "confidence": 0.9},
        "code_bank": files,
    }
    answer = judge_verdict(Conversation(case, (), (), must_call=False))
    return str(json.loads(answer.text)["outcome"])


@pytest.mark.parametrize(
    ("name", "cwe", "code"), [case for case in HOSTILE if case[0] not in BEYOND_RUNNING], ids=lambda value: value[:30]
)
def test_false_positives_that_a_run_refutes_are_refused(name: str, cwe: str, code: str) -> None:
    assert judged(cwe, REQUEST + code.lstrip("\n"), "FALSE_POSITIVE") != "approved", name


HIDDEN = """\
# one{end}ONE = 1
# two{end}TWO = 2
def ping():
    host = shlex.quote(request.args["host"])  # quoted{end}    host = request.args["host"]
    return os.system("ping " + host)  # <-
"""


@pytest.mark.parametrize("end", ["\n", "\r"], ids=["line feed", "carriage return"])
def test_what_a_carriage_return_hides_is_run(end: str) -> None:
    code = REQUEST + HIDDEN.replace("{end}", end)
    assert judged(COMMAND, code, "FALSE_POSITIVE") == "needs_reanalysis"
    assert judged(COMMAND, code, "TRUE_POSITIVE") == "approved"


@pytest.mark.parametrize(
    ("cwe", "verdict", "outcome", "code"),
    [
        (COMMAND, "TRUE_POSITIVE", "approved", 'os.system("ping " + request.args["h"])  # <-'),
        (COMMAND, "TRUE_POSITIVE", "needs_reanalysis", 'os.system("ping localhost")  # <-'),
        (COMMAND, "FALSE_POSITIVE", "approved", 'os.system("ping localhost")  # <-'),
        (COMMAND, "FALSE_POSITIVE", "approved", 'os.system("ping " + shlex.quote(request.args["h"]))  # <-'),
        (COMMAND, "NEEDS_REVIEW", "approved", "os.system(unknown)  # <-"),
        (COMMAND, "FALSE_POSITIVE", "needs_research", "os.system(unknown)  # <-"),
        (SQL, "FALSE_POSITIVE", "approved", 'db.execute("SELECT ?", (request.args["n"],))  # <-'),
        (SQL, "FALSE_POSITIVE", "needs_reanalysis", 'db.execute("SELECT " + request.args["n"])  # <-'),
        (XSS, "FALSE_POSITIVE", "approved", 'x = Markup("<b>" + html.escape(request.args["n"]) + "</b>")  # <-'),
        (PATHS, "FALSE_POSITIVE", "needs_reanalysis", 'open("/data/" + request.args["n"])  # <-'),
        ("CWE-327", "TRUE_POSITIVE", "approved", "hashlib.md5(password)  # <-"),
        ("CWE-327", "FALSE_POSITIVE", "needs_reanalysis", "hashlib.md5(data)  # <-"),
        ("CWE-787", "TRUE_POSITIVE", "needs_research", "x = 1  # <-"),
    ],
)
def test_outcomes(cwe: str, verdict: str, outcome: str, code: str) -> None:
    assert judged(cwe, REQUEST + code, verdict) == outcome


SETUP = """
def connection():
    if "connection" not in g:
        g.connection = connect()
    return g.connection

def is_right(given, kept):
    return compare(derive(given), kept)
"""


@pytest.mark.parametrize(
    ("name", "cwe", "verdict", "code"),
    [
        ("what a function that is not shown says may be no", COMMAND, "TRUE_POSITIVE", """
def login():
    row = connection().execute("SELECT kept FROM t WHERE n = ?", (request.form["n"],)).fetchone()
    if row is None or not is_right(request.form["p"], row["kept"]):
        os.system("logger 'failed login of " + request.form["n"] + "'")  # <-"""),
        ("rows of a fixed statement are no statement", SQL, "FALSE_POSITIVE", """
def count(kind):
    return connection().execute(f"SELECT count(*) FROM {'t'} WHERE k = ?", (kind,)).fetchone()[0]  # <-

@app.get("/")
def all_of_them():
    return {kind: count(kind) for kind in ("a", "b", "c", "d", "e")}"""),
        ("the same question again is no other way", SQL, "FALSE_POSITIVE", """
@app.get("/")
def listed():
    column = {"a": "b"}.get(request.args.get("sort"), "c")
    for name in ("u", "v", "w"):
        connection().execute("DELETE FROM log WHERE n = ?", (name,))
    return connection().execute(f"SELECT a FROM t ORDER BY {column}").fetchall()  # <-"""),
        ("a loader of plain values takes anything", LOADS, "FALSE_POSITIVE", """
class Plain(yaml.SafeLoader):
    pass

def read(kind):
    for part in (request.args["a"], request.args["b"], request.args["c"]):
        if part == kind or not is_right(part, connection()):
            connection().execute("SELECT ?", (part,))
    return yaml.load(request.get_data(), Loader=Plain)  # <-"""),
        ("a parameter of a request is no host", URLS, "FALSE_POSITIVE", """
x = requests.get("https://a.test/", params={"n": request.args["n"]}, timeout=9)  # <-"""),
        ("a document that names a file", XML, "TRUE_POSITIVE", """
import xml.sax
from xml.sax.handler import feature_external_ges

def read():
    parser = xml.sax.make_parser()
    parser.setFeature(feature_external_ges, True)
    parser.parse(io.StringIO(request.form["a"]))  # <-"""),
        ("a document that may name none", XML, "FALSE_POSITIVE", """
import xml.sax
from xml.sax.handler import feature_external_ges

def read():
    parser = xml.sax.make_parser()
    parser.setFeature(feature_external_ges, False)
    parser.parse(io.StringIO(request.form["a"]))  # <-"""),
        ("a hash that is chosen by name", CRYPTO, "TRUE_POSITIVE", """
algorithm = {"old": "md5"}["old"]
x = hashlib.new(algorithm, password).hexdigest()  # <-"""),
        ("what is unpacked first", LOADS, "TRUE_POSITIVE", """
x = pickle.loads(base64.b64decode(request.form["a"]))  # <-"""),
    ],
    ids=lambda value: value[:30],
)  # fmt: skip
def test_right_verdicts_that_are_approved(name: str, cwe: str, verdict: str, code: str) -> None:
    assert judged(cwe, REQUEST + SETUP + code, verdict) == "approved", name
    assert judged(cwe, REQUEST + SETUP + code, _OPPOSITE[verdict]) != "approved", name


_OPPOSITE = {"TRUE_POSITIVE": "FALSE_POSITIVE", "FALSE_POSITIVE": "TRUE_POSITIVE"}


@pytest.mark.parametrize(
    "code",
    [
        'if re.match(r"(a+)+$", "a" * 60 + "!"):',
        'if re.compile(r"(a|a)*$").search("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"):',
        'if re.sub(r"(.*,)*x", "", request.args["b"] + ",,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,"):',
        'if "%999999999d" % 1:',
        'if "%*d" % (999999999, 1):',
        'if "{:{}}".format("a", 999999999):',
        'if (1).to_bytes(999999999, "big"):',
        "n = 9\nfor _ in (1, 2, 3):\n    n = n * n * n * n * n * n * n * n * n * n * n * n * n * n * n * n * n\nif n:",
        'n = ["a"]\nwhile True:\n    n.extend(n)\nif n:',
    ],
)
def test_code_that_computes_for_ever_is_left_after_a_while(code: str) -> None:
    code = f'{code}\n    os.system("a" + request.args["a"])  # <-\n'
    assert judged(COMMAND, REQUEST + code, "FALSE_POSITIVE") != "approved"


@pytest.mark.parametrize("place", ["counter_search", "skills/judge_verdict.py"])
def test_the_judge_shares_no_module_with_the_drafter(place: str) -> None:
    paths = [SERVICES / place] if place.endswith(".py") else sorted((SERVICES / place).glob("*.py"))
    imported = {
        node.module or ""
        for path in paths
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
    }
    assert paths
    assert not {module for module in imported if "code_review" in module or "draft_verdict" in module}
