"""Lists, sets and maps that change under another name, or out of sight."""

from __future__ import annotations

from tests.unit.offline_model.reviews import COMMAND

# Name, weakness, the file that is flagged, and other files.
PROGRAMS: list[tuple[str, str, str, dict[str, str]]] = [
    ('comprehension appends', COMMAND, '''
def run():
    parts = ["echo"]
    [parts.append(c) for c in request.args.getlist("c")]
    os.system(" ".join(parts))  # <-''', {}),
    ('map append', COMMAND, '''
def run():
    parts = ["echo"]
    list(map(parts.append, request.args.getlist("c")))
    os.system(" ".join(parts))  # <-''', {}),
    ('add = parts.append', COMMAND, '''
def run():
    parts = ["echo"]
    add = parts.append
    add(request.args["c"])
    os.system(" ".join(parts))  # <-''', {}),
    ('__setitem__', COMMAND, '''
def run():
    parts = ["echo"]
    parts.__setitem__(0, request.args["c"])
    os.system(" ".join(parts))  # <-''', {}),
    ('__iadd__', COMMAND, '''
def run():
    parts = ["echo"]
    parts.__iadd__([request.args["c"]])
    os.system(" ".join(parts))  # <-''', {}),
    ('sorted then append', COMMAND, '''
def run():
    parts = sorted(["echo"])
    parts.append(request.args["c"])
    os.system(" ".join(parts))  # <-''', {}),
    ('comprehension list then append', COMMAND, '''
def run():
    parts = [p for p in ["echo"]]
    parts.append(request.args["c"])
    os.system(" ".join(parts))  # <-''', {}),
    ('list() alias', COMMAND, '''
def run():
    parts = list(("echo",))
    other = parts
    other.append(request.args["c"])
    os.system(" ".join(parts))  # <-''', {}),
    ('split alias', COMMAND, '''
def run():
    parts = "echo hi".split()
    other = parts
    other.append(request.args["c"])
    os.system(" ".join(parts))  # <-''', {}),
    ('slice alias', COMMAND, '''
def run():
    parts = ["echo", "a"][:1]
    other = parts
    other.append(request.args["c"])
    os.system(" ".join(parts))  # <-''', {}),
    ('two lists of one place', COMMAND, '''
def make():
    return ["echo"]
def run():
    a = make()
    b = make()
    a.append(request.args["c"])
    b.clear()
    os.system(" ".join(a))  # <-''', {}),
    ('set pop', COMMAND, '''
def run():
    os.system({request.args["c"], "ls"}.pop())  # <-''', {}),
    ('set unpacked', COMMAND, '''
def run():
    _, cmd = {request.args["c"], "ls"}
    os.system(cmd)  # <-''', {}),
    ('keys that are equal', COMMAND, '''
def run():
    d = {1: "ls", True: request.args["c"]}
    os.system(d[1])  # <-''', {}),
    ('key by equal', COMMAND, '''
def run():
    d = {1: request.args["c"]}
    os.system(d.get(True, "ls"))  # <-''', {}),
    ('iterating keys', COMMAND, '''
def run():
    cmd = "ls"
    for k in {"a": 1}:
        if k != 1:
            cmd = request.args["c"]
    os.system(cmd)  # <-''', {}),
    ('global list alias', COMMAND, '''
PARTS = ["echo"]
def add():
    p = PARTS
    p.append(request.args["c"])
def run():
    os.system(" ".join(PARTS))  # <-''', {}),
    ('global list passed', COMMAND, '''
PARTS = ["echo"]
def fill(p):
    p.append(request.args["c"])
def add():
    fill(PARTS)
def run():
    os.system(" ".join(PARTS))  # <-''', {}),
    ('global list imported as', COMMAND, '''
PARTS = ["echo"]
def run():
    os.system(" ".join(PARTS))  # <-''', {'app/b.py': "from app.service import PARTS as p\n"
        "def f(request):\n    p.append(request.args['c'])"}),
    ('global map by |=', COMMAND, '''
M = {"a": "ls"}
def add():
    global M
    M |= request.args
def run():
    os.system(M["a"])  # <-''', {}),
    ('mutating key function', COMMAND, '''
def run():
    parts = ["echo"]
    sorted(request.args.getlist("c"), key=parts.append)
    os.system(" ".join(parts))  # <-''', {}),
]  # fmt: skip
