"""A path function's source as one expression: assignments are put in where their names stand, an `if` is a choice.

What a statement or a call does beside that (a line in a log) is left to the function. Small functions that it calls are
put in, too. Nothing of the source is run: names are looked up in its module, its closure and its instance.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import EnumType
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType
from typing import Any, Final, cast

from langgraph.types import Send

from services.runtime.hosted.lifting import expressions as ex
from services.runtime.hosted.lifting import looking
from services.runtime.hosted.lifting.expressions import NotLiftedError
from services.runtime.hosted.path_function import PathFunction

MOST_STEPS: Final = 4000
MOST_PARTS: Final = 2000
# Of what is asked of each item of a list.
MOST_PARTS_OF_ITEM: Final = 60
DEEPEST: Final = 6
# What LangGraph itself gives a path function beside the state.
GIVEN: Final = ("config", "runtime", "store", "writer")
Names = dict[str, ex.Expression]
_CONSTANTS = (bool, int, float, str, type(None))
_MISSING = object()
_ARITHMETIC: Mapping[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
}  # fmt: skip
_COMPARE: Mapping[type, str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip
_UNSUPPORTED: Mapping[type, str] = {
    ast.For: "loops", ast.While: "loops", ast.AsyncFor: "loops", ast.Try: "catches exceptions",
    ast.TryStar: "catches exceptions", ast.With: "enters a context", ast.AsyncWith: "enters a context",
    ast.Await: "awaits something", ast.Yield: "is a generator", ast.YieldFrom: "is a generator",
    ast.Global: "changes a name of its module", ast.Nonlocal: "changes a name around it",
    ast.Delete: "deletes something",
    ast.FunctionDef: "defines a function", ast.ClassDef: "defines a class", ast.Lambda: "makes a function",
    ast.AsyncFunctionDef: "defines a function", ast.JoinedStr: "puts a text together",
    ast.Starred: "unpacks something", ast.DictComp: "makes a dict", ast.SetComp: "makes a set",
}  # fmt: skip


# Methods that change what they are called on.
_CHANGES = frozenset(
    (
        "append",
        "extend",
        "insert",
        "pop",
        "popitem",
        "remove",
        "clear",
        "update",
        "setdefault",
        "sort",
        "reverse",
        "add",
    )
)


@dataclass(frozen=True)
class _Unread(ex.Expression):
    """What a name stands for that could not be followed, and why."""

    reason: str


@dataclass
class _Budget:
    left: int = MOST_STEPS

    sizes: dict[int, tuple[ex.Expression, int]] = field(default_factory=dict)

    def size(self, expression: ex.Expression) -> int:
        """Returns how many parts an expression has, those counted again that stand in several places."""
        known = self.sizes.get(id(expression))
        if known is None:
            known = expression, 1 + sum(self.size(part) for part in expression.parts)
            self.sizes[id(expression)] = known
        return known[1]

    def bounded(self, expression: ex.Expression, most: int = MOST_PARTS) -> ex.Expression:
        """Returns an expression. Raises NotLiftedError for one that would take long to evaluate."""
        if self.size(expression) > most:
            raise NotLiftedError("asks too much at once")
        return expression

    def spend(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise NotLiftedError("has too many ways through it")


@dataclass(frozen=True)
class Unfolded:
    """A function as one expression of its arguments; `arguments` are those that it is given at each call."""

    expression: ex.Expression
    arguments: tuple[str, ...]


def unfolded(function: Callable[..., Any] | None) -> Unfolded:
    """Returns a path function as one expression. Raises NotLiftedError."""
    if function is None:
        raise NotLiftedError("is no function")
    called = _called(function)
    budget = _Budget()
    names = dict(called.bound)
    parameters = called.parameters
    state = next((each for each in parameters if each not in names), None)
    if state is None:
        raise NotLiftedError("takes no state")
    names[state] = ex.Argument(state)
    given = [each for each in parameters if each in GIVEN and each not in called.bound]
    names |= {each: ex.Argument(each) for each in given}
    names = {**called.defaults, **names}
    if missing := [each for each in parameters if each not in names]:
        raise NotLiftedError(f"takes {missing[0]!r}, which is no part of the state")
    # What is given stays in the place of a default.
    return Unfolded(_Reading(called, names, budget, 0).all(), (state, *(each for each in given if each != state)))


@dataclass(frozen=True)
class _Called:
    """A function of Python's with its source, and those of its arguments that are known beforehand."""

    function: FunctionType
    tree: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    bound: Names = field(default_factory=dict)

    @property
    def parameters(self) -> list[str]:
        given = self.tree.args
        if given.vararg or given.kwarg:
            raise NotLiftedError("takes any number of arguments")
        return [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]

    @property
    def defaults(self) -> Names:
        named = [each.arg for each in (*self.tree.args.posonlyargs, *self.tree.args.args)]
        values = self.function.__defaults__ or ()
        found = dict(zip(named[len(named) - len(values) :], values, strict=True)) | (self.function.__kwdefaults__ or {})
        return {name: _value_of(name, value, self.function) for name, value in found.items()}


