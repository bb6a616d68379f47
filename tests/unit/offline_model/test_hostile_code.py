"""Weaknesses that look like none: the offline reviewer must not call any of them a false positive."""

from __future__ import annotations

import pytest

from services.offline_model.code_review.opinion import FALSE_POSITIVE, TRUE_POSITIVE
from tests.unit.offline_model.reviews import CODE, COMMAND, CRYPTO, LOADS, PATHS, SECRET, SQL, URLS, XML, XSS, verdict

REQUEST = "from flask import request\nimport os, subprocess, pickle, re, shlex, logging, html, yaml\n"
CASES: list[tuple[str, str, str]] = [
    # Another call on the line is the one that is flagged.
    ("a harmless call first", COMMAND, 'os.system("true"); os.system(request.args["c"])  # <-'),
    ("a harmless call around", SQL, 'log(db.execute("SELECT 1"), db.execute("SELECT " + request.args["c"]))  # <-'),
    ("the second of two in a list", COMMAND, 'run = [os.system("ls"), os.system(request.args["c"])]  # <-'),
    ("a safe load beside an unsafe one", LOADS, 'x = [yaml.safe_load(a), pickle.loads(request.data)]  # <-'),
    ("a call by another name", COMMAND, 'run = os.system\nprint("a", run(request.args["c"]), os.system("true"))  # <-'),
    ("a call by getattr", COMMAND, 'x = [os.system("true"), getattr(os, "system")(request.args["c"])]  # <-'),
    ("in a keyword", COMMAND, 'subprocess.run(args=request.args["c"], shell=True)  # <-'),
    ("an unknown function beside", CODE, 'x = [eval("1"), evaluate(request.args["f"])]  # <-'),
    ("two conditions on a line", COMMAND, 'x = os.system("a") if a else os.system(request.args["c"])  # <-'),
    ("inside a lambda", COMMAND, 'f = lambda c: (os.system("true"), os.system(c))  # <-'),
    # A constant name is no constant content.
    ("a pickle in a file with a fixed name", LOADS, 'x = pickle.load(open("/tmp/state.pkl", "rb"))  # <-'),
    ("a pickle read by a path", LOADS, 'x = pickle.loads(Path("/tmp/x").read_bytes())  # <-'),
    ("code in a file with a fixed name", CODE, 'exec(open("plugin.py").read())  # <-'),
    ("a command from a file", COMMAND, 'os.system(open("job.sh").read())  # <-'),
    ("yaml from a file", LOADS, 'x = yaml.load(open("c.yaml"), Loader=yaml.Loader)  # <-'),
    ("an archive with a fixed name", PATHS, 'tarfile.open("upload.tar").extractall("/data")  # <-'),
    ("text from the environment", COMMAND, 'os.system(os.environ["EDITOR"])  # <-'),
    # Guards that do not stop.
    ("an exception made and not raised", SQL, '''
def sort(db):
    column = request.args["c"]
    if column not in {"name", "port"}:
        ValueError(column)
    return db.execute(f"SELECT * FROM t ORDER BY {column}")  # <-'''),
    ("an HTTP error made and not raised", SQL, '''
def sort(db):
    column = request.args["c"]
    if column not in {"name", "port"}:
        HTTPException(400)
    return db.execute(f"SELECT * FROM t ORDER BY {column}")  # <-'''),
    ("a function of its own that only logs", SQL, '''
def abort(code):
    logging.warning("bad %s", code)

def sort(db):
    column = request.args["c"]
    if column not in {"name", "port"}:
        abort(400)
    return db.execute(f"SELECT * FROM t ORDER BY {column}")  # <-'''),
    ("an imported function that may only log", SQL, '''
from app.errors import abort, fail

def sort(db):
    column = request.args["c"]
    if column not in {"name", "port"}:
        fail(400)
    return db.execute(f"SELECT * FROM t ORDER BY {column}")  # <-'''),
    ("an assertion", SQL, '''
def sort(db):
    column = request.args["c"]
    assert column in {"name", "port"}
    return db.execute(f"SELECT * FROM t ORDER BY {column}")  # <-'''),
    ("a failure that is swallowed", SQL, '''
def sort(db):
    column = request.args["c"]
    try:
        if column not in {"name", "port"}:
            raise ValueError(column)
    except ValueError:
        logging.warning("odd")
    return db.execute(f"SELECT * FROM t ORDER BY {column}")  # <-'''),
    ("a guard on another name", SQL, '''
def sort(db):
    column, other = request.args["c"], request.args["o"]
    if other not in {"name", "port"}:
        raise ValueError(other)
    return db.execute(f"SELECT * FROM t ORDER BY {column}")  # <-'''),
    ("a guard that is or", SQL, '''
def sort(db, trusted):
    column = request.args["c"]
    if column not in {"name", "port"} and not trusted:
        raise ValueError(column)
    return db.execute(f"SELECT * FROM t ORDER BY {column}")  # <-'''),
    ("a value that changes after its check", SQL, '''
def sort(db):
    column = request.args["c"]
    if column not in {"name", "port"}:
        raise ValueError(column)
    for column in request.args.values():
        db.execute(f"SELECT * FROM t ORDER BY {column}")  # <-'''),
    # Fixed by its name alone.
    ("an upper-case name from the request", SQL, '''
def sort(db):
    ALLOWED = request.args.getlist("allowed")
    column = request.args["c"]
    if column not in ALLOWED:
        raise ValueError(column)
    return db.execute(f"SELECT * FROM t ORDER BY {column}")  # <-'''),
    ("an upper-case name from elsewhere", SQL, '''
from app.config import ALLOWED

def sort(db):
    column = request.args["c"]
    if column not in ALLOWED:
        raise ValueError(column)
    return db.execute(f"SELECT * FROM t ORDER BY {column}")  # <-'''),
    ("an upper-case list that another function fills", SQL, '''
ALLOWED = {"name"}

def allow():
    ALLOWED.add(request.args["c"])

def sort(db):
    column = request.args["c"]
    if column not in ALLOWED:
        raise ValueError(column)
    return db.execute(f"SELECT * FROM t ORDER BY {column}")  # <-'''),
    # Loose patterns.
    ("match is no full match", COMMAND, '''
def ping():
    host = request.args["h"]
    if not re.match(r"[a-z]+", host):
        raise ValueError(host)
    os.system("ping " + host)  # <-'''),
    ("a pattern with a space and a dash", COMMAND, '''
def ping():
    host = request.args["h"]
    if not re.fullmatch(r"[a-z;| -]+", host):
        raise ValueError(host)
    os.system("ping " + host)  # <-'''),
    ("a range from space to tilde", COMMAND, '''
def ping():
    host = request.args["h"]
    if not re.fullmatch(r"[ -~]+", host):
        raise ValueError(host)
    os.system("ping " + host)  # <-'''),
    ("a pattern of another function called fullmatch", COMMAND, '''
def ping(checker):
    host = request.args["h"]
    if not checker.fullmatch(r"[a-z]+", host):
        raise ValueError(host)
    os.system("ping " + host)  # <-'''),
    # Lexical path checks.
    ("a prefix", PATHS, '''
def read():
    path = os.path.abspath(os.path.join("/data", request.args["n"]))
    if not path.startswith("/data"):
        raise ValueError(path)
    return open(path)  # <-'''),
    ("is_relative_to without resolve", PATHS, '''
from pathlib import Path
BASE = Path("/data")

def read():
    path = BASE / request.args["n"]
    if not path.is_relative_to(BASE):
        raise ValueError(path)
    return open(path)  # <-'''),
    ("dots are looked for", PATHS, '''
def read():
    name = request.args["n"]
    if ".." in name:
        raise ValueError(name)
    return open("/data/" + name)  # <-'''),
    ("a base from the request", PATHS, '''
from pathlib import Path

def read():
    base = Path(request.args["base"])
    path = (base / request.args["n"]).resolve()
    if not path.is_relative_to(base):
        raise ValueError(path)
    return open(path)  # <-'''),
    # Flows.
    ("a match capture", COMMAND, '''
def run():
    match request.args["c"].split():
        case ["run", *rest]:
            os.system(" ".join(rest))  # <-'''),
    ("a capture of everything", COMMAND, '''
def run():
    match request.args["c"]:
        case "ls":
            pass
        case command:
            os.system(command)  # <-'''),
    ("a list under another name", COMMAND, '''
def run():
    parts = ["echo"]
    other = parts
    other.append(request.args["c"])
    os.system(" ".join(parts))  # <-'''),
    ("a list that a function fills", COMMAND, '''
def fill(parts):
    parts.append(request.args["c"])

def run():
    parts = ["echo"]
    fill(parts)
    os.system(" ".join(parts))  # <-'''),
    ("a list that a slice fills", COMMAND, '''
def run():
    parts = ["echo"]
    parts[1:1] = [request.args["c"]]
    os.system(" ".join(parts))  # <-'''),
    ("a list in a list", COMMAND, '''
def run():
    parts = []
    all_parts = [["echo"], parts]
    all_parts[1].append(request.args["c"])
    os.system(" ".join(parts))  # <-'''),
    ("a map that update fills", SQL, '''
def run(db):
    names = {"a": "b"}
    names.update(request.args)
    db.execute("SELECT " + names["a"])  # <-'''),
    ("a global that another function sets", COMMAND, '''
TOOL = "true"

def choose():
    global TOOL
    TOOL = request.args["tool"]

def run():
    os.system(TOOL)  # <-'''),
    ("a global set through globals()", COMMAND, '''
TOOL = "true"

def choose():
    globals()["TOOL"] = request.args["tool"]

def run():
    os.system(TOOL)  # <-'''),
    ("an attribute that another method sets", COMMAND, '''
class Runner:
    def __init__(self):
        self.tool = "true"

    def choose(self):
        self.tool = request.args["tool"]

    def run(self):
        os.system(self.tool)  # <-'''),
    ("a swapped recursion", COMMAND, '''
def pick(a, b, n):
    if n:
        return pick(b, a, n - 1)
    return a

def run(n):
    os.system(pick("true", request.args["c"], n))  # <-'''),
    ("a default that changes", COMMAND, '''
def run(parts=["echo"]):
    parts.append(request.args["c"])
    os.system(" ".join(parts))  # <-'''),
    ("a walrus", COMMAND, '''
def run():
    if (c := request.args.get("c")) and c:
        os.system(c)  # <-'''),
    ("a nested function", COMMAND, '''
def run():
    c = "true"
    def inner():
        os.system(c)  # <-
    c = request.args["c"]
    inner()'''),
    # Programs that take their arguments for more.
    ("git clone", COMMAND, 'subprocess.run(["git", "clone", request.args["url"]])  # <-'),
    ("git clone behind two dashes", COMMAND, 'subprocess.run(["git", "clone", "--", request.args["url"]])  # <-'),
    ("tar with a name", COMMAND, 'subprocess.run(["tar", "cf", "x.tar", request.args["f"]])  # <-'),
    ("find", COMMAND, 'subprocess.run(["find", "/data", "-name", "--", request.args["f"]])  # <-'),
    ("an executable of its own", COMMAND, 'subprocess.run(["ls"], executable=request.args["x"])  # <-'),
    # The wrong quoting.
    ("quoted within quotes", COMMAND, """os.system("ping '" + shlex.quote(request.args["h"]) + "'")  # <-"""),
    ("quoted for a shell in a shell", COMMAND, 'os.system("sh -c " + shlex.quote(request.args["c"]))  # <-'),
    ("quoted for ssh", COMMAND, 'os.system("ssh host " + shlex.quote(request.args["c"]))  # <-'),
    ("quoted, then taken apart", COMMAND, '''os.system("ping " + shlex.quote(request.args["h"]).strip("'"))  # <-'''),
    ("quoted for a shell, in a page", XSS, 'x = Markup("<b>" + shlex.quote(request.args["n"]) + "</b>")  # <-'),
    ("escaped in a script", XSS, 'x = Markup("<script>var a=" + html.escape(request.args["n"]) + "</script>")  # <-'),
    ("escaped in a link", XSS, '''x = Markup('<a href="' + html.escape(request.args["u"]) + '">x</a>')  # <-'''),
    ("escaped in a bare attribute", XSS, 'x = Markup("<b id=" + html.escape(request.args["n"]) + ">")  # <-'),
    ("escaped without quotes", XSS, '''x = Markup('<b id="' + html.escape(request.args["n"], False) + '">')  # <-'''),
    ("escaped and unescaped", XSS, 'x = Markup(html.unescape(html.escape(request.args["n"])))  # <-'),
    ("a word without quotes in a statement", SQL, '''
def find(db):
    name = request.args["n"]
    if not name.isalnum():
        raise ValueError(name)
    return db.execute("SELECT * FROM t WHERE password = " + name)  # <-'''),
    ("a number made a character", COMMAND, 'os.system("".join(chr(int(c)) for c in request.args.getlist("c")))  # <-'),
    ("the host is a word", URLS, '''
def fetch():
    host = request.args["h"]
    if not host.isalnum():
        raise ValueError(host)
    return requests.get("http://" + host + "/status")  # <-'''),
    ("a loader that learns more", LOADS, '''
class Loader(yaml.SafeLoader):
    pass

Loader.add_constructor("!x", lambda l, n: eval(n.value))
x = yaml.load(request.data, Loader=Loader)  # <-'''),
    ("another module's literal_eval", CODE, '''
from app.tools import literal_eval
x = literal_eval(request.args["f"])  # <-'''),
    ("external entities switched on", XML, '''
import xml.sax
from xml.sax.handler import feature_external_ges

def read():
    parser = xml.sax.make_parser()
    parser.setFeature(feature_external_ges, True)
    parser.parse(request.stream)  # <-'''),
    ("a parser of lxml", XML, '''
from lxml import etree
x = etree.fromstring(request.data, etree.XMLParser(resolve_entities=True))  # <-'''),
    ("a password hash that says it is for nothing", CRYPTO, 'x = hashlib.md5(password, usedforsecurity=False)  # <-'),
    ("a name that an inner function writes", COMMAND, '''
def run():
    cmd = "ls"
    def inner():
        nonlocal cmd
        cmd = request.args["c"]
    inner()
    os.system(cmd)  # <-'''),
    ("a name that a text writes", COMMAND, '''
def run():
    cmd = "ls"
    exec("cmd = request.args['c']")
    os.system(cmd)  # <-'''),
    ("a name that a comprehension writes", COMMAND, '''
def run():
    cmd = "ls"
    [cmd := c for c in request.args.getlist("c")]
    os.system(cmd)  # <-'''),
    ("a pager from outside", COMMAND, '''
def run():
    subprocess.run(["git", "log", "--", "a"], env={"GIT_PAGER": request.args["p"]})  # <-'''),
    ("a loader that another function changes", LOADS, '''
L = yaml.SafeLoader
def set_up():
    global L
    L = yaml.Loader
def run():
    yaml.load(request.data, Loader=L)  # <-'''),
    ("a proxy from outside", URLS, '''
def run():
    requests.get("https://api.test/", proxies={"https": request.args["u"]})  # <-'''),
    ("a field's name that opens the database", SECRET, '''
PASSWORD_FIELD = "db_password"  # <-

def handle(db):
    return db.connect(user="app", password=PASSWORD_FIELD)'''),
    ("a header's name that is a default", SECRET, '''
TOKEN_HEADER = "X-Api-Token"  # <-
TOKEN = os.environ.get("TOKEN", TOKEN_HEADER)'''),
    ("a placeholder that nobody replaced", SECRET, 'client.login("app", password="changeme")  # <-'),
    ("a token that is called a cache key", CRYPTO, '''
def cache_key(user):
    return hashlib.md5(user.encode()).hexdigest()  # <-'''),
]  # fmt: skip


