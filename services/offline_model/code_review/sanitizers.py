"""Functions that take the harm out of a value, for one kind of weakness and no other."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from services.offline_model.code_review.shown import ShownFile

if TYPE_CHECKING:
    from services.offline_model.code_review.library import Called

# By weakness: the functions by their full names.
_SANITIZERS: dict[str, frozenset[str]] = {
    "command": frozenset({"shlex.quote", "pipes.quote"}),
    "xss": frozenset(
        {"html.escape", "markupsafe.escape", "flask.escape", "jinja2.escape", "django.utils.html.escape",
         "tornado.escape.xhtml_escape"}
    ),
    "path": frozenset({"werkzeug.utils.secure_filename", "werkzeug.secure_filename", "werkzeug.utils.safe_join",
                       "flask.safe_join", "werkzeug.security.safe_join"}),
    # An `Identifier` is none: within a text it is what `repr()` makes of it.
    "sql": frozenset({"psycopg2.extensions.quote_ident"}),
}  # fmt: skip
_NAMES = {kind: frozenset(name.rpartition(".")[2] for name in names) for kind, names in _SANITIZERS.items()}


def is_sanitizer(called: Called, weakness: str) -> bool:
    """Tells whether a call takes the harm out of what it is given; `name` is full as far as imports tell."""
    if called.name not in _SANITIZERS.get(weakness, frozenset()) or called.spread:
        return False
    if called.method == "safe_join":
        # The directory is the program's to choose.
        return len(called.args) > 1 and not called.args[0].sources
    # `quote=False` and the like leave letters as they are.
    return len(called.args) == 1 and not called.keywords


def looks_like_one(node: ast.Call, weakness: str, file: ShownFile) -> bool:
    """Tells whether a call may be of a sanitizer whose import was not shown."""
    known = _NAMES.get(weakness, frozenset())
    return isinstance(node.func, ast.Name) and node.func.id in known and node.func.id not in file.imports