def _called(function: Any, bound: Names | None = None) -> _Called:
    """Finds the source of what is called: through decorators, partials, methods and objects that are callable."""
    bound = dict(bound or {})
    # With what each is an argument by.
    positional: list[tuple[Any, Any]] = []
    for _ in range(DEEPEST):
        kind = type(function)
        if kind is functools.partial:
            positional = [*((each, function) for each in function.args), *positional]
            bound |= {name: _value_of(name, value, function) for name, value in function.keywords.items()}
            function = function.func
        elif kind is MethodType:
            positional = [(function.__self__, function.__self__), *positional]
            function = function.__func__
        elif kind is FunctionType and "__wrapped__" in vars(function):
            function = vars(function)["__wrapped__"]
        elif kind is FunctionType:
            break
        elif kind is BuiltinFunctionType or kind is type:
            raise NotLiftedError("is no function of Python's")
        else:
            call = inspect.getattr_static(kind, "__call__", None)
            if type(call) is not FunctionType:
                raise NotLiftedError("is no function of Python's")
            positional, function = [(function, function), *positional], call
    if type(function) is not FunctionType:
        raise NotLiftedError("is decorated too deeply")
    return _with_source(function, positional, bound)


def _with_source(function: FunctionType, positional: Sequence[tuple[Any, Any]], bound: Names) -> _Called:
    if function.__code__.co_flags & (inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR):
        raise NotLiftedError("is a generator")
    tree = PathFunction(function).tree
    if not isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        raise NotLiftedError("has no source that could be found")
    named = [each.arg for each in (*tree.args.posonlyargs, *tree.args.args)]
    if len(positional) > len(named):
        raise NotLiftedError("takes any number of arguments")
    bound = bound | {name: _value_of(name, *given) for name, given in zip(named, positional, strict=False)}
    return _Called(function, tree, bound)


def _value_of(name: str, value: Any, home: Any) -> ex.Named:
    return ex.Named(name, value, lambda: value, home)


