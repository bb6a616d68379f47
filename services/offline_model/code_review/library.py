"""What functions that everybody knows do with what they are given."""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from services.offline_model.code_review.sanitizers import is_sanitizer
from services.offline_model.code_review.shown import ShownFile
from services.offline_model.code_review.values import (
    CHECKED,
    ESCAPED,
    NUMBER,
    OUTSIDE,
    UNKNOWN,
    WORD,
    Constant,
    Origin,
    Value,
    concatenated,
    constant,
    join,
    key_of,
    listed,
    mapped,
    of,
)

NUMBERS = frozenset({"int", "float", "bool", "len", "ord", "hash", "id"})
PLAIN = frozenset({"uuid.UUID", "decimal.Decimal", "datetime.date.fromisoformat", "datetime.datetime.fromisoformat"})
# Methods that give back the letters they were given, or some of them.
_SAME_LETTERS = frozenset(
    {"strip", "lstrip", "rstrip", "lower", "upper", "title", "capitalize", "casefold", "swapcase", "removeprefix",
     "removesuffix", "split", "rsplit", "splitlines", "partition", "rpartition", "expandtabs", "zfill"}
)  # fmt: skip
_FOLDED = _SAME_LETTERS | {"replace", "startswith", "endswith", "isdigit", "isalnum", "find", "count", "join"}
_READS = frozenset({"read", "readline", "readlines", "read_text", "read_bytes", "getvalue", "recv", "fetchone",
                    "fetchall"})  # fmt: skip
_CODECS = frozenset({"utf-8", "utf8", "ascii", "latin-1", "iso-8859-1", "UTF-8"})
_COPIES = frozenset({"list", "tuple", "sorted", "set", "frozenset", "reversed", "iter", "copy.copy", "copy.deepcopy"})
_PICKS = frozenset({"next", "min", "max", "random.choice", "secrets.choice"})
_PATHS = frozenset(
    {"os.path.join", "os.path.abspath", "os.path.normpath", "os.path.expanduser", "posixpath.join", "pathlib.Path",
     "pathlib.PurePath", "pathlib.PurePosixPath", "Path", "PurePath", "os.fspath", "os.fsencode", "os.fsdecode"}
)  # fmt: skip
_PATH_METHODS = frozenset({"joinpath", "expanduser", "absolute", "with_suffix", "with_name"})
_DECODERS = frozenset(
    {"base64.b64decode", "base64.urlsafe_b64decode", "urllib.parse.unquote", "urllib.parse.unquote_plus", "json.loads",
     "html.unescape", "binascii.unhexlify", "bytes.fromhex", "urllib.parse.parse_qs", "codecs.decode"}
)  # fmt: skip
_ENCODERS = frozenset(
    {"urllib.parse.quote", "urllib.parse.quote_plus", "urllib.parse.urlencode", "re.escape", "html.escape",
     "base64.b64encode", "base64.urlsafe_b64encode", "json.dumps", "shlex.quote", "markupsafe.escape", "escape"}
)  # fmt: skip
_WRAPS = frozenset({"io.BytesIO", "io.StringIO", "BytesIO", "StringIO", "tarfile.open", "tarfile.TarFile",
                    "zipfile.ZipFile", "gzip.open", "psycopg.sql.SQL", "sqlalchemy.text", "str", "bytes",
                    "bytearray", "markupsafe.Markup", "Markup", "urllib.request.Request"})  # fmt: skip
# What changes nothing that it is given, and gives back nothing of it.
HARMLESS = frozenset(
    {"print", "isinstance", "hasattr", "callable", "type", "range", "any", "all", "sum", "enumerate", "zip", "map",
     "filter", "repr", "vars", "dict", "super", "time.time", "logging.getLogger", "jsonify", "flask.jsonify"}
)  # fmt: skip
# What gives the object itself, or what it is, under another form.
_KINDS = frozenset({"vars", "super", "type"})
LOGS = frozenset({"debug", "info", "warning", "error", "critical", "exception", "log"})
_LOGGERS = re.compile(r"(^|\.)_?log(ger|ging)?\.", re.IGNORECASE)
MAX_FOLDED = 10_000


@dataclass(frozen=True)
class Called:
    """A call: what is called as far as names tell, and what it is given."""

    node: ast.Call
    name: str
    receiver: Value | None
    args: tuple[Value, ...]
    keywords: Mapping[str, Value]
    spread: bool

    @property
    def method(self) -> str:
        """The last part of the name."""
        return self.name.rpartition(".")[2]

    @property
    def given(self) -> tuple[Value, ...]:
        """Everything it is given but the object it is called on."""
        return (*self.args, *self.keywords.values())

    @property
    def sources(self) -> frozenset[Origin]:
        """Where any of it comes from."""
        # A module or a class gives nothing of its own to what its functions are given.
        is_object = self.receiver is not None and not self.receiver.refers
        parts = [*self.given, *([self.receiver] if self.receiver is not None and is_object else [])]
        return frozenset[Origin]().union(*(part.sources for part in parts))


