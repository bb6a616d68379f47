"""Ways through the code that a reader misses: what stops nothing, and what runs although it seems not to."""

from __future__ import annotations

from tests.unit.offline_model.reviews import COMMAND, SQL

# Name, weakness, the file that is flagged, and other files.
PROGRAMS: list[tuple[str, str, str, dict[str, str]]] = [
    ('decorated failure', SQL, '''
def quiet(f):
    def inner(*a):
        try:
            return f(*a)
        except ValueError:
            return None
    return inner
@quiet
def fail(code):
    raise ValueError(code)

def sort(db):
    column = request.args["c"]
    if column not in {"name", "port"}:
        fail(400)
    return db.execute(f"SELECT * FROM t ORDER BY {column}")  # <-''', {}),
    ('async not awaited', SQL, '''
async def fail(code):
    raise ValueError(code)

def sort(db):
    column = request.args["c"]
    if column not in {"name", "port"}:
        fail(400)
    return db.execute(f"SELECT * FROM t ORDER BY {column}")  # <-''', {}),
    ('short circuit failure in a call', COMMAND, '''
def fail():
    raise ValueError
def run():
    print(request.args.get("x") and fail())
    os.system(request.args["c"])  # <-''', {}),
    ('lambda failure', COMMAND, '''
def fail():
    raise ValueError
def run():
    print(lambda: fail())
    os.system(request.args["c"])  # <-''', {}),
    ('own context manager swallows', SQL, '''
class Quiet:
    def __enter__(self):
        return self
    def __exit__(self, *error):
        return True
def sort(db):
    column = request.args["c"]
    with Quiet():
        if column not in {"name", "port"}:
            raise ValueError(column)
    return db.execute(f"SELECT * FROM t ORDER BY {column}")  # <-''', {}),
    ('suppress renamed', SQL, '''
from contextlib import suppress as during
def sort(db):
    column = request.args["c"]
    with during(ValueError):
        if column not in {"name", "port"}:
            raise ValueError(column)
    return db.execute(f"SELECT * FROM t ORDER BY {column}")  # <-''', {}),
    ('unknown manager', SQL, '''
from app.kit import guarded
def sort(db):
    column = request.args["c"]
    with guarded():
        if column not in {"name", "port"}:
            raise ValueError(column)
    return db.execute(f"SELECT * FROM t ORDER BY {column}")  # <-''', {}),
    ('break through finally', COMMAND, '''
def run():
    cmd = "ls"
    while True:
        try:
            break
        finally:
            cmd = request.args["c"]
    os.system(cmd)  # <-''', {}),
    ('walrus in raise', COMMAND, '''
def run():
    cmd = "ls"
    try:
        raise ValueError(cmd := request.args["c"])
    except ValueError:
        pass
    os.system(cmd)  # <-''', {}),
    ('walrus in return, finally', COMMAND, '''
def run():
    cmd = "ls"
    try:
        return (cmd := request.args["c"])
    finally:
        os.system(cmd)  # <-''', {}),
    ('returned list changed in finally', COMMAND, '''
def build():
    parts = ["echo"]
    try:
        return parts
    finally:
        parts.append(request.args["c"])
def run():
    os.system(" ".join(build()))  # <-''', {}),
    ('long chain in loop', COMMAND, '''
def run():
    a = b = c = d = e = f = g = h = i = "ls"
    for _ in range(20):
        i = h; h = g; g = f; f = e; e = d; d = c; c = b; b = a; a = request.args["c"]
    os.system(i)  # <-''', {}),
    ('is True', COMMAND, '''
def run():
    flag = 1
    os.system("ls" if flag is True else request.args["c"])  # <-''', {}),
    ('is of equal texts', COMMAND, '''
def run():
    mode = "".join(["l", "s"])
    cmd = "ls"
    if mode is not "ls":
        cmd = request.args["c"]
    os.system(cmd)  # <-''', {}),
    ('case True of 1', COMMAND, '''
def run():
    flag = 1
    match flag:
        case True:
            cmd = "ls"
        case _:
            cmd = request.args["c"]
    os.system(cmd)  # <-''', {}),
]  # fmt: skip
