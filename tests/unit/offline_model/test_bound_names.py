"""A call counts for one of a function that was shown only where its name can be bound to nothing else."""

from __future__ import annotations

import textwrap

import pytest

from services.offline_model.code_review.opinion import FALSE_POSITIVE, NEEDS_REVIEW, Need
from services.offline_model.code_review.review import Finding, review
from services.offline_model.code_review.shown import Shown
from tests.unit.offline_model.reviews import COMMAND, verdict

HARMLESS = "def clean(x):\n    return 'fixed'\n"
OTHER = {"app/other.py": HARMLESS}
VIEW = 'def view():\n    host = clean(request.args["host"])\n    os.system("ping " + host)  # <-\n'


def judged(before: str, view: str = VIEW, *, extra: dict[str, str] | None = None) -> str:
    """The verdict on a command whose argument `clean` makes, after what a module begins with."""
    code = f"from flask import request\nimport os\n{textwrap.dedent(before)}\n{view}"
    return verdict(COMMAND, code, extra=OTHER if extra is None else extra)


BOUND = {
    "defined here": HARMLESS,
    "imported": "from app.other import clean",
    "imported from beside": "from .other import clean",
    "imported under another name": "from .harmless import scrub as clean",
    "all is imported": "from app.other import *",
    "passed on by another module": "from .passing import clean",
}


@pytest.mark.parametrize("before", BOUND.values(), ids=BOUND)
def test_a_function_that_a_name_is_bound_to_is_looked_into(before: str) -> None:
    extra = {
        **OTHER,
        "app/harmless.py": HARMLESS.replace("clean", "scrub"),
        "app/passing.py": "from app.other import clean",
    }
    assert judged(before, extra=extra) == FALSE_POSITIVE


@pytest.mark.parametrize(("before", "call"), [("from app import other", "other."), ("import app.other", "app.other.")])
def test_so_is_one_of_a_module(before: str, call: str) -> None:
    assert judged(before, VIEW.replace("clean(", f"{call}clean(")) == FALSE_POSITIVE


NOT_BOUND = {
    "nowhere that was shown": "",
    "in a module that was not shown": "from lib import clean",
    "in another module of that name": "from lib.other import clean",
    "in the package above": "from ..other import clean",
    "perhaps by all of a module that was not shown": "from lib import *",
    "under the name of another": "from app.other import tidy as clean",
    "by an import after it": f"{HARMLESS}from lib import clean",
    "by an import of all after it": f"{HARMLESS}from lib import *",
    "where an import failed": f"try:\n    from lib import clean\nexcept ImportError:\n    {HARMLESS[:-1]}".replace(
        "\n    return", "\n        return"
    ),
    "to another value": f"{HARMLESS}clean = str",
    "by another function": f"{HARMLESS}def init():\n    global clean\n    clean = str",
    "among the globals": f"{HARMLESS}globals()['clean'] = str",
    "by a loop": f"{HARMLESS}for clean in [str]: pass",
    "to a class": f"{HARMLESS}class clean(str): pass",
    "in a function": "def g():\n    def clean(x):\n        return 'fixed'",
    "in a class": "class A:\n    def clean(x):\n        return 'fixed'",
    "by a letter that Python takes for another": f"{HARMLESS}cleªn = str",
}


@pytest.mark.parametrize("before", NOT_BOUND.values(), ids=NOT_BOUND)
def test_a_namesake_says_nothing(before: str) -> None:
    assert judged(before) != FALSE_POSITIVE


@pytest.mark.parametrize(
    "view",
    [
        VIEW.replace("view()", "view(clean)"),
        VIEW.replace("    host", "    clean = str\n    host", 1),
        VIEW.replace("    host", "    from lib import clean\n    host", 1),
    ],
    ids=["a parameter", "a variable", "an import"],
)
def test_nor_does_a_function_that_a_name_hides(view: str) -> None:
    assert judged(HARMLESS, view) != FALSE_POSITIVE


@pytest.mark.parametrize("patch", ["app.other.clean = str", "setattr(app.other, 'clean', str)"])
def test_nor_one_that_another_module_replaces(patch: str) -> None:
    extra = {**OTHER, "app/start.py": f"import app.other\n{patch}"}
    assert judged("from app.other import clean", extra=extra) != FALSE_POSITIVE


METHOD = {"app/tidying.py": "class A:\n    def tidy(self, x):\n        return 'fixed'\n"}


@pytest.mark.parametrize(
    ("before", "view"),
    [
        ("from lib import other", VIEW.replace("clean(", "other.clean(")),
        ("other = make()", VIEW.replace("clean(", "other.clean(")),
        ("from lib import a", VIEW.replace("clean(", "a.tidy(")),
        (
            "",
            "class B(Z):\n"
            + textwrap.indent(VIEW.replace("view()", "view(self)").replace("clean(", "self.tidy("), "  "),
        ),
    ],
    ids=["of a module of that name", "of an object", "a method of what is imported", "a method of another class"],
)
def test_nor_a_namesake_of_what_an_object_has(before: str, view: str) -> None:
    assert judged(before, view, extra={**OTHER, **METHOD}) != FALSE_POSITIVE


def test_the_lines_that_say_what_a_name_is_are_asked_for() -> None:
    shown = Shown()
    shown.add("app/views.py", dict(enumerate(VIEW.splitlines(), start=5)), total_lines=7)
    shown.add("app/other.py", dict(enumerate(HARMLESS.splitlines(), start=1)), total_lines=2)
    opinion = review(Finding(COMMAND, "CWE-78", "app/views.py", 7, 7), shown)
    assert opinion.verdict == NEEDS_REVIEW
    assert Need("file", "app/views.py") in opinion.needs
