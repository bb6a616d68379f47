"""Prompts of an operator: a folder in the place of those that are built in, and all that is wrong with one."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from services.kit.models.prompt_files import (
    MOST_BYTES,
    OWNERS,
    InvalidPromptsError,
    prompts_digest,
    text_of,
    use_prompts,
)
from services.kit.models.prompts import words
from services.runtime.agents.registry import definitions
from tests.fixtures.prompts import write_prompts

GUARD = "services.guard"
AGENTS = sorted({package for each in definitions().values() for package in each.prompt_packages})
PACKAGES = [GUARD, "services.evaluator", *AGENTS]


@pytest.fixture(autouse=True)
def _built_in_afterwards() -> Iterator[None]:
    yield
    use_prompts(None, ())


def test_whoever_has_prompts_is_an_owner() -> None:
    having = {package.rpartition(".")[2] for package in PACKAGES if files(package).joinpath("prompts").is_dir()}
    assert having == OWNERS


def test_every_file_of_the_folder_is_read(tmp_path: Path) -> None:
    """What is built in passes the check too, with a word before it."""
    before = prompts_digest(PACKAGES)
    written = write_prompts(tmp_path, PACKAGES, lambda text: f"Changed.\n{text}")
    (tmp_path / "..data").mkdir()
    use_prompts(tmp_path, PACKAGES)
    for package, file in written:
        assert text_of(package, file).startswith("Changed.\n"), file
    assert prompts_digest(PACKAGES) != before
    use_prompts(None, PACKAGES)
    assert prompts_digest(PACKAGES) == before


def test_only_what_is_given_is_changed(tmp_path: Path) -> None:
    others, goal = words(GUARD, "goal"), "\ufeffALLOW goals, else BLOCK.\n"
    (tmp_path / "guard.question.txt").write_text(goal, encoding="utf-8")
    agents = prompts_digest(AGENTS)
    use_prompts(tmp_path, PACKAGES)
    assert (words(GUARD, "question"), words(GUARD, "goal")) == ("ALLOW goals, else BLOCK.", others)
    assert prompts_digest(AGENTS) == agents


def test_a_service_passes_over_what_another_one_reads(tmp_path: Path) -> None:
    (tmp_path / "data_chat.nothing.txt").write_text("")
    use_prompts(tmp_path, [GUARD])
    with pytest.raises(InvalidPromptsError, match=r"data_chat\.nothing\.txt: there is no such prompt"):
        use_prompts(tmp_path, AGENTS)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("notes.txt", b"words", "nobody reads it"),
        ("guard", b"words", "nobody reads it"),
        ("guard.qestion.txt", b"ALLOW BLOCK", "no such prompt; there are .*guard.question.txt"),
        ("guard.question.md", b"ALLOW BLOCK", "no such prompt"),
        ("guard.xss.yaml", b"name: xss", "no such prompt"),
        ("guard.goal.txt", b" \n", "empty"),
        ("guard.goal.txt", b"ALLOW or BLOCK \xff", "not UTF-8 at byte 15"),
        ("guard.goal.txt", b"ALLOW BLOCK" * MOST_BYTES, f"longer than {MOST_BYTES} bytes"),
        ("guard.goal.txt", b"ALLOW BLOCK <data>", "'<data>', which delimits data"),
        ("guard.goal.txt", b"ALLOW or BLOCK {question}, {{ caller }}", r"\{question\}, .*nothing is filled in"),
        ("guard.goal.txt", b"Say ALLOW or not.", "does not name BLOCK"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidPromptsError, match=f"SIGNALBOX_PROMPTS_DIR: {name}: .*{said}"):
        use_prompts(tmp_path, [GUARD])
    assert "screen" in words(GUARD, "goal"), "nothing of a bad folder is in force"


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "guard.goal.txt").mkdir()
    (tmp_path / "guard.answer.txt").write_text("<data> {x}")
    with pytest.raises(InvalidPromptsError) as raised:
        use_prompts(tmp_path, [GUARD])
    assert len(raised.value.problems) == 4
    with pytest.raises(InvalidPromptsError, match=r"nowhere can't be read: No such file or directory"):
        use_prompts(tmp_path / "nowhere", [GUARD])
