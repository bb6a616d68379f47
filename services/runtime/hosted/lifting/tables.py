"""An expression as a decision table: its choices are rules, what these ask of the state facts, numbers limits."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import keyword
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, cast

from signalbox_routing.table import END, Choice, Rule, Several
from signalbox_routing.terms import (
    MIRRORED,
    AllOf,
    Always,
    AnyOf,
    Comparison,
    Condition,
    Not,
    OneOf,
    Operator,
    Term,
    TermKind,
    terms_of,
)

from services.runtime.hosted.lifting import expressions as ex
from services.runtime.hosted.lifting import looking
from services.runtime.hosted.lifting.expressions import NotLiftedError, in_source, name_of
from services.runtime.hosted.lifting.unfolding import Unfolded, constant_truth
from services.runtime.routing.storable import presentable

MOST_RULES: Final = 40
MOST_FACTS: Final = 40
LONGEST_TEXT: Final = 80
RAISES: Final = "raises"
# Between an enumeration and a member of it.
MEMBER: Final = "::"
_EQUAL = ("==", "!=")
_ORDER = ("<", "<=", ">", ">=")
_TYPES: Mapping[TermKind, type] = {
    TermKind.FLAG: bool,
    TermKind.INTEGER: int,
    TermKind.NUMBER: float,
    TermKind.TEXT: str,
}
_Test = Condition | bool


class LiftedLimits:
    """The numbers that an agent's lifted tables hold facts against, by name: one record for all of them."""

    def __init__(self, agent: str, taken: Collection[str] = ()) -> None:
        # Names of limits that others have.
        self._taken = frozenset(taken)
        self.record: type = type("LiftedLimits", (), {"__doc__": f"Limits in the code of {agent}."})
        self.values: dict[str, int | float] = {}
        self._known: dict[Any, str] = {}
        self.record.__module__ = __name__

    def term(self, number: int | float, name: str, key: Any) -> Term:
        """Returns the limit of a number; one that has a name in the code is one limit wherever it stands."""
        if not looking.is_finite_number(number):
            raise NotLiftedError(f"has the limit {name}, a number that a ledger can't keep")
        known = self._known.get(key)
        if known is None:
            known = _free(name, self.values.keys() | self._taken)
            self._known[key] = known
            self.values[known] = number
        return Term(self.record, known, _kind_of(number))

    def snapshot(self) -> tuple[dict[str, int | float], dict[Any, str]]:
        """Returns what is known so far, to go back to when a function can't be lifted after all."""
        return dict(self.values), dict(self._known)

    def restore(self, snapshot: tuple[dict[str, int | float], dict[Any, str]]) -> None:
        """Goes back to what was known."""
        self.values, self._known = snapshot

    def finished(self) -> Any:
        """Returns the record with the values that the code has."""
        _as_dataclass(self.record, {name: (type(value), value) for name, value in self.values.items()})
        return self.record()


@dataclass
class _Fact:
    term: Term
    expression: ex.Expression
    # What the fact is held against, by which a neutral value is none of.
    against: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Table:
    """A lifted table, before its limits are known: rules over a record of facts, and how these are taken."""

    rules: tuple[Rule, ...]
    facts: type
    take: Callable[[looking.Scope], Any]
    expressions: Mapping[str, ex.Expression]
    named: tuple[ex.Named, ...]


def table_of(
    unfolded: Unfolded,
    ends: Mapping[Any, str] | None,
    nodes: Sequence[str],
    limits: LiftedLimits,
    types: Mapping[str, Any] = MappingProxyType({}),
) -> Table:
    """Returns the table of a function whose results are these ends, or names of nodes. Raises NotLiftedError.

    `types` are those of the state's fields, as far as they are known.
    """
    return _Building(ends, nodes, limits, types).table(unfolded)


