"""States for a lifted table: of the shape that its facts ask for, on all sides of what those are held against."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from signalbox_routing.terms import Term, comparisons_of

from services.runtime.hosted.lifting import expressions as ex
from services.runtime.hosted.lifting.tables import Table

ODD: tuple[Any, ...] = (None, True, False, 0, 1, 2, -1, 3.5, "", "other", [], ["a"], {}, {"a": 1}, ())
# How often a value is none of those that the code compares it with, nor near one.
UNRELATED = 0.15
_OF_MESSAGES = frozenset(name for kind in (BaseMessage, AIMessage, ToolMessage) for name in kind.model_fields)


@dataclass
class Shape:
    """What is asked of a value: its fields and items, and what it is compared with."""

    keys: dict[Any, Shape] = field(default_factory=lambda: defaultdict(Shape))
    attributes: dict[str, Shape] = field(default_factory=lambda: defaultdict(Shape))
    items: Shape | None = None
    counted: bool = False
    against: list[Any] = field(default_factory=list)
    contained: list[Any] = field(default_factory=list)

    def item(self) -> Shape:
        """The shape of its items."""
        self.items = self.items or Shape()
        return self.items


class States:
    """Makes states for one table, the same ones for the same seed."""

    def __init__(self, table: Table, state: str, limits: Any, seed: int = 0) -> None:
        self._random = random.Random(seed)  # noqa: S311 - to generate cases
        self._roots: dict[str, Shape] = defaultdict(Shape)
        shapes = {name: self._see(expression, {}) for name, expression in table.expressions.items()}
        for rule in table.rules:
            for condition in (rule.when, *rule.choice):
                for term, other in comparisons_of(condition):
                    if term.record is table.facts:
                        limit = getattr(limits, other.name, 1) if isinstance(other, Term) else other
                        shapes[term.name].against.append(limit)
        self._state = self._roots[state]

    def one(self) -> Any:
        """Returns a state."""
        shape = self._state
        ways: list[Callable[[], Any]] = [lambda: self._dict(shape)] if shape.keys or not shape.attributes else []
        if shape.items is not None:
            ways.append(lambda: self._list(shape))
        if shape.attributes:
            fields = shape.attributes.items()
            ways.append(lambda: SimpleNamespace(**{name: self._value(each) for name, each in fields}))
        return self._random.choice(ways)()

    def _dict(self, shape: Shape) -> dict[Any, Any]:
        return {key: self._value(each) for key, each in shape.keys.items() if self._random.random() < 0.93}

    def _value(self, shape: Shape) -> Any:
        chance = self._random.random()
        if chance < 0.06:
            return self._random.choice(ODD)
        if chance < 0.1 and shape.against:
            return self._random.choice([each for each in shape.against if each is not None] or ODD)
        if shape.items is not None or (shape.counted and not shape.keys and not shape.contained):
            return self._list(shape)
        if shape.attributes and _OF_MESSAGES.issuperset(shape.attributes):
            return self._message(shape)
        if shape.attributes:
            return SimpleNamespace(**{name: self._value(each) for name, each in shape.attributes.items()})
        if shape.keys:
            return self._dict(shape)
        return self._leaf(shape)

    def _list(self, shape: Shape) -> list[Any]:
        numbers = [each for each in shape.against if type(each) is int and 0 <= each < 50]
        most = max([3, *numbers]) + 1
        items = [self._value(shape.items or Shape()) for _ in range(self._random.randint(0, most))]
        return items + [each for each in shape.contained if self._random.random() < 0.3]

    def _message(self, shape: Shape) -> BaseMessage:
        content = self._leaf(shape.attributes["content"])
        content = content if isinstance(content, str) else f"text {content}"
        names = [each for each in shape.attributes["name"].against if isinstance(each, str)] or ["tool"]
        called = shape.attributes["tool_calls"].items
        tools = [each for each in called.keys["name"].against if isinstance(each, str)] if called else []
        calls = [
            {"name": self._random.choice(["search", *names, *tools]), "args": {}, "id": str(number)}
            for number in range(self._random.choice((0, 0, 1, 2)))
        ]
        makers: tuple[Callable[[], BaseMessage], ...] = (
            lambda: AIMessage(content, tool_calls=calls),
            lambda: HumanMessage(content, name=self._random.choice([None, *names])),
            lambda: ToolMessage(content, tool_call_id="1", name=self._random.choice(names)),
        )
        return self._random.choice(makers)()

    def _leaf(self, shape: Shape) -> Any:
        if self._random.random() < UNRELATED:
            return self._unrelated([*shape.against, *shape.contained])
        candidates: list[Any] = [] if shape.against or shape.contained else [True, False, 0, 1, 2, "text", "", None, []]
        for each in shape.against:
            if isinstance(each, bool) or each is None:
                candidates += [each, not each]
            elif isinstance(each, int | float):
                candidates += [each - 1, each, each + 1]
            else:
                candidates += [each, "other"]
        for each in shape.contained:
            candidates += [each, f"so {each} it is", f"{each}{each}", str(each).upper(), "none of it"]
        return self._random.choice(candidates)

    def _unrelated(self, known: list[Any]) -> Any:
        """Returns a number or a text, as what is known is, that no code has thought of."""
        number = self._random.randint(-10_000, 10_000)
        ways = [number, number / 16, f"text {number}"]
        numbers = any(isinstance(each, int | float) for each in known)
        texts = [f"{each} {number}" for each in known if isinstance(each, str)]
        return self._random.choice(texts or (ways[:2] if numbers else ways))

    def _see(self, expression: ex.Expression, names: Mapping[str, Shape]) -> Shape:
        """Notes what an expression asks for, and returns the shape of what it stands for."""
        match expression:
            case ex.Argument(name):
                return names.get(name) or self._roots[name]
            case ex.Attribute(of, name):
                return self._see(of, names).attributes[name]
            case ex.Item(of, key, _):
                return self._see_item(of, key, names)
            case ex.Slice(of, _, _):
                return self._see(of, names)
            case ex.Call() | ex.Compare() | ex.Arithmetic() | ex.Comprehension():
                return self._see_computed(expression, names)
            case ex.Either(_, _) | ex.Conditional(_, _, _):
                first, *others = [self._see(part, names) for part in expression.parts]
                return others[0] if isinstance(expression, ex.Conditional) else first
        for part in expression.parts:
            self._see(part, names)
        return Shape()

    def _see_item(self, of: ex.Expression, key: ex.Expression, names: Mapping[str, Shape]) -> Shape:
        shape = self._see(of, names)
        if isinstance(key, ex.Constant | ex.Named) and isinstance(key.value, str):
            return shape.keys[key.value]
        if isinstance(key, ex.Constant):
            return shape.item()
        place = self._see(key, names)
        if isinstance(of, ex.Display | ex.Constant | ex.Named):
            return shape  # it is looked up in something of the code's own
        place.against += [0, 1]
        return shape.item()

    def _see_computed(self, expression: ex.Expression, names: Mapping[str, Shape]) -> Shape:
        match expression:
            case ex.Comprehension(variable, source, element, conditions):
                inside = {**names, variable: self._see(source, names).item()}
                for each in (element, *conditions):
                    self._see(each, inside)
                return Shape()
            case ex.Call("len" | "reversed" | "list", (of,)):
                shape = self._see(of, names)
                shape.counted = True
                return shape
            case ex.Call("str.startswith" | "str.endswith", (of, part)):
                self._see(of, names).contained += _constants(part)
                return Shape()
            case ex.Call(function, (of, *_)) if function.startswith("str."):
                return self._see(of, names)
            case ex.Compare(operator, left, right):
                self._compared(operator, left, right, names)
                return Shape()
            case ex.Arithmetic(_, left, right):
                self._see(left, names).against.append(1)
                self._see(right, names).against.append(1)
                return Shape()
        for part in expression.parts:
            self._see(part, names)
        return Shape()

    def _compared(self, operator: str, left: ex.Expression, right: ex.Expression, names: Mapping[str, Shape]) -> None:
        one, other = self._see(left, names), self._see(right, names)
        if operator in ("in", "not in"):
            one.against += _constants(right)
            other.contained += _constants(left)
            return
        one.against += _constants(right) or [1, 2]
        other.against += _constants(left) or [1, 2]


def _constants(expression: ex.Expression) -> list[Any]:
    match expression:
        case ex.Constant(value) | ex.Named(value=value):
            if isinstance(value, set | frozenset):
                return sorted(value, key=repr)  # the same in every process
            return list(value) if isinstance(value, list | tuple) else [value]
        case ex.Display(items):
            return [each for item in items for each in _constants(item)]
    return []
