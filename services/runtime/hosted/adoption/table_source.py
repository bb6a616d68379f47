"""A lifted table as source, as a person would have written it with the library of tables."""

from __future__ import annotations

import builtins
import dataclasses
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from signalbox_routing.facts import as_dict
from signalbox_routing.table import END, Choice, Rule, Several
from signalbox_routing.terms import AllOf, Always, AnyOf, Comparison, Condition, Not, OneOf, Term, TermKind

from services.runtime.hosted.adoption.module_names import computed
from services.runtime.hosted.lifting import expressions as ex
from services.runtime.hosted.lifting import looking
from services.runtime.hosted.lifting.lifted import LiftedRouter, PathBranch
from services.runtime.hosted.lifting.tables import MEMBER, RAISES

LIMIT: Final = "limit"
LONGEST_LINE: Final = 100
NO_WAY: Final = "no way leads on from here"
_TYPES: Mapping[TermKind, str] = {
    TermKind.FLAG: "bool", TermKind.INTEGER: "int", TermKind.NUMBER: "float", TermKind.TEXT: "str",
}  # fmt: skip


class NotAdoptedError(Exception):
    """A table that can't be written down; the message is the reason, as what follows `it`."""


@dataclass
class Imports:
    """What a module of tables imports, names by module."""

    names: dict[str, set[str]] = field(default_factory=dict)

    def add(self, module: str, name: str) -> None:
        """Adds a name of a module."""
        self.names.setdefault(module, set()).add(name)

    @property
    def lines(self) -> Iterator[str]:
        """The lines of it, in order."""
        for module, names in sorted(self.names.items()):
            # Constants, classes, functions: as linters have it.
            ordered = sorted(names, key=lambda each: (not each.isupper(), not each[0].isupper(), each))
            line = f"from {module} import {', '.join(ordered)}"
            if len(line) > LONGEST_LINE:
                line = f"from {module} import (\n    {f',{chr(10)}    '.join(ordered)},\n)"
            yield line

    @property
    def block(self) -> str:
        """All of them: the standard library's, then the others."""
        lines = dict(zip(sorted(self.names), self.lines, strict=True))
        parts = [
            [line for module, line in lines.items() if (module.partition(".")[0] in sys.stdlib_module_names) is own]
            for own in (True, False)
        ]
        return "\n\n".join("\n".join(part) for part in parts if part)


@dataclass(frozen=True)
class WrittenTable:
    """A table as source: the record of its facts, and the router of that name."""

    name: str
    source: str
    # Limits that it reads.
    limits: frozenset[str]


def written(lifted: LiftedRouter, branch: PathBranch, name: str, limits: str, imports: Imports) -> WrittenTable:
    """Returns a lifted table as source; `limits` is the class of its limits. Raises NotAdoptedError."""
    return _Writing(lifted, branch, name, limits, imports).table()