class _Building:
    def __init__(
        self, ends: Mapping[Any, str] | None, nodes: Sequence[str], limits: LiftedLimits, types: Mapping[str, Any]
    ) -> None:
        self._types = types
        self._ends = ends
        self._nodes = nodes
        self._limits = limits
        self._record: type = type("LiftedFacts", (), {"__doc__": "What the function asks of the state."})
        self._record.__module__ = __name__
        self._facts: dict[tuple[ex.Expression, TermKind], _Fact] = {}
        self._named: dict[ex.Named, None] = {}

    def table(self, unfolded: Unfolded) -> Table:
        ways = list(itertools.islice(self._ways(unfolded.expression, ()), MOST_RULES + 1))
        if len(ways) > MOST_RULES:
            raise NotLiftedError("has too many ways through it")
        rules: list[Rule] = []
        taken: set[str] = set()
        for tests, to in ways:
            when = _all(tests)
            if when is False:
                continue
            condition = Always() if when is True else when
            rules.append(Rule(self._rule_name(condition, to, taken), END if to is None else to, condition))
            if when is True:
                break
        if all(rule.name == RAISES for rule in rules):
            raise NotLiftedError("only raises")
        self._look_for_names(unfolded.expression)
        kinds: dict[str, tuple[type, Any]] = {
            fact.term.name: (_TYPES[fact.term.kind], dataclasses.MISSING) for fact in self._facts.values()
        }
        _as_dataclass(self._record, kinds)
        expressions = {fact.term.name: fact.expression for fact in self._facts.values()}
        return Table(tuple(rules), self._record, self._taking(), expressions, tuple(self._named))

    # Ways

    def _ways(self, expression: ex.Expression, tests: tuple[_Test, ...]) -> Iterator[tuple[tuple[_Test, ...], Any]]:
        """Yields where an expression leads: the tests that hold on the way there, and the place."""
        match expression:
            case ex.Conditional(test, then, otherwise):
                held = self._test(test)
                if held is not False:
                    yield from self._ways(then, (*tests, held))
                if held is not True:
                    yield from self._ways(otherwise, tests)
                return
            case ex.Either(left, right):
                yield from self._ways(ex.Conditional(left, left, right), tests)
                return
            case ex.Both(left, right):
                yield from self._ways(ex.Conditional(left, right, left), tests)
                return
            case ex.Compare() | ex.Negation() | ex.Call("bool" | "isinstance" | "hasattr" | "any" | "all"):
                yield from self._ways(
                    ex.Conditional(expression, ex.Constant.of(value=True), ex.Constant.of(value=False)), tests
                )
                return
        expanded = _dispatched(expression)
        if expanded is not None:
            yield from self._ways(expanded, tests)
            return
        yield from self._end(expression, tests)

    def _end(self, expression: ex.Expression, tests: tuple[_Test, ...]) -> Iterator[tuple[tuple[_Test, ...], Any]]:
        if isinstance(expression, ex.Raises) or expression == ex.NOTHING:
            yield tests, None
            return
        results = self._results(expression)
        if results is not None:
            yield tests, self._place(results)
            return
        if isinstance(expression, ex.Item | ex.Attribute | ex.Call):
            yield tests, self._named_by(expression)
            return
        raise NotLiftedError(f"goes where `{_short(expression)}` says")

    def _results(self, expression: ex.Expression) -> list[Any] | None:
        """Returns the results that an expression stands for: constants, one or several."""
        match expression:
            case ex.Constant(value) | ex.Named(value=value):
                if isinstance(expression, ex.Named):
                    self._named[expression] = None
                results = list(value) if type(value) in (list, tuple) else [value]
                if any(type(each).__module__ == "langgraph.types" for each in results):
                    raise NotLiftedError("sends packets")
                return results
            case ex.Display(items):
                found = [self._results(each) for each in items]
                if any(each is None or len(each) != 1 for each in found):
                    raise NotLiftedError(f"goes to several places, of which `{_short(expression)}` says some")
                return [each[0] for each in found if each]
        return None

    def _place(self, results: Sequence[Any]) -> str | None:
        """Returns the names of the nodes that results stand for, as a decision has it; None where LangGraph raises."""
        places = []
        for each in results:
            if self._ends is not None:
                # LangGraph looks a result up; an unknown one is an error of the graph's.
                known = next((to for label, to in self._ends.items() if looking_same(label, each)), None)
                if known is None:
                    return None
                places.append(known)
            else:
                places.append(str(looking.plain(each)))
        several = tuple(dict.fromkeys(places))
        return Several(*several) if len(several) > 1 else next(iter(several), END)

    def _named_by(self, expression: ex.Expression) -> Choice | str:
        """Returns the choice of a place by a field that names it."""
        places = dict(self._ends) if self._ends is not None else {name: name for name in (*self._nodes, END)}
        texts = {label: to for label, to in places.items() if type(label) is str and presentable(label) == label}
        if not texts or len(texts) > MOST_RULES or (self._ends is None and not self._nodes):
            raise NotLiftedError(f"goes where `{_short(expression)}` says, which may be anywhere")
        fact = self._fact(expression, TermKind.TEXT, *texts)
        *first, last = texts
        if not first:
            return texts[last]
        cases = tuple((Comparison(fact, "==", label), texts[label]) for label in first)
        return Choice(cases, texts[last])

    def _rule_name(self, when: Condition, to: Any, taken: set[str]) -> str:
        limits = [term.name for term in terms_of(when) if term.record is self._limits.record]
        if to is None:
            name = RAISES
        elif len(limits) == 1 and not isinstance(when, Not):
            name = limits[0]
        elif isinstance(to, Choice):
            name = f"as_{next(term.name for condition, _ in to.cases for term in terms_of(condition))}"
        else:
            name = f"to_{_slugged(to)}"
        name = _free(name, taken)
        taken.add(name)
        return name

    # Tests

    def _test(self, expression: ex.Expression) -> _Test:
        """Returns what has to hold for an expression to be true."""
        known = constant_truth(expression)
        if known is not None:
            return known
        match expression:
            case ex.Both(left, right):
                return _all((self._test(left), self._test(right)))
            case ex.Either(left, right):
                return _any((self._test(left), self._test(right)))
            case ex.Negation(of):
                return _not(self._test(of))
            case ex.Call("bool", (of,)):
                return self._test(of)
            case ex.Conditional(test, then, otherwise):
                held, yes, no = self._test(test), self._test(then), self._test(otherwise)
                return _any((_all((held, yes)), _all((_not(held), no))))
            case ex.Compare():
                return self._compared(expression)
            case ex.Raises():
                return False
        return self._flag(expression)

    def _compared(self, compare: ex.Compare) -> _Test:
        operator, left, right = compare.operator, compare.left, compare.right
        if _constant(left) is not None and _constant(right) is None and operator in MIRRORED:
            operator, left, right = MIRRORED[operator], right, left
        value = _constant(right)
        for split in (self._split(operator, left, right, left=True), self._split(operator, right, left, left=False)):
            if split is not None:
                return split
        if value is not None:
            found = self._held_against(operator, left, right, value[0])
            if found is not None:
                return found
        elif operator in _ORDER:
            return self._two_numbers(cast(Operator, operator), left, right)
        if operator in ("!=", "is not", "not in"):
            return _not(self._flag(ex.Compare({"!=": "==", "is not": "is", "not in": "in"}[operator], left, right)))
        return self._flag(ex.Compare(operator, left, right))

    def _split(self, operator: str, one: ex.Expression, other: ex.Expression, *, left: bool) -> _Test | None:
        """Returns a comparison with a value that a choice gives, as a choice of comparisons."""
        if not isinstance(one, ex.Conditional) or not (_constant(one.then) or _constant(one.otherwise)):
            return None

        def with_(value: ex.Expression) -> ex.Expression:
            return ex.Compare(operator, value, other) if left else ex.Compare(operator, other, value)

        return self._test(ex.Conditional(one.test, with_(one.then), with_(one.otherwise)))

    def _held_against(self, operator: str, left: ex.Expression, right: ex.Expression, value: Any) -> _Test | None:
        """Returns a comparison with a constant; None where that is no number and no text."""
        if operator in _ORDER and type(value) in (int, float):
            return self._ordered(operator, left, right, value)
        if operator in _EQUAL:
            if looking.is_finite_number(value):
                self._note(right)
                return Comparison(self._number(left, value, value), cast(Operator, operator), value)
            text = _constant_text(value)
            if text is not None:
                self._note(right)
                return Comparison(self._fact(left, TermKind.TEXT, text), cast(Operator, operator), text)
        if operator in ("in", "not in") and type(value) in (list, tuple, set, frozenset) and value:
            texts = [_constant_text(each) for each in value]
            if all(each is not None for each in texts):
                self._note(right)
                found = sorted(cast(list[str], texts)) if type(value) in (set, frozenset) else cast(list[str], texts)
                one_of = OneOf(self._fact(left, TermKind.TEXT, *found), tuple(found))
                return one_of if operator == "in" else Not(one_of)
        return None

    def _ordered(self, operator: str, left: ex.Expression, right: ex.Expression, value: Any) -> Condition:
        counts = isinstance(left, ex.Call) and left.function == "len"
        fact = self._number(left, value)
        self._note(right)
        if isinstance(right, ex.Constant) and (value == 0 or (counts and value == 1)):
            # Whether there is anything at all is no limit that somebody chose.
            return Comparison(fact, cast(Operator, operator), value)
        if not isinstance(right, ex.Constant):
            name = name_of(right)
            key: tuple[Any, ...] = ("named", right)
        else:
            name, key = f"{fact.name}_limit", ("stands", self._record, left, value)
        name = f"{name}_limit" if any(name == each.term.name for each in self._facts.values()) else name
        limit = self._limits.term(value, name, key)
        return Comparison(fact, cast(Operator, operator), limit)

    def _two_numbers(self, operator: Operator, left: ex.Expression, right: ex.Expression) -> Condition:
        return Comparison(self._number(left, 0), operator, self._number(right, 0))

    def _flag(self, expression: ex.Expression) -> _Test:
        return self._fact(expression, TermKind.FLAG)

    def _number(self, expression: ex.Expression, value: float, *against: float) -> Term:
        other = self._facts.get((expression, TermKind.NUMBER))
        fraction = isinstance(value, float) or other or self._type_of(expression) is float
        kind = TermKind.NUMBER if fraction else TermKind.INTEGER
        if kind is TermKind.NUMBER and (expression, TermKind.INTEGER) in self._facts:
            kind = TermKind.INTEGER
        return self._fact(expression, kind, *against)

    def _type_of(self, expression: ex.Expression) -> Any:
        match expression:
            case ex.Attribute(ex.Argument(), name) | ex.Item(ex.Argument(), ex.Constant(value=str() as name)):
                return self._types.get(name)
        return None

    def _fact(self, expression: ex.Expression, kind: TermKind, *against: Any) -> Term:
        key = (expression, kind)
        if key not in self._facts:
            if len(self._facts) >= MOST_FACTS:
                raise NotLiftedError(f"asks more than {MOST_FACTS} things of the state")
            taken = {fact.term.name for fact in self._facts.values()} | self._limits.values.keys()
            name = name_of(expression)
            if name in taken:
                suffix = {TermKind.FLAG: "is_set", TermKind.TEXT: "text"}.get(kind, "number")
                name = f"{name}_{suffix}"
            self._facts[key] = _Fact(Term(self._record, _free(name, taken), kind), expression)
        self._facts[key].against += against
        return self._facts[key].term

    def _note(self, expression: ex.Expression) -> None:
        for part in _all_parts(expression):
            if isinstance(part, ex.Named):
                self._named[part] = None

    def _look_for_names(self, expression: ex.Expression) -> None:
        for each in (expression, *(fact.expression for fact in self._facts.values())):
            self._note(each)

    # Facts

    def _taking(self) -> Callable[[looking.Scope], Any]:
        record = self._record
        takers = [_taker(fact) for fact in self._facts.values()]
        names = [fact.term.name for fact in self._facts.values()]

        def take(scope: looking.Scope) -> Any:
            return record(**{name: taker(scope) for name, taker in zip(names, takers, strict=True)})

        return take