class _Reading:
    """One function that is read, with what its names stand for."""

    def __init__(self, called: _Called, names: Names, budget: _Budget, depth: int) -> None:
        self._function = called.function
        self._tree = called.tree
        self._names = names
        self._budget = budget
        self._depth = depth
        self._own = frozenset(called.function.__code__.co_varnames)
        code = called.function.__code__
        self._cells: Mapping[str, CellType] = dict(
            zip(code.co_freevars, called.function.__closure__ or (), strict=True)
        )
        self._variables: tuple[str, ...] = ()

    def all(self) -> ex.Expression:
        """Returns what the function returns, as an expression."""
        if isinstance(self._tree, ast.Lambda):
            return self._of(self._tree.body, self._names)
        return self._after(self._tree.body, self._names)

    # Statements

    def _after(self, statements: Sequence[ast.stmt], names: Names) -> ex.Expression:
        """Returns what these statements, one after another, come to return."""
        for number, statement in enumerate(statements):
            self._budget.spend()
            rest = statements[number + 1 :]
            match statement:
                case ast.Return(value):
                    return self._of(value, names) if value else ex.NOTHING
                case ast.Raise():
                    return ex.Raises()
                case ast.If(test, body, orelse):
                    tested = self._of(test, names)
                    known = constant_truth(tested)
                    if known is not None:
                        return self._after([*(body if known else orelse), *rest], names)
                    then = self._after([*body, *rest], dict(names))
                    otherwise = self._after([*orelse, *rest], dict(names))
                    return self._budget.bounded(ex.Conditional(tested, then, otherwise))
                case ast.Match(subject, cases):
                    return self._matched(self._of(subject, names), cases, rest, names)
                case ast.Assert(test):
                    return ex.Conditional(self._of(test, names), self._after(rest, dict(names)), ex.Raises())
                case _:
                    self._noted(statement, names)
        return ex.NOTHING

    def _noted(self, statement: ast.stmt, names: Names) -> None:
        """Takes in a statement that leads nowhere."""
        match statement:
            case ast.Assign(targets, value):
                for target in targets:
                    self._assign(target, value, names)
            case ast.AnnAssign(ast.Name(target), value=ast.expr() as value):
                names[target] = self._of(value, names)
            case ast.AnnAssign(value=None) | ast.Pass():
                pass
            case ast.AugAssign(ast.Name(target), operator, value):
                sign = _ARITHMETIC.get(type(operator))
                if sign is None or target not in names:
                    raise NotLiftedError(f"computes `{_shown(statement)}`")
                names[target] = ex.Arithmetic(sign, self._name(target, names), self._of(value, names))
            case ast.Import() | ast.ImportFrom():
                self._imported(statement, names)
            case ast.Expr(value):
                self._done(value, names)
            case _:
                raise NotLiftedError(_UNSUPPORTED.get(type(statement), f"does `{_shown(statement)}`"))

    def _assign(self, target: ast.expr, value: ast.expr, names: Names) -> None:
        match target, value:
            case ast.Name(name), _:
                names[name] = self._readable(value, names)
            case ast.Tuple(targets), ast.Tuple(values) if len(targets) == len(values):
                found = [self._of(each, names) for each in values]
                for each, expression in zip(targets, found, strict=True):
                    if not isinstance(each, ast.Name):
                        raise NotLiftedError(f"changes `{_shown(each)}`")
                    names[each.id] = expression
            case ast.Tuple(), _:
                raise NotLiftedError("unpacks something")
            case _:
                raise NotLiftedError(f"changes `{_shown(target)}`")

    def _readable(self, value: ast.expr, names: Names) -> ex.Expression:
        """Returns a value; one that can't be followed is an obstacle to those only that use it."""
        try:
            return self._of(value, names)
        except NotLiftedError as error:
            for each in ast.walk(value):
                waits = isinstance(each, ast.Await | ast.Yield | ast.YieldFrom)
                if waits or (isinstance(each, ast.Attribute) and each.attr in _CHANGES):
                    raise
            return _Unread(str(error))

    def _imported(self, statement: ast.Import | ast.ImportFrom, names: Names) -> None:
        for each in statement.names:
            name = each.asname or each.name.partition(".")[0]
            if isinstance(statement, ast.Import):
                module = each.name if each.asname else name
                around: Any = sys.modules
                found: Any = around.get(module, _MISSING)
            else:
                around = sys.modules.get(statement.module or "") if not statement.level else None
                found = vars(around).get(each.name, _MISSING) if type(around) is ModuleType else _MISSING
            # What is not there yet can't be looked at; what never asks for it loses nothing.
            names.pop(name, None)
            if found is not _MISSING:
                names[name] = _value_of(name, found, around)

    def _done(self, value: ast.expr, names: Names) -> None:
        """Passes over what is done for its effect, unless that is on what is looked at."""
        match value:
            case ast.Constant():
                return
            case ast.Call(function) if self._is_told(function, names):
                return
            case ast.Await():
                raise NotLiftedError("awaits something")
            case ast.Call(function):
                raise NotLiftedError(f"calls `{_shown(function)}`")
        self._of(value, names)

    def _is_told(self, function: ast.expr, names: Names) -> bool:
        """Whether a call tells somebody something: `print`, or a method of a logger."""
        if isinstance(function, ast.Name):
            # Other libraries' ways to print have the name of Python's.
            return function.id == "print"
        if not isinstance(function, ast.Attribute):
            return False
        if self._static(function.value, names) is logging or isinstance(
            self._static(function.value, names), logging.Logger | logging.LoggerAdapter
        ):
            return True
        # Loggers of other libraries, by what everybody calls theirs.
        said = _shown(function.value).rpartition(".")[2].lower().lstrip("_")
        methods = ("debug", "info", "warning", "warn", "error", "exception", "critical", "success", "print")
        return said in ("logger", "log", "console", "logging") and function.attr in methods

    def _static(self, node: ast.expr, names: Names) -> Any:
        try:
            found = self._of(node, names)
        except NotLiftedError:
            return _MISSING
        return found.value if isinstance(found, ex.Named) else _MISSING

    def _matched(
        self, subject: ex.Expression, cases: Sequence[ast.match_case], rest: Sequence[ast.stmt], names: Names
    ) -> ex.Expression:
        if not cases:
            return self._after(rest, names)
        case, *others = cases
        inside = dict(names)
        test = self._pattern(case.pattern, subject, inside)
        if case.guard:
            guard = self._of(case.guard, inside)
            test = guard if test is None else ex.Both(test, guard)
        then = self._after([*case.body, *rest], inside)
        return then if test is None else ex.Conditional(test, then, self._matched(subject, others, rest, names))

    def _pattern(self, pattern: ast.pattern, subject: ex.Expression, names: Names) -> ex.Expression | None:
        """Returns the test of a pattern; None for one that always fits."""
        match pattern:
            case ast.MatchValue(value):
                return ex.Compare("==", subject, self._of(value, names))
            case ast.MatchSingleton(value):
                return ex.Compare("is", subject, ex.Constant.of(value))
            case ast.MatchAs(None, name):
                if name:
                    names[name] = subject
                return None
            case ast.MatchAs(ast.pattern() as inner, name):
                if name:
                    names[name] = subject
                return self._pattern(inner, subject, names)
            case ast.MatchOr(patterns):
                tests = [self._pattern(each, subject, names) for each in patterns]
                return functools.reduce(lambda one, other: one and other and ex.Either(one, other), tests)
            case ast.MatchClass(cls, [], [], []):
                return ex.Call("isinstance", (subject, self._of(cls, names)))
        raise NotLiftedError(f"matches `{_shown(pattern)}`")

    # Expressions

    def _of(self, node: ast.expr, names: Names) -> ex.Expression:
        self._budget.spend()
        return self._budget.bounded(self._read(node, names))

    def _read(self, node: ast.expr, names: Names) -> ex.Expression:
        match node:
            case ast.Constant(value):
                if not isinstance(value, _CONSTANTS):
                    raise NotLiftedError(f"has the constant {value!r}")
                return ex.Constant.of(value)
            case ast.Name(name):
                return self._name(name, names)
            case ast.NamedExpr(ast.Name(name), value):
                names[name] = self._of(value, names)
                return names[name]
            case ast.Attribute(value, name):
                return _attribute(self._of(value, names), name)
            case ast.Subscript() | ast.Call() | ast.List() | ast.Tuple() | ast.Set() | ast.Dict():
                return self._made(node, names)
        return self._operated(node, names)

    def _made(self, node: ast.expr, names: Names) -> ex.Expression:
        match node:
            case ast.Call():
                return self._call(node, names)
            case ast.Subscript(value, ast.Slice(lower, upper, None)):
                bounds = [self._of(each, names) if each else None for each in (lower, upper)]
                return ex.Slice(self._of(value, names), *bounds)
            case ast.Subscript(value, key):
                return ex.Item(self._of(value, names), self._of(key, names))
        return self._displayed(node, names)

    def _operated(self, node: ast.expr, names: Names) -> ex.Expression:
        match node:
            case ast.BoolOp(ast.And() | ast.Or() as sign, values):
                return self._logic(ex.Both if isinstance(sign, ast.And) else ex.Either, values, names)
            case ast.UnaryOp(ast.Not(), operand):
                return ex.Negation(self._of(operand, names))
            case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as value)):
                return ex.Constant.of(-value)
            case ast.BinOp(left, sign, right) if type(sign) in _ARITHMETIC:
                return ex.Arithmetic(_ARITHMETIC[type(sign)], self._of(left, names), self._of(right, names))
            case ast.Compare(left, signs, others):
                return self._compared([left, *others], signs, names)
            case ast.IfExp(test, then, otherwise):
                tested = self._of(test, names)
                return ex.Conditional(tested, self._of(then, dict(names)), self._of(otherwise, dict(names)))
        return self._displayed(node, names)

    def _displayed(self, node: ast.expr, names: Names) -> ex.Expression:
        match node:
            case ast.List(items) | ast.Tuple(items) | ast.Set(items):
                return ex.Display(tuple(self._of(each, names) for each in items))
            case ast.Dict(keys, values) if all(keys):
                named = tuple(self._of(cast(ast.expr, each), names) for each in keys)
                if not all(isinstance(each, ex.Constant | ex.Named) for each in named):
                    raise NotLiftedError("makes a dict with keys of the state")
                return ex.Mapping(named, tuple(self._of(each, names) for each in values))
            case ast.ListComp(element, [one]) | ast.GeneratorExp(element, [one]):
                return self._through(element, one, names)
        raise NotLiftedError(_UNSUPPORTED.get(type(node), f"computes `{_shown(node)}`"))

    def _through(self, element: ast.expr, one: ast.comprehension, names: Names) -> ex.Expression:
        if not isinstance(one.target, ast.Name) or one.is_async or self._variables:
            raise NotLiftedError("has a comprehension inside of another, or of several names")
        source = self._of(one.iter, names)
        variable = f"each_{one.target.id}"
        inside = {**names, one.target.id: ex.Argument(variable)}
        self._variables = (variable,)
        try:
            conditions = tuple(self._of(each, inside) for each in one.ifs)
            made = self._of(element, inside)
            for each in (made, *conditions):
                self._budget.bounded(each, MOST_PARTS_OF_ITEM)
            return ex.Comprehension(variable, source, made, conditions)
        finally:
            self._variables = ()

    def _logic(self, kind: type[ex.Both] | type[ex.Either], values: Sequence[ast.expr], names: Names) -> ex.Expression:
        found = self._of(values[0], names)
        for value in values[1:]:
            before = dict(names)
            other = self._of(value, names)
            for name in names:
                # Named with `:=`, which happens only where it comes to this part.
                if name in before and names[name] != before[name]:
                    ways = (names[name], self._name(name, before))
                    ways = ways if kind is ex.Both else ways[::-1]
                    names[name] = ex.Conditional(found, *ways)
            found = kind(found, other)
        return found

    def _compared(self, parts: Sequence[ast.expr], signs: Sequence[ast.cmpop], names: Names) -> ex.Expression:
        found = [self._of(each, names) for each in parts]
        pairs = [
            ex.Compare(_COMPARE[type(sign)], left, right)
            for sign, left, right in zip(signs, found, found[1:], strict=False)
        ]
        return functools.reduce(ex.Both, pairs[1:], cast(ex.Expression, pairs[0]))

    def _name(self, name: str, names: Names) -> ex.Expression:
        if name in names:
            found = names[name]
            if isinstance(found, _Unread):
                raise NotLiftedError(found.reason)
            return found
        if name in self._own:
            raise NotLiftedError(f"uses `{name}` in a way that could not be followed")
        if name in self._cells:
            cell = self._cells[name]
            return _looked_up(name, lambda: cell.cell_contents, cell)
        around = self._function.__globals__
        if name in around:
            return _looked_up(name, lambda: around[name], around)
        if hasattr(builtins, name):
            return _looked_up(name, lambda: around.get(name, getattr(builtins, name)), builtins)
        raise NotLiftedError(f"uses `{name}`, which is nowhere")

    def _call(self, node: ast.Call, names: Names) -> ex.Expression:
        if any(isinstance(each, ast.Starred) for each in node.args) or any(each.arg is None for each in node.keywords):
            raise NotLiftedError("unpacks something")
        if isinstance(node.func, ast.Attribute):
            of = self._of(node.func.value, names)
            if isinstance(of, ex.Named):
                return self._call_of(_static_attribute(of, node.func.attr), node, names)
            return self._method(of, node, names)
        function = self._of(node.func, names)
        if not isinstance(function, ex.Named):
            raise NotLiftedError(f"calls `{_shown(node.func)}`")
        return self._call_of(function, node, names)

    def _method(self, of: ex.Expression, node: ast.Call, names: Names) -> ex.Expression:
        function = cast(ast.Attribute, node.func)
        name, arguments = function.attr, tuple(self._of(each, names) for each in node.args)
        if not node.keywords:
            if name == "get" and len(arguments) in (1, 2):
                return ex.Item(of, arguments[0], arguments[1] if len(arguments) == 2 else ex.NOTHING)
            if name in looking.TEXT_METHODS and len(arguments) <= 1:
                return ex.Call(f"str.{name}", (of, *arguments))
            if name in looking.DICT_METHODS and not arguments:
                return ex.Call(f"dict.{name}", (of,))
        raise NotLiftedError(f"calls `{_shown(function)}`")

    def _call_of(self, function: ex.Named, node: ast.Call, names: Names) -> ex.Expression:
        value, said = function.value, _shown(node.func)
        if type(value) is BuiltinFunctionType or (type(value) is type and value is not Send):
            return self._built_in(value, said, node, names)
        if value is Send:
            raise NotLiftedError("sends packets")
        if type(value) in (FunctionType, MethodType):
            return self._helper(function, said, node, names)
        raise NotLiftedError(f"calls `{said}`")

    def _built_in(self, value: Any, said: str, node: ast.Call, names: Names) -> ex.Expression:
        owner = getattr(value, "__self__", None)
        if type(owner) is dict and value.__name__ == "get" and isinstance(node.func, ast.Attribute):
            return self._method(self._of(node.func.value, names), node, names)
        name = value.__name__
        if getattr(builtins, name, None) is not value or node.keywords:
            raise NotLiftedError(f"calls `{said}`")
        arguments = tuple(self._of(each, names) for each in node.args)
        if name == "getattr" and len(arguments) in (2, 3) and isinstance(arguments[1], ex.Constant | ex.Named):
            return ex.Attribute(arguments[0], str(arguments[1].value), arguments[2] if len(arguments) == 3 else None)
        if name == "type" and len(arguments) == 1:
            raise NotLiftedError("asks for a type")
        if name not in looking.FUNCTIONS:
            raise NotLiftedError(f"calls `{said}`")
        return ex.Call(name, arguments)

    def _helper(self, function: ex.Named, said: str, node: ast.Call, names: Names) -> ex.Expression:
        """Returns what a function of the team's own comes to, put in here."""
        if self._depth >= DEEPEST:
            raise NotLiftedError(f"calls `{said}`, which calls itself or goes too deep")
        given = {each.arg: self._of(each.value, names) for each in node.keywords if each.arg}
        arguments = [self._of(each, names) for each in node.args]
        try:
            called = _called(function.value)
            return _Reading(called, _bound(called, arguments, given), self._budget, self._depth + 1).all()
        except NotLiftedError as error:
            raise NotLiftedError(f"calls `{said}`, which {error}") from None


