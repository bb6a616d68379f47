"""What a path function computes, as one expression over its arguments: no statements, no names of its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

LONGEST_NAME: Final = 60


class NotLiftedError(Exception):
    """A function that can't be lifted; the message is the reason, as what follows `it`."""


@dataclass(frozen=True)
class Expression:
    """A part of it; the same parts are equal."""

    @property
    def parts(self) -> Iterator[Expression]:
        """What it is made of."""
        for each in fields(self):
            value = getattr(self, each.name)
            for part in value if isinstance(value, tuple) else (value,):
                if isinstance(part, Expression):
                    yield part


@dataclass(frozen=True)
class Argument(Expression):
    """An argument of the function, such as the state; or the variable of a comprehension."""

    name: str


@dataclass(frozen=True)
class Constant(Expression):
    """A value that stands in the source. Its type tells `1` from `True`."""

    value: Any
    kind: str

    @classmethod
    def of(cls, value: Any) -> Constant:
        """Returns the constant of a value that can be hashed."""
        return cls(value, type(value).__name__)


@dataclass(frozen=True, eq=False)
class Named(Expression):
    """A value that a name had around the function when it was lifted; `current` looks whether it still has it.

    `home` is what the name stands in, such as a module's names: the same name elsewhere is another one.
    """

    name: str
    value: Any
    current: Callable[[], Any]
    home: Any = field(repr=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[str, int, int]:
        return self.name, id(self.home), id(self.value)


@dataclass(frozen=True)
class Attribute(Expression):
    """`of.name`; with a default, `getattr(of, name, default)`."""

    of: Expression
    name: str
    default: Expression | None = None


@dataclass(frozen=True)
class Item(Expression):
    """`of[key]`; with a default, `of.get(key, default)`."""

    of: Expression
    key: Expression
    default: Expression | None = None


@dataclass(frozen=True)
class Slice(Expression):
    """`of[first:last]`."""

    of: Expression
    first: Expression | None
    last: Expression | None


@dataclass(frozen=True)
class Call(Expression):
    """A function that is known to do nothing but compute: a built-in one, or a method of texts (`str.lower`)."""

    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True)
class Arithmetic(Expression):
    """Two numbers put together."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Compare(Expression):
    """`left operator right`: `==`, `<`, `in`, `is` and their like."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Both(Expression):
    """`and`, with the value that it has."""

    left: Expression
    right: Expression


@dataclass(frozen=True)
class Either(Expression):
    """`or`, with the value that it has."""

    left: Expression
    right: Expression


@dataclass(frozen=True)
class Negation(Expression):
    """`not of`."""

    of: Expression


@dataclass(frozen=True)
class Conditional(Expression):
    """`then if test else otherwise`; an `if` of the source is one, too."""

    test: Expression
    then: Expression
    otherwise: Expression


@dataclass(frozen=True)
class Display(Expression):
    """A list, tuple or set that stands in the source."""

    items: tuple[Expression, ...]


@dataclass(frozen=True)
class Mapping(Expression):
    """A dict that stands in the source, with keys that are constants."""

    keys: tuple[Expression, ...]
    values: tuple[Expression, ...]


@dataclass(frozen=True)
class Comprehension(Expression):
    """`[element for variable in source if condition]`."""

    variable: str
    source: Expression
    element: Expression
    conditions: tuple[Expression, ...]


@dataclass(frozen=True)
class Raises(Expression):
    """Where the function raises."""


NOTHING: Final = Constant.of(None)
_LOOSE = (Both, Either, Conditional, Compare, Negation, Arithmetic)
_THROUGH = frozenset(("any", "all", "sum", "next", "max", "min", "list", "set"))
_SIGNS = {Both: "and", Either: "or"}


def in_source(expression: Expression) -> str:
    """Returns an expression as source might have it."""
    match expression:
        case Argument(name) | Named(name=name):
            return name
        case Constant(value):
            return repr(value)
        case Attribute(of, name, default):
            return f"getattr({in_source(of)}, {name!r}, {in_source(default)})" if default else f"{_tight(of)}.{name}"
        case Item(of, key, None):
            return f"{_tight(of)}[{in_source(key)}]"
        case Item(of, key, default):
            more = "" if default in (None, NOTHING) else f", {in_source(default)}"
            return f"{_tight(of)}.get({in_source(key)}{more})"
        case Slice(of, first, last):
            return f"{_tight(of)}[{in_source(first) if first else ''}:{in_source(last) if last else ''}]"
        case Call(function, arguments):
            return _call_in_source(function, [_argument_in_source(function, each, arguments) for each in arguments])
        case Arithmetic(operator, left, right) | Compare(operator, left, right):
            return f"{_tight(left)} {operator} {_tight(right)}"
        case Both(left, right) | Either(left, right):
            return f"{_tight(left)} {_SIGNS[type(expression)]} {_tight(right)}"
    return _other_in_source(expression)


