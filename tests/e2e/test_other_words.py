"""All prompts are changed, by an operator and on their way, and the demo still works: what counts is the data."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest
from rich.console import Console

from services.cli import demo_scenes
from services.cli.configured import stack_options
from services.cli.settings import CliSettings
from services.cli.terminal import Terminal
from services.kit.models.prompt_files import SETTING
from services.kit.models.prompts import BEGIN, END
from services.local.topology import StackOptions, offline_endpoint
from services.offline_model.skills import make_skills
from services.offline_model.vocabulary import Vocabulary
from services.runtime.agents.registry import definitions
from tests.fixtures.other_words import offline_model_in_other_words, other_words
from tests.fixtures.prompts import write_prompts

# Tests of these agents with the offline model go through the same door: tests/integration/{code_agents,incidents}.
ELSEWHERE = {"signalbox-offline-triage"}


async def test_the_demo_works_with_an_operators_prompts_and_other_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Every prompt is another's, and on its way to the model its last words are exchanged as well."""
    folder = tmp_path / "prompts"
    folder.mkdir()
    agents = {package for each in definitions().values() for package in each.prompt_packages}
    for package in ("services.guard", "services.evaluator", *agents):
        write_prompts(folder, [package], in_other_words(package))
    given = {name: {SETTING: str(folder)} for name in ("runtime", "guard", "evaluator")}
    told = io.StringIO()
    terminal = Terminal(Console(file=told, width=120), Console(file=told, width=120))
    async with offline_model_in_other_words() as (address, door):

        def at_the_door(settings: CliSettings, **others: object) -> StackOptions:
            options = stack_options(settings, **others)
            return replace(options, model=offline_endpoint(address), service_env=given)

        monkeypatch.setattr(demo_scenes, "stack_options", at_the_door)
        assert await demo_scenes.play_all(CliSettings(), tmp_path, terminal) == [], told.getvalue()
    assert door.changed.keys() >= make_skills(Vocabulary()).keys() - ELSEWHERE
    for model, said in door.changed.items():
        words = " ".join(said)
        assert len(words.split()) > 10, f"the prompts of {model} have no words"
        assert "lalala" in words, f"the prompts of {model} are not the operator's"


def test_other_words_leave_no_word_and_all_data() -> None:
    text = f'One two.\n\n{BEGIN}\n{{"one": 2}}\n{END}\nThree.'
    assert other_words(text) == f'lalala lalala.\n\n{BEGIN}\n{{"one": 2}}\n{END}\nlalalalala.'


def in_other_words(package: str) -> Callable[[str], str]:
    """Exchanges all words of a prompt of a package, and names below them all that any of its prompts must name."""
    needs = files(package).joinpath("prompts", "needs.json")
    wanted = json.loads(needs.read_text("utf-8")).values() if needs.is_file() else ()
    names = " ".join(dict.fromkeys(each for names in wanted for each in names))
    return lambda text: f"{other_words(text)}\n{names}"
