"""Programs put together at random whose flagged call or literal is a weakness by what becomes of it.

This knows nothing of how findings are judged. Each program is run with stand-ins that note what a password, a token, a
cache key or a connection is made of; documents are parsed for real, with a file for their entities to name.
"""

from __future__ import annotations

import io
import random
import string
import tempfile
import types
import xml.dom.minidom
import xml.dom.pulldom
import xml.etree.ElementTree as ElementTree
import xml.sax
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from xml.sax.handler import ContentHandler, feature_external_ges

from tests.bench.labelled_runs import run

MARKED = "zz-marked"
Program = tuple[str, str, int]


def hashing(chance: random.Random) -> Program:
    """A hash of some algorithm, which becomes a password's, a token's, or a name for a cache or a log."""
    algorithm = chance.choice(("md5", "sha1", "sha256", "sha512"))
    call = chance.choice((f"hashlib.{algorithm}(text.encode())", "hashlib.new(algorithm, text.encode())"))
    lines = [f'algorithm = "{algorithm}"', *_switched(chance, "algorithm", '"sha256"', '"md5"'), *_text(chance)]
    flagged = f"digest = {call}.hexdigest()"
    uses = ("db.set_password(name, digest)", "db.save_session_token(digest)", "db.cache_put(digest, name)",
            "db.log_line(digest[:8])", "db.set_etag(digest)")  # fmt: skip
    return _handler("B324", ["import hashlib"], lines, flagged, _used(chance, "digest", uses))


def chosen_at_random(chance: random.Random) -> Program:
    """A random number, foretold or not, which becomes a token, or a delay, or picks a shard."""
    call = chance.choice(("random.randrange(10**12)", "secrets.randbelow(10**12)", "random.getrandbits(64)",
                          "random.SystemRandom().randrange(10**12)"))  # fmt: skip
    uses = ("db.save_reset_token(name, number)", "db.set_password(name, str(number))", "time.sleep(number % 3)",
            "db.pick_shard(number % 7)", "db.log_line(number)")  # fmt: skip
    return _handler("B311", ["import random", "import secrets", "import time"], _text(chance), f"number = {call}",
                    _used(chance, "number", uses))  # fmt: skip


def literal(chance: random.Random) -> Program:
    """A literal that is called a secret, and opens something, or is replaced before, or is only a name."""
    opaque = "".join(chance.choices(string.ascii_letters + string.digits, k=chance.randint(12, 24)))
    text = chance.choice((opaque, opaque, opaque + "!", "db_password", "X-Api-Token", "", "password"))
    name = chance.choice(("DB_PASSWORD", "API_TOKEN", "SECRET_KEY", "PASSWORD_FIELD", "TOKEN_HEADER"))
    uses = ["db.connect(password={v})", "db.connect(password={v})"]
    # What is no secret may name one.
    uses += [] if text.startswith(opaque) else ["db.read_field({v})", "db.send_header({v}, text)"]
    used = chance.choice(uses).format(v=name)
    between = chance.choice(([], [], [f'{name} = os.environ["{name}"]'],
                             [f'{name} = os.environ.get("{name}", {name})'], [f'{name} = ""'],
                             [f'if not {name}:', '    raise ValueError("no secret")']))  # fmt: skip
    head = ["import os", "from flask import request", ""]
    code = [*head, f'{name} = "{text}"', *between, "", "", "def handle(db):", '    text = request.form["a"]',
            f"    return {used}"]  # fmt: skip
    return "B105", "\n".join(code) + "\n", len(head) + 1


def parsed(chance: random.Random) -> Program:
    """A document from a request, parsed by a parser that was told to resolve what it names, or was not."""
    kind = chance.choice(("sax", "sax", "sax", "minidom", "etree", "pulldom"))
    lines = ['text = request.form["a"]']
    if kind == "sax":
        state = chance.choice(("True", "False", "1", "0"))
        lines += [f"wanted = {state}", *_switched(chance, "wanted", "False", "True"),
                  "parser = xml.sax.make_parser()", "parser.setContentHandler(handler)"]  # fmt: skip
        lines += chance.choice((["parser.setFeature(feature_external_ges, wanted)"], [], [
            "if wanted:", "    parser.setFeature(feature_external_ges, True)"]))  # fmt: skip
    if kind == "pulldom":
        lines += ["heard = []"]
    call = {"sax": "parser.parse(io.StringIO(text))", "minidom": "xml.dom.minidom.parseString(text)",
            "etree": "xml.etree.ElementTree.fromstring(text)",
            "pulldom": "xml.dom.pulldom.parseString(text)"}[kind]  # fmt: skip
    head = ["import io", "import xml.dom.minidom", "import xml.dom.pulldom", "import xml.etree.ElementTree",
            "import xml.sax", "from xml.sax.handler import feature_external_ges", "",
            "from flask import request", "", "", "def handle(handler):"]  # fmt: skip
    code = "\n".join([*head, *(f"    {line}" for line in lines), f"    return {call}"])
    return "", code + "\n", code.count("\n") + 1


def _text(chance: random.Random) -> list[str]:
    return ['name = request.form["a"]', chance.choice(('text = request.form["b"]', 'text = "fixed"', "text = name"))]