@pytest.mark.parametrize(("cwe", "code"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_what_is_not_shown_to_be_harmless_is_not_called_so(cwe: str, code: str) -> None:
    assert verdict(cwe, REQUEST + code.lstrip("\n")) != FALSE_POSITIVE


HARMLESS: list[tuple[str, str, str]] = [
    ("a constant condition", COMMAND, '''
def run():
    number = 106
    command = request.args["c"] if 7 * 42 - number < 100 else "true"
    os.system(command)  # <-'''),
    ("a branch that is never taken", COMMAND, '''
def run():
    command = "true"
    if False:
        command = request.args["c"]
    os.system(command)  # <-'''),
    ("a constant match", COMMAND, '''
def run():
    guess = "ABC"[1]
    match guess:
        case "A":
            command = request.args["c"]
        case "B":
            command = "true"
        case _:
            command = request.args["c"]
    os.system(command)  # <-'''),
    ("another key", SQL, '''
def run(db):
    names = {}
    names["a"] = "port"
    names["b"] = request.args["c"]
    db.execute("SELECT " + names["a"])  # <-'''),
    ("another item", SQL, '''
def run(db):
    names = []
    names.append("safe")
    names.append(request.args["c"])
    names.append("more")
    names.pop(0)
    db.execute("SELECT " + names[1])  # <-'''),
    ("another setting", SQL, '''
import configparser

def run(db):
    config = configparser.ConfigParser()
    config.add_section("s")
    config.set("s", "a", "port")
    config.set("s", "b", request.args["c"])
    db.execute("SELECT " + config.get("s", "a"))  # <-'''),
    ("a literal that is evaluated after a guard", CODE, """
def run():
    text = request.args["t"]
    if not text.startswith("'") or not text.endswith("'") or "'" in text[1:-1]:
        return None
    return eval(text)  # <-"""),
    ("external entities never switched on", XML, '''
import xml.sax

def read():
    parser = xml.sax.make_parser()
    parser.parse(request.stream)  # <-'''),
    ("a use that is never reached", CRYPTO, '''
def store(db, name):
    digest = hashlib.md5(name.encode()).hexdigest()  # <-
    if 7 > 8:
        db.save_session_token(digest)
    db.cache_put(digest)'''),
    ("a strong hash by name", CRYPTO, '''
def store(password):
    return hashlib.new("sha512", password)  # <-'''),
]  # fmt: skip


@pytest.mark.parametrize(("cwe", "code"), [case[1:] for case in HARMLESS], ids=[case[0] for case in HARMLESS])
def test_what_no_way_leads_to_is_not_called_a_weakness(cwe: str, code: str) -> None:
    assert verdict(cwe, REQUEST + code.lstrip("\n")) != TRUE_POSITIVE