def is_log(called: Called) -> bool:
    """Tells whether a call writes a log."""
    return called.method in LOGS and _LOGGERS.search(called.name) is not None


def library_value(called: Called, weakness: str, file: ShownFile) -> Value | None:
    """Returns what a well-known function gives; None for any other."""
    name, node = called.name, called.node

    def noted(kind: str, how: str = "") -> Origin:
        return Origin(kind, f"it goes through {called.method}()", file.path, node.lineno, how=how)

    if is_sanitizer(called, weakness):
        return of(noted(ESCAPED, weakness)) if called.sources else Value()
    if name in NUMBERS or name in PLAIN:
        return of(noted(NUMBER if name in NUMBERS else WORD)) if called.sources else Value()
    for known, result in _BY_NAME:
        if name in known:
            return result(called)
    if name in _KINDS:
        return of(Origin(UNKNOWN, f"what {name}() gives", file.path, node.lineno))
    if name == "map":
        return _mapped(called, weakness, file)
    if called.receiver is None or "." not in name:
        return Value() if name in HARMLESS or is_log(called) else None
    return _method(called, called.receiver, file)


def _mapped(called: Called, weakness: str, file: ShownFile) -> Value:
    """Returns what a function gives for each item of a list, when it is one that everybody knows."""
    applied = called.args[0].refers if called.args else ""
    each = replace(called, name=applied, receiver=None, args=called.args[1:]) if "." in applied or applied else None
    known = library_value(each, weakness, file) if each is not None and not called.spread else None
    gives = of(Origin(UNKNOWN, "what a function gives for each", file.path, called.node.lineno))
    return Value(known.sources) if known is not None else Value(called.sources | gives.sources)


def _method(called: Called, receiver: Value, file: ShownFile) -> Value | None:
    method = called.method
    if method in _FOLDED and (folded := _folded(called, receiver)) is not None:
        return folded
    if method in _SAME_LETTERS:
        return receiver.changed
    if method in _TEXT_METHODS:
        return _TEXT_METHODS[method](called, receiver)
    if method in _READS:
        outside = frozenset(one for one in receiver.sources if one.kind == OUTSIDE)
        content = Origin(UNKNOWN, f"what {method}() finds", file.path, called.node.lineno)
        return Value(outside) if outside else of(content)
    if method in ("get", "pop", "items", "keys", "values", "copy", "setdefault", "getlist", "group", "groups"):
        return _of_holder(called, receiver, file)
    return None


def _of_holder(called: Called, receiver: Value, file: ShownFile) -> Value | None:
    method, first = called.method, called.args[0] if called.args else None
    if receiver.made_by == "configparser.ConfigParser" and method == "get" and len(called.args) > 1:
        key = Constant(tuple, tuple(one.only.value if one.only else None for one in called.args[:2]))
        return dict(receiver.entries or ()).get(key, receiver.element)
    if receiver.entries is not None and method in ("get", "pop", "setdefault") and first is not None:
        default = called.args[1] if len(called.args) > 1 else constant(None)
        found = dict(receiver.entries)
        if first.only is not None:
            return found.get(key_of(first.only), default)
        return looked_up(join([*found.values(), default]), first, called.node, file)
    if receiver.items is not None and method == "pop":
        index = first.only.value if first is not None and first.only else (-1 if first is None else None)
        known = isinstance(index, int) and -len(receiver.items) <= index < len(receiver.items)
        return receiver.items[index] if known and isinstance(index, int) else receiver.element
    if method == "copy":
        return Value(receiver.sources, items=receiver.items, entries=receiver.entries)
    if method == "get" and not receiver.sources and receiver.entries is None:
        # Of an object that nothing is known of, nothing is known; a client gets from elsewhere.
        return None
    # Whatever the key is, what comes back is what the holder holds, or the default.
    return Value(receiver.sources.union(*(one.sources for one in called.args[1:])))


def looked_up(found: Value, key: Value, node: ast.expr, file: ShownFile) -> Value:
    """Returns what a map gives for any key, with a word on that when the key is not the program's."""
    if not key.sources:
        return found
    note = Origin(CHECKED, "it is looked up in a fixed map", file.path, node.lineno)
    return Value(found.sources | {note}, constants=found.constants, texts=found.texts)


