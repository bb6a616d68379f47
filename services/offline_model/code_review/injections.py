"""Weaknesses that are decided by where a value comes from."""

from __future__ import annotations

import ast
import re

from services.offline_model.code_review.flagged import Flagged, judge_each, judge_values
from services.offline_model.code_review.library import Called
from services.offline_model.code_review.opinion import FALSE_POSITIVE, TRUE_POSITIVE, Opinion, undecided
from services.offline_model.code_review.origins import is_route
from services.offline_model.code_review.shown import bare_name
from services.offline_model.code_review.texts import has_fixed_host, in_page, in_path, in_sql
from services.offline_model.code_review.values import NUMBER, Part, Value, texts_of

_SQL_CALLS = frozenset(
    {"execute", "executemany", "executescript", "raw", "text", "read_sql", "read_sql_query", "query", "fetch",
     "fetchrow", "fetchval", "exec_driver_sql", "extra", "RawSQL"}
)  # fmt: skip
_SQL_KEYWORDS = ("sql", "query", "statement", "operation")
_STATEMENT = re.compile(
    r"\b(select|insert|update|delete|with|create|drop|alter|replace|merge|call|exec)\b", re.IGNORECASE
)
_RUNS_STATEMENT = re.compile(r"\b(exec|execute|sp_executesql|query_to_xml|dblink|load_extension)\b", re.IGNORECASE)
# Functions by name, and how many of their arguments are paths.
_PATH_FUNCTIONS = {
    "open": 1, "io.open": 1, "os.open": 1, "codecs.open": 1, "os.remove": 1, "os.unlink": 1, "os.rmdir": 1,
    "os.listdir": 1, "os.scandir": 1, "os.makedirs": 1, "os.mkdir": 1, "os.rename": 2, "os.replace": 2,
    "shutil.rmtree": 1, "shutil.copy": 2, "shutil.copyfile": 2, "shutil.copytree": 2, "shutil.move": 2,
    "flask.send_file": 1, "send_file": 1, "FileResponse": 1, "starlette.responses.FileResponse": 1,
    "fastapi.responses.FileResponse": 1, "django.http.FileResponse": 1,
}  # fmt: skip
# Keywords that say how a file is opened, and not which.
_NO_PATHS = frozenset({"mode", "encoding", "errors", "newline", "buffering", "closefd", "exist_ok", "flags", "mimetype",
                       "as_attachment", "media_type", "follow_symlinks", "ignore_errors"})  # fmt: skip
_PATH_METHODS = frozenset({"open", "read_text", "read_bytes", "write_text", "write_bytes", "unlink", "rmdir", "mkdir",
                           "iterdir", "touch", "save"})  # fmt: skip
_PATH_MAKERS = frozenset({"os.path.join", "pathlib.Path", "Path", "pathlib.PurePath", "posixpath.join"})
# Calls that give back the letters that they are given.
_PUT_TOGETHER = frozenset({"join", "format", "format_map", "str", "replace", "strip", "decode", "encode"})
_MARKS = frozenset({"mark_safe", "Markup", "SafeString", "HTMLResponse", "Response", "HttpResponse", "make_response"})
_REQUESTS = frozenset({"urlopen", "get", "post", "put", "request", "urlretrieve", "Request", "head", "patch", "delete",
                       "stream"})  # fmt: skip
_CLIENTS = ("urllib", "requests.", "httpx.", "aiohttp.", "urlopen", "urlretrieve", "urllib3.", "session.", "client.")
_RUNS = frozenset({"eval", "exec", "compile", "builtins.eval", "builtins.exec", "code.interact"})
_TEMPLATES = frozenset({"Template", "from_string", "render_template_string"})


