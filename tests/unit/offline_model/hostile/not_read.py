"""Code on the way that a reader passes over: lines that do not parse, and heads beside what they hold."""

from __future__ import annotations

from tests.unit.offline_model.reviews import COMMAND

# Name, weakness, the file that is flagged, and other files.
PROGRAMS: list[tuple[str, str, str, dict[str, str]]] = [
    ('a line that is no block', COMMAND, '''
def run():
    cmd = "ls"
    if True: cmd = {"a":
    request.args["c"]}["a"]
    os.system(cmd)  # <-''', {}),
    ('newer syntax', COMMAND, '''
def run():
    cmd = "ls"
    cmd = f"{request.args["c"]}"
    os.system(cmd)  # <-''', {}),
    ('head on the line', COMMAND, '''
if os.system(request.args["c"]): os.system("ls")  # <-''', {}),
    ('with head on line', COMMAND, '''
with os.popen(request.args["c"]) as f: os.system("ls")  # <-''', {}),
    ('guard of case', COMMAND, '''
def run(x):
    match x:
        case 1 if os.system(request.args["c"]): os.system("ls")  # <-''', {}),
    ('except type', COMMAND, '''
def run(x):
    try:
        x()
    except os.system(request.args["c"]): os.system("ls")  # <-''', {}),
]  # fmt: skip
