"""Programs put together at random in which a value flows to a call, and whether an attack arrives there.

This knows nothing of how findings are judged. A program is a weakness when some attack reaches the flagged call as it
was sent; that is found by running it, with stand-ins for everything outside it (`labelled_runs.py`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

# Of each weakness the calls that may be flagged, with the rule that scanners flag them by.
_SINKS: dict[str, tuple[tuple[str, str], ...]] = {
    "CWE-78": (("B605", 'os.system("tool " + {v})'), ("B605", 'os.system(f"tool -a {{{v}}} -b")'),
               ("B602", 'subprocess.run("tool %s" % {v}, shell=True)'),
               ("B603", 'subprocess.run(["tool", "--", {v}])')),
    "CWE-89": (("B608", 'db.execute("SELECT * FROM t WHERE n = \'" + {v} + "\'")'),
               ("B608", 'db.execute(f"SELECT * FROM t ORDER BY {{{v}}}")'),
               ("B608", 'db.execute("SELECT * FROM t WHERE n = ?", ({v},))'),
               ("B608", 'db.execute("SELECT * FROM t LIMIT {{}}".format({v}))')),
    "CWE-94": (("B307", "eval({v})"), ("B307", "eval(str({v}))"), ("B307", "ast.literal_eval({v})")),
    "CWE-22": (("", 'open("/data/" + {v})'), ("", 'open(os.path.join("/data", {v}))'),
               ("", 'open(os.path.join("/data", os.path.basename({v})))')),
    "CWE-79": (("B704", 'Markup("<p>" + {v} + "</p>")'), ("B704", "Markup(f'<p title=\"{{{v}}}\">x</p>')"),
               ("B704", "Markup(f'<a href=\"{{{v}}}\">x</a>')"), ("B704", 'Markup("<p>%s</p>" % {v})'),
               ("B704", 'Markup("<p>{{}}</p>").format({v})')),
    "CWE-918": (("B310", "urllib.request.urlopen({v})"), ("B310", 'urllib.request.urlopen("https://data.test/" + {v})'),
                ("B310", 'urllib.request.urlopen("https://data.test" + {v})'),
                ("B310", 'urllib.request.urlopen(f"https://{{{v}}}.data.test/list")'),
                ("", 'requests.get("https://data.test/list", params={{"n": {v}}}, timeout=9)'),
                ("", 'requests.get("http://" + {v}, timeout=9)')),
    "CWE-502": (("B301", "pickle.loads(base64.b64decode({v}))"), ("B506", "yaml.load({v}, Loader=yaml.Loader)"),
                ("B506", "yaml.load({v}, Loader=yaml.SafeLoader)"), ("B506", "yaml.load({v}, yaml.UnsafeLoader)"),
                ("", "yaml.safe_load({v})")),
}  # fmt: skip
WEAKNESSES = tuple(sorted(_SINKS))
Step = Callable[[random.Random, str, str], list[str]]


def flow_program(chance: random.Random, cwe: str) -> tuple[str, str, int]:
    """Returns the rule that flags a program, its code, and the flagged line."""
    rule, sink = chance.choice(_SINKS[cwe])
    code, line = _program(chance, sink.format(v="value"))
    return rule, code, line


def _program(chance: random.Random, sink: str) -> tuple[str, int]:
    body = [chance.choice(('value = request.args["a"]', 'value = request.form.get("a", "name")', 'value = "name"',
                           'value = request.args.get("a")'))]  # fmt: skip
    body += [chance.choice(('other = "port"', 'other = request.args["b"]'))]
    helpers: list[str] = []
    for _ in range(chance.randint(1, 4)):
        step = chance.choice(_STEPS)
        target, source = ("value", chance.choice(("value", "value", "other")))
        lines = step(chance, target, source)
        helpers += [line for line in lines if line.startswith("@")]
        body += [line for line in lines if not line.startswith("@")]
    head = ["import ast", "import base64", "import html", "import os", "import pickle", "import re", "import shlex",
            "import subprocess", "import urllib.request", "", "import requests", "import yaml",
            "from flask import request", "from markupsafe import Markup", "",
            'ALLOWED = {"name", "port"}', 'COLUMNS = {"name": "n", "port": "p"}', ""]  # fmt: skip
    helpers = [line[1:] for line in dict.fromkeys(helpers)]
    code = [*head, *helpers, "", "def handle(db):", *(f"    {line}" for line in body), f"    return {sink}"]
    text = "\n".join(code)
    return text + "\n", text.count("\n") + 1  # the sink's line; a helper has more than one


def _same(chance: random.Random, target: str, source: str) -> list[str]:
    return [f"{target} = {source}{chance.choice(('', '.strip()', '.lower()', '[0:200]'))}"]


def _listed(chance: random.Random, target: str, source: str) -> list[str]:
    index = chance.randint(0, 2)
    lines = ["items = []", 'items.append("name")', f"items.append({source})", 'items.append("port")']
    return [*lines, *(["items.pop(0)"] if chance.random() < 0.4 and index < 2 else []), f"{target} = items[{index}]"]


def _mapped(chance: random.Random, target: str, source: str) -> list[str]:
    return ["found = {}", 'found["x"] = "name"', f'found["y"] = {source}', f'{target} = found["{chance.choice("xy")}"]']


def _constant_if(chance: random.Random, target: str, source: str) -> list[str]:
    number = chance.randint(1, 99)
    return [f"number = {number}", f"if 7 * 6 - number > {chance.randint(-60, 40)}:", f"    {target} = {source}",
            "else:", f'    {target} = "name"']  # fmt: skip


def _constant_match(chance: random.Random, target: str, source: str) -> list[str]:
    letter = chance.choice("ABC")
    return [f'match "ABC"[{chance.randint(0, 2)}]:', f'    case "{letter}":', f"        {target} = {source}",
            "    case _:", f'        {target} = "port"']  # fmt: skip


def _allowed(chance: random.Random, target: str, source: str) -> list[str]:
    stop = chance.choice(("raise ValueError(value)", "return None", "ValueError(value)", "pass", "print(value)"))
    return [f"if {source} not in ALLOWED:", f"    {stop}", f"{target} = {source}"]


def _pattern(chance: random.Random, target: str, source: str) -> list[str]:
    how = chance.choice(("fullmatch", "match", "search"))
    pattern = chance.choice((r"[a-z]+", r"\w+", r"\d+", r"[a-z; ]+", r".+"))
    return [f'if not re.{how}(r"{pattern}", {source}):', '    raise ValueError("odd")', f"{target} = {source}"]


def _number(_chance: random.Random, target: str, source: str) -> list[str]:
    return [f"{target} = str(int({source}))"]


def _escaped(chance: random.Random, target: str, source: str) -> list[str]:
    return [f"{target} = {chance.choice(('shlex.quote', 'html.escape', 're.escape'))}({source})"]


def _replaced(chance: random.Random, target: str, source: str) -> list[str]:
    what = chance.choice(("'\"'\", '\"\"'", '";", ""', '"x", "y"'))
    return [f"{target} = {source}.replace({what})"] if '"x"' in what else [f'{target} = {source}.replace(";", "")']


def _helper(chance: random.Random, target: str, source: str) -> list[str]:
    kind = chance.choice(("same", "fixed", "looked_up", "checked"))
    body = {"same": "    return text", "fixed": '    return "name"', "looked_up": '    return COLUMNS.get(text, "n")',
            "checked": '    if text in ALLOWED:\n        return text\n    return "name"'}[kind]  # fmt: skip
    return [f"@def {kind}(text):\n{body}\n", f"{target} = {kind}({source})"]


def _tried(chance: random.Random, target: str, source: str) -> list[str]:
    after = chance.choice(('value = "name"', "pass"))
    return ["try:", f"    if {source} not in ALLOWED:", "        raise ValueError()", "except ValueError:",
            f"    {after}", f"{target} = {source}"]  # fmt: skip


def _looped(_chance: random.Random, target: str, source: str) -> list[str]:
    return ['text = ""', f'for part in ["name", {source}]:', "    text = part", f"{target} = text"]


_STEPS: Sequence[Step] = (
    _same, _same, _listed, _mapped, _constant_if, _constant_match, _allowed, _allowed, _pattern, _pattern, _number,
    _escaped, _replaced, _helper, _helper, _tried, _looped,
)  # fmt: skip
