"""Letters that are safe where they are checked or quoted, and not where they come to stand."""

from __future__ import annotations

from tests.unit.offline_model.reviews import COMMAND, PATHS, SQL, XSS

# Name, weakness, the file that is flagged, and other files.
PROGRAMS: list[tuple[str, str, str, dict[str, str]]] = [
    ('decode by any codec', XSS, '''
x = Markup(html.escape(request.args["n"]).encode().decode(request.args["codec"]))  # <-''', {}),
    ('str with codec', XSS, '''
x = Markup(str(html.escape(request.args["n"]).encode(), "utf-7"))  # <-''', {}),
    ('bytes of uuid', COMMAND, '''
import uuid
os.system("ping " + uuid.UUID(request.args["u"]).bytes.decode("latin-1"))  # <-''', {}),
    ('bytes %c', COMMAND, '''
os.system(b"ping %c%c" % (int(request.args["a"]), int(request.args["b"])))  # <-''', {}),
    ('parent of inside', PATHS, '''
from pathlib import Path
BASE = Path("/data").resolve()
def run():
    path = (BASE / request.args["n"]).resolve()
    if not path.is_relative_to(BASE):
        raise ValueError
    return open(path.parent / "config.ini")  # <-''', {}),
    ('word with underscores replaced', PATHS, '''
def run():
    name = request.args["n"]
    if not re.fullmatch(r"\\w+", name):
        raise ValueError
    return open(os.path.join("/data", name.replace("_", "/")))  # <-''', {}),
    ('word sub', PATHS, '''
def run():
    name = request.args["n"]
    if not re.fullmatch(r"\\w+", name):
        raise ValueError
    return open(os.path.join("/data", re.sub("_", "/", name)))  # <-''', {}),
    ('date format', COMMAND, '''
import datetime
os.system(f"touch {0:{request.args[chr(99)]}}")  # <-''', {}),
    ('identifier string', SQL, '''
from psycopg import sql
db.execute("SELECT * FROM " + sql.Identifier(request.args["t"]).string)  # <-''', {}),
    ('identifier in f-string', SQL, '''
from psycopg import sql
db.execute(f"SELECT * FROM {sql.Identifier(request.args[chr(99)])}")  # <-''', {}),
    ('bleach in attribute', XSS, '''
import bleach
x = Markup('<b title="' + bleach.clean(request.args["n"]) + '">x</b>')  # <-''', {}),
    ('apostrophe in double quotes', SQL, '''
def run(db):
    name = request.args["n"]
    if not name.isalnum():
        raise ValueError
    return db.execute('SELECT * FROM t WHERE a = "O\\'H" AND password = ' + name)  # <-''', {}),
    ('csh', COMMAND, '''
os.system("csh -c " + shlex.quote(request.args["c"]))  # <-''', {}),
    ('timeout', COMMAND, '''
os.system("timeout 5 " + shlex.quote(request.args["c"]))  # <-''', {}),
    ('after &&', COMMAND, '''
os.system("true && " + shlex.quote(request.args["c"]))  # <-''', {}),
    ('fish', COMMAND, '''
os.system("fish -c " + shlex.quote(request.args["c"]))  # <-''', {}),
    ('redirect', COMMAND, '''
os.system("echo hi > " + shlex.quote(request.args["c"]))  # <-''', {}),
    ('backslash', COMMAND, '''
os.system("ping \\\\" + shlex.quote(request.args["c"]))  # <-''', {}),
    ('two backslashes and a quote', COMMAND, '''
os.system("echo \\\\\\\\'" + shlex.quote(request.args["c"]))  # <-''', {}),
    ('busybox', COMMAND, '''
os.system("busybox " + shlex.quote(request.args["c"]))  # <-''', {}),
    ('source', COMMAND, '''
os.system("source " + shlex.quote(request.args["c"]))  # <-''', {}),
    ('dot', COMMAND, '''
os.system(". " + shlex.quote(request.args["c"]))  # <-''', {}),
    ('make', COMMAND, '''
os.system("make -f " + shlex.quote(request.args["c"]))  # <-''', {}),
    ('assignment', COMMAND, '''
os.system("A=1 " + shlex.quote(request.args["c"]))  # <-''', {}),
    ('word is a program', COMMAND, '''
def run():
    w = request.args["c"]
    if not w.isalnum():
        raise ValueError
    os.system("true && " + w)  # <-''', {}),
    ('input of a shell', COMMAND, '''
subprocess.run(["bash"], input=request.args["c"], text=True)  # <-''', {}),
    ('executable by position', COMMAND, '''
subprocess.Popen(["ls"], -1, request.args["x"])  # <-''', {}),
    ('shell piped', COMMAND, '''
def run():
    p = subprocess.Popen(["bash"], stdin=subprocess.PIPE, text=True)  # <-
    p.communicate(request.args["c"])''', {}),
]  # fmt: skip
