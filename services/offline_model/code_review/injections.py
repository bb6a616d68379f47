"""Weaknesses that are decided by where a value comes from."""

from __future__ import annotations

import ast
import re

from services.offline_model.code_review.flagged import Flagged, judge_origins, keyword_is
from services.offline_model.code_review.opinion import FALSE_POSITIVE, TRUE_POSITIVE, Claim, Need, Opinion, undecided
from services.offline_model.code_review.shown import bare_name, dotted

SQL_CALLS = frozenset(
    {"execute", "executemany", "executescript", "raw", "text", "read_sql", "query", "fetch", "fetchrow"}
)
SHELL_CALLS = frozenset(
    {"os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput", "commands.getoutput"}
)
PATH_CALLS = frozenset(
    {"open", "send_file", "FileResponse", "read_text", "read_bytes", "write_text", "write_bytes", "remove", "unlink",
     "rmtree", "listdir", "copy", "copyfile", "move", "makedirs", "Path", "join", "joinpath", "extractall", "extract"}
)  # fmt: skip


def sql(flagged: Flagged) -> Opinion:
    """SQL injection: what becomes part of the statement's text."""
    for call in flagged.calls:
        if bare_name(call.func) in SQL_CALLS and call.args:
            return judge_origins(flagged, call.args[:1], "sql", "The statement's text is put together from values")
    values = _assigned(flagged)
    if not values:
        return undecided("I see no SQL statement in the flagged lines.")
    return judge_origins(flagged, values, "sql", "The statement's text is put together from values")


def command(flagged: Flagged) -> Opinion:
    """Command injection: what a shell reads."""
    if isinstance(flagged.statement, ast.Import | ast.ImportFrom):
        said = "The flagged line imports a module; nothing runs here."
        return Opinion(FALSE_POSITIVE, 0.8, said, (flagged.claim(said),))
    for call in flagged.calls:
        chain = dotted(call.func)
        if not call.args or not (chain in SHELL_CALLS or chain.startswith(("subprocess.", "os.exec", "os.spawn"))):
            continue
        shell = chain in SHELL_CALLS or keyword_is(call, "shell", value=True)
        first = call.args[0]
        if not shell and isinstance(first, ast.List | ast.Tuple) and first.elts:
            said = "The program runs without a shell, and which program it is"
            return judge_origins(flagged, first.elts[:1], "command", f"{said} is decided")
        what = "A shell reads the command" if shell else "The command is run"
        return judge_origins(flagged, [first], "command", what)
    return undecided("I see no command in the flagged lines.")


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
            return judge_origins(flagged, call.args[:1], "deserialization", "Bytes are loaded that can run code")
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
        if name in PATH_CALLS:
            receiver = [call.func.value] if isinstance(call.func, ast.Attribute) and name != "join" else []
            given = [*call.args[: 4 if name in {"join", "joinpath", "Path"} else 1]]
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
            if escape is not None and not (isinstance(escape, ast.Constant) and escape.value is False):
                said = "The templates are escaped automatically."
                return Opinion(FALSE_POSITIVE, 0.8, said, (flagged.claim(said),))
            return undecided("The templates are not escaped; whether they make HTML was not shown.")
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
    imports = [node for node in flagged.file.nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    for node in imports:
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
        if any(module.startswith("defusedxml") for module in modules):
            claim = Claim("The parser is defusedxml's.", flagged.file.path, node.lineno, node.lineno)
            return Opinion(FALSE_POSITIVE, 0.8, claim.text, (flagged.claim("The document is parsed here."), claim))
    for call in flagged.calls:
        if bare_name(call.func) in {"parse", "fromstring", "XML", "iterparse", "parseString"} and call.args:
            return judge_origins(flagged, call.args[:1], "xml", "A document is parsed that may expand its entities")
    return undecided("I see no document that is parsed in the flagged lines.")


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