def _taker(fact: _Fact) -> looking.Look:
    look, kind, neutral = looking.looking(fact.expression), fact.term.kind, _neutral(fact)
    read: Callable[[Any], Any] = looking.truth
    if kind is TermKind.TEXT:
        read = functools.partial(_text_of, frozenset(fact.against), cast(str, neutral))
    elif kind is not TermKind.FLAG:
        read = functools.partial(_number_of, neutral)

    def taker(scope: looking.Scope) -> Any:
        try:
            return read(look(scope))
        except looking.AbsentError:
            return neutral

    return taker


def _neutral(fact: _Fact) -> Any:
    """Returns what a fact is where there is none, which nothing that it is held against is equal to."""
    if fact.term.kind is TermKind.FLAG:
        return False
    if fact.term.kind is TermKind.TEXT:
        return "" if "" not in fact.against else "(nothing)"
    return 0 if 0 not in fact.against else min(fact.against) - 1


def _text_of(known: frozenset[str], neutral: str, value: Any) -> str:
    text: str = value if type(value) is str else cast(str, as_text(value, neutral))
    if text is value and MEMBER in text and text in known:
        # No text is a member of an enumeration, whatever it says.
        return repr(text)
    if text in known or (len(text) <= LONGEST_TEXT and presentable(text) == text):
        return text
    return f"({len(text)} characters)"


