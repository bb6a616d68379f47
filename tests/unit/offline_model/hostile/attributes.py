"""Attributes that hold more than what they are given, and methods that belong to somebody else."""

from __future__ import annotations

from tests.unit.offline_model.reviews import COMMAND

# Name, weakness, the file that is flagged, and other files.
PROGRAMS: list[tuple[str, str, str, dict[str, str]]] = [
    ('property', COMMAND, '''
class R:
    @property
    def cmd(self):
        return request.args["c"]
    @cmd.setter
    def cmd(self, value):
        pass
    def run(self):
        self.cmd = "ls"
        os.system(self.cmd)  # <-''', {}),
    ('property beside attribute', COMMAND, '''
class R:
    @property
    def cmd(self):
        return request.args["c"]
    def run(self):
        os.system(self.cmd)  # <-
class Q:
    def __init__(self):
        self.cmd = "ls"''', {}),
    ('__setattr__', COMMAND, '''
class R:
    def __setattr__(self, name, value):
        object.__setattr__(self, name, request.args["c"])
    def run(self):
        self.cmd = "ls"
        os.system(self.cmd)  # <-''', {}),
    ('descriptor', COMMAND, '''
class R:
    cmd = FromRequest("c")
    def run(self):
        self.cmd = "ls"
        os.system(self.cmd)  # <-''', {}),
    ('class attribute from outside', COMMAND, '''
class R:
    cmd = os.environ["C"]
    def choose(self):
        self.cmd = "ls"
    def run(self):
        os.system(self.cmd)  # <-''', {}),
    ('self under another name', COMMAND, '''
class R:
    def run(self):
        self.cmd = "ls"
        me = self
        me.cmd = request.args["c"]
        os.system(self.cmd)  # <-''', {}),
    ('__dict__', COMMAND, '''
class R:
    def run(self):
        self.cmd = "ls"
        self.__dict__["cmd"] = request.args["c"]
        os.system(self.cmd)  # <-''', {}),
    ('vars update', COMMAND, '''
class R:
    def __init__(self):
        self.cmd = "ls"
        vars(self).update(request.args)
    def run(self):
        os.system(self.cmd)  # <-''', {}),
    ('__dict__ update', COMMAND, '''
class R:
    def __init__(self):
        self.cmd = "ls"
    def load(self):
        self.__dict__.update(request.args)
    def run(self):
        os.system(self.cmd)  # <-''', {}),
    ('object.__setattr__', COMMAND, '''
class R:
    def __init__(self):
        self.cmd = "ls"
    def load(self):
        object.__setattr__(self, "cmd", request.args["c"])
    def run(self):
        os.system(self.cmd)  # <-''', {}),
    ('for target', COMMAND, '''
class R:
    def __init__(self):
        self.cmd = "ls"
    def load(self):
        for self.cmd in request.args.values():
            pass
    def run(self):
        os.system(self.cmd)  # <-''', {}),
    ('del reveals class attribute', COMMAND, '''
class R:
    cmd = os.environ["C"]
    def run(self):
        self.cmd = "ls"
        del self.cmd
        os.system(self.cmd)  # <-''', {}),
    ('alias of attribute list', COMMAND, '''
class R:
    def __init__(self):
        self.parts = ["echo"]
    def add(self):
        p = self.parts
        p.append(request.args["c"])
    def run(self):
        os.system(" ".join(self.parts))  # <-''', {}),
    ('overridden method', COMMAND, '''
class A:
    def tidy(self, x):
        return "fixed"
    def run(self):
        os.system("ping " + self.tidy(request.args["h"]))  # <-
class B(A):
    def tidy(self, x):
        return x''', {}),
    ('duck', COMMAND, '''
class A:
    def tidy(self, x):
        return "fixed"
def run(cleaner):
    os.system("ping " + cleaner.tidy(request.args["h"]))  # <-''', {}),
    ('near namesake method', COMMAND, '''
from app.kit import make
class A:
    def tidy(self, x):
        return "fixed"
def run():
    c = make()
    os.system("ping " + c.tidy(request.args["h"]))  # <-''', {}),
    ('four functions', COMMAND, '''
if A:
    def clean(x):
        return "a"
elif B:
    def clean(x):
        return "b"
elif C:
    def clean(x):
        return "c"
else:
    def clean(x):
        return x
def run():
    os.system("ping " + clean(request.args["h"]))  # <-''', {}),
]  # fmt: skip
