"""Weaknesses that are decided by where a value comes from."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from services.offline_model.code_review.flagged import Flagged, judge_origins, keyword_is
from services.offline_model.code_review.opinion import FALSE_POSITIVE, TRUE_POSITIVE, Claim, Need, Opinion, undecided
from services.offline_model.code_review.shown import bare_name, dotted

SQL_CALLS = frozenset(
    {"execute", "executemany", "executescript", "raw", "text", "read_sql", "query", "fetch", "fetchrow"}
)
PATH_CALLS = frozenset(
    {"open", "send_file", "FileResponse", "read_text", "read_bytes", "write_text", "write_bytes", "remove", "unlink",
     "rmtree", "listdir", "copy", "copyfile", "move", "makedirs", "Path", "join", "joinpath", "extractall", "extract"}
)  # fmt: skip
_PATHS_TAKEN = {"join": 9, "joinpath": 9, "Path": 9, "copy": 2, "copyfile": 2, "move": 2}
_STATEMENT = re.compile(
    r"\b(select|insert|update|delete|with|create|drop|alter|replace|merge|call|exec)\b", re.IGNORECASE
)


def sql(flagged: Flagged) -> Opinion:
    """SQL injection: what becomes part of the statement's text."""
    texts = [call.args[0] for call in flagged.calls if bare_name(call.func) in SQL_CALLS and call.args]
    texts = texts or _built_texts(flagged.nodes) or _assigned(flagged)
    if not texts:
        return undecided("I see no SQL statement in the flagged lines.")
    return judge_origins(flagged, texts, "sql", "The statement's text is put together from values")


def deserialization(flagged: Flagged) -> Opinion:
    """Unsafe loading: which loader, and whose bytes."""
    for call in flagged.calls:
        name = bare_name(call.func)
        loader = next((keyword.value for keyword in call.keywords if keyword.arg == "Loader"), None)
        loader = loader if loader is not None else (call.args[1] if name == "load" and len(call.args) > 1 else None)
        if name == "safe_load" or loader is not None:
            found = _loaded_safely(flagged, bare_name(loader) if loader is not None else "SafeLoader")
            if found is not None:
                return found
        if name in {"load", "loads", "Unpickler", "unsafe_load", "full_load"} and call.args:
            found = judge_origins(flagged, call.args[:1], "deserialization", "Bytes are loaded that can run code")
            return found if _takes_content(flagged.name_of(call)) else _by_name(found)
    if isinstance(flagged.statement, ast.Import | ast.ImportFrom):
        said = "The flagged line imports a module; nothing is loaded here."
        return Opinion(FALSE_POSITIVE, 0.8, said, (flagged.claim(said),))
    return undecided("I see nothing that is loaded in the flagged lines.")


def path(flagged: Flagged) -> Opinion:
    """Path traversal: what the path is made of."""
    for call in flagged.calls:
        name = bare_name(call.func)
        if name in {"extractall", "extract"}:
            return _extraction(flagged, call)
        if name == "join" and not flagged.name_of(call).endswith("path.join"):
            continue
        if name in PATH_CALLS:
            receiver = [call.func.value] if isinstance(call.func, ast.Attribute) and name != "join" else []
            given = [*call.args[: _PATHS_TAKEN.get(name, 1)]]
            values = given if name in {"open", "join", "send_file", "FileResponse"} else [*receiver, *given]
            values = [value for value in values if dotted(value) not in {"os", "shutil", "os.path", "io"}]
            if values:
                return judge_origins(flagged, values, "path", "The path is put together from values")
    return _fetched_url(flagged)


def xss(flagged: Flagged) -> Opinion:
    """Cross-site scripting: what is marked as safe, or not escaped."""
    for call in flagged.calls:
        name = bare_name(call.func)
        if name in {"Environment", "Template"}:
            escape = next((keyword.value for keyword in call.keywords if keyword.arg == "autoescape"), None)
            if keyword_is(call, "autoescape", value=True) or (
                isinstance(escape, ast.Call) and bare_name(escape.func) == "select_autoescape"
            ):
                said = "The templates are escaped automatically."
                return Opinion(FALSE_POSITIVE, 0.8, said, (flagged.claim(said),))
            return undecided("That the templates are escaped, or make no HTML, was not shown.")
        if (
            name in {"mark_safe", "Markup", "render_template_string", "SafeString", "HTMLResponse", "Response"}
            and call.args
        ):
            return judge_origins(flagged, call.args[:1], "xss", "The text goes to the page as it is")
    values = [node.value for node in ast.walk(flagged.statement) if isinstance(node, ast.Return) and node.value]
    return (
        judge_origins(flagged, values, "xss", "The text goes to the page") if values else undecided("I see no output.")
    )


def ssrf(flagged: Flagged) -> Opinion:
    """Server-side request forgery: who chooses the host."""
    return _fetched_url(flagged)


def evaluated(flagged: Flagged) -> Opinion:
    """Code injection: what is evaluated."""
    for call in flagged.calls:
        if keyword_is(call, "debug", value=True):
            said = "The debugger is on, and runs code for whoever reaches it."
            return Opinion(TRUE_POSITIVE, 0.8, said, (flagged.claim(said),))
        if bare_name(call.func) == "literal_eval":
            said = "Only literals are evaluated."
            return Opinion(FALSE_POSITIVE, 0.9, said, (flagged.claim(said),))
        if bare_name(call.func) in {"eval", "exec", "compile", "Template", "from_string", "render_template_string"}:
            return judge_origins(flagged, call.args[:1], "eval", "The text is run as code")
        if bare_name(call.func) == "Environment":
            return xss(flagged)
    return undecided("I see nothing that is evaluated in the flagged lines.")


