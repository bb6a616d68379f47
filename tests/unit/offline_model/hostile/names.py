"""Names that hold something else than what they seem to: other scopes, other modules, and what replaces a library."""

from __future__ import annotations

from tests.unit.offline_model.reviews import COMMAND, CRYPTO, LOADS, SQL, XML, XSS

# Name, weakness, the file that is flagged, and other files.
PROGRAMS: list[tuple[str, str, str, dict[str, str]]] = [
    ('class body leaks', COMMAND, '''
def run():
    cmd = request.args["c"]
    class Defaults:
        cmd = "ls"
    os.system(cmd)  # <-''', {}),
    ('import replaces local', COMMAND, '''
def run():
    cmd = "ls"
    from app.conf import cmd
    os.system(cmd)  # <-''', {}),
    ('closure under global namesake', COMMAND, '''
cmd = "ls"
def run():
    cmd = request.args["c"]
    def get():
        return cmd
    os.system(get())  # <-''', {}),
    ('inner default under global namesake', COMMAND, '''
cmd = "ls"
def run():
    cmd = request.args["c"]
    def inner(c=cmd):
        os.system(c)  # <-
    inner()''', {}),
    ('sibling nonlocal', COMMAND, '''
def outer():
    cmd = "ls"
    def choose():
        nonlocal cmd
        cmd = request.args["c"]
    def run():
        os.system(cmd)  # <-
    choose()
    run()''', {}),
    ('closure mutates list', COMMAND, '''
def run():
    parts = ["echo"]
    def add():
        parts.append(request.args["c"])
    add()
    os.system(" ".join(parts))  # <-''', {}),
    ('lambda mutates list', COMMAND, '''
def run():
    parts = ["echo"]
    add = lambda: parts.append(request.args["c"])
    add()
    os.system(" ".join(parts))  # <-''', {}),
    ('global set by callee, declared here', COMMAND, '''
def choose():
    global TOOL
    TOOL = request.args["c"]
def run():
    global TOOL
    TOOL = "ls"
    choose()
    os.system(TOOL)  # <-''', {}),
    ('global set by callee, module level', COMMAND, '''
TOOL = "ls"
def choose():
    global TOOL
    TOOL = input()
choose()
os.system(TOOL)  # <-''', {}),
    ('globals() at module level', COMMAND, '''
TOOL = "ls"
globals()["TOOL"] = input()
os.system(TOOL)  # <-''', {}),
    ('locals update at module level', COMMAND, '''
TOOL = "ls"
locals().update(TOOL=input())
os.system(TOOL)  # <-''', {}),
    ('exec at module level', COMMAND, '''
TOOL = "ls"
exec("TOOL = input()")
os.system(TOOL)  # <-''', {}),
    ('list filled by function, module level', COMMAND, '''
parts = ["echo"]
def add():
    parts.append(input())
add()
os.system(" ".join(parts))  # <-''', {}),
    ('global with stdlib name', COMMAND, '''
def choose():
    global cmd
    cmd = request.args["c"]
def run():
    os.system(cmd)  # <-''', {}),
    ('global with builtin name', COMMAND, '''
def choose():
    global input
    input = request.args["c"]
def run():
    os.system(input)  # <-''', {}),
    ('stdlib name by star', COMMAND, '''
from app.conf import *
def run():
    os.system(cmd)  # <-''', {}),
    ('default made before rebinding', COMMAND, '''
CMD = input()
def run(cmd=CMD):
    os.system(cmd)  # <-
CMD = "ls"
run()''', {}),
    ('function runs before rebinding', COMMAND, '''
CMD = input()
def run():
    os.system(CMD)  # <-
run()
CMD = "ls"''', {}),
    ('namesake module', COMMAND, '''
import config
def run():
    os.system(config.CMD)  # <-''', {'app/myconfig.py': "CMD = 'ls'"}),
    ('getattr of imported', COMMAND, '''
import config
def run():
    os.system(getattr(config, "CMD"))  # <-''', {}),
    ('shlex.quote = str', COMMAND, '''
shlex.quote = str
def run():
    os.system("ping " + shlex.quote(request.args["h"]))  # <-''', {}),
    ('setattr(shlex)', COMMAND, '''
setattr(shlex, "quote", str)
def run():
    os.system("ping " + shlex.quote(request.args["h"]))  # <-''', {}),
    ('in another file', COMMAND, '''
def run():
    os.system("ping " + shlex.quote(request.args["h"]))  # <-''', {'app/start.py': 'import shlex\nshlex.quote = str'}),
    ('def int', COMMAND, '''
def int(x):
    return x
def run():
    os.system("ping " + int(request.args["h"]))  # <-''', {}),
    ('class int', COMMAND, '''
class int(str):
    pass
def run():
    os.system("ping " + int(request.args["h"]))  # <-''', {}),
    ('builtins.int', COMMAND, '''
import builtins
builtins.int = str
def run():
    os.system("ping " + int(request.args["h"]))  # <-''', {}),
    ('builtins dict', COMMAND, '''
import builtins
builtins.__dict__["int"] = str
def run():
    os.system("ping " + int(request.args["h"]))  # <-''', {}),
    ('star import int', COMMAND, '''
from app.kit import *
def run():
    os.system("ping " + int(request.args["h"]))  # <-''', {}),
    ('import then rebinding', XSS, '''
from html import escape
escape = str
def view():
    return Markup("<b>" + escape(request.args["n"]) + "</b>")  # <-''', {}),
    ('import elsewhere under same name', XSS, '''
from app.kit import escape
def other():
    from html import escape
    return escape("x")
def view():
    return Markup("<b>" + escape(request.args["n"]) + "</b>")  # <-''', {}),
    ('import with fallback', XSS, '''
try:
    from markupsafe import escape
except ImportError:
    def escape(s):
        return s
def view():
    return Markup("<b>" + escape(request.args["n"]) + "</b>")  # <-''', {}),
    ('lxml or etree', XML, '''
try:
    from lxml import etree as ET
except ImportError:
    import xml.etree.ElementTree as ET
def view():
    return ET.fromstring(request.data)  # <-''', {}),
    ('class shlex local', COMMAND, '''
def run():
    class shlex:
        quote = str
    os.system("ping " + shlex.quote(request.args["h"]))  # <-''', {}),
    ('class shlex module', COMMAND, '''
class shlex:
    quote = str
def run():
    os.system("ping " + shlex.quote(request.args["h"]))  # <-''', {}),
    ('re is a parameter', COMMAND, '''
def run(re):
    host = request.args["h"]
    if not re.fullmatch("[a-z]+", host):
        raise ValueError
    os.system("ping " + host)  # <-''', {}),
    ('re.fullmatch replaced', COMMAND, '''
re.fullmatch = lambda *a: True
def run():
    host = request.args["h"]
    if not re.fullmatch("[a-z]+", host):
        raise ValueError
    os.system("ping " + host)  # <-''', {}),
    ('exit of its own', SQL, '''
def exit(code):
    logging.warning("bad %s", code)
def sort(db):
    column = request.args["c"]
    if column not in {"name", "port"}:
        exit(1)
    return db.execute(f"SELECT * FROM t ORDER BY {column}")  # <-''', {}),
    ('exit param', SQL, '''
def sort(db, exit):
    column = request.args["c"]
    if column not in {"name", "port"}:
        exit(1)
    return db.execute(f"SELECT * FROM t ORDER BY {column}")  # <-''', {}),
    ('sys.exit replaced', SQL, '''
import sys
sys.exit = print
def sort(db):
    column = request.args["c"]
    if column not in {"name", "port"}:
        sys.exit(1)
    return db.execute(f"SELECT * FROM t ORDER BY {column}")  # <-''', {}),
    ('SafeLoader replaced', LOADS, '''
yaml.SafeLoader = yaml.UnsafeLoader
def run():
    return yaml.load(request.data, Loader=yaml.SafeLoader)  # <-''', {}),
    ('safe_load replaced', LOADS, '''
yaml.safe_load = yaml.unsafe_load
def run():
    return yaml.safe_load(request.data)  # <-''', {}),
    ('yaml_constructors', LOADS, '''
yaml.SafeLoader.yaml_constructors["!x"] = lambda l, n: eval(n.value)
def run():
    return yaml.safe_load(request.data)  # <-''', {}),
    ('YAMLObject', LOADS, '''
class Sum(yaml.YAMLObject):
    yaml_loader = yaml.SafeLoader
    yaml_tag = "!sum"
    @classmethod
    def from_yaml(cls, loader, node):
        return eval(node.value)
def run():
    return yaml.safe_load(request.data)  # <-''', {}),
    ('loader with metaclass', LOADS, '''
class Loader(yaml.SafeLoader, metaclass=Teach):
    pass
def run():
    return yaml.load(request.data, Loader=Loader)  # <-''', {}),
    ('decorated loader', LOADS, '''
@teach
class Loader(yaml.SafeLoader):
    pass
def run():
    return yaml.load(request.data, Loader=Loader)  # <-''', {}),
    ('namesake loader', LOADS, '''
from lib import Loader
def run():
    return yaml.load(request.data, Loader=Loader)  # <-''', {
        'app/other.py': 'import yaml\nclass Loader(yaml.SafeLoader):\n    pass'}),
    ('sha256 replaced', CRYPTO, '''
import hashlib
hashlib.sha256 = hashlib.md5
def run(password):
    return hashlib.sha256(password)  # <-''', {}),
]  # fmt: skip
