"""What the written pages name is there: links, files, settings, metrics, commands, modules and make targets."""

from __future__ import annotations

import importlib
import pkgutil
import re
import shlex
import subprocess
from collections import Counter
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import prometheus_client
import typer
from typer.core import TyperGroup

import services
from services.cli.app import app
from services.cli.settings import CliSettings
from tests.contract.deploy.helm import ROOT
from tests.contract.deploy.services import in_source, variables
from tests.fixtures.harbour_questions import ANSWERED

PAGES = sorted(
    Path(name)
    for name in subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    if (ROOT / name).is_file() and not name.startswith("examples/harbour/service/")  # a program of its own
)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"`((?:services|docs|charts|protos|tests|examples|local)/[^`\s…*<>{}]+)`")
SETTING = re.compile(r"\bSIGNALBOX_[A-Z_]*[A-Z]\b(?!_?\*)")
NOT_METRICS = {"signalbox_admin", "signalbox_others"}  # row-level policies of the user's database
METRIC = re.compile(r"`(signalbox_[a-z_]+)(?:\{([^}`]+)\})?`")
COMMAND = re.compile(r"(?:^|`|; )signalbox (?:--gateway \S+ )?((?:[a-z-]+)(?: [^`;#\n]*)?)", re.MULTILINE)
QUESTION = re.compile(r'signalbox ask "([^"…]+)"')
MODULE = re.compile(r"python -m ([a-z_.]+[a-z_])")
TARGET = re.compile(r"(?:^|`)make ([a-z]+(?: [a-z]+)*)(?=`|\s+#|$)", re.MULTILINE)


@cache
def text_of(page: Path) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def anchors_of(page: Path) -> set[str]:
    """Returns the anchors of a page's headings, as GitHub makes them."""
    titles = HEADING.findall(FENCED.sub("", text_of(page)))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@cache
def settings() -> set[str]:
    """Returns every variable that a service or the command reads."""
    known = {variable for service in in_source() for variable in variables(service)}
    known |= {f"SIGNALBOX_{field.upper()}" for field in CliSettings.model_fields}
    sources = (ROOT / "services").rglob("*.py")
    return known | {name for source in sources for name in SETTING.findall(source.read_text(encoding="utf-8"))}


@cache
def metrics() -> dict[str, set[str]]:
    """Returns the labels of every metric that a service counts, by the metric's name."""
    for module in pkgutil.walk_packages(services.__path__, "services."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found: dict[str, set[str]] = {}
    # Prometheus' clients keep no public list of a metric's labels.
    for collector, names in prometheus_client.REGISTRY._collector_to_names.items():
        found |= {name: set(getattr(collector, "_labelnames", ())) for name in names}
    return found


def test_links_lead_somewhere() -> None:
    links = {(page, link) for page in PAGES for link in LINK.findall(FENCED.sub("", text_of(page)))}
    assert not {f"{page}: {link}" for page, link in links if not leads_somewhere(page, link)}


def leads_somewhere(page: Path, link: str) -> bool:
    """Says whether a link leads to a page of another site, a file, or a heading that is there."""
    if re.match(r"[a-z]+:", link):
        return True
    file, _, anchor = link.partition("#")
    target = ROOT / page.parent / file if file else ROOT / page
    return target.exists() and (not anchor or anchor in anchors_of(target))


def test_files_that_are_named_exist() -> None:
    named = {(page, file) for page in PAGES for file in FILE.findall(text_of(page)) if not (ROOT / file).exists()}
    assert not {f"{page}: {file}" for page, file in named if not (ROOT / page.parent / file).exists()}


def test_settings_that_are_named_are_read() -> None:
    known = settings()
    assert not {f"{page}: {name}" for page in PAGES for name in set(SETTING.findall(text_of(page))) - known}


def test_metrics_that_are_named_are_counted() -> None:
    named = {(page, name, labels) for page in PAGES for name, labels in METRIC.findall(text_of(page))}
    assert not {f"{page}: {name}{{{labels}}}" for page, name, labels in named if not is_counted(name, labels)}


def is_counted(name: str, labels: str) -> bool:
    """Says whether there is a metric with all of these labels or, where some have values, with these."""
    told = {label.partition("=")[0] for label in labels.split(",") if label}
    known = metrics().get(name, set())
    return name in metrics().keys() | NOT_METRICS and (told <= known if "=" in labels else told in (known, set()))


def test_commands_that_are_shown_exist_with_their_options() -> None:
    shown = {(page, line) for page in PAGES for line in COMMAND.findall(text_of(page))}
    assert not {f"{page}: {told}" for page, line in shown if (told := unknown_word(line))}


@cache
def commands() -> Any:
    return typer.main.get_command(app)


def unknown_word(line: str) -> str:
    """Returns a word of a command line that no command knows, with the line; else nothing."""
    command = commands()
    for word in shlex.split(re.split(r" {2,}|\s#", line)[0]):
        known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
        if isinstance(command, TyperGroup) and not word.startswith("-"):
            ways = [command.commands[way] for way in word.split("|") if way in command.commands]
            if not ways:
                return f"signalbox {line}: there is no {word}"
            command = ways[0]
        elif word.startswith("--") and word not in known:
            return f"signalbox {line}: there is no {word}"
    return ""


def test_questions_that_are_shown_are_answered_offline() -> None:
    answered = {asked.question for asked in ANSWERED if not asked.earlier}
    pages = [page for page in PAGES if page != Path("README.md")]  # which tests/integration/local/test_readme.py types
    assert not {f"{page}: {asked}" for page in pages for asked in set(QUESTION.findall(text_of(page))) - answered}


def test_modules_that_are_run_exist() -> None:
    assert not {f"{page}: {name}" for page in PAGES for name in MODULE.findall(text_of(page)) if not find_spec(name)}


def test_make_targets_that_are_named_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {(page, line) for page in PAGES for line in TARGET.findall(text_of(page))}
    assert not {f"{page}: {line}" for page, line in named if not set(line.split()) <= targets}


def test_nothing_is_said_twice() -> None:
    assert not [f"{page}: {twice}" for page in PAGES for twice in said_twice(FENCED.sub("", text_of(page)))]


def said_twice(prose: str) -> list[str]:
    """Returns headings of a page, and rows of a section, that stand there more than once."""
    rows = [line for line in prose.splitlines() if line.startswith("| ") and line.count("|") > 2]
    per_section = [
        (section, row) for section, part in enumerate(prose.split("\n#")) for row in part.splitlines() if row in rows
    ]
    return [str(what) for what, times in Counter([*HEADING.findall(prose), *per_section]).items() if times > 1]


def test_the_pages_are_found_and_name_what_is_checked() -> None:
    whole = "\n".join(text_of(page) for page in PAGES)
    for pattern in (LINK, FILE, SETTING, METRIC, COMMAND, QUESTION, MODULE, TARGET):
        assert len(pattern.findall(whole)) > 2, pattern.pattern
