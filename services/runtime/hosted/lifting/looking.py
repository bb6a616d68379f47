"""Expressions evaluated on a state without running any code of its types: no property, no operator, no `__len__`.

What is looked into is of exactly the types that Python itself has, a field in an instance's own dict or slot, or a
class's plain attribute. Whatever is anything else is refused. No expression loops but over the items of a list.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import EnumType
from functools import wraps
from types import (
    GetSetDescriptorType,
    MemberDescriptorType,
    ModuleType,
    SimpleNamespace,
    UnionType,
    WrapperDescriptorType,
)
from typing import Any, Final, NoReturn

from pydantic import BaseModel

from services.runtime.hosted.lifting import expressions as ex
from services.runtime.hosted.lifting.expressions import NotLiftedError

MOST_ITEMS: Final = 2000
LONGEST_TEXT: Final = 100_000
MOST_BITS: Final = 128
Scope = dict[str, Any]
Look = Callable[[Scope], Any]


MOST_REMEMBERED: Final = 4096


def _remembered(ask: Callable[..., Any]) -> Callable[..., Any]:
    """Remembers what was found of types by what they are: a metaclass may have a say in what they hash to."""
    known: dict[tuple[Any, ...], tuple[Any, Any]] = {}

    @wraps(ask)
    def remembered(kind: type, *more: str) -> Any:
        key = (id(kind), *more)
        if key not in known:
            if len(known) >= MOST_REMEMBERED:
                known.clear()
            known[key] = kind, ask(kind, *more)
        return known[key][1]

    return remembered


class NotLookedAtError(Exception):
    """A value that can't be looked at without running code of its type; the message says which."""


class AbsentError(Exception):
    """What the function itself would have raised on: a field that is not there, an order of things that have none."""


# Of a type itself, whatever its metaclass says.
_classes: Callable[[type], tuple[type, ...]] = vars(type)["__mro__"].__get__
_own: Callable[[type], Mapping[str, Any]] = vars(type)["__dict__"].__get__
_extra = vars(BaseModel)["__pydantic_extra__"].__get__
_PLAIN = frozenset((bool, int, float, str, type(None)))
_SIZED = frozenset((str, list, tuple, dict, set, frozenset, bytes))
_EMPTY = _SIZED - {str, bytes}
# Whose attributes are found as those of all objects are.
_GENERIC = frozenset((object, SimpleNamespace, *_PLAIN, *_SIZED))
_DICTS = (GetSetDescriptorType, MemberDescriptorType)
_NONE = object()


