"""What one run knows: what a request sends, which ways to take where nothing is known, and what arrived."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from services.offline_model.counter_search.attacks import ANYTHING, MARK
from services.offline_model.counter_search.patterns import Patterns

Function = ast.FunctionDef | ast.AsyncFunctionDef
Scope = dict[str, Any]


class Unknown(str):
    """What was not shown: it stands for whatever an attacker would like there."""

    __slots__ = ()


class Handled(str):
    """What a function that was not shown made of an attacker's value: it may be that value, or nothing at all."""

    __slots__ = ()


class OutOfSteps(Exception):
    """The run takes longer than it is worth."""


class Raised(Exception):
    """The code that is run raises something."""


class Left(Exception):
    """The code that is run returns, or leaves a loop."""

    def __init__(self, how: str, value: Any = None) -> None:
        super().__init__(how)
        self.how = how
        self.value = value


@dataclass(frozen=True)
class Program:
    """The code that was shown, by what runs need of it, and which calls take anything for what it is."""

    functions: Mapping[str, tuple[str, Function]]
    modules: Mapping[str, Sequence[ast.stmt]]
    aliases: Mapping[str, Mapping[str, str]]
    exempt: Callable[[ast.Call, str], bool]
    patterns: Patterns


@dataclass
class Run:
    """One run.

    payload: what the part of a request called `target` sends, or each part when that is empty; the others send
    `harmless`. choices: the ways to take, in order; `asked` counts how many there were. The same question about the
    same values is answered alike throughout a run.
    """

    weakness: str
    payload: str
    target: str
    harmless: str
    lines: range
    file: str
    choices: Sequence[bool]
    program: Program
    arrived: set[str] = field(default_factory=set)
    reached: bool = False
    slots: set[str] = field(default_factory=set)
    asked: int = 0
    steps: int = 0
    deep: int = 0
    globals: dict[str, Scope] = field(default_factory=dict)
    answered: dict[tuple[int, str], bool] = field(default_factory=dict)

    @property
    def unknown(self) -> Unknown:
        """A value that was not shown."""
        return Unknown(self.payload.replace(MARK, ANYTHING) if MARK in self.payload else ANYTHING)

    def send(self, slot: str) -> str:
        """Returns what a part of the request sends."""
        self.slots.add(slot)
        return self.payload if self.target in ("", slot) else self.harmless

    def choose(self, test: ast.AST, about: object) -> bool:
        """Takes the next way, at a place that asks about a value."""
        key = (id(test), str(about))
        if key not in self.answered:
            self.asked += 1
            self.answered[key] = self.choices[self.asked - 1] if self.asked <= len(self.choices) else True
        return self.answered[key]