def xml(flagged: Flagged) -> Opinion:
    """XML parsing: which parser, and whose document."""
    for call in flagged.calls:
        name = bare_name(call.func)
        if name not in {"parse", "fromstring", "XML", "iterparse", "parseString"} or not call.args:
            continue
        if flagged.name_of(call).startswith("defusedxml."):
            said = "The parser is defusedxml's."
            return Opinion(FALSE_POSITIVE, 0.8, said, (flagged.claim(said),))
        found = judge_origins(flagged, call.args[:1], "xml", "A document is parsed that may expand its entities")
        return _by_name(found) if name in {"parse", "iterparse"} else found
    return undecided("I see no document that is parsed in the flagged lines.")


def _takes_content(name: str) -> bool:
    """Tells whether a loader takes what is to be loaded, and not the name of a file with it."""
    return name.startswith(("pickle.", "cPickle.", "_pickle.", "dill.", "marshal.", "yaml.", "jsonpickle.")) or (
        name.rpartition(".")[2] != "load"
    )


def _by_name(found: Opinion) -> Opinion:
    """Returns an opinion on what a file holds from one on what the file is called."""
    if found.verdict != FALSE_POSITIVE:
        return found
    return undecided("The file is named by the program, but what is in it was not shown.")


def _built_texts(nodes: Iterable[ast.AST]) -> list[ast.expr]:
    """Returns the outermost expressions that put an SQL statement's text together."""
    built: list[ast.expr] = []
    for node in nodes:
        joined = isinstance(node, ast.JoinedStr) or (
            isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod)
        )
        formatted = isinstance(node, ast.Call) and bare_name(node.func) in {"format", "join", "replace", "format_map"}
        if not isinstance(node, ast.expr) or not (joined or formatted):
            continue
        texts = (part.value for part in ast.walk(node) if isinstance(part, ast.Constant))
        is_sql = any(isinstance(text, str) and _STATEMENT.search(text) for text in texts)
        if is_sql and not any(node in ast.walk(outer) for outer in built):
            built.append(node)
    return built


def _loaded_safely(flagged: Flagged, loader: str) -> Opinion | None:
    """Returns an opinion when it is the loader that decides; None when it takes whatever it is given."""
    if "Safe" in loader:
        said = "The loader builds plain values only."
        return Opinion(FALSE_POSITIVE, 0.9, said, (flagged.claim(said),))
    if loader in {"Loader", "FullLoader", "UnsafeLoader", "CLoader", "CFullLoader"}:
        return None
    for file in flagged.shown.python:
        for node in file.nodes:
            if isinstance(node, ast.ClassDef) and node.name == loader:
                if not any("Safe" in bare_name(parent) for parent in node.bases):
                    return undecided(f"What {loader} builds was not shown.")
                claim = Claim(f"{loader} is a loader of plain values.", file.path, node.lineno, node.lineno)
                said = "The loader builds plain values only."
                return Opinion(FALSE_POSITIVE, 0.8, said, (flagged.claim(said), claim))
    return undecided(f"Which values {loader} builds was not shown.", Need("definition", loader))


def _extraction(flagged: Flagged, call: ast.Call) -> Opinion:
    members = next((keyword.value for keyword in call.keywords if keyword.arg == "members"), None)
    if members is not None:
        return undecided(
            f"Which members are extracted is decided by `{ast.unparse(members)[:80]}`; I can't judge that."
        )
    chosen = next((keyword.value for keyword in call.keywords if keyword.arg == "filter"), None)
    if isinstance(chosen, ast.Constant) and chosen.value in {"data", "tar"}:
        said = "The archive is extracted with a filter that keeps members inside."
        return Opinion(FALSE_POSITIVE, 0.85, said, (flagged.claim(said),))
    receiver = [call.func.value] if isinstance(call.func, ast.Attribute) else []
    return judge_origins(flagged, receiver, "path", "The archive's members become paths")


def _fetched_url(flagged: Flagged) -> Opinion:
    for call in flagged.calls:
        name = bare_name(call.func)
        if name not in {"urlopen", "get", "post", "put", "request", "urlretrieve", "Request", "head"}:
            continue
        url = next((keyword.value for keyword in call.keywords if keyword.arg == "url"), None)
        position = 1 if name == "request" else 0
        if url is None and len(call.args) <= position:
            continue
        url = url if url is not None else call.args[position]
        if _has_fixed_host(url):
            said = "Scheme and host are constants; only what follows them varies."
            return Opinion(FALSE_POSITIVE, 0.7, said, (flagged.claim(said),))
        return judge_origins(flagged, [url], "ssrf", "The URL is put together from values")
    return undecided("I see nothing that is opened or requested in the flagged lines.")


def _has_fixed_host(url: ast.expr) -> bool:
    first = url.values[0] if isinstance(url, ast.JoinedStr) and url.values else url
    while isinstance(first, ast.BinOp):
        first = first.left
    text = first.value if isinstance(first, ast.Constant) else ""
    return isinstance(text, str) and re.match(r"https?://[^/{}%]+/", text) is not None


def _assigned(flagged: Flagged) -> list[ast.expr]:
    statement = flagged.statement
    if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Return | ast.Expr) and statement.value:
        return [statement.value]
    return []