def plain(value: Any) -> Any:
    """Returns a value that can be compared: a flag, number or text, None, or a member of an enumeration."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if type(kind) is EnumType:
        compares = _defining(kind, "__eq__")
        if compares is str:
            return str.__str__(value)
        if compares is int:
            return int.__int__(value)
        if compares is object:
            return value
    raise NotLookedAtError(f"a value of the type {kind.__name__}, which compares as its code says")


@_remembered
def _defining(kind: type, name: str) -> type | None:
    """Returns the class that a type has something from; None where it has no such thing."""
    return next((each for each in _classes(kind) if name in _own(each)), None)


def truth(value: Any) -> bool:
    """Returns whether a value counts as true."""
    kind = type(value)
    if kind in _PLAIN or kind in _SIZED:
        return bool(value)
    if _is_always_true(kind):
        return True
    if type(kind) is EnumType:
        return truth(plain(value))
    raise NotLookedAtError(f"a value of the type {kind.__name__}, whose code says whether it is true")


def _is_always_true(kind: type) -> bool:
    return not _defining(kind, "__bool__") and not _defining(kind, "__len__")


def size(value: Any) -> int:
    """Returns the length of a value."""
    kind = type(value)
    if kind in _SIZED:
        return len(value)
    if not _defining(kind, "__len__"):
        raise AbsentError
    raise NotLookedAtError(f"a value of the type {kind.__name__}, whose code says how long it is")


def field(value: Any, name: str) -> Any:
    """Returns a field of an instance, or a plain attribute of a class or module."""
    kind = type(value)
    if kind is ModuleType:
        found = object.__getattribute__(value, "__dict__").get(name, _NONE)
    elif type in _classes(kind):
        found = _of_class(value, name)
    else:
        how, slot = _place(kind, name)
        if how == "code":
            raise NotLookedAtError(f"{kind.__name__}.{name}, which is code")
        found = _NONE
        if how == "slot":
            try:
                found = slot.__get__(value)
            except AttributeError:
                raise AbsentError from None
        elif how == "dict":
            found = object.__getattribute__(value, "__dict__").get(name, slot)
            if found is _NONE and BaseModel in _classes(kind):
                found = (_extra(value) or {}).get(name, _NONE)
        else:
            found = slot
    if found is _NONE:
        raise AbsentError
    return found


@_remembered
def _place(kind: type, name: str) -> tuple[str, Any]:
    """Returns where instances of a type have a field: `slot`, `dict`, `class`; or that `code` has a say in it."""
    if _defining(kind, "__getattribute__") not in _GENERIC:
        return "code", None
    owner = _defining(kind, name)
    static = _own(owner)[name] if owner else _NONE
    if type(static) is MemberDescriptorType:
        return "slot", static
    if static is not _NONE and _defining(type(static), "__get__"):
        return "code", None
    owners = [_own(each)["__dict__"] for each in _classes(kind) if "__dict__" in _own(each)]
    has_dict = bool(owners) and all(type(each) in _DICTS for each in owners)
    if owners and not has_dict:
        return "code", None
    # A type that makes fields up is asked only for those that are not there. Of pydantic's own that is known.
    if _defining(kind, "__getattr__") not in (None, BaseModel) and static is _NONE:
        return "code", None
    return ("dict", static) if has_dict else ("class", static)


def _of_class(value: type, name: str) -> Any:
    kind: type = type(value)
    if kind is EnumType:
        members: Mapping[str, Any] = _own(value)["_member_map_"]
        return members.get(name, _NONE)
    owner = _defining(value, name)
    found = _own(owner)[name] if owner else _NONE
    if found is not _NONE and _defining(type(found), "__get__"):
        raise NotLookedAtError(f"{value.__name__}.{name}, which is code")
    return found


def _item(value: Any, key: Any) -> Any:
    kind = type(value)
    if kind is dict:
        found = value.get(_key(key), _NONE)
        if found is _NONE:
            raise AbsentError
        return found
    if kind is list or kind is tuple or kind is str:
        if type(key) not in (int, bool):
            raise AbsentError
        try:
            return value[key]
        except IndexError:
            raise AbsentError from None
    if not _defining(kind, "__getitem__"):
        raise AbsentError
    raise NotLookedAtError(f"an item of the type {kind.__name__}, which its code gives")


def _key(key: Any) -> Any:
    if type(key) not in _PLAIN:
        raise NotLookedAtError(f"what a dict has for a key of the type {type(key).__name__}")
    return key


def _got(value: Any, key: Any, default: Any) -> Any:
    if type(value) is not dict:
        _method_is_code(value, "get")
    return value.get(_key(key), default)


def _method_is_code(value: Any, name: str) -> NoReturn:
    kind = type(value)
    if not _defining(kind, name) and _defining(kind, "__getattr__") in (None, BaseModel):
        raise AbsentError
    raise NotLookedAtError(f"{kind.__name__}.{name}, which is code")


def _items(value: Any) -> Iterable[Any]:
    if type(value) not in (list, tuple, set, frozenset, dict):
        if not _defining(type(value), "__iter__"):
            raise AbsentError
        raise NotLookedAtError(f"the items of the type {type(value).__name__}, which its code gives")
    if len(value) > MOST_ITEMS:
        raise NotLookedAtError(f"a list of {len(value):,} items")
    return list(value)


def _contains(whole: Any, part: Any) -> bool:
    if type(whole) is str:
        if type(part) is not str:
            raise AbsentError
        return part in _text(whole)
    if type(whole) is dict:
        return _key(part) in whole
    wanted = plain(part)
    return any(plain(each) == wanted for each in _items(whole))


def _text(value: Any) -> str:
    if type(value) is not str:
        _method_is_code(value, "lower")
    if len(value) > LONGEST_TEXT:
        raise NotLookedAtError(f"a text of {len(value):,} characters")
    return value


def _number(value: Any) -> int | float:
    value = plain(value)
    if not isinstance(value, int | float):
        raise AbsentError
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise NotLookedAtError("a very large number")
    return value


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def ordered(left: Any, right: Any) -> bool:
        left, right = plain(left), plain(right)
        if isinstance(left, str) and isinstance(right, str):
            return compare(left, right)
        return compare(_number(left), _number(right))

    return ordered


def _same(left: Any, right: Any) -> bool:
    for one, other in ((left, right), (right, left)):
        # Nothing but another one is equal to an empty list, or the like.
        if type(one) in _EMPTY and not one and (type(other) in _PLAIN or type(other) in _SIZED):
            return type(other) is type(one) and not other
    return bool(plain(left) == plain(right))


def _is_kind(value: Any, kinds: Collection[type]) -> bool:
    kind = type(value)
    if any(each is wanted for each in _classes(kind) for wanted in kinds):
        return True
    if _tells_another_class(kind):
        raise NotLookedAtError(f"{kind.__name__}.__class__, which is code")
    return False


@_remembered
def _tells_another_class(kind: type) -> bool:
    """Whether instances may say that they are of another class, as those do that stand in for something."""
    lookup = _own(_defining(kind, "__getattribute__") or object)["__getattribute__"]
    return _defining(kind, "__class__") is not object or type(lookup) is not WrapperDescriptorType


def _kinds_in(kinds: Any) -> Iterator[type]:
    """Yields the classes that `isinstance` is given. Raises NotLiftedError where one has a say in what is one of it."""
    if type(kinds) in (tuple, list):
        for each in kinds:
            yield from _kinds_in(each)
    elif type(kinds) is UnionType:
        yield from _kinds_in(kinds.__args__)
    elif type not in _classes(type(kinds)):
        raise NotLiftedError("asks whether something is of a kind that is no class")
    elif _defining(type(kinds), "__instancecheck__") not in (type, type(BaseModel)) or (
        _defining(kinds, "__subclasshook__") is not object
    ):
        raise NotLiftedError(f"asks whether something is of the kind {kinds.__name__}, which is up to that kind's code")
    else:
        yield kinds


def _looking_by_call(name: str, arguments: Sequence[ex.Expression]) -> Look:
    if name == "isinstance" and len(arguments) == 2:
        return _looking_at_kind(looking(arguments[0]), arguments[1])
    function, given = _FUNCTIONS[name], [looking(each) for each in arguments]
    return lambda scope: function(*[each(scope) for each in given])


def _looking_at_kind(of: Look, kinds: ex.Expression) -> Look:
    try:
        # They are what they were when the table was made: a name that has another value since ends it.
        wanted = tuple(_kinds_in(looking(kinds)({})))
    except (KeyError, AbsentError, NotLookedAtError):
        raise NotLiftedError(f"asks whether something is of the kind `{ex.in_source(kinds)}`") from None
    return lambda scope: _is_kind(of(scope), wanted)


def _has(value: Any, name: str) -> bool:
    try:
        field(value, name)
    except AbsentError:
        return False
    except NotLookedAtError:
        # A method of Python's own types, or a property: that it is there, its type says.
        if _defining(type(value), name):
            return True
        raise
    return True


def _summed(values: Any) -> Any:
    return sum(_number(each) for each in _items(values))


def _extreme(of: Callable[[list[Any]], Any]) -> Callable[..., Any]:
    def extreme(*values: Any) -> Any:
        numbers = [_number(each) for each in (_items(values[0]) if len(values) == 1 else values)]
        if not numbers:
            raise AbsentError
        return of(numbers)

    return extreme


def _first(values: Any, default: Any = _NONE) -> Any:
    for each in _items(values):
        return each
    if default is _NONE:
        raise AbsentError
    return default


def _shown(value: Any) -> str:
    value = plain(value)
    if type(value) is not str and not isinstance(value, bool | int | None):
        raise NotLookedAtError("a value as text")
    return str(value)


_NUMBERED = frozenset((str, int, float, bool))
_NEVER_NUMBERED = frozenset((type(None), list, dict, tuple, set, frozenset))


def _whole(value: Any = 0) -> int:
    value = plain(value)
    if type(value) not in _NUMBERED:
        if type(value) in _NEVER_NUMBERED:
            raise AbsentError
        raise NotLookedAtError("a value as a number")
    try:
        return int(value if type(value) is str else _number(value))
    except (ValueError, OverflowError):
        raise AbsentError from None


def _prefix(value: Any) -> Any:
    if type(value) is tuple or type(value) is list:
        return tuple(_text(each) for each in value)
    return _text(value)


def _of_text(method: Callable[..., Any]) -> Callable[..., Any]:
    return lambda value, *more: method(_text(value), *map(_prefix, more))


_METHODS: tuple[Callable[..., Any], ...] = (
    str.lower, str.upper, str.casefold, str.strip, str.lstrip, str.rstrip, str.startswith, str.endswith, str.title,
)  # fmt: skip
_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": _same,
    "!=": lambda left, right: not _same(left, right),
    "<": _ordered(operator.lt),
    "<=": _ordered(operator.le),
    ">": _ordered(operator.gt),
    ">=": _ordered(operator.ge),
    "is": operator.is_,
    "is not": operator.is_not,
    "in": lambda left, right: _contains(right, left),
    "not in": lambda left, right: not _contains(right, left),
}
_ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}
OPERATORS: Final = frozenset(_ARITHMETIC)
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "len": size,
    "bool": lambda value=False: truth(value),
    "isinstance": _is_kind,
    "hasattr": _has,
    "any": lambda values: any(map(truth, _items(values))),
    "all": lambda values: all(map(truth, _items(values))),
    "sum": _summed,
    "max": _extreme(max),
    "min": _extreme(min),
    "abs": lambda value: abs(_number(value)),
    "int": _whole,
    "reversed": lambda values: list(_items(values))[::-1],
    "list": lambda values=(): list(_items(values)),
    "set": lambda values=(): {plain(each) for each in _items(values)},
    "next": _first,
    "str": _shown,
    "dict.keys": lambda value: list(_items(value)) if type(value) is dict else _method_is_code(value, "keys"),
    "dict.values": lambda value: list(value.values()) if type(value) is dict else _method_is_code(value, "values"),
    "dict.items": lambda value: list(value.items()) if type(value) is dict else _method_is_code(value, "items"),
    **{f"str.{method.__name__}": _of_text(method) for method in _METHODS},
}
FUNCTIONS: Final = frozenset(name for name in _FUNCTIONS if "." not in name)
TEXT_METHODS: Final = frozenset(name.removeprefix("str.") for name in _FUNCTIONS if name.startswith("str."))
DICT_METHODS: Final = frozenset(name.removeprefix("dict.") for name in _FUNCTIONS if name.startswith("dict."))


def looking(expression: ex.Expression) -> Look:
    """Returns a function of the arguments by name that evaluates an expression. It raises the two errors above.

    Raises NotLiftedError where no state can be looked at that way.
    """
    match expression:
        case ex.Argument(name):
            return lambda scope: scope[name]
        case ex.Constant(value=value) | ex.Named(value=value):
            return lambda _: value
        case ex.Attribute(of, name, default):
            return _looking_at_attribute(looking(of), name, looking(default) if default else None)
        case ex.Item(of, key, None):
            whole, at = looking(of), looking(key)
            return lambda scope: _item(whole(scope), at(scope))
        case ex.Item(of, key, ex.Expression() as default):
            whole, at, otherwise = looking(of), looking(key), looking(default)
            return lambda scope: _got(whole(scope), at(scope), otherwise(scope))
        case ex.Call(name, arguments):
            return _looking_by_call(name, arguments)
        case ex.Compare(sign, left, right):
            compare, one, other = _COMPARE[sign], looking(left), looking(right)
            return lambda scope: compare(one(scope), other(scope))
        case ex.Both(left, right) | ex.Either(left, right):
            one, other, wanted = looking(left), looking(right), isinstance(expression, ex.Both)
            return lambda scope: other(scope) if truth(value := one(scope)) is wanted else value
        case ex.Negation(of):
            negated = looking(of)
            return lambda scope: not truth(negated(scope))
    return _looking_further(expression)


def _looking_further(expression: ex.Expression) -> Look:
    match expression:
        case ex.Conditional(test, then, otherwise):
            tested, yes, no = looking(test), looking(then), looking(otherwise)
            return lambda scope: (yes if truth(tested(scope)) else no)(scope)
        case ex.Arithmetic(sign, left, right):
            compute, one, other = _ARITHMETIC[sign], looking(left), looking(right)

            def computed(scope: Scope) -> Any:
                try:
                    return compute(_number(one(scope)), _number(other(scope)))
                except ArithmeticError:
                    raise AbsentError from None

            return computed
        case ex.Slice(of, first, last):
            whole, begin, end = looking(of), looking(first or ex.NOTHING), looking(last or ex.NOTHING)
            return lambda scope: _sliced(whole(scope), begin(scope), end(scope))
        case ex.Display(items):
            parts = [looking(each) for each in items]
            return lambda scope: [part(scope) for part in parts]
        case ex.Mapping(keys, values):
            names, found = [looking(each) for each in keys], [looking(each) for each in values]
            return lambda scope: {plain(name(scope)): each(scope) for name, each in zip(names, found, strict=True)}
        case ex.Comprehension():
            return _looking_through(expression)

    def raises(_: Scope) -> Any:
        raise AbsentError

    return raises


def _looking_at_attribute(of: Look, name: str, default: Look | None) -> Look:
    if default is None:
        return lambda scope: field(of(scope), name)

    def with_default(scope: Scope) -> Any:
        whole = of(scope)
        try:
            return field(whole, name)
        except AbsentError:
            return default(scope)

    return with_default


def _looking_through(expression: ex.Comprehension) -> Look:
    source, element = looking(expression.source), looking(expression.element)
    conditions, variable = [looking(each) for each in expression.conditions], expression.variable

    def through(scope: Scope) -> Any:
        found = []
        for each in _items(source(scope)):
            inside = {**scope, variable: each}
            if all(truth(condition(inside)) for condition in conditions):
                found.append(element(inside))
        return found

    return through


def _sliced(whole: Any, first: Any, last: Any) -> Any:
    if type(whole) not in (list, tuple, str):
        _method_is_code(whole, "__getitem__")
    if not all(each is None or type(each) in (int, bool) for each in (first, last)):
        raise AbsentError
    if len(whole) > MOST_ITEMS:
        raise NotLookedAtError(f"a part of {len(whole):,} items")
    return whole[first:last]


def is_finite_number(value: Any) -> bool:
    """Whether a value is a number that a ledger can keep."""
    return type(value) in (int, float) and abs(value) < 2**53