def _switched(chance: random.Random, target: str, one: str, other: str) -> list[str]:
    """Lines that may give a name another value, by what is constant."""
    number = chance.randint(0, 99)
    return chance.choice((
        [], [], [f"{target} = {one}"], [f"{target} = {other}"],
        [f"if {number} % 7 > {chance.randint(0, 6)}:", f"    {target} = {one}"],
        [f'found = {{"x": {one}, "y": {other}}}', f'{target} = found["{chance.choice("xy")}"]'],
    ))  # fmt: skip


def _used(chance: random.Random, name: str, uses: Sequence[str]) -> list[str]:
    """Lines that use a value, perhaps under another name, perhaps on one way only."""
    use = chance.choice(uses)
    lines = []
    if chance.random() < 0.3:
        lines.append(f"made = {name}")
        use = use.replace(name, "made")
    if chance.random() < 0.3:
        return [*lines, f"if {chance.randint(0, 99)} > {chance.randint(0, 99)}:", f"    {use}"]
    return [*lines, use]


def _handler(rule: str, imports: list[str], before: list[str], flagged: str, after: list[str]) -> Program:
    head = [*imports, "from flask import request", "", "", "def handle(db):"]
    body = [*before, flagged, *after]
    code = "\n".join([*head, *(f"    {line}" for line in body)])
    return rule, code + "\n", len(head) + len(before) + 1


def misuses(code: str) -> bool:
    """Runs a program, weak and strong algorithms marked apart; tells whether a weak one guards something."""
    guarding: list[Any] = []

    class Digest:
        def __init__(self, algorithm: str) -> None:
            self._text = MARKED if algorithm in ("md5", "sha1") else "strong"

        def hexdigest(self) -> str:
            return self._text

    hashes = {name: (lambda _, name=name: Digest(name)) for name in ("md5", "sha1", "sha256", "sha512")}
    foretold = int.from_bytes(MARKED.encode()) % 10**12
    db = types.SimpleNamespace(
        set_password=lambda _, given: guarding.append(given), save_session_token=guarding.append,
        save_reset_token=lambda _, given: guarding.append(given), cache_put=_nothing, log_line=_nothing,
        set_etag=_nothing, pick_shard=_nothing,
    )  # fmt: skip
    strong = types.SimpleNamespace(randrange=lambda _: 1)
    fakes = {
        "hashlib": types.SimpleNamespace(new=lambda name, _: Digest(name), **hashes),
        "random": types.SimpleNamespace(randrange=lambda _: foretold, getrandbits=lambda _: foretold,
                                        SystemRandom=lambda: strong),
        "secrets": types.SimpleNamespace(randbelow=lambda _: 1), "time": types.SimpleNamespace(sleep=_nothing),
        "request": types.SimpleNamespace(form={"a": "name", "b": "text"}),
    }  # fmt: skip
    run(code, fakes, db)
    return any(MARKED in str(one) or str(foretold) in str(one) for one in guarding)


def opens(code: str) -> bool:
    """Runs a program without a secret in the environment, and with; tells whether the literal opens something."""
    flagged = next(line for line in code.split("\n") if '= "' in line)
    written = flagged.partition('"')[2].rpartition('"')[0]
    opening: list[Any] = []
    db = types.SimpleNamespace(connect=lambda password: opening.append(password), read_field=_nothing,
                               send_header=_nothing)  # fmt: skip
    name = flagged.partition(" ")[0]
    for environment in ({}, {name: "from the environment"}):
        fakes = {
            "os": types.SimpleNamespace(environ=environment),
            "request": types.SimpleNamespace(form={"a": "text"}),
        }
        try:
            run(code, fakes, db)
        except (KeyError, ValueError):
            continue  # the module itself wants a secret from elsewhere
    return bool(written) and written in opening


def resolves(code: str) -> bool:
    """Runs a program on a document that names a file; tells whether the file's text is heard."""

    class Heard(ContentHandler):
        text = ""

        def characters(self, content: str) -> None:
            self.text += content

    with tempfile.TemporaryDirectory() as folder:
        named = Path(folder) / "named"
        named.write_text(MARKED)
        document = f'<!DOCTYPE a [<!ENTITY e SYSTEM "{named.as_uri()}">]><a>&e;</a>'
        handler = Heard()
        result: list[Any] = []
        spied = code.replace("    return ", "    result.append(").rstrip("\n") + ")\n"
        fakes = {
            "io": io, "xml": xml, "feature_external_ges": feature_external_ges, "result": result,
            "request": types.SimpleNamespace(form={"a": document}),
        }  # fmt: skip
        try:
            run(spied, fakes, handler)
            told = [_written(one) for one in result]
        except (xml.sax.SAXException, ElementTree.ParseError):
            told = []
    return MARKED in handler.text or any(MARKED in one for one in told)


def _written(made: Any) -> str:
    if isinstance(made, xml.dom.minidom.Document):
        return made.toxml()
    if isinstance(made, ElementTree.Element):
        return ElementTree.tostring(made, encoding="unicode")
    if isinstance(made, xml.dom.pulldom.DOMEventStream):
        return "".join(node.toxml() for event, node in made if event == xml.dom.pulldom.CHARACTERS)
    return ""


def _nothing(*_given: Any) -> None:
    return None


# Of each weakness how a program is made, and how its truth is found.
USES: dict[str, tuple[Callable[[random.Random], Program], Callable[[str], bool]]] = {
    "CWE-327": (hashing, misuses), "CWE-330": (chosen_at_random, misuses), "CWE-798": (literal, opens),
    "CWE-611": (parsed, resolves),
}  # fmt: skip
