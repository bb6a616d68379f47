"""Evaluates expressions with concrete values."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import regex

from services.offline_model.counter_search.attacks import MARK
from services.offline_model.counter_search.patterns import TooLong
from services.offline_model.counter_search.pure import PARTS_OF_PATHS, is_small
from services.offline_model.counter_search.run import Handled, OutOfSteps, Raised, Run, Scope, Unknown

MAX_STEPS = 4_000
_REQUESTS = frozenset({"request", "req", "websocket"})
_BINARY: Final[Mapping[type, Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mod: operator.mod, ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv, ast.Div: operator.truediv, ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
}  # fmt: skip
_COMPARE: Final[Mapping[type, Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: lambda a, b: a is b or a == b, ast.IsNot: lambda a, b: not (a is b or a == b),
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
# A format that asks for more room than any value needs.
_WIDE = re.compile(r"%[^a-zA-Z%]*(?:\*|\d{3})")


class Expressions:
    """The values of a scope, and what is computed of them."""

    def __init__(self, run: Run, file: str, scope: Scope) -> None:
        self.run, self.file, self.scope = run, file, scope
        self.declared: set[str] = set()

    def module(self, file: str) -> Scope:
        """Returns the names of a module, which is run once."""
        if file not in self.run.globals:
            self.run.globals[file] = {}
            body = self.run.program.modules.get(file, ())
            type(self)(self.run, file, self.run.globals[file]).outermost(body)
        return self.run.globals[file]

    def outermost(self, body: Sequence[ast.stmt]) -> Any:
        """Runs statements to their end, whatever they raise. Raises OutOfSteps."""
        raise NotImplementedError

    def bind(self, target: ast.expr, value: Any) -> None:
        """Gives a target a value."""
        if isinstance(target, ast.Name):
            (self.module(self.file) if target.id in self.declared else self.scope)[target.id] = value
        elif isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Slice):
            owner = self.value(target.value)
            if isinstance(owner, list):
                owner.extend(self._items(value))
        elif isinstance(target, ast.Attribute):
            self.scope[ast.unparse(target)] = value
        elif isinstance(target, ast.Starred):
            self.bind(target.value, [value])
        elif isinstance(target, ast.Subscript):
            self._guarded(operator.setitem, self.value(target.value), self.value(target.slice), value)
        elif isinstance(target, ast.Tuple | ast.List):
            items = list(self._items(value))
            for index, part in enumerate(target.elts):
                self.bind(part, items[index] if index < len(items) and not isinstance(value, str) else value)

    def holds(self, test: ast.expr) -> bool:
        """Decides a condition; where nothing is known of what it asks, both ways are taken, in other runs."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return not self.holds(test.operand)
        if isinstance(test, ast.BoolOp):
            decide = all if isinstance(test.op, ast.And) else any
            return decide(self.holds(part) for part in test.values)
        value = self.value(test)
        asks_unknown = (
            isinstance(test, ast.Compare)
            and not isinstance(test.ops[0], ast.In | ast.NotIn)
            and any(isinstance(self.value(part), Unknown | Handled) for part in (test.left, *test.comparators))
        )
        return self.run.choose(test, value) if isinstance(value, Unknown | Handled) or asks_unknown else bool(value)

    def value(self, node: ast.expr) -> Any:
        """Evaluates an expression."""
        self.run.steps += 1
        if self.run.steps > MAX_STEPS:
            raise OutOfSteps
        evaluate = getattr(self, f"_e_{type(node).__name__.lower()}", None)
        found = evaluate(node) if evaluate is not None else self.run.unknown
        return found if is_small(found) else self.run.unknown

    def _e_constant(self, node: ast.Constant) -> Any:
        return node.value

    def _e_name(self, node: ast.Name) -> Any:
        if node.id in self.scope:
            return self.scope[node.id]
        module = self.module(self.file)
        if node.id in module:
            return module[node.id]
        for file, scope in self.run.globals.items():
            if file != self.file and node.id in self.run.program.aliases[self.file] and node.id in scope:
                return scope[node.id]
        return self.run.unknown

    def _e_joinedstr(self, node: ast.JoinedStr) -> Any:
        parts = [self.value(part.value if isinstance(part, ast.FormattedValue) else part) for part in node.values]
        return "".join(map(str, parts))

    def _e_binop(self, node: ast.BinOp) -> Any:
        return self._combine(type(node.op), self.value(node.left), self.value(node.right))

    def _combine(self, kind: type, left: Any, right: Any) -> Any:
        operate = _BINARY.get(kind)
        if kind is ast.Div and isinstance(left, str) and isinstance(right, str):
            return f"{left}/{right}"
        if isinstance(left, str | bytes) and kind is ast.Mod and _WIDE.search(str(left)):
            return self._through([left, right])
        if operate is None or (kind is ast.Mult and not (isinstance(left, int) and isinstance(right, int))):
            return self._through([left, right])
        return self._guarded(operate, left, right)

    def _e_boolop(self, node: ast.BoolOp) -> Any:
        value = None
        for part in node.values:
            value = self.value(part)
            truth = self.run.choose(part, value) if isinstance(value, Unknown | Handled) else bool(value)
            if truth is not isinstance(node.op, ast.And):
                return value
        return value

    def _e_unaryop(self, node: ast.UnaryOp) -> Any:
        if isinstance(node.op, ast.Not):
            return not self.holds(node.operand)
        return self._guarded(operator.neg, self.value(node.operand))

    def _e_compare(self, node: ast.Compare) -> Any:
        left = self.value(node.left)
        for operation, part in zip(node.ops, node.comparators, strict=True):
            right = self.value(part)
            if isinstance(operation, ast.In | ast.NotIn) and isinstance(right, Unknown):
                # A list that was not shown may have anything in it.
                return self.run.unknown
            if not self._guarded(_COMPARE[type(operation)], left, right):
                return False
            left = right
        return True

    def _e_ifexp(self, node: ast.IfExp) -> Any:
        return self.value(node.body if self.holds(node.test) else node.orelse)

    def _e_list(self, node: ast.List) -> Any:
        found: list[Any] = []
        for part in node.elts:
            found += list(self._items(self.value(part.value))) if isinstance(part, ast.Starred) else [self.value(part)]
        return found

    def _e_tuple(self, node: ast.Tuple) -> Any:
        return [self.value(part) for part in node.elts if not isinstance(part, ast.Starred)]

    def _e_set(self, node: ast.Set) -> Any:
        return {value for part in node.elts if isinstance(value := self.value(part), str | int | float)}

    def _e_dict(self, node: ast.Dict) -> Any:
        pairs = [(self.value(key), self.value(value)) for key, value in zip(node.keys, node.values, strict=True) if key]
        return {key: value for key, value in pairs if isinstance(key, str | int | float | bool | None)}

    def _comprehended(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Any:
        generator, found = node.generators[0], []
        for item in list(self._items(self.value(generator.iter)))[:50]:
            self.bind(generator.target, item)
            if all(self.holds(test) for test in generator.ifs):
                found.append(self.value(node.elt))
        return found

    _e_listcomp = _e_setcomp = _e_generatorexp = _comprehended

    def _e_dictcomp(self, node: ast.DictComp) -> Any:
        found: dict[Any, Any] = {}
        generator = node.generators[0]
        for item in list(self._items(self.value(generator.iter)))[:50]:
            self.bind(generator.target, item)
            if all(self.holds(test) for test in generator.ifs):
                key, value = self.value(node.key), self.value(node.value)
                found |= {key: value} if isinstance(key, str | int | float | bool | None) else {}
        return found

    def _e_await(self, node: ast.Await) -> Any:
        return self.value(node.value)

    def _e_namedexpr(self, node: ast.NamedExpr) -> Any:
        value = self.value(node.value)
        self.bind(node.target, value)
        return value

    def _e_lambda(self, node: ast.Lambda) -> Any:
        for one in node.args.args:
            self.scope[one.arg] = self.run.unknown
        return self.value(node.body)

    def _e_attribute(self, node: ast.Attribute) -> Any:
        if self.is_request(node):
            return self.run.send(ast.unparse(node))
        written = ast.unparse(node)
        if written in self.scope:
            return self.scope[written]
        owner = self.value(node.value)
        if isinstance(owner, str) and node.attr in PARTS_OF_PATHS:
            return PARTS_OF_PATHS[node.attr](owner)
        return owner if isinstance(owner, str) and MARK in owner else self.run.unknown

    def _e_subscript(self, node: ast.Subscript) -> Any:
        if self.is_request(node.value):
            return self.run.send(ast.unparse(node))
        owner = self.value(node.value)
        if isinstance(node.slice, ast.Slice):
            ends = [self.value(end) if end is not None else None for end in (node.slice.lower, node.slice.upper)]
            return self._guarded(operator.getitem, owner, slice(*ends)) if isinstance(owner, str | list) else owner
        index = self.value(node.slice)
        if isinstance(owner, Unknown):
            return owner
        return self._guarded(operator.getitem, owner, index)

    def is_request(self, node: ast.expr) -> bool:
        """Tells whether an expression is a part of a request."""
        parts = 0
        while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
            parts += isinstance(node, ast.Attribute)
            node = node.func if isinstance(node, ast.Call) else node.value
        return (
            isinstance(node, ast.Name)
            and node.id in _REQUESTS
            and parts > 0
            and (node.id not in self.scope or isinstance(self.scope[node.id], Unknown))
        )

    def _through(self, values: Sequence[Any]) -> Any:
        """What a function that was not shown makes of what it is given: all of it, at worst."""
        for value in values:
            if isinstance(value, str | bytes | list | dict) and MARK in str(value):
                return Handled(self.run.payload)
        return self.run.unknown

    def _guarded(self, function: Callable[..., Any], *given: Any, **keywords: Any) -> Any:
        """Calls what computes; what it raises, the code that is run raises."""
        try:
            found = function(*given, **keywords)
        except TooLong:
            return self.run.unknown
        except (TypeError, AttributeError):
            return self._through([*given, *keywords.values()])
        except Exception as error:
            raise Raised from error
        if found is NotImplemented:
            return self.run.unknown
        if any(isinstance(one, Unknown) for one in given):
            return Unknown(found) if isinstance(found, str) else self._of_unknown(found)
        return found

    def _of_unknown(self, found: Any) -> Any:
        """What was found of a value that nobody knows is as little known, where it says yes or no."""
        return self.run.unknown if found is None or isinstance(found, bool | regex.Match) else found

    def _items(self, value: Any) -> Iterator[Any]:
        if isinstance(value, dict | list | set | tuple) or hasattr(value, "__next__"):
            yield from value
        else:
            yield value
