"""Calls that do more than they are judged by, and secrets and hashes that do not look like ones."""

from __future__ import annotations

from tests.unit.offline_model.reviews import CODE, CRYPTO, PATHS, SECRET, SQL, URLS, XML, XSS

# Name, weakness, the file that is flagged, and other files.
PROGRAMS: list[tuple[str, str, str, dict[str, str]]] = [
    ('open of self', PATHS, '''
class S(Base):
    def get(self):
        return self.open(request.args["n"])  # <-''', {}),
    ('gzip without import', PATHS, '''
x = gzip.open(request.args["n"])  # <-''', {}),
    ('copy dst keyword', PATHS, '''
import shutil
shutil.copy("/a", dst=request.args["n"])  # <-''', {}),
    ('extract path keyword', PATHS, '''
import tarfile
tarfile.open("a.tar").extract("a.txt", path=request.args["d"], filter="data")  # <-''', {}),
    ('number host', URLS, '''
import requests
requests.get("http://" + str(int(request.args["h"])) + "/")  # <-''', {}),
    ('number port', URLS, '''
import requests
requests.get("http://localhost:" + str(int(request.args["h"])) + "/")  # <-''', {}),
    ('base url', URLS, '''
import httpx
httpx.Client(base_url=request.args["u"]).get("/status")  # <-''', {}),
    ('http connection', URLS, '''
import http.client
http.client.HTTPConnection(request.args["h"]).request("GET", "/")  # <-''', {}),
    ('constant code reads name', CODE, '''
def run():
    text = request.args["c"]
    return eval("eval(text)")  # <-''', {}),
    ('constant code runs os', CODE, '''
def run():
    c = request.args["c"]
    exec("os.system(c)")  # <-''', {}),
    ('joined markup', XSS, '''
@app.route("/")
def view():
    return "".join([Markup("<b>"), request.args["n"]])  # <-''', {}),
    ('dynamic sql', SQL, '''
db.execute("EXEC sp_executesql ?", (request.args["q"],))  # <-''', {}),
    ('own execute', SQL, '''
class Db:
    def execute(self, q, *a):
        self.c.run(q % a)
def run():
    db = Db()
    db.execute("SELECT '%s'", request.args["n"])  # <-''', {}),
    ('features in loop', XML, '''
import xml.sax
def read():
    parser = xml.sax.make_parser()
    for f in FEATURES:
        parser.setFeature(f, True)
    parser.parse(request.stream)  # <-''', {}),
    ('features of a tuple', XML, '''
import xml.sax
def read():
    parser = xml.sax.make_parser()
    for f in ("http://xml.org/sax/features/namespaces", "http://xml.org/sax/features/external-general-entities"):
        parser.setFeature(f, True)
    parser.parse(request.stream)  # <-''', {}),
    ('private feature', XML, '''
import xml.sax
def read():
    parser = xml.sax.make_parser()
    parser._external_ges = 1
    parser.parse(request.stream)  # <-''', {}),
    ('defused told otherwise', XML, '''
from defusedxml.lxml import parse
x = parse(request.stream, parser=P, forbid_dtd=False, forbid_entities=False)  # <-''', {}),
    ('braces', SECRET, '''
PASSWORD = "{S3cr3t-9f8e!}"  # <-
db.connect(password=PASSWORD)''', {}),
    ('angle', SECRET, '''
PASSWORD = "<Xk9$mm2!>"  # <-
db.connect(password=PASSWORD)''', {}),
    ('punctuation', SECRET, '''
PASSWORD = "!@#$%^&*()_+"  # <-
db.connect(password=PASSWORD)''', {}),
    ('passphrase', SECRET, '''
PASSPHRASE = "correct horse battery staple again"  # <-
key = kdf.derive(PASSPHRASE.encode())''', {}),
    ('backdoor', SECRET, '''
TOKEN_NAME = "opensesame"  # <-
def f():
    if request.args["t"] == TOKEN_NAME:
        grant()''', {}),
    ('none', SECRET, '''
client.login("app", password="none")  # <-''', {}),
    ('joined beside empty', SECRET, '''
connect(password="", token="a8f3" + "kQ92xPz")  # <-''', {}),
    ('sign', CRYPTO, '''
import hashlib
def sign(body):
    return hashlib.md5(KEY + body, usedforsecurity=False).hexdigest()  # <-''', {}),
    ('digest used for token', CRYPTO, '''
import hashlib
def digest(data):
    return hashlib.md5(data, usedforsecurity=False).hexdigest()  # <-
def token_for(user):
    return digest(user.name)''', {}),
    ('unsalted password', 'CWE-916', '''
import hashlib
def store(password):
    return hashlib.sha256(password).hexdigest()  # <-''', {}),
    ('short token', CRYPTO, '''
import secrets
token = secrets.token_hex(1)  # <-''', {}),
    ('waits and keeps', CRYPTO, '''
import random, time
def f():
    time.sleep(n := random.random())  # <-
    return n''', {}),
]  # fmt: skip
