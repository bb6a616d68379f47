"""The program as far as it was shown: what its globals, attributes and parameters hold, and what its functions give.

Every answer is for one weakness. What other code may do to a value that this code does not show is unknown.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field

from services.offline_model.code_review.bindings import module_of
from services.offline_model.code_review.calls import callers, given, parameters, targets
from services.offline_model.code_review.conditions import Env
from services.offline_model.code_review.interpreter import Interpreter
from services.offline_model.code_review.library import Called
from services.offline_model.code_review.opinion import Need
from services.offline_model.code_review.origins import is_called_as_written, is_route, route_part
from services.offline_model.code_review.reading import is_read
from services.offline_model.code_review.shown import Function, Shown, ShownFile
from services.offline_model.code_review.values import OUTSIDE, UNKNOWN, Origin, Value, join, listed, of
from services.offline_model.code_review.writes import changed_at, fills, puts_into

MAX_STEPS = 8_000
MAX_DEPTH = 6
NODES_PER_STEP = 20


class TooManyWays(Exception):
    """Following every way through the code takes longer than a verdict is worth."""


def _is_held(name: str, nodes: list[ast.AST], file: ShownFile) -> bool:
    """Tells whether a function within another may change an object that a name of the outer one holds."""
    for inner in nodes:
        if isinstance(inner, Function | ast.Lambda):
            for node in ast.walk(inner):
                uses = isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
                if (uses and not is_read(node, file)) or puts_into(node, name):  # type: ignore[arg-type]
                    return True
    return False


def _is_lost(node: ast.Attribute, file: ShownFile, *, is_object: bool) -> bool:
    """Tells whether an attribute is set by what is no assignment, or its object gets another name."""
    if isinstance(node.ctx, ast.Load):
        return is_object and not is_read(node, file)
    around = file.parents.get(id(node))
    while isinstance(around, ast.Tuple | ast.List | ast.Starred):
        around = file.parents.get(id(around))
    return not isinstance(around, ast.Assign | ast.AnnAssign | ast.AugAssign)


@dataclass
class Program:
    """The code that was shown, run for one weakness; `watched` are the nodes whose values are wanted."""

    shown: Shown
    weakness: str
    watched: dict[int, list[Value]] = field(default_factory=dict)
    calls: dict[int, list[Called]] = field(default_factory=dict)
    _steps: int = 0
    _modules: dict[str, dict[str, Value]] = field(default_factory=dict)
    _bound: dict[str, dict[str, Value]] = field(default_factory=dict)
    _changes: dict[tuple[str, str], Origin | None] = field(default_factory=dict)
    _running: list[object] = field(default_factory=list)
    # Calls that are being followed into: what is seen there belongs to the call, and not to who asked.
    _inside: int = 0

    def watch(self, nodes: Iterable[ast.AST]) -> None:
        """Asks for the values of nodes."""
        for node in nodes:
            self.watched[id(node)] = []
            if isinstance(node, ast.Call):
                self.calls[id(node)] = []

    def run(self, file: ShownFile, function: Function | None) -> None:
        """Runs a function as whoever calls it would, or a module. Raises TooManyWays."""
        if function is None:
            self._module(file, again=True)
            return
        env = {name: self.parameter(name, function, file) for name in self._parameters(function)}
        env = {**self._enclosing(file, function), **env}
        Interpreter(self, file, function).run(function.body, env)

    def is_defined(self, method: str) -> bool:
        """Tells whether a class has a method of its own so named, which need not do what those of texts do."""
        return method in self.shown.methods or (method == "==" and self.shown.has_own_texts)

    def is_plain(self, attribute: str) -> bool:
        """Tells whether an attribute holds what it is given."""
        return self.shown.is_plain(attribute)

    def step(self, count: int = 1) -> None:
        """Counts steps. Raises TooManyWays."""
        self._steps += count
        if self._steps > MAX_STEPS:
            raise TooManyWays

    def seen(self, node: ast.AST, value: Value) -> None:
        """Takes down what a node that is watched may hold."""
        if not self._inside and id(node) in self.watched:
            self.watched[id(node)].append(value)

    def seen_call(self, called: Called) -> None:
        """Takes down what a call that is watched is given."""
        if not self._inside and id(called.node) in self.calls:
            self.calls[id(called.node)].append(called)

    def global_value(self, name: str, file: ShownFile) -> Value | None:
        """Returns what a name of a module may hold when a function runs; None when the module gives it nothing."""
        self._module(file)
        # A function may run before the module has given its names their last values.
        found = self._bound.get(file.path, {}).get(name)
        if found is None or found.refers:
            return found
        if changed := self._changed(name, file):
            return Value(found.sources | {changed})
        is_object = found.cells or found.items is not None or found.entries is not None
        if is_object and (kept := self._kept_at(name)):
            return Value(found.sources | {kept})
        if file.unread:
            need = Need("file", file.path)
            note = Origin(UNKNOWN, f"`{name}` may be set in lines of {file.path} that", file.path, 1, need)
            return Value(found.sources | {note})
        return found

    def _changed(self, name: str, file: ShownFile) -> Origin | None:
        """Returns where a name of a module is set by others, if it is."""
        key = (file.path, name)
        if key not in self._changes:
            at = changed_at(name, file, self.shown)
            self._changes[key] = Origin(UNKNOWN, f"`{name}` is set elsewhere too", *at) if at else None
        return self._changes[key]

    def _kept_at(self, name: str) -> Origin | None:
        """Returns where the object that a name of a module holds gets another name, if it does."""
        for where in self.shown.python:
            for node in where.nodes:
                is_it = isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
                other = isinstance(node, ast.alias) and node.name == name and node.asname
                if (is_it and not is_read(node, where)) or other:  # type: ignore[arg-type]
                    return Origin(
                        UNKNOWN, f"what `{name}` holds goes elsewhere", where.path, getattr(node, "lineno", 1)
                    )
        return None

    def written_elsewhere(self, name: str, value: Value, file: ShownFile, function: Function | None) -> Origin | None:
        """Returns where a name that code has given a value may get another one, without that code's doing."""
        if value.refers:
            return None
        around: Function | None = function
        while around is not None:
            inner = [node for node in ast.walk(around) if node is not around]
            if any(isinstance(node, ast.Nonlocal) and name in node.names for node in inner):
                return Origin(UNKNOWN, f"a function within {around.name} sets `{name}`", file.path, around.lineno)
            if any(isinstance(node, ast.Global) and name in node.names for node in inner):
                return self._changed(name, file)
            if (value.cells or value.items is not None or value.entries is not None) and _is_held(name, inner, file):
                return Origin(UNKNOWN, f"a function within {around.name} may change `{name}`", file.path, around.lineno)
            around = file.function_around(around)
        return self._changed(name, file) if function is None else None

    def is_replaced(self, full_name: str) -> bool:
        """Tells whether anything gives a name of a library another meaning."""
        return full_name.rpartition(".")[2] in self.shown.patched

    def module_attribute(self, full_name: str, file: ShownFile) -> Value | None:
        """Returns what a name of another module that was shown holds; None when it was not shown."""
        rest = full_name.lstrip(".")
        dots = full_name[: len(full_name) - len(rest)]
        module, _, name = rest.rpartition(".")
        owner = module_of(self.shown, file, dots + module) if dots + module else None
        return self.global_value(name, owner) if owner is not None else None

    def attribute_value(self, attribute: str, file: ShownFile, node: ast.expr) -> Value:
        """Returns what `self.attribute` may hold, from everything that the shown code gives it."""
        found: list[Value] = []
        self.step(1 + sum(len(where.nodes) for where in self.shown.python) // NODES_PER_STEP)
        key = (file.path, attribute)
        if key in self._running:
            return of(Origin(UNKNOWN, f"`self.{attribute}` comes from itself", file.path, node.lineno))
        self._running.append(key)
        for where in self.shown.python:
            for part in where.nodes:
                if isinstance(part, ast.Assign | ast.AnnAssign | ast.AugAssign) and part.value is not None:
                    found += self._assigned(attribute, part, where)
                elif isinstance(part, ast.Call) and fills(part, attribute):
                    found.append(of(Origin(UNKNOWN, f"`{attribute}` is changed elsewhere", where.path, part.lineno)))
        self._running.pop()
        # What a class gives it, what another name of its object may do to it, and what sets it in passing.
        if found and not self.shown.is_plain(attribute):
            found.append(of(Origin(UNKNOWN, f"`{attribute}` has another meaning elsewhere", file.path, node.lineno)))
        is_object = any(one.cells or one.items is not None or one.entries is not None for one in found)
        for where in self.shown.python:
            found += [
                of(Origin(UNKNOWN, f"`{attribute}` goes elsewhere", where.path, part.lineno))
                for part in where.nodes
                if isinstance(part, ast.Attribute)
                and part.attr == attribute
                and found
                and _is_lost(part, where, is_object=is_object)
            ]
        need = Need("definition", attribute)
        if not found:
            return of(Origin(UNKNOWN, f"`self.{attribute}` is set elsewhere", file.path, node.lineno, need))
        value = join(found)
        if file.unread:
            note = Origin(
                UNKNOWN, f"`self.{attribute}` may be set in lines that", file.path, 1, Need("file", file.path)
            )
            value = Value(value.sources | {note})
        # An object lives longer than a call, and anybody may change a list or a map that it holds.
        return Value(value.sources, value.constants, value.texts, refers=value.refers, made_by=value.made_by)

    def _assigned(
        self, attribute: str, node: ast.Assign | ast.AnnAssign | ast.AugAssign, file: ShownFile
    ) -> list[Value]:
        targets_ = node.targets if isinstance(node, ast.Assign) else [node.target]
        parts = [part for target in targets_ for part in ast.walk(target)]
        is_set = any(isinstance(part, ast.Attribute) and part.attr == attribute for part in parts)
        if not is_set or node.value is None:
            return []
        around = file.function_at(node.lineno)
        whole = (
            len(targets_) == 1
            and isinstance(targets_[0], ast.Attribute)
            and isinstance(node, ast.Assign | ast.AnnAssign)
        )
        if not whole:
            return [of(Origin(UNKNOWN, f"`{attribute}` is changed elsewhere", file.path, node.lineno))]
        given_there = self._at(node.value, file, around)
        return [given_there] if given_there is not None else []

    def _at(self, node: ast.expr, file: ShownFile, function: Function | None) -> Value | None:
        """Returns what an expression may hold where it stands; None when no way leads there but from itself."""
        if len(self._running) > MAX_DEPTH:
            return of(Origin(UNKNOWN, "it goes through too many hands", file.path, node.lineno))
        key = (id(node), "at")
        if key in self._running:
            return None
        outer, inside = self.watched.get(id(node)), self._inside
        self._running.append(key)
        self.watched[id(node)], self._inside = [], 0
        self.run(file, function)
        found, self._inside = self.watched.pop(id(node)), inside
        if outer is not None:
            self.watched[id(node)] = outer
        self._running.pop()
        return join(found) if found else None

    def parameter(self, name: str, function: Function, file: ShownFile) -> Value:
        """Returns what a function's parameter may hold, from the calls that were shown."""
        path, line = file.path, function.lineno
        if name in {"self", "cls"}:
            # An object may be a text, a map or a list as well, whose parts nobody has shown.
            return Value(of(Origin(UNKNOWN, f"what `{name}` is", path, line)).sources, made_by="self")
        found: list[Value] = []
        if is_route(function):
            found.append(route_part(name, function, file))
        elif not is_called_as_written(function):
            found.append(of(Origin(UNKNOWN, f"what a decorator of {function.name} passes it", path, line)))
        need = Need("callers", function.name)
        unknown = of(Origin(UNKNOWN, f"`{name}` is whatever the callers of {function.name} pass", path, line, need))
        if name not in parameters(function):
            return unknown
        # Every node is looked at for a mention of the function.
        self.step(1 + sum(len(where.nodes) for where in self.shown.python) // NODES_PER_STEP)
        for where, call in callers(self.shown, file, function):
            passed = unknown if call is None else self._passed(call, name, function, where, unknown)
            found += [passed] if passed is not None else []
        if not found:
            return unknown
        value = join(found)
        if is_route(function):
            return value
        # One caller that was shown is not all of them: the others are to be looked for.
        note = Origin("", f"the callers of {function.name} were shown", path, line, need)
        return Value(value.sources | {note}, value.constants, value.texts, value.items, value.entries)

    def _passed(self, call: ast.Call, name: str, function: Function, where: ShownFile, unknown: Value) -> Value | None:
        passed = given(call, name, function)
        if passed.value is None:
            return unknown
        if passed.is_default:
            return self._default(name, function, where)
        around = where.function_at(call.lineno)
        found = self._at(passed.value, where, around)
        inside = around is None and where.lines.get(call.lineno, "")[:1].isspace()
        if inside and not (found is not None and any(one.kind == OUTSIDE for one in found.sources)):
            # A search shows the call, and not the function that it stands in.
            need = Need("lines", where.path, call.lineno)
            return of(Origin(UNKNOWN, "the function around a caller was not read", where.path, call.lineno, need))
        return found

    def returned(self, called: Called, file: ShownFile) -> tuple[Value | None, bool]:
        """Returns what the shown functions that a call may reach give, and whether none of them ever comes back."""
        reached = targets(self.shown, called.node, file)
        if not reached:
            return None, False
        if len(self._running) > MAX_DEPTH:
            return of(Origin(UNKNOWN, "it goes through too many hands", file.path, called.node.lineno)), False
        values: list[Value] = []
        ends: list[bool] = []
        for where, function in reached:
            key = (id(function), "called")
            if key in self._running:
                again = Origin(UNKNOWN, f"{function.name}() calls itself", where.path, function.lineno)
                values.append(Value(called.sources | {again}))
                ends.append(False)
                continue
            self._running.append(key)
            frame = Interpreter(self, where, function)
            self._inside += 1
            env = {**self._enclosing(where, function), **self._arguments(called, function, where)}
            after = frame.run(function.body, env)
            self._inside -= 1
            self._running.pop()
            is_generator = any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(function))
            made = function.name == "__init__"
            lasting = is_generator or made or bool(function.decorator_list)
            # What is not awaited does not run, and a decorator may swallow what it raises.
            stops = not (is_generator or function.decorator_list or isinstance(function, ast.AsyncFunctionDef))
            ends.append(after is None and not frame.returned and stops)
            values += [Value(of(Origin(UNKNOWN, f"what {function.name}() returns", where.path, function.lineno)).sources
                             | called.sources).doubted] if lasting else frame.returned  # fmt: skip
        return (join(values) if values else Value()), all(ends)

    def _arguments(self, called: Called, function: Function, file: ShownFile) -> Env:
        env: Env = {}
        positional = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
        is_bound = positional[:1] and positional[0] in {"self", "cls"}
        if is_bound:
            itself = of(Origin(UNKNOWN, "what an object is", file.path, function.lineno))
            env[positional.pop(0)] = Value(itself.sources, made_by="self")
        more = Value(called.sources | of(Origin(UNKNOWN, "a call passes more than it shows", file.path, 0)).sources)
        for name in self._parameters(function):
            if name in env:
                continue
            index = positional.index(name) if name in positional else None
            if called.spread:
                env[name] = more
            elif name in called.keywords:
                env[name] = called.keywords[name]
            elif index is not None and index < len(called.args):
                env[name] = called.args[index]
            else:
                env[name] = self._default(name, function, file)
        if function.args.vararg is not None:
            env[function.args.vararg.arg] = more if called.spread else listed(called.args[len(positional) :])
        if function.args.kwarg is not None:
            env[function.args.kwarg.arg] = more
        return env

    def _default(self, name: str, function: Function, file: ShownFile) -> Value:
        found = given(ast.Call(ast.Name(function.name), [], []), name, function)
        if found.value is None:
            return of(Origin(UNKNOWN, f"`{name}` is given elsewhere", file.path, function.lineno))
        value = Interpreter(self, file, None).expressions.value(found.value, self._enclosing(file, function))
        if value.cells:
            # It is made once, and whoever changes it changes it for all calls to come.
            return of(Origin(UNKNOWN, f"the default of `{name}` lives on between calls", file.path, function.lineno))
        return value

    def _parameters(self, function: Function) -> list[str]:
        arguments = function.args
        rest = [one.arg for one in (arguments.vararg, arguments.kwarg) if one is not None]
        return [*parameters(function), *rest]

    def _enclosing(self, file: ShownFile, function: Function) -> dict[str, Value]:
        """Returns everything that the names around a nested function may hold while it can run."""
        around = file.function_around(function)
        if around is None:
            return {}
        key = (id(around), "around")
        if key in self._running:
            names = {node.id for node in ast.walk(around) if isinstance(node, ast.Name)} - set(file.imports)
            later = of(Origin(UNKNOWN, f"what {around.name} gives it", file.path, around.lineno))
            kept = {
                node.id
                for node in ast.walk(around)
                if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
            }
            return dict.fromkeys((names & kept) | set(self._parameters(around)), later)
        self._running.append(key)
        frame = Interpreter(self, file, around)
        env = {name: self.parameter(name, around, file) for name in self._parameters(around)}
        env = {**self._enclosing(file, around), **env}
        frame.run(around.body, env)
        self._running.pop()
        return {**env, **frame.bound}

    def is_shown(self, node: ast.Call, file: ShownFile) -> bool:
        """Tells whether a function that a call may reach was shown."""
        return bool(targets(self.shown, node, file))

    def _module(self, file: ShownFile, *, again: bool = False) -> dict[str, Value]:
        """Returns what every name of a module holds once it was imported."""
        if file.path in self._modules and not again:
            return self._modules[file.path]
        # A module that is being run knows what it was given so far, through its own env.
        self._modules.setdefault(file.path, {})
        frame = Interpreter(self, file, None)
        after = frame.run(file.statements, {})
        self._modules[file.path] = after if after is not None else frame.bound
        self._bound[file.path] = frame.bound
        return self._modules[file.path]
