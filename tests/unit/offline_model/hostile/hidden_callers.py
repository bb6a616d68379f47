"""Functions that are called by more than the calls that name them."""

from __future__ import annotations

from tests.unit.offline_model.reviews import COMMAND

# Name, weakness, the file that is flagged, and other files.
PROGRAMS: list[tuple[str, str, str, dict[str, str]]] = [
    ('decorator passes other', COMMAND, '''
def inject(f):
    return lambda *a: f(request.args["c"])
@inject
def run(cmd):
    os.system(cmd)  # <-
def safe():
    run("ls")''', {}),
    ('alias of function', COMMAND, '''
def run(cmd):
    os.system(cmd)  # <-
def safe():
    run("ls")

h = run
def view():
    h(request.args["c"])''', {}),
    ('in a map', COMMAND, '''
def run(cmd):
    os.system(cmd)  # <-
def safe():
    run("ls")

H = {"run": run}
def view():
    H["run"](request.args["c"])''', {}),
    ('returned', COMMAND, '''
def run(cmd):
    os.system(cmd)  # <-
def safe():
    run("ls")

def get():
    return run
def view():
    get()(request.args["c"])''', {}),
    ('imported as', COMMAND, '''
def run(cmd):
    os.system(cmd)  # <-
def safe():
    run("ls")''', {'app/b.py': "from app.service import run as r\ndef view(request):\n    r(request.args['c'])"}),
    ('globals name', COMMAND, '''
def run(cmd):
    os.system(cmd)  # <-
def safe():
    run("ls")

def view():
    globals()["run"](request.args["c"])''', {}),
    ('method reference', COMMAND, '''
class R:
    def launch(self, cmd):
        os.system(cmd)  # <-
    def safe(self):
        self.launch("ls")
def view(r):
    go = r.launch
    go(request.args["c"])''', {}),
    ('subclass made', COMMAND, '''
class R:
    def __init__(self, cmd):
        os.system(cmd)  # <-
class S(R):
    pass
def a():
    R("ls")
def view():
    S(request.args["c"])''', {}),
    ('super init', COMMAND, '''
class R:
    def __init__(self, cmd):
        os.system(cmd)  # <-
class S(R):
    def __init__(self):
        super().__init__(request.args["c"])
def a():
    R("ls")''', {}),
    ('class alias', COMMAND, '''
class R:
    def __init__(self, cmd):
        os.system(cmd)  # <-
K = R
def a():
    R("ls")
def view():
    K(request.args["c"])''', {}),
    ('two routes one int', COMMAND, '''
@app.route("/a/<int:n>")
@app.route("/b/<n>")
def run(n):
    os.system("ping " + n)  # <-''', {}),
    ('int in another decorator', COMMAND, '''
@doc("<int:n>")
@app.route("/b/<n>")
def run(n):
    os.system("ping " + n)  # <-''', {}),
]  # fmt: skip