class _Writing:
    def __init__(self, lifted: LiftedRouter, branch: PathBranch, name: str, limits: str, imports: Imports) -> None:
        self._lifted = lifted
        self._state = lifted.arguments[0]
        self._name = name
        self._limits = limits
        self._imports = imports
        self._branch = branch
        self._facts = re.sub(r"(?:^|_)([a-z0-9])", lambda each: each[1].upper(), name.removeprefix("route_")) + "Facts"
        self._terms = name.removeprefix("route_")

    def table(self) -> WrittenTable:
        for each in computed(self._lifted.table.named):
            raise NotAdoptedError(f"asks `{each.name}`, which is no literal of its module, and may differ elsewhere")
        router, lines = self._lifted.router, list[str]()
        read = {term.name for term in router.terms if term.record is not router.facts_type}
        if self._lifted.table.expressions:
            lines += self._record()
            self._import("fact", "terms")
            lines += [f"{self._terms} = terms({self._facts})"]
        else:
            raise NotAdoptedError("asks nothing of the state")
        lines += [f"{self._name} = Router(", f"    {_quoted(router.name)},", f"    facts={self._facts},"]
        lines += [f"    policy={self._limits}()," if read else "", "    rules=["]
        for rule in router.rules:
            lines += [f"        {each}," for each in self._rule(rule)]
        self._import("Router", "Rule")
        source = "\n".join([*(line for line in lines if line), "    ],", ")"])
        # A class stands apart.
        return WrittenTable(self._name, source.replace(f"\n{self._terms} =", f"\n\n\n{self._terms} ="), frozenset(read))

    def _import(self, *names: str) -> None:
        for name in names:
            self._imports.add("signalbox_routing", name)

    # Facts

    def _record(self) -> Iterator[str]:
        self._imports.add("dataclasses", "dataclass")
        place = "at the start" if self._branch.node == "__start__" else f"after `{self._branch.node}`"
        yield f'@dataclass(frozen=True)\nclass {self._facts}:\n    """What is asked of the state {place}."""\n'
        kinds = {term.name: term.kind for term in self._lifted.router.terms}
        for name, expression in self._lifted.table.expressions.items():
            if name not in kinds:
                continue
            read = ex.in_source(self._own(expression))
            line = f"    {name}: {_TYPES[kinds[name]]} = fact(lambda {self._state}: {read})"
            if len(line) > LONGEST_LINE:
                line = f"    {name}: {_TYPES[kinds[name]]} = fact(\n        lambda {self._state}: {read}\n    )"
            yield line

    def _own(self, expression: ex.Expression) -> ex.Expression:
        """Returns an expression with what its names stand for put in their place."""
        match expression:
            case ex.Named(name, value):
                return self._named(name, value)
            case ex.Constant(value=str() as text):
                return _literal(_quoted(text))
            case ex.Argument(name) if name != self._state and not name.startswith("each_"):
                raise NotAdoptedError(f"asks `{name}`, which a table is not given")
            case ex.Raises():
                raise NotAdoptedError("raises in the middle of what it asks")
        changes: dict[str, Any] = {}
        for each in dataclasses.fields(expression):
            value = getattr(expression, each.name)
            if isinstance(value, ex.Expression):
                changes[each.name] = self._own(value)
            elif isinstance(value, tuple):
                changes[each.name] = tuple(
                    self._own(part) if isinstance(part, ex.Expression) else part for part in value
                )
        made: ex.Expression = dataclasses.replace(expression, **changes)
        return made

    def _named(self, name: str, value: Any) -> ex.Expression:
        if type(value) in (list, tuple) and value:
            return ex.Display(tuple(self._named(name, each) for each in value))
        if isinstance(value, type):
            return self._class(value)
        if type(value) in (set, frozenset) and value:
            return ex.Display(tuple(self._named(name, each) for each in sorted(value, key=repr)))
        try:
            found = looking.plain(value)
        except looking.NotLookedAtError:
            raise NotAdoptedError(f"asks `{name}`, which is no plain value") from None
        if type(found) not in (bool, int, float, str, type(None)):
            raise NotAdoptedError(f"compares with `{name}`, a member of an enumeration")
        return _literal(_quoted(found) if isinstance(found, str) else repr(found))

    def _class(self, value: type) -> ex.Expression:
        module, name = value.__module__, value.__qualname__
        if getattr(builtins, name, None) is not value:
            # Of the team's own modules any may import the graph, which imports the tables.
            file = getattr(sys.modules.get(module), "__file__", None) or ""
            others = "site-packages" in file or module.partition(".")[0] in sys.stdlib_module_names
            if getattr(sys.modules.get(module), name, None) is not value or not others:
                raise NotAdoptedError(f"asks whether something is of the class {name}, which is the team's own")
            # From where people import it: a package above that has it, too.
            above = [module.rsplit(".", number)[0] for number in range(module.count("."), -1, -1)]
            shown = (each for each in above if getattr(sys.modules.get(each), name, None) is value)
            self._imports.add(next(shown, module), name)
        return _literal(name)

    # Rules

    def _rule(self, rule: Rule) -> Iterator[str]:
        when = self._condition(rule.when)
        if rule.name.startswith(RAISES):
            self._import("END")
            yield self._call(rule.name, "END", when, raises=NO_WAY)
            return
        if isinstance(rule.to, Choice):
            yield from self._named_by(rule, rule.to)
            return
        yield self._call(rule.name, self._place(rule.to), when)

    def _named_by(self, rule: Rule, choice: Choice) -> Iterator[str]:
        """A fact that names the place: one that names none is a rule that raises."""
        labels = self._labels(choice)
        fact = choice.cases[0][0]
        assert isinstance(fact, Comparison)  # noqa: S101 - as lifted tables have it
        among = OneOf(fact.term, tuple(labels))
        holds = among if isinstance(rule.when, Always) else AllOf((rule.when, among))
        *first, last = labels.items()
        self._import("Choice", "END")
        cases = ", ".join(
            f"({self._condition(Comparison(fact.term, '==', each))}, {self._place(to)})" for each, to in first
        )
        yield self._call(rule.name, f"Choice(({cases},), {self._place(last[1])})", self._condition(holds))
        yield self._call(f"{rule.name}_unknown", "END", self._condition(rule.when), raises=NO_WAY)

    def _labels(self, choice: Choice) -> dict[str, str]:
        ends = self._branch.branch.ends
        if ends is not None:
            return {label: to for label, to in ends.items() if type(label) is str}
        return {str(case.other): to for case, to in choice.cases if isinstance(case, Comparison)} | {
            choice.otherwise: choice.otherwise
        }

    def _call(self, name: str, to: str, when: str, raises: str = "") -> str:
        given = [f'"{name}"', f"to={to}", f"when={when}", *([f'raises="{raises}"'] if raises else [])]
        line = f"Rule({', '.join(given)})"
        if len(line) + 9 <= LONGEST_LINE:
            return line
        return "\n            ".join(["Rule(", *(f"{each}," for each in given)]) + "\n        )"

    def _place(self, destination: str) -> str:
        if isinstance(destination, Several):
            self._import("Several")
            return f"Several({', '.join(self._place(each) for each in destination.places)})"
        if destination == END:
            self._import("END")
            return "END"
        return _quoted(destination)

    def _condition(self, condition: Condition) -> str:
        match condition:
            case Always():
                self._import("Always")
                return "Always()"
            case Term():
                return self._term(condition)
            case Comparison(term, operator, other):
                right = self._term(other) if isinstance(other, Term) else self._value(other)
                return f"{self._term(term)} {operator} {right}"
            case OneOf(term, values):
                said = ", ".join(map(self._value, values))
                return f"{self._term(term)}.is_in(({said}{',' if len(values) == 1 else ''}))"
            case Not(part):
                return f"~{self._part(part)}"
            case AllOf(parts):
                return " & ".join(map(self._part, parts))
            case AnyOf(parts):
                return " | ".join(map(self._part, parts))
        raise NotAdoptedError(f"asks {condition!r}")

    def _part(self, part: Condition) -> str:
        said = self._condition(part)
        return said if isinstance(part, Term | OneOf | Not) else f"({said})"

    def _term(self, term: Term) -> str:
        return f"{self._terms if term.record is self._lifted.router.facts_type else LIMIT}.{term.name}"

    def _value(self, value: Any) -> str:
        if isinstance(value, str):
            if MEMBER in value:
                raise NotAdoptedError(f"compares with {value}, a member of an enumeration")
            return _quoted(value)
        return repr(value)


