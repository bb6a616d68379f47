"""The functions that a search may really call: they compute, and touch nothing."""

from __future__ import annotations

import ast
import base64
import html
import json
import os.path
import re
import shlex
import urllib.parse
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import PurePosixPath
from typing import Any, Final

import regex

from services.offline_model.counter_search.attacks import ANYTHING, MARK

MAX_SIZE = 5_000


def _unwrapped(text: str) -> Any:
    """What an attacker sends is wrapped as the program wants it, so that unwrapped it is what was sent."""
    return text if isinstance(text, str) and (MARK in text or ANYTHING in text) else base64.b64decode(text)


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    **{kind.__name__: kind for kind in (str, int, float, bool, len, list, tuple, dict, set, sorted, min, max, abs,
                                        any, all, ord, chr, repr, reversed, enumerate, zip, sum)},
    "shlex.quote": shlex.quote,
    "html.escape": html.escape, "html.unescape": html.unescape, "markupsafe.escape": html.escape,
    "urllib.parse.quote": urllib.parse.quote, "urllib.parse.quote_plus": urllib.parse.quote_plus,
    "urllib.parse.unquote": urllib.parse.unquote, "urllib.parse.urlparse": urllib.parse.urlparse,
    "urllib.parse.urlsplit": urllib.parse.urlsplit, "json.dumps": json.dumps, "json.loads": json.loads,
    "os.path.join": os.path.join, "os.path.basename": os.path.basename, "os.path.normpath": os.path.normpath,
    "os.path.abspath": os.path.normpath, "os.path.realpath": os.path.normpath, "os.path.splitext": os.path.splitext,
    "os.path.dirname": os.path.dirname, "os.path.commonpath": os.path.commonpath, "ast.literal_eval": ast.literal_eval,
    "pathlib.Path": os.path.join, "Path": os.path.join, "pathlib.PurePath": os.path.join,
    "werkzeug.utils.secure_filename": lambda text: re.sub(r"[^A-Za-z0-9_.-]+", "_", text).strip("._"),
    "base64.b64encode": base64.b64encode, "base64.b64decode": _unwrapped,
}  # fmt: skip
PARTS_OF_PATHS: Final[Mapping[str, Callable[[str], str]]] = {
    "suffix": lambda path: PurePosixPath(path).suffix,
    "stem": lambda path: PurePosixPath(path).stem,
    "name": lambda path: PurePosixPath(path).name,
    "parent": lambda path: str(PurePosixPath(path).parent),
}
# Methods that may blow a small text up to any size are left out.
_KEPT_OUT = frozenset({"ljust", "rjust", "center", "zfill", "expandtabs", "format_map", "to_bytes"})
_WIDE_FIELD = re.compile(r":[^}]*(?:\d{3}|\{)")
_TYPES = (str, bytes, list, dict, tuple, set, int, float, regex.Match)


# Methods of paths, which stand as texts here.
_OF_PATHS: Final[Mapping[str, Callable[..., Any]]] = {
    "resolve": os.path.normpath, "absolute": os.path.normpath, "expanduser": str, "joinpath": os.path.join,
    "is_relative_to": lambda path, base: path == base or path.startswith(f"{base}/"),
}  # fmt: skip


def method_of(owner: object, name: str) -> Callable[..., Any] | None:
    """Returns a method of a plain object that may be called; None for any other."""
    if not isinstance(owner, _TYPES) or name.startswith("_") or name in _KEPT_OUT:
        return None
    if isinstance(owner, str) and name in _OF_PATHS:
        return partial(_OF_PATHS[name], owner)
    if name == "format" and _WIDE_FIELD.search(str(owner)):
        return None
    found = getattr(owner, name, None)
    return found if callable(found) else None


def is_small(value: object) -> bool:
    """Tells whether a value has a size that a search can go on with."""
    if isinstance(value, int):
        return value.bit_length() <= MAX_SIZE
    return not isinstance(value, str | bytes | list | dict | tuple | set) or len(value) <= MAX_SIZE