def as_text(value: Any, otherwise: str | None = None) -> str | None:
    """Returns a text, or what stands for a member of an enumeration; for anything else `otherwise`."""
    value = looking.plain(value)
    if type(value) is str:
        return value
    if value is None or isinstance(value, bool | int | float):
        return otherwise
    name = object.__getattribute__(value, "__dict__")["_name_"]
    return f"{type(value).__name__}{MEMBER}{name}"


def _constant_text(value: Any) -> str | None:
    """Returns the text that a constant of the code is; None for any other, and for what no ledger keeps."""
    try:
        text = as_text(value)
    except looking.NotLookedAtError:
        return None
    return text if text is not None and presentable(text) == text else None


def _number_of(neutral: Any, value: Any) -> Any:
    value = looking.plain(value)
    if isinstance(value, bool):
        return int(value)
    if type(value) not in (int, float):
        return neutral
    if not looking.is_finite_number(value):
        raise looking.NotLookedAtError("a number that a ledger can't keep")
    return value


def looking_same(label: Any, value: Any) -> bool:
    """Whether a result is the label of an edge, as a dict would find it."""
    try:
        return bool(looking.plain(label) == looking.plain(value))
    except looking.NotLookedAtError:
        return label is value


def _dispatched(expression: ex.Expression) -> ex.Expression | None:
    """Returns a look-up in a dict that stands in the source, or around it, as a choice by its key."""
    match expression:
        case ex.Item(ex.Mapping(keys, values), key, default):
            pairs = list(zip(keys, values, strict=True))
        case ex.Item(ex.Named(name, dict() as value) as named, key, default):
            pairs = [
                (ex.Constant.of(each), ex.Named(f"{name}[{each!r}]", to, _getter(named, each), value))
                for each, to in value.items()
            ]
        case _:
            return None
    if len(pairs) > MOST_RULES:
        raise NotLiftedError("looks up a long list")
    found: ex.Expression = default or ex.Raises()
    for label, to in reversed(pairs):
        found = ex.Conditional(ex.Compare("==", key, label), to, found)
    return found