def _folded(called: Called, receiver: Value) -> Value | None:
    """Returns what a method of a constant text gives, when all is constant."""
    if receiver.only is None or receiver.only.kind is not str or called.keywords or called.spread:
        return None
    given = [one.only for one in called.args]
    if any(one is None or one.kind not in (str, int) for one in given):
        return None
    try:
        result = getattr(receiver.only.value, called.method)(*(one.value for one in given if one))
    except (TypeError, ValueError, AttributeError):
        return None
    if isinstance(result, list | tuple):
        return listed([constant(part) for part in result])
    return constant(result) if len(str(result)) < MAX_FOLDED else None


def _formatted(called: Called, receiver: Value) -> Value:
    template = receiver.only
    if template is None or template.kind is not str or called.spread:
        return Value(called.sources).changed
    parts: list[Value] = []
    position = 0
    try:
        for text, field, spec, conversion in string.Formatter().parse(template.value):
            parts.append(constant(text))
            if field is None:
                continue
            if spec or conversion or not re.fullmatch(r"\w*", field):
                return Value(called.sources).decoded
            if field.isdigit() or not field:
                index = int(field) if field else position
                position += 1
                value = called.args[index] if index < len(called.args) else None
            else:
                value = called.keywords.get(field)
            if value is None:
                return Value(called.sources).changed
            parts.append(value)
    except ValueError:
        return Value(called.sources).changed
    return concatenated(parts)


def _joined(called: Called, receiver: Value) -> Value:
    held = called.args[0] if called.args else Value()
    if held.items is None:
        return Value(called.sources)
    parts: list[Value] = []
    for index, item in enumerate(held.items):
        parts += [receiver, item] if index else [item]
    return concatenated(parts) if parts else constant("")


def _transcoded(called: Called, receiver: Value) -> Value:
    codecs = [one.only.value if one.only else None for one in called.given]
    return receiver if not called.spread and all(codec in _CODECS for codec in codecs) else receiver.decoded


_TEXT_METHODS: Mapping[str, Callable[[Called, Value], Value]] = {
    "encode": _transcoded, "decode": _transcoded, "format": _formatted, "join": _joined,
    "format_map": lambda called, _: Value(called.sources).changed,
    "replace": lambda called, _: Value(called.sources).decoded.doubted,
    "translate": lambda called, _: Value(called.sources).decoded.doubted,
    "resolve": lambda _, receiver: Value(receiver.sources, made_by=".resolve"),
    **{name: (lambda called, _: Value(called.sources)) for name in sorted(_PATH_METHODS)},
}  # fmt: skip


def _copied(called: Called) -> Value:
    first = called.args[0] if called.args else listed([])
    keeps = called.name in ("list", "tuple", "copy.copy", "copy.deepcopy", "iter")
    # What is made of a map holds its keys.
    if first.entries is not None and not called.name.startswith("copy."):
        return Value(first.sources)
    return Value(first.sources, items=first.items if keeps else None, entries=first.entries if keeps else None)


def _text(called: Called) -> Value:
    first = called.args[0] if called.args else constant("")
    if called.name == "str" and len(called.args) <= 1 and not called.keywords and not called.spread:
        return concatenated([first])
    # A number becomes a character there, and a codec any letter: no check of it holds any longer.
    return Value(called.sources).decoded


def _map(called: Called) -> Value:
    if called.spread or len(called.args) > 1 or (called.args and called.args[0].entries is None):
        return Value(called.sources)
    first = called.args[0].entries or () if called.args else ()
    return mapped([*first, *((Constant(str, name), value) for name, value in called.keywords.items())])


def _union(called: Called) -> Value:
    return Value(called.sources)


def _picked(called: Called) -> Value:
    return join([one.element if one.items is not None else one for one in called.args]) if called.args else Value()


def _escaped_otherwise(called: Called) -> Value:
    return Value(called.sources)


_BY_NAME: tuple[tuple[frozenset[str], Callable[[Called], Value]], ...] = (
    (frozenset({"str", "bytes", "bytearray"}), _text),
    (_COPIES, _copied),
    (_PICKS, _picked),
    (_PATHS, _union),
    (frozenset({"os.path.realpath"}), lambda called: Value(called.sources, made_by="os.path.realpath")),
    (_DECODERS, lambda called: Value(called.sources).decoded),
    (frozenset({"re.sub", "repr", "ascii"}), lambda called: Value(called.sources).decoded.doubted),
    (frozenset({"re.compile"}), lambda called: Value(called.sources, items=called.args[:1], made_by="re.compile")),
    (frozenset({"enumerate", "zip", "filter", "sum", "abs", "round"}), lambda called: Value(called.sources)),
    (frozenset({"dict"}), lambda called: _map(called)),
    (frozenset({"re.match", "re.search", "re.findall", "re.fullmatch", "re.split"}),
     lambda called: Value(called.sources).changed.doubted),
    (_ENCODERS, _escaped_otherwise),
    (_WRAPS, _union),
)  # fmt: skip
