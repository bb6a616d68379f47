"""What a condition tells of the names in it: on the way where it holds, and on the other."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from services.offline_model.code_review.patterns import only_words
from services.offline_model.code_review.shown import bare_name, dotted
from services.offline_model.code_review.values import (
    CHECKED,
    INSIDE,
    NUMBER,
    OUTSIDE,
    UNKNOWN,
    WORD,
    Origin,
    Value,
    constant,
    doubt,
    join,
    of,
)

Env = dict[str, Value]
Evaluate = Callable[[ast.expr, Env], Value]
_NUMBERS = frozenset({"isdigit", "isdecimal"})
_WORDS = frozenset({"isalnum", "isalpha", "isidentifier"})
# What says nothing of the letters of a text.
_IDLE_CALLS = frozenset({"len", "bool", "isinstance", "callable", "hasattr"})
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Gt: lambda a, b: a > b, ast.GtE: lambda a, b: a >= b, ast.Lt: lambda a, b: a < b, ast.LtE: lambda a, b: a <= b,
    ast.Eq: lambda a, b: a == b, ast.NotEq: lambda a, b: a != b, ast.Is: lambda a, b: _is(a, b),
    ast.IsNot: lambda a, b: not _is(a, b), ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip


@dataclass(frozen=True)
class Branches:
    """What is known where a condition holds, and where it does not; None where that cannot be."""

    holds: Env | None
    fails: Env | None


@dataclass(frozen=True)
class Conditions:
    """Reads conditions; `file` is where they stand, `is_defined` tells of a name whether a class has such a method.

    Of `==` it tells whether there are texts or numbers that compare as they like.
    """

    file: str
    evaluate: Evaluate
    is_defined: Callable[[str], bool]

    def split(self, test: ast.expr, env: Env) -> Branches:
        """Parts what is known by a condition."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self.split(test.operand, env)
            return Branches(inner.fails, inner.holds)
        if isinstance(test, ast.BoolOp):
            return self._split_all(test, env)
        if isinstance(test, ast.NamedExpr):
            self.evaluate(test, env)
            return self.split(test.target, env)
        truth = self._truth(test, env)
        if truth is not None:
            return Branches(env if truth else None, None if truth else env)
        return self._told(test, env)

    def _split_all(self, test: ast.BoolOp, env: Env) -> Branches:
        """Parts by `and` and `or`: what ends the reading early may do so at any part."""
        is_and = isinstance(test.op, ast.And)
        current: Env | None = env
        early: list[Env] = []
        for part in test.values:
            if current is None:
                break
            found = self.split(part, current)
            ended, current = (found.fails, found.holds) if is_and else (found.holds, found.fails)
            if ended is not None:
                early.append(ended)
        left = joined(early)
        return Branches(current, left) if is_and else Branches(left, current)

    def _truth(self, test: ast.expr, env: Env) -> bool | None:
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            return self.compared(test, env)
        return self.evaluate(test, env).truth

    def compared(self, test: ast.Compare, env: Env) -> bool | None:
        """Returns what a comparison of two values comes to, when that is known."""
        left, right = self.evaluate(test.left, env), self.evaluate(test.comparators[0], env)
        compare = _COMPARISONS.get(type(test.ops[0]))
        is_membership = isinstance(test.ops[0], ast.In | ast.NotIn)
        sides = [_alternatives(left), _members(right) if is_membership else _alternatives(right)]
        if compare is None or any(side is None for side in sides):
            return None
        try:
            found = {bool(compare(one, other)) for one in sides[0] or () for other in sides[1] or ()}
        except TypeError:
            return None
        return found.pop() if len(found) == 1 else None

    def _told(self, test: ast.expr, env: Env) -> Branches:
        if isinstance(test, ast.Name | ast.Attribute):
            return Branches(env, env)
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            found = self._by_comparison(test, env)
        elif isinstance(test, ast.Call):
            found = self._by_call(test, env)
        else:
            found = None
        return found or self._doubted(test, env)

    def _by_comparison(self, test: ast.Compare, env: Env) -> Branches | None:
        operator, right = test.ops[0], self.evaluate(test.comparators[0], env)
        name = _name_of(test.left)
        if not name or name not in env or isinstance(operator, ast.Lt | ast.LtE | ast.Gt | ast.GtE):
            return Branches(env, env) if _is_idle(test.left) else None
        if self.is_defined("==") and any(one.kind == UNKNOWN for one in env[name].sources):
            return None
        told: Value | None = None
        if isinstance(operator, ast.Eq | ast.NotEq | ast.Is | ast.IsNot) and right.constants is not None:
            told = right
            if all(one.value is None for one in right.constants):
                # That something is nothing, or is not, says nothing of its letters.
                held = {**env, name: constant(None)}
                branches = Branches(held, env)
                return branches if isinstance(operator, ast.Eq | ast.Is) else Branches(env, held)
        elif isinstance(operator, ast.In | ast.NotIn):
            told = self._member(right)
        if told is None:
            return None
        held = {**env, name: self._noted(told, test, name, env)}
        return Branches(held, env) if isinstance(operator, ast.Eq | ast.Is | ast.In) else Branches(env, held)

    def _member(self, holder: Value) -> Value | None:
        """Returns what a member of a collection may be; None when it may be a part of a text as well."""
        if holder.entries is not None:
            return Value(constants=frozenset(key for key, _ in holder.entries))
        if holder.items is not None or any(one.kind in (UNKNOWN, OUTSIDE) for one in holder.sources):
            # A member comes from where the collection comes from.
            return Value(holder.sources)
        return None

    def _noted(self, told: Value, test: ast.expr, name: str, env: Env) -> Value:
        """Returns what a check leaves of a value, with a word on the check."""
        if not env[name].sources:
            return Value(constants=told.constants, texts=told.texts)
        note = Origin(CHECKED, f"`{name}` is checked", self.file, test.lineno)
        return Value(told.sources | {note}, constants=told.constants, texts=told.texts)

    def _by_call(self, test: ast.Call, env: Env) -> Branches | None:
        tested = bare_name(test.func)
        if self.is_defined(tested):
            return None
        receiver = test.func.value if isinstance(test.func, ast.Attribute) else None
        if tested in _IDLE_CALLS and receiver is None:
            return Branches(env, env)
        if tested == "fullmatch":
            return self._by_pattern(test, env)
        name = _name_of(receiver) if receiver is not None else ""
        if name not in env or not env[name].sources:
            return None
        note = Origin("", f"`{name}` is checked", self.file, test.lineno)
        if tested in _NUMBERS and not test.args:
            return Branches({**env, name: of(_as(note, NUMBER))}, env)
        if tested in _WORDS and not test.args:
            return Branches({**env, name: of(_as(note, WORD))}, env)
        if tested == "is_relative_to" and len(test.args) == 1 and self._is_resolved(env[name]):
            base = self.evaluate(test.args[0], env)
            if not any(one.kind == OUTSIDE for one in base.sources):
                unknown = frozenset(one for one in base.sources if one.kind not in (CHECKED, NUMBER))
                return Branches({**env, name: Value(unknown | {_as(note, INSIDE)}, made_by=env[name].made_by)}, env)
        return None

    def _by_pattern(self, test: ast.Call, env: Env) -> Branches | None:
        function = self.evaluate(test.func, env).refers
        pattern, given = (
            (test.args[0], test.args[1:]) if function == "re.fullmatch" and test.args else (None, test.args)
        )
        if pattern is None:
            compiled = self.evaluate(test.func.value, env) if isinstance(test.func, ast.Attribute) else Value()
            texts = compiled.items[0].constants if compiled.made_by == "re.compile" and compiled.items else None
        else:
            texts = self.evaluate(pattern, env).constants
        name = _name_of(given[0]) if len(given) == 1 and not test.keywords else ""
        if name not in env or not texts or not all(only_words(one.value) for one in texts):
            return None
        kinds = {only_words(one.value) for one in texts}
        kind = NUMBER if kinds == {"number"} else WORD
        note = Origin(kind, f"`{name}` is checked", self.file, test.lineno)
        return Branches({**env, name: of(note)}, env)

    def _is_resolved(self, value: Value) -> bool:
        return value.made_by in {".resolve", "os.path.realpath"}

    def _doubted(self, test: ast.expr, env: Env) -> Branches:
        """A condition that can't be read may be the one that matters: what it asks about is in doubt from here on."""
        names = {dotted(node) for node in ast.walk(test) if isinstance(node, ast.Name | ast.Attribute)}
        about = {origin for name in names if name in env for origin in env[name].sources if origin.kind == OUTSIDE}
        if not about:
            return Branches(env, env)
        told = {name: _with_doubt(value, about) for name, value in env.items()}
        return Branches(told, dict(told))


