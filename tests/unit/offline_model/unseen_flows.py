"""Weaknesses that look like none because the way from outside to the flagged use is easily overlooked."""

from __future__ import annotations

from tests.unit.offline_model.reviews import CODE, COMMAND, LOADS, PATHS, SQL, URLS

UNSEEN_FLOWS: list[tuple[str, str, str]] = [
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
    # What a name has come to hold.
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
    # Names that something else writes.
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
    # Settings beside the value.
    ("a pager from outside", COMMAND, '''
def run():
    subprocess.run(["git", "log", "--", "a"], env={"GIT_PAGER": request.args["p"]})  # <-'''),
    ("a proxy from outside", URLS, '''
def run():
    requests.get("https://api.test/", proxies={"https": request.args["u"]})  # <-'''),
]  # fmt: skip
