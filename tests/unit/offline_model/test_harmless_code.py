"""Harmless code that looks weak: the offline reviewer must not call any of it a true positive."""

from __future__ import annotations

import pytest

from services.offline_model.code_review.opinion import TRUE_POSITIVE
from tests.unit.offline_model.reviews import CODE, COMMAND, CRYPTO, REQUEST, SQL, XML, verdict

HARMLESS: list[tuple[str, str, str]] = [
    ("a constant condition", COMMAND, '''
def run():
    number = 106
    command = request.args["c"] if 7 * 42 - number < 100 else "true"
    os.system(command)  # <-'''),
    ("a branch that is never taken", COMMAND, '''
def run():
    command = "true"
    if False:
        command = request.args["c"]
    os.system(command)  # <-'''),
    ("a constant match", COMMAND, '''
def run():
    guess = "ABC"[1]
    match guess:
        case "A":
            command = request.args["c"]
        case "B":
            command = "true"
        case _:
            command = request.args["c"]
    os.system(command)  # <-'''),
    ("another key", SQL, '''
def run(db):
    names = {}
    names["a"] = "port"
    names["b"] = request.args["c"]
    db.execute("SELECT " + names["a"])  # <-'''),
    ("another item", SQL, '''
def run(db):
    names = []
    names.append("safe")
    names.append(request.args["c"])
    names.append("more")
    names.pop(0)
    db.execute("SELECT " + names[1])  # <-'''),
    ("another setting", SQL, '''
import configparser

def run(db):
    config = configparser.ConfigParser()
    config.add_section("s")
    config.set("s", "a", "port")
    config.set("s", "b", request.args["c"])
    db.execute("SELECT " + config.get("s", "a"))  # <-'''),
    ("a literal that is evaluated after a guard", CODE, """
def run():
    text = request.args["t"]
    if not text.startswith("'") or not text.endswith("'") or "'" in text[1:-1]:
        return None
    return eval(text)  # <-"""),
    ("external entities never switched on", XML, '''
import xml.sax

def read():
    parser = xml.sax.make_parser()
    parser.parse(request.stream)  # <-'''),
    ("a use that is never reached", CRYPTO, '''
def store(db, name):
    digest = hashlib.md5(name.encode()).hexdigest()  # <-
    if 7 > 8:
        db.save_session_token(digest)
    db.cache_put(digest)'''),
    ("a strong hash by name", CRYPTO, '''
def store(password):
    return hashlib.new("sha512", password)  # <-'''),
]  # fmt: skip


@pytest.mark.parametrize(("cwe", "code"), [case[1:] for case in HARMLESS], ids=[case[0] for case in HARMLESS])
def test_what_no_way_leads_to_is_not_called_a_weakness(cwe: str, code: str) -> None:
    assert verdict(cwe, REQUEST + code.lstrip("\n")) != TRUE_POSITIVE