def joined(envs: list[Env]) -> Env | None:
    """What is known where several ways meet; None when there is none."""
    if not envs:
        return None
    if len(envs) == 1:
        return envs[0]
    # A name that one way lacks has no value there to use; an attribute that it lacks may have any.
    names = {name for env in envs for name in env if "." not in name or all(name in other for other in envs)}
    return {name: join([env[name] for env in envs if name in env]) for name in names}


def _is(one: object, other: object) -> bool:
    """Tells whether two constants are one object. Raises TypeError when that is up to who runs the program."""
    if type(one) is type(other) and one == other and one not in (None, True, False, ...):
        raise TypeError("two equal texts or numbers need not be the same object")
    return type(one) is type(other) and one == other


def _with_doubt(value: Value, about: set[Origin]) -> Value:
    if not value.sources & about:
        return value
    return Value(
        doubt(value.sources),
        items=tuple(_with_doubt(item, about) for item in value.items) if value.items is not None else None,
        entries=tuple((k, _with_doubt(v, about)) for k, v in value.entries) if value.entries is not None else None,
        cells=value.cells,
        refers=value.refers,
        made_by=value.made_by,
    )


def _is_idle(node: ast.expr) -> bool:
    """Tells whether an expression says nothing of the letters of what it is about: its length, or how it ends."""
    if isinstance(node, ast.Call):
        return bare_name(node.func) in _IDLE_CALLS
    return isinstance(node, ast.Attribute) and node.attr == "suffix"


def _name_of(node: ast.expr) -> str:
    """Returns the name whose very value an expression is."""
    return dotted(node) if isinstance(node, ast.Name) or _is_chain(node) else ""


def _is_chain(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _as(origin: Origin, kind: str) -> Origin:
    return Origin(kind, origin.what, origin.file, origin.line)


def _alternatives(value: Value) -> list[object] | None:
    return [one.value for one in value.constants] if value.constants is not None else None


def _members(value: Value) -> list[object] | None:
    """Returns the collections that a value may be, when every member is known."""
    if value.items is not None and all(item.only is not None for item in value.items):
        return [[item.only.value for item in value.items if item.only]]
    if value.entries is not None:
        return [{key.value for key, _ in value.entries}]
    return _alternatives(value)
