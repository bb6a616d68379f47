"""Functions that take the harm out of a value, for one kind of weakness and no other."""

from __future__ import annotations

import ast

from services.offline_model.code_review.shown import ShownFile, bare_name

# By weakness and name: the modules whose function it must be. No modules: the name says enough.
_SANITIZERS: dict[str, dict[str, tuple[str, ...]]] = {
    "command": {"quote": ("shlex", "pipes"), "list2cmdline": ("subprocess",)},
    "xss": {
        "escape": ("html", "markupsafe", "flask", "jinja2", "django", "cgi", "xml", "xmlrpc", "tornado"),
        "clean": ("bleach", "nh3"),
        "escape_html": (),
        "conditional_escape": (),
    },
    "path": {"secure_filename": (), "safe_join": (), "basename": ("os", "posixpath", "ntpath")},
    "sql": {"quote_ident": (), "Identifier": (), "quote_name": ()},
}


def is_sanitizer(call: ast.Call, weakness: str, file: ShownFile) -> bool:
    """Tells whether a call takes the harm out of what it is given, as far as imports tell whose function it is."""
    modules = _SANITIZERS.get(weakness, {}).get(bare_name(call.func))
    if modules is None:
        return False
    root = file.full_name(call.func).partition(".")[0]
    return not modules or root in modules


def looks_like_one(call: ast.Call, weakness: str, file: ShownFile) -> bool:
    """Tells whether a call may be of a sanitizer whose import was not shown."""
    known = _SANITIZERS.get(weakness, {})
    return isinstance(call.func, ast.Name) and call.func.id in known and call.func.id not in file.imports
