"""Objects that are not what they seem to be: texts with methods of their own, and parts of what nobody has shown."""

from __future__ import annotations

from tests.unit.offline_model.reviews import COMMAND

# Name, weakness, the file that is flagged, and other files.
PROGRAMS: list[tuple[str, str, str, dict[str, str]]] = [
    ('self subscript', COMMAND, '''
class R(dict):
    def run(self):
        os.system(self["c"])  # <-''', {}),
    ('self as text', COMMAND, '''
class R(str):
    def run(self):
        os.system(f"ping {self}")  # <-''', {}),
    ('self concatenated', COMMAND, '''
class R(str):
    def run(self):
        os.system("ping " + self)  # <-''', {}),
    ('items of self', COMMAND, '''
class R(list):
    def run(self):
        for c in self:
            os.system(c)  # <-''', {}),
    ('vars', COMMAND, '''
def run(o):
    os.system(vars(o)["c"])  # <-''', {}),
    ('super name', COMMAND, '''
class R(Base):
    def run(self):
        os.system(super().name)  # <-''', {}),
    ('type subscript', COMMAND, '''
class R(Base):
    def run(self):
        os.system(type(self)["c"])  # <-''', {}),
    ('map', COMMAND, '''
def run():
    os.system(" ".join(map(str, request.args.getlist("c"))))  # <-''', {}),
    ('filter', COMMAND, '''
def run():
    os.system(" ".join(filter(None, request.args.getlist("c"))))  # <-''', {}),
    ('dict()', COMMAND, '''
def run():
    os.system(dict(c=request.args["c"])["c"])  # <-''', {}),
    ('dict of request', COMMAND, '''
def run():
    os.system(dict(request.args).get("c"))  # <-''', {}),
    ('zip', COMMAND, '''
def run():
    for c, d in zip(request.args.getlist("c"), [1]):
        os.system(c)  # <-''', {}),
    ('enumerate', COMMAND, '''
def run():
    for n, c in enumerate(request.args.getlist("c")):
        os.system(c)  # <-''', {}),
    ('sum', COMMAND, '''
def run():
    os.system(sum([[request.args["c"]]], [])[0])  # <-''', {}),
    ('compiled pattern as text', COMMAND, '''
def run():
    os.system(f"grep {re.compile(request.args['c'])}")  # <-''', {}),
    ('isdigit that lies', COMMAND, '''
class S(str):
    def isdigit(self):
        return True
def run():
    n = S(request.args["c"])
    if n.isdigit():
        os.system("ping " + n)  # <-''', {}),
    ('__eq__ that lies', COMMAND, '''
class S(str):
    __hash__ = str.__hash__
    def __eq__(self, other):
        return True
def run():
    n = S(request.args["c"])
    if n == "ls":
        os.system(n)  # <-''', {}),
    ('abs that lies', COMMAND, '''
class N(int):
    def __abs__(self):
        return request.args["c"]
def run():
    os.system("ping " + abs(N(1)))  # <-''', {}),
]  # fmt: skip
