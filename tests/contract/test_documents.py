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

import prometheus_client
import pytest
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
COMMAND = re.compile(r"(?:^|`|; )signalbox ((?:[a-z-]+)(?: [^`;#\n]*)?)", re.MULTILINE)
QUESTION = re.compile(r'signalbox ask "([^"…]+)"')
MODULE = re.compile(r"python -m ([a-z_.]+[a-z_])")
TARGET = re.compile(r"(?:^|`)make ([a-z]+(?: [a-z]+)*)(?=`|\s+#|$)", re.MULTILINE)

pages = pytest.mark.parametrize("page", PAGES, ids=str)


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


@pages
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(FENCED.sub("", text_of(page))):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = Path((ROOT / page.parent / file).resolve()).relative_to(ROOT) if file else page
        assert (ROOT / target).exists(), link
        assert not anchor or anchor in anchors_of(target), link


@pages
def test_files_that_are_named_exist(page: Path) -> None:
    for file in FILE.findall(text_of(page)):
        assert (ROOT / file).exists() or (ROOT / page.parent / file).exists(), file


@pages
def test_settings_that_are_named_are_read(page: Path) -> None:
    assert set(SETTING.findall(text_of(page))) <= settings()


@pages
def test_metrics_that_are_named_are_counted(page: Path) -> None:
    for name, labels in METRIC.findall(text_of(page)):
        assert name in metrics().keys() | NOT_METRICS, name
        told = {label.partition("=")[0] for label in labels.split(",") if label}
        known = metrics().get(name, set())
        assert told <= known if "=" in labels else told in (known, set()), name


@pages
def test_commands_that_are_shown_exist_with_their_options(page: Path) -> None:
    for line in COMMAND.findall(text_of(page)):
        command = typer.main.get_command(app)
        for word in shlex.split(re.split(r" {2,}|\s#", line)[0]):
            known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
            if isinstance(command, TyperGroup) and not word.startswith("-"):
                ways = [command.commands[way] for way in word.split("|") if way in command.commands]
                assert ways, f"signalbox {line}: there is no {word}"
                command = ways[0]
            elif word.startswith("--"):
                assert word in known, f"signalbox {line}: there is no {word}"


@pages
def test_questions_that_are_shown_are_answered_offline(page: Path) -> None:
    assert set(QUESTION.findall(text_of(page))) <= {asked.question for asked in ANSWERED if not asked.earlier}


@pages
def test_modules_that_are_run_exist(page: Path) -> None:
    for module in MODULE.findall(text_of(page)):
        assert find_spec(module), module


@pages
def test_make_targets_that_are_named_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for line in TARGET.findall(text_of(page)):
        assert set(line.split()) <= targets, line


@pages
def test_nothing_is_said_twice(page: Path) -> None:
    prose = FENCED.sub("", text_of(page))
    rows = [line for line in prose.splitlines() if line.startswith("| ") and line.count("|") > 2]
    per_section = [
        (section, row) for section, part in enumerate(prose.split("\n#")) for row in part.splitlines() if row in rows
    ]
    twice = [what for what, times in Counter([*HEADING.findall(prose), *per_section]).items() if times > 1]
    assert not twice


def test_the_pages_are_found_and_name_what_is_checked() -> None:
    whole = "\n".join(text_of(page) for page in PAGES)
    for pattern in (LINK, FILE, SETTING, METRIC, COMMAND, QUESTION, MODULE, TARGET):
        assert len(pattern.findall(whole)) > 2, pattern.pattern
