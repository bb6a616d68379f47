"""Code as the offline reviewer is shown it, with the flagged line marked, and what it says of that."""

from __future__ import annotations

import textwrap

from services.offline_model.code_review.review import Finding, review
from services.offline_model.code_review.shown import Shown

MARK = "# <-"
# What short cases begin with.
REQUEST = "from flask import request\nimport os, subprocess, pickle, re, shlex, logging, html, yaml\n"


def read(code: str, *, path: str = "app/service.py", extra: dict[str, str] | None = None) -> tuple[Shown, int]:
    """The code as shown, and the marked line."""
    shown, flagged = Shown(), 0
    for name, text in {path: code, **(extra or {})}.items():
        lines = dict(enumerate(textwrap.dedent(text).strip("\n").split("\n"), start=1))
        marked = [number for number, line in lines.items() if MARK in line]
        flagged = marked[0] if name == path and marked else flagged
        shown.add(name, {number: line.replace(MARK, "").rstrip() for number, line in lines.items()})
    return shown, flagged


def verdict(cwe: str, code: str, *, path: str = "app/service.py", extra: dict[str, str] | None = None) -> str:
    """The verdict on the marked line."""
    shown, line = read(code, path=path, extra=extra)
    return review(Finding("", cwe, path, line, line), shown).verdict


SQL, COMMAND, PATHS, XSS, LOADS, CRYPTO, SECRET, URLS, CODE, XML = (
    "CWE-89", "CWE-78", "CWE-22", "CWE-79", "CWE-502", "CWE-327", "CWE-259", "CWE-918", "CWE-94", "CWE-611",
)  # fmt: skip