def _literal(said: str) -> ex.Named:
    """Returns what stands in the source as it is said."""
    return ex.Named(said, said, lambda: said, None)


def _quoted(text: str) -> str:
    said = repr(text)
    return said if '"' in text else f'"{said[1:-1]}"'


def module_source(agent: str, tables: Sequence[WrittenTable], limits: Any, limits_class: str, imports: Imports) -> str:
    """Returns the module of a graph's tables."""
    lines = [f'"""Decision tables of the graph `{agent}`, which its conditional edges are decided by."""']
    read = {name for table in tables for name in table.limits}
    values = {name: value for name, value in as_dict(limits).items() if name in read}
    record = ""
    if values:
        imports.add("dataclasses", "dataclass")
        imports.add("signalbox_routing", "terms")
        fields = "\n".join(f"    {name}: {type(value).__name__} = {value!r}" for name, value in values.items())
        record = (
            f'\n\n@dataclass(frozen=True)\nclass {limits_class}:\n    """Limits of its tables."""\n\n{fields}\n'
            f"\n\n{LIMIT} = terms({limits_class})\n"
        )
    lines += ["", "from __future__ import annotations", "", imports.block]
    return "\n".join(lines) + "\n" + record + "".join(f"\n\n{table.source}\n" for table in tables)