def _other_in_source(expression: Expression) -> str:
    match expression:
        case Negation(of):
            return f"not {_tight(of)}"
        case Conditional(test, then, otherwise):
            return f"{_tight(then)} if {_tight(test)} else {_tight(otherwise)}"
        case Display(items):
            return f"[{', '.join(map(in_source, items))}]"
        case Mapping(keys, values):
            pairs = zip(keys, values, strict=True)
            return f"{{{', '.join(f'{in_source(key)}: {in_source(value)}' for key, value in pairs)}}}"
        case Comprehension(variable, source, element, conditions):
            tests = "".join(f" if {in_source(each)}" for each in conditions)
            return f"[{in_source(element)} for {variable} in {_tight(source)}{tests}]"
    return "an exception"


def _argument_in_source(function: str, argument: Expression, arguments: Sequence[Expression]) -> str:
    said = in_source(argument)
    if isinstance(argument, Comprehension) and function in _THROUGH:
        # Gone through up to where the outcome is known, and no further.
        return said[1:-1] if len(arguments) == 1 else f"({said[1:-1]})"
    return said


def _call_in_source(function: str, arguments: list[str]) -> str:
    kind, _, method = function.rpartition(".")
    if kind:
        return f"{arguments[0]}.{method}({', '.join(arguments[1:])})"
    return f"{function}({', '.join(arguments)})"


def _tight(expression: Expression) -> str:
    said = in_source(expression)
    return f"({said})" if isinstance(expression, _LOOSE) else said


def name_of(expression: Expression) -> str:
    """Returns a name for what an expression says, as a person would give it to a field of a record."""
    return _slug(_name(expression)) or "value"


def _name(expression: Expression) -> str:
    match expression:
        case Argument(name) | Named(name=name):
            return name.rpartition(".")[2]
        case Constant(value):
            return str(getattr(value, "__name__", value)) if value != "" else "empty"
        case Attribute(of, name):
            return _of(of, name)
        case Item(of, Constant(value=str() as key) | Named(value=str() as key)):
            return _of(of, key)
        case Item(of, Constant(value=int() as place)):
            whole = _name(of)
            one = whole[:-1] if whole.endswith("s") and not whole.endswith("ss") else f"{whole}_item"
            return {-1: f"last_{one}", 0: f"first_{one}"}.get(place, f"{one}_{str(place).replace('-', 'minus_')}")
        case Call():
            return _name_of_call(expression)
        case Either(left, _) | Conditional(_, left, _):
            return _name(left)
        case Compare() | Arithmetic():
            return _name_of_two(expression)
    return in_source(expression)


def _name_of_two(expression: Compare | Arithmetic) -> str:
    match expression:
        case Compare("in", left, right):
            return f"{_name(right)}_contains_{_name(left)}"
        case Compare(operator, left, right):
            return f"{_name(left)}_{_OPERATORS.get(operator, operator)}_{_name(right)}"
        case Arithmetic(operator, Constant() as left, right) if operator in "+*":
            return f"{_name(right)}_{_ARITHMETIC[operator]}_{_name(left)}"
        case Arithmetic(operator, left, right):
            return f"{_name(left)}_{_ARITHMETIC[operator]}_{_name(right)}"


def _name_of_call(call: Call) -> str:
    match call:
        case Call("len", (of,)):
            return f"{_name(of)}_count"
        case Call("isinstance", (of, kind)):
            return f"{_name(of)}_is_{_snake(_kind_name(kind))}"
        case Call("hasattr", (of, Constant(name))):
            return f"{_name(of)}_has_{name}"
        case Call(function, arguments):
            method = function.rpartition(".")[2]
            whole, *more = [*map(_name, arguments)] or ["nothing"]
            return "_".join([whole, *([] if method == "bool" else [method]), *more])


_ARITHMETIC = {"+": "plus", "-": "minus", "*": "times", "/": "over", "//": "over", "%": "modulo"}
_OPERATORS = {"==": "is", "!=": "is_not", "<": "below", "<=": "at_most", ">": "above", ">=": "at_least", "is": "is"}


def _of(of: Expression, name: str) -> str:
    return name if isinstance(of, Argument | Named) else f"{_name(of)}_{name}"


def _kind_name(kind: Expression) -> str:
    if isinstance(kind, Display):
        return "_or_".join(map(_kind_name, kind.items))
    value = getattr(kind, "value", kind)
    kinds = value if isinstance(value, tuple) else (value,)
    return "_or_".join(getattr(each, "__name__", str(each)) for each in kinds)


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _slug(text: str) -> str:
    slug = re.sub(r"[^a-z0-9]+", "_", _snake(text)).strip("_")[:LONGEST_NAME].strip("_")
    return f"n_{slug}" if slug[:1].isdigit() else slug
