"""Texts are lexed in processes of their own, which stop in the middle of a regex and go on with the next text."""

from __future__ import annotations

from collections.abc import Iterator

import psutil
import pytest
from pygments.lexers import find_lexer_class_for_filename

from services.kit.lexing_processes import LEAST_WORK, WORK_PER_CHARACTER, LexingProcesses

ENOUGH = 10_000_000
PYTHON = "def total(items):\n    return sum(x['n'] for x in items)  # all\n"
# The first takes quadratic time; of the others, one token is a single regex that takes longer than anybody waits.
ENDLESS = {"A.java": "a " * 30_000, "a.ahk": "\n" * 2000, "a.ly": "ab" * 1000, "a.mcschema": "<!--" * 500}


@pytest.fixture
def processes() -> Iterator[LexingProcesses]:
    made = LexingProcesses(1)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("path", "text"),
    [("a.py", PYTHON), ("A.java", "int a = 1; // ü\n"), ("a.html", "<b>{{ x }}</b>"), ("a.sh", "rm -rf $x # \udc80\n")],
)
def test_tokens_are_those_of_the_lexer(processes: LexingProcesses, path: str, text: str) -> None:
    lexer = find_lexer_class_for_filename(path)
    assert lexer
    tokens, work = processes.lex(lexer, text, ENOUGH)
    assert tokens == list(lexer().get_tokens_unprocessed(text))
    assert work > 0


@pytest.mark.parametrize("path", ENDLESS)
def test_what_takes_too_long_is_stopped_and_the_next_text_is_lexed(processes: LexingProcesses, path: str) -> None:
    lexer, python = find_lexer_class_for_filename(path), find_lexer_class_for_filename("a.py")
    assert lexer
    assert python
    text = ENDLESS[path]
    assert processes.lex(lexer, text, ENOUGH) == (None, LEAST_WORK + WORK_PER_CHARACTER * len(text))
    assert processes.lex(lexer, text, 1000) == (None, 1000)
    tokens, _ = processes.lex(python, PYTHON, ENOUGH)
    assert tokens


def test_code_with_a_token_for_each_character_is_lexed(processes: LexingProcesses) -> None:
    lexer = find_lexer_class_for_filename("a.js")
    assert lexer
    tokens, _ = processes.lex(lexer, "a(b)+" * 12_000, ENOUGH)
    assert tokens
    assert len(tokens) == 60_000


def test_a_process_that_was_killed_meanwhile_costs_no_text(processes: LexingProcesses) -> None:
    """As the kernel does when there is no memory left: what comes next would count as unread."""
    lexer = find_lexer_class_for_filename("a.py")
    assert lexer
    before = set(psutil.Process().children())
    assert processes.lex(lexer, PYTHON, ENOUGH)[0]
    [made] = set(psutil.Process().children()) - before
    made.kill()
    made.wait()
    assert processes.lex(lexer, PYTHON, ENOUGH)[0]