def _bound(called: _Called, arguments: Sequence[ex.Expression], given: Names) -> Names:
    """Returns what the parameters of a helper stand for in a call of it."""
    if called.function.__code__.co_flags & inspect.CO_COROUTINE:
        raise NotLiftedError("is asynchronous")
    free = [each for each in called.parameters if each not in called.bound]
    names = {**called.defaults, **called.bound, **dict(zip(free, arguments, strict=False)), **given}
    if len(arguments) > len(free) or set(called.parameters) - names.keys():
        raise NotLiftedError("takes other arguments")
    return names


def _attribute(of: ex.Expression, name: str) -> ex.Expression:
    if isinstance(of, ex.Named):
        return _static_attribute(of, name)
    return ex.Attribute(of, name)


def _static_attribute(of: ex.Named, name: str) -> ex.Named:
    """Returns an attribute of a value around the function; no code runs for it."""
    value, said = of.value, f"{of.name}.{name}"
    kind = type(value)
    if kind is dict and name == "get":
        return _value_of(said, value.get, value)
    if isinstance(kind, EnumType) and name in ("value", "name"):
        return ex.Named(said, vars(value)[f"_{name}_"], lambda: vars(of.current())[f"_{name}_"], value)
    try:
        found = looking.field(value, name)
    except looking.AbsentError:
        raise NotLiftedError(f"uses `{said}`, which is nowhere") from None
    except looking.NotLookedAtError:
        static = inspect.getattr_static(value, name, None)
        if type(static) is staticmethod:
            return _value_of(said, static.__func__, value)
        if type(static) is classmethod:
            return _value_of(said, MethodType(static.__func__, value if isinstance(value, type) else kind), value)
        if type(static) is FunctionType:
            return _value_of(said, static if isinstance(value, type) else MethodType(static, value), value)
        raise NotLiftedError(f"uses `{said}`, which is code") from None
    return ex.Named(said, found, lambda: looking.field(of.current(), name), value)


def _looked_up(name: str, current: Callable[[], Any], home: Any) -> ex.Named:
    try:
        return ex.Named(name, current(), current, home)
    except ValueError:  # An empty cell: it is set later, if at all.
        raise NotLiftedError(f"uses `{name}`, which has no value yet") from None


def constant_truth(expression: ex.Expression) -> bool | None:
    """Returns whether an expression is true whatever the state is; None where that depends on it."""
    if not _is_constant(expression):
        return None
    try:
        return looking.truth(looking.looking(expression)({}))
    except (looking.NotLookedAtError, looking.AbsentError):
        return None


def _is_constant(expression: ex.Expression) -> bool:
    # What has a name may change, and is looked up anew.
    if isinstance(expression, ex.Argument | ex.Named | ex.Raises):
        return False
    return all(_is_constant(part) for part in expression.parts)


def _shown(node: ast.AST) -> str:
    said = ast.unparse(node)
    return said if len(said) <= 60 else f"{said[:59]}…"
