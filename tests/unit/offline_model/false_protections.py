"""Weaknesses that look like none because what stands before the flagged use protects it in appearance only."""

from __future__ import annotations

from tests.unit.offline_model.reviews import CODE, COMMAND, CRYPTO, LOADS, PATHS, SECRET, SQL, URLS, XML, XSS

FALSE_PROTECTIONS: list[tuple[str, str, str]] = [
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
    # Parsers and hashes that are not the safe ones.
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
    ("a loader that another function changes", LOADS, '''
L = yaml.SafeLoader
def set_up():
    global L
    L = yaml.Loader
def run():
    yaml.load(request.data, Loader=L)  # <-'''),
    # Harmless by their names.
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
