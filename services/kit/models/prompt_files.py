"""The files that prompts and checklists are read from: those of the packages, and an operator's in their place.

An operator's lie in one folder for all services, named `<owner>.<file>`: `data_chat.system.txt` stands in the place of
`prompts/system.txt` of the agent `data_chat`, and `sast_investigation.xss.yaml` in that of `checklists/xss.yaml`, or
beside the ones that there are. Like code, they are the process's: read once, when it starts, the same for all.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

# Whoever has prompts, each in the folder of this name; a service passes over what another one reads.
OWNERS: Final = frozenset(
    {
        "guard",
        "evaluator",
        "data_chat",
        "sast_triage",
        "sast_investigation",
        "code_review",
        "graph_editor",
        "incident_investigation",
    }
)  # fmt: skip
MOST_BYTES: Final = 64_000
SETTING: Final = "SIGNALBOX_PROMPTS_DIR"
TOLD: Final = (
    "Folder with prompts that stand in the place of those that are built in, such as `data_chat.system.txt`, and with "
    "checklists (docs/models.md); checked when the service starts. One folder serves all services. "
    "Unset: those that are built in."
)
_PROMPTS, _CHECKLISTS, _NEEDS = "prompts", "checklists", "needs.json"
_KINDS: Final = {".txt": _PROMPTS, ".yaml": _CHECKLISTS}
# Data stands between these, and words that hold them could pass for it.
_DELIMITER: Final = re.compile(r"</?\s*data\s*>", re.IGNORECASE)
_PLACEHOLDER: Final = re.compile(r"\{\{?\s*[A-Za-z_]\w*\s*\}?\}|\$\{\w+\}|%\(\w+\)s")
_given: dict[tuple[str, str], str] = {}


class InvalidPromptsError(ValueError):
    """A folder of prompts that can't be used; `problems` has a line for each thing that is wrong."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def use_prompts(folder: Path | None, packages: Iterable[str]) -> None:
    """Puts the files of a folder in the place of those of packages, from now on; None puts none.

    Raises InvalidPromptsError with all that is wrong with files of these packages, or of nobody.
    """
    _given.clear()
    if folder is None:
        return
    here = {_owner(package): package for package in packages}
    problems: list[str] = []
    found = dict(_read(folder, here, problems))
    if problems:
        raise InvalidPromptsError([f"{SETTING}: {problem}" for problem in problems])
    _given.update(found)


def text_of(package: str, file: str) -> str:
    """Returns what stands in a file of a package's prompts, or in the operator's."""
    return _given[package, file] if (package, file) in _given else _built_in(package)[file]


def texts_of(package: str, ending: str) -> Mapping[str, str]:
    """Returns all texts of a package in files of an ending, by the name of the file."""
    given = {file: text for (of, file), text in _given.items() if of == package}
    return {file: text for file, text in sorted({**_built_in(package), **given}.items()) if Path(file).suffix == ending}


def prompts_digest(packages: Iterable[str]) -> str:
    """Returns a digest of every prompt and checklist of packages, as they are in force; empty where there are none."""
    texts = {_owner(package): [dict(texts_of(package, ending)) for ending in _KINDS] for package in packages}
    if not any(map(any, texts.values())):
        return ""
    return hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest()[:12]


def are_given(packages: Iterable[str]) -> bool:
    """Whether an operator's text stands in the place of one of packages'."""
    return not {of for of, _ in _given}.isdisjoint(packages)


def _owner(package: str) -> str:
    return package.rpartition(".")[2]


@cache
def _built_in(package: str) -> Mapping[str, str]:
    folders = [(files(package).joinpath(folder), ending) for ending, folder in _KINDS.items()]
    return {
        entry.name: entry.read_text(encoding="utf-8")
        for folder, ending in folders
        if folder.is_dir()
        for entry in folder.iterdir()
        if Path(entry.name).suffix == ending
    }


def _read(folder: Path, here: Mapping[str, str], problems: list[str]) -> Iterator[tuple[tuple[str, str], str]]:
    """Yields texts by package and file, and adds what is wrong to the problems."""
    try:
        # Kubernetes mounts `..data` beside the files.
        entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    except OSError as error:
        problems.append(f"{folder} can't be read: {error.strerror}")
        return
    for entry in entries:
        owner, _, file = entry.name.partition(".")
        if owner not in OWNERS or not file:
            problems.append(
                f"{entry.name}: nobody reads it; files are named <owner>.<name>.txt, "
                f"and owners are {', '.join(sorted(OWNERS))}"
            )
        elif package := here.get(owner):
            try:
                with entry.open("rb") as opened:
                    content = opened.read(MOST_BYTES + 1)
            except OSError as error:
                problems.append(f"{entry.name}: can't be read: {error.strerror}")
                continue
            decoded, wrong = _checked(package, file, content)
            problems += [f"{entry.name}: {each}" for each in wrong]
            yield (package, file), decoded


def _checked(package: str, file: str, content: bytes) -> tuple[str, list[str]]:
    """Returns a text, and what is wrong with it."""
    known = texts_of(package, Path(file).suffix)
    if not known or (file.endswith(".txt") and file not in known):
        owner, there = _owner(package), [name for ending in _KINDS for name in texts_of(package, ending)]
        return "", [f"there is no such prompt; there are {', '.join(f'{owner}.{name}' for name in there)}"]
    if len(content) > MOST_BYTES:
        return "", [f"longer than {MOST_BYTES} bytes"]
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return "", [f"not UTF-8 at byte {error.start}"]
    if not text.strip():
        return "", ["empty"]
    if not file.endswith(".txt"):
        return text, []
    problems = [f"holds {found!r}, which delimits data" for found in sorted(set(_DELIMITER.findall(text)))]
    if unknown := sorted(set(_PLACEHOLDER.findall(text))):
        problems.append(f"holds {', '.join(unknown)}: nothing is filled in, what a prompt is told stands below it")
    if missing := [each for each in _needed(package).get(file.removesuffix(".txt"), ()) if each not in text]:
        problems.append(f"does not name {', '.join(missing)}, by which the answer is read")
    return text, problems


@cache
def _needed(package: str) -> Mapping[str, list[str]]:
    """Returns the names that each prompt of a package must hold, since models' answers are read by them."""
    needs = files(package).joinpath(_PROMPTS, _NEEDS)
    return json.loads(needs.read_text(encoding="utf-8")) if needs.is_file() else {}