def sql(flagged: Flagged) -> Opinion:
    """SQL injection: what becomes part of the statement's text."""
    what = "The statement's text is put together from values"

    def judge(flagged: Flagged, called: Called) -> Opinion | None:
        if called.method not in _SQL_CALLS:
            return None
        given = [*called.args[:1], *(called.keywords[name] for name in _SQL_KEYWORDS if name in called.keywords)]
        if called.method == "extra":
            given = list(called.given)
        if called.spread and not given:
            return undecided("What the statement is was not shown.")
        if called.method in flagged.shown.functions or _runs_parameters(given):
            # It may put together a statement from what else it is given.
            given = list(called.given)
        return judge_values(flagged, called.node, given, what, in_sql) if given else None

    def built(flagged: Flagged, node: ast.expr, value: Value) -> Opinion | None:
        joined = isinstance(node, ast.JoinedStr) or (
            isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod)
        )
        formatted = isinstance(node, ast.Call) and bare_name(node.func) in {"format", "join", "replace", "format_map"}
        if not (joined or formatted) or not _is_statement(node):
            return None
        return judge_values(flagged, node, [value], what, in_sql)

    return judge_each(flagged, judge, "I see no SQL statement in the flagged lines.", judge_nodes=built)


def _runs_parameters(given: list[Value]) -> bool:
    """Tells whether a statement runs another, which it is given as a parameter."""
    return any(isinstance(part, str) and _RUNS_STATEMENT.search(part)
               for value in given for text in texts_of(value) for part in text)  # fmt: skip


def _is_statement(node: ast.expr) -> bool:
    texts = (part.value for part in ast.walk(node) if isinstance(part, ast.Constant))
    return any(isinstance(text, str) and _STATEMENT.search(text) for text in texts)


def path(flagged: Flagged) -> Opinion:
    """Path traversal: what the path is made of."""
    what = "The path is put together from values"

    def judge(flagged: Flagged, called: Called) -> Opinion | None:
        if called.method in ("extractall", "extract", "unpack_archive"):
            return _extraction(flagged, called)
        if called.name in _PATH_MAKERS:
            found = judge_values(flagged, called.node, called.given, what, in_path)
            # What is only put together here may be checked before it is opened.
            return undecided(found.justification, *found.needs) if found.verdict == TRUE_POSITIVE else found
        count = _PATH_FUNCTIONS.get(called.name)
        if count is None and called.method in _PATH_METHODS and called.receiver is not None:
            given = [called.receiver] if called.method != "save" else list(called.args[:1])
            return judge_values(flagged, called.node, given, what, in_path)
        if count is None:
            return None
        given = [*called.args[:count], *(one for name, one in called.keywords.items() if name not in _NO_PATHS)]
        if called.spread:
            given = [Value(called.sources)]
        return judge_values(flagged, called.node, given, what, in_path) if given else None

    return judge_each(flagged, lambda one, called: judge(one, called) or _fetched(one, called),
                      "I see nothing that is opened in the flagged lines.")  # fmt: skip


def _extraction(flagged: Flagged, called: Called) -> Opinion:
    if called.spread or "members" in called.keywords:
        return undecided("Which members are extracted is decided elsewhere; I can't judge that.")
    chosen = called.keywords.get("filter")
    if chosen is not None and chosen.constants and all(one.value in ("data", "tar") for one in chosen.constants):
        said = "The archive is extracted with a filter that keeps members inside."
        folder = judge_values(flagged, called.node, list(called.args[:1]), "The folder is put together", in_path)
        if folder.verdict == FALSE_POSITIVE:
            return Opinion(FALSE_POSITIVE, said, (flagged.evidence(said, called.node),))
        return folder
    held = called.receiver if called.receiver is not None and not called.receiver.refers else None
    archive = held if held is not None else (called.args[0] if called.args else Value())
    found = judge_values(flagged, called.node, [archive], "The archive's members become paths")
    if found.verdict == FALSE_POSITIVE:
        return undecided("The archive is named by the program, but what is in it was not shown.")
    return found