def _getter(named: ex.Named, key: Any) -> Callable[[], Any]:
    return lambda: named.current()[key]


def _constant(expression: ex.Expression) -> tuple[Any] | None:
    match expression:
        case ex.Constant(value) | ex.Named(value=value):
            return (value,)
        case ex.Display(items):
            found = [_constant(each) for each in items]
            return ([each[0] for each in found if each],) if all(found) else None
        case ex.Arithmetic() if not any(isinstance(each, ex.Argument | ex.Item) for each in _all_parts(expression)):
            try:
                return (looking.looking(expression)({}),)
            except (looking.AbsentError, looking.NotLookedAtError):
                return None
    return None


def _all_parts(expression: ex.Expression) -> Iterator[ex.Expression]:
    yield expression
    for part in expression.parts:
        yield from _all_parts(part)


def _all(tests: Sequence[_Test]) -> _Test:
    if any(each is False for each in tests):
        return False
    parts = [each for each in tests if not isinstance(each, bool)]
    found: list[Condition] = []
    for each in parts:
        found += each.parts if isinstance(each, AllOf) else [each]
    return AllOf(tuple(found)) if len(found) > 1 else found[0] if found else True


def _any(tests: Sequence[_Test]) -> _Test:
    if any(each is True for each in tests):
        return True
    parts = [each for each in tests if not isinstance(each, bool)]
    found: list[Condition] = []
    for each in parts:
        found += each.parts if isinstance(each, AnyOf) else [each]
    return AnyOf(tuple(found)) if len(found) > 1 else found[0] if found else False


def _not(test: _Test) -> _Test:
    return (not test) if isinstance(test, bool) else ~test


def _kind_of(number: int | float) -> TermKind:
    return TermKind.NUMBER if isinstance(number, float) else TermKind.INTEGER


def _as_dataclass(record: type, kinds: Mapping[str, tuple[type, Any]]) -> None:
    """Makes a dataclass of a class in place: terms of it are there already."""
    record.__annotations__ = {name: kind for name, (kind, _) in kinds.items()}
    for name, (_, default) in kinds.items():
        if default is not dataclasses.MISSING:
            setattr(record, name, default)
    dataclasses.dataclass(frozen=True)(record)


def _free(name: str, taken: Any) -> str:
    name = f"{name}_" if keyword.iskeyword(name) else name
    number, found = 2, name
    while found in taken:
        found, number = f"{name}_{number}", number + 1
    return found


def _slugged(place: str) -> str:
    return "end" if place == END else re.sub(r"[^A-Za-z0-9]+", "_", place).strip("_").lower() or "place"


def _short(expression: ex.Expression) -> str:
    said = in_source(expression)
    return said if len(said) <= 60 else f"{said[:59]}…"
