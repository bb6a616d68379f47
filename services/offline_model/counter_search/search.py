"""The search for a way on which an attacker's value arrives at the flagged lines."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from services.offline_model.counter_search.attacks import ANYTHING, MARK, sent
from services.offline_model.counter_search.code import Code, aliases, calls, changes_module, words_of
from services.offline_model.counter_search.machine import Machine
from services.offline_model.counter_search.patterns import Patterns
from services.offline_model.counter_search.run import Function, OutOfSteps, Program, Run

MAX_RUNS = 1_500
MAX_WAYS = 48
MAX_STEPS_IN_ALL = 150_000
MAX_OTHERS = 4
_ROUTES = frozenset({"route", "get", "post", "put", "delete", "patch", "websocket", "api_route", "view"})


class Found(Enum):
    """What came of a search."""

    WAY = "a value that a request sends arrives"
    PERHAPS = "a value that was not shown arrives"
    NOTHING = "nothing harmful arrives"
    UNREACHED = "no way leads to the flagged lines"


@dataclass
class _Tally:
    """What all runs together came to."""

    arrived: set[str] = field(default_factory=set)
    reached: bool = False
    cut: bool = False
    runs: int = 0
    steps: int = 0

    def add(self, run: Run, *, cut: bool) -> None:
        """Takes in a run."""
        self.runs += 1
        self.arrived |= run.arrived
        self.reached = self.reached or run.reached
        self.steps += run.steps
        self.cut = self.cut or cut or self.is_spent

    @property
    def is_spent(self) -> bool:
        """Whether there have been as many runs, or steps of them, as a verdict is worth."""
        return self.runs >= MAX_RUNS or self.steps >= MAX_STEPS_IN_ALL

    @property
    def found(self) -> Found:
        """What came of them."""
        if MARK in self.arrived:
            return Found.WAY
        if ANYTHING in self.arrived or self.cut:
            return Found.PERHAPS
        return Found.NOTHING if self.reached else Found.UNREACHED


@dataclass(frozen=True)
class Search:
    """Where to look, and for what."""

    code: Code
    file: str
    first_line: int
    last_line: int
    weakness: str

    def run(self) -> Found:
        """Tries what an attacker would send on every way that can be told apart."""
        modules = {path: self.code.module(path) for path in self.code.files}
        functions = {
            node.name: (path, node)
            for path, body in modules.items()
            for statement in body
            for node in ast.walk(statement)
            if isinstance(node, Function)
        }
        imported = {path: aliases(body) for path, body in modules.items()}
        program = Program(functions, modules, imported, self._is_exempt(modules), Patterns())
        if self._takes_anything(program):
            return Found.NOTHING
        words = words_of(modules.get(self.file, ()))
        tally = _Tally()
        entries = self._entries(modules, functions)
        others = [
            one
            for path, one in functions.values()
            if path == self.file
            and changes_module(one)
            and (path, one) not in entries
            and not one.lineno <= self.first_line <= (one.end_lineno or one.lineno)
        ]
        for payload in sent(self.weakness, words):
            for entry in entries:
                # What another function has set before is set when this one runs.
                for before in (None, *others[:MAX_OTHERS]):
                    self._explore(tally, payload, entry, before, words, program)
                    if MARK in tally.arrived:
                        return Found.WAY
        return tally.found

    def _takes_anything(self, program: Program) -> bool:
        """Tells whether every flagged call that is more than a part of a request takes anything for what it is."""
        reader = Machine(Run(self.weakness, "", "", "", range(0), self.file, (), program), self.file, {})
        calls = [
            node
            for statement in program.modules.get(self.file, ())
            for node in ast.walk(statement)
            if isinstance(node, ast.Call) and self.first_line <= node.lineno <= self.last_line
        ]
        others = [node for node in calls if not reader.is_request(node)]
        return bool(others) and all(program.exempt(node, reader.name_of(node.func)) for node in others)

    def _explore(
        self,
        tally: _Tally,
        payload: str,
        entry: tuple[str, Function | None],
        before: Function | None,
        words: Sequence[str],
        program: Program,
    ) -> None:
        """Makes runs: each part of a request in turn sends the attack, the others what a check may want to see."""
        slots = {"", "(none)"}
        tried = set[tuple[str, str]]()
        while todo := [(slot, word) for slot in sorted(slots) for word in ("1", *words) if (slot, word) not in tried]:
            target, harmless = todo[0]
            tried.add(todo[0])
            pending, runs = [tuple[bool, ...]()], 0
            while pending and runs < MAX_WAYS and not tally.is_spent:
                choices = pending.pop()
                run = Run(self.weakness, payload, target, harmless, range(self.first_line, self.last_line + 1),
                          self.file, choices, program)  # fmt: skip
                runs += 1
                tally.add(run, cut=self._one(run, entry, before))
                slots |= run.slots
                taken = [*choices, *[True] * (run.asked - len(choices))]
                pending += [(*taken[:at], False) for at in range(len(choices), len(taken))]
            tally.cut = tally.cut or bool(pending)

    def _one(self, run: Run, entry: tuple[str, Function | None], before: Function | None) -> bool:
        """Makes one run; returns whether it was cut short."""
        file, function = entry
        try:
            scope = Machine(run, file, {}).module(file)
            if before is not None:
                arguments = [*before.args.posonlyargs, *before.args.args, *before.args.kwonlyargs]
                Machine(run, self.file, {one.arg: run.unknown for one in arguments}).outermost(before.body)
            if function is not None:
                routed = any(
                    _ROUTES & set(ast.unparse(one).replace("(", ".").split(".")) for one in function.decorator_list
                )
                given = run.payload if routed else run.unknown
                arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
                Machine(run, file, {one.arg: given for one in arguments}).outermost(function.body)
            elif self.file == file:
                Machine(run, file, dict(scope)).outermost(run.program.modules[file])
        except (OutOfSteps, RecursionError):
            return True
        return False

    def _entries(
        self, modules: Mapping[str, Sequence[ast.stmt]], functions: Mapping[str, tuple[str, Function]]
    ) -> list[tuple[str, Function | None]]:
        """Returns where runs begin: at the callers of the flagged function that nobody calls, or at itself."""
        around = [
            node
            for node in (one for path, one in functions.values() if path == self.file)
            if node.lineno <= self.first_line <= (node.end_lineno or node.lineno)
        ]
        if not around:
            return [(self.file, None)]
        outermost = min(around, key=lambda node: node.lineno)
        waiting, roots, seen = [outermost], list[tuple[str, Function | None]](), set[str]()
        while waiting:
            function = waiting.pop()
            if function.name in seen:
                continue
            seen.add(function.name)
            callers = [one for _, one in functions.values() if one is not function and calls(one, function.name)]
            at_top = [path for path, body in modules.items() if any(calls(one, function.name) for one in body
                      if not isinstance(one, Function | ast.ClassDef))]  # fmt: skip
            roots += [(path, None) for path in at_top]
            routed = bool(function.decorator_list)
            if routed or not (callers or at_top):
                roots.append((functions[function.name][0], function))
            waiting += callers
        return roots

    def _is_exempt(self, modules: Mapping[str, Sequence[ast.stmt]]) -> Callable[[ast.Call, str], bool]:
        plain = {
            node.name
            for body in modules.values()
            for statement in body
            for node in ast.walk(statement)
            if isinstance(node, ast.ClassDef) and any(ast.unparse(base).endswith("SafeLoader") for base in node.bases)
        }

        taught = any(
            isinstance(node, ast.Attribute) and node.attr in ("add_constructor", "add_multi_constructor")
            for body in modules.values()
            for statement in body
            for node in ast.walk(statement)
        )

        def exempt(node: ast.Call, name: str) -> bool:
            """Tells whether a call takes what it is given for what it is, whatever that holds."""
            told = [ast.unparse(part) for part in (*node.args[1:], *(keyword.value for keyword in node.keywords))]
            if self.weakness == "loading":
                if taught:
                    return False
                safe = any(part.endswith("SafeLoader") or part.rpartition(".")[2] in plain for part in told)
                return safe or name.startswith("yaml.safe_load")
            if self.weakness == "code":
                return name == "ast.literal_eval"
            return self.weakness == "path" and any(part in ("'data'", "'tar'") for part in told)

        return exempt