def xss(flagged: Flagged) -> Opinion:
    """Cross-site scripting: what is marked as safe, or not escaped."""
    what = "The text goes to the page as it is"

    def judge(flagged: Flagged, called: Called) -> Opinion | None:
        if called.method in ("Environment", "Template"):
            return _template(flagged, called)
        if called.method == "render_template_string":
            return judge_values(flagged, called.node, list(called.args[:1]), "The text is run as a template")
        if called.method not in _MARKS or not called.given:
            return None
        return judge_values(flagged, called.node, [Value(called.sources)] if called.spread else list(called.args[:1]) or
                            [Value(called.sources)], what, in_page)  # fmt: skip

    def sent(flagged: Flagged, node: ast.expr, value: Value) -> Opinion | None:
        returns = [one for one in flagged.statements if isinstance(one, ast.Return) and one.value is node]
        function = flagged.file.function_at(node.lineno)
        if not returns or (isinstance(node, ast.Call) and bare_name(node.func) not in _PUT_TOGETHER):
            return None
        found = judge_values(flagged, node, [value], "The text goes to the page", in_page)
        routed = function is not None and is_route(function)
        return found if routed or found.verdict != TRUE_POSITIVE else undecided("Where the text goes was not shown.")

    return judge_each(flagged, judge, "I see no output.", judge_nodes=sent)


def _template(flagged: Flagged, called: Called) -> Opinion:
    escape = called.keywords.get("autoescape")
    selected = escape is not None and escape.made_by in ("jinja2.select_autoescape", "select_autoescape")
    plain = selected and not any(
        isinstance(node, ast.Call) and bare_name(node.func) == "select_autoescape" and (node.args or node.keywords)
        for node in flagged.nodes
    )
    if not called.spread and escape is not None and (plain or (escape.constants and escape.truth is True)):
        said = "The templates are escaped automatically."
        return Opinion(FALSE_POSITIVE, said, (flagged.evidence(said, called.node),))
    return undecided("That the templates are escaped, or make no HTML, was not shown.")


def ssrf(flagged: Flagged) -> Opinion:
    """Server-side request forgery: who chooses the host."""
    return judge_each(flagged, _fetched, "I see nothing that is requested in the flagged lines.")


def _fetched(flagged: Flagged, called: Called) -> Opinion | None:
    if called.method not in _REQUESTS or not called.given:
        return None
    position = 1 if called.method in ("request", "stream") else 0
    url = called.keywords.get("url", called.args[position] if len(called.args) > position else None)
    if called.spread or url is None:
        return undecided("Which URL is requested was not shown.")
    if any(called.keywords[name].sources for name in ("proxies", "proxy", "mounts") if name in called.keywords):
        return undecided("Through whom the request goes is not the program's own choice.")
    what = "The URL is put together from values"
    if has_fixed_host(url) and url.sources:
        said = "Scheme and host are the program's; only what follows them varies."
        return Opinion(FALSE_POSITIVE, said, (flagged.evidence(said, called.node),))
    found = judge_values(flagged, called.node, [url], what)
    if found.verdict == FALSE_POSITIVE and any(one.kind == NUMBER for one in url.sources):
        return undecided("A number may be a host's address, or a port of it.")
    is_client = called.name.startswith(_CLIENTS)
    # On an object that nothing is known of, a `get` may be anybody's.
    return found if is_client or found.verdict != TRUE_POSITIVE else undecided(found.justification)


def _calls(part: Part) -> bool:
    return isinstance(part, str) and "(" in part and re.search(r"\w\s*\(", part) is not None


def evaluated(flagged: Flagged) -> Opinion:
    """Code injection: what is evaluated."""

    def judge(flagged: Flagged, called: Called) -> Opinion | None:
        debug = called.keywords.get("debug")
        if debug is not None and debug.truth is True:
            said = "The debugger is on, and runs code for whoever reaches it."
            return Opinion(TRUE_POSITIVE, said, (flagged.evidence(said, called.node),))
        if called.name == "ast.literal_eval":
            said = "Only literals are evaluated."
            return Opinion(FALSE_POSITIVE, said, (flagged.evidence(said, called.node),))
        if called.method == "Environment":
            return _template(flagged, called)
        if called.name not in _RUNS and called.method not in _TEMPLATES | {"eval", "exec"}:
            return None
        given = [Value(called.sources)] if called.spread or not called.args else list(called.args[:1])
        found = judge_values(flagged, called.node, given, "The text is run as code")
        if found.verdict == FALSE_POSITIVE and any(
            _calls(part) for one in given for text in texts_of(one) for part in text
        ):
            return undecided("The program's own text is run; what it calls, and with what, I don't follow.")
        return found

    return judge_each(flagged, judge, "I see nothing that is evaluated in the flagged lines.")
