"""What expressions come to, where what the names in them hold is known."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from services.offline_model.code_review.call_results import CallResults
from services.offline_model.code_review.conditions import Conditions, Env, joined
from services.offline_model.code_review.definitions import definition_of, is_standard
from services.offline_model.code_review.library import looked_up
from services.offline_model.code_review.objects import cell_of, change_object, storing
from services.offline_model.code_review.operators import binary, indexed, sliced, unary
from services.offline_model.code_review.opinion import Need
from services.offline_model.code_review.origins import is_request, is_typed, requested, unknown
from services.offline_model.code_review.shown import Function, ShownFile, dotted
from services.offline_model.code_review.surroundings import Surroundings
from services.offline_model.code_review.values import (
    Constant,
    Origin,
    Value,
    concatenated,
    constant,
    join,
    key_of,
    listed,
    mapped,
)

_ATTRIBUTES = frozenset({"name", "stem", "suffix", "parent", "parents", "parts"})


class Expressions:
    """Evaluates expressions of one function, or of a module; what they change is changed in the env they are given."""

    def __init__(self, around: Surroundings, file: ShownFile, function: Function | None) -> None:
        self.around = around
        self.file = file
        self.function = function
        self.conditions = Conditions(file.path, self.value, around.is_defined)
        self.calls = CallResults(around, file, function, self.value)
        self._by_kind: Mapping[type, Callable[[Any, Env], Value]] = {
            ast.Constant: lambda node, _: constant(node.value),
            ast.Name: self._name, ast.JoinedStr: self._f_string, ast.FormattedValue: self._formatted,
            ast.BinOp: self._binary, ast.BoolOp: self._boolean, ast.UnaryOp: self._unary, ast.Compare: self._compare,
            ast.IfExp: self._either, ast.Call: self.calls.value, ast.Attribute: self._attribute,
            ast.Subscript: self._subscript, ast.List: self._list, ast.Tuple: self._list, ast.Set: self._list,
            ast.Dict: self._dict, ast.ListComp: self._comprehension, ast.SetComp: self._comprehension,
            ast.GeneratorExp: self._comprehension, ast.DictComp: self._comprehension,
            ast.Starred: lambda node, env: self.value(node.value, env).iterated,
            ast.Await: lambda node, env: self.value(node.value, env),
            ast.NamedExpr: self._named, ast.Lambda: self._lambda,
        }  # fmt: skip

    def value(self, node: ast.expr, env: Env) -> Value:
        """Returns what an expression may hold. Raises TooManyWays."""
        self.around.step()
        evaluate = self._by_kind.get(type(node))
        if evaluate is not None:
            found = evaluate(node, env)
        else:
            for part in ast.iter_child_nodes(node):
                if isinstance(part, ast.expr):
                    self.value(part, env)
            found = unknown(node, self.file, f"`{ast.unparse(node)[:60]}` is beyond me")
        self.around.seen(node, found)
        return found

    def bind(self, target: ast.expr, value: Value, env: Env) -> None:
        """Gives a target a value."""
        if isinstance(target, ast.Name):
            env[target.id] = value
        elif isinstance(target, ast.Starred):
            self.bind(target.value, Value(value.sources), env)
        elif isinstance(target, ast.Tuple | ast.List):
            fits = value.items is not None and len(value.items) == len(target.elts)
            plain = not any(isinstance(part, ast.Starred) for part in target.elts)
            for index, part in enumerate(target.elts):
                self.bind(part, value.items[index] if fits and plain and value.items else value.iterated, env)
        elif isinstance(target, ast.Attribute):
            self.value(target.value, env)
            for other in [other for other in env if other.endswith(f".{target.attr}")]:
                # It may be the same object under another name.
                env[other] = join([env[other], value])
            if name := dotted(target):
                env[name] = value
            if not self.around.is_plain(target.attr):
                env.pop(name, None)
        elif isinstance(target, ast.Subscript):
            self._store(target, value, env)

    def _store(self, target: ast.Subscript, value: Value, env: Env) -> None:
        holder, index = self.value(target.value, env), self.value(target.slice, env)
        change_object(target.value, holder, storing(index, value), env)

    def _name(self, node: ast.Name, env: Env) -> Value:
        if node.id in env:
            elsewhere = self.around.written_elsewhere(node.id, env[node.id], self.file, self.function)
            return env[node.id] if elsewhere is None else Value(env[node.id].sources | {elsewhere})
        full = self.file.imports.get(node.id)
        if full is not None:
            return self.around.module_attribute(full, self.file) or Value(
                unknown(node, self.file, f"`{node.id}` is defined elsewhere", definition_of(full)).sources,
                refers=self._meant(full),
            )
        found = self.around.global_value(node.id, self.file)
        if found is not None:
            return found
        if is_standard(node.id):
            meant = self._meant(f"?.{node.id}" if self.file.star_line else node.id)
            is_sure = meant == node.id and hasattr(builtins, node.id)
            return Value(
                frozenset() if is_sure else unknown(node, self.file, f"what `{node.id}` is").sources, refers=meant
            )
        return unknown(node, self.file, f"`{node.id}` is defined elsewhere", Need("definition", node.id))

    def _meant(self, full: str) -> str:
        """Returns a full name; with a `?` before it where the program gives it another meaning."""
        return f"?.{full}" if self.around.is_replaced(full) else full

    def _f_string(self, node: ast.JoinedStr, env: Env) -> Value:
        return concatenated([self.value(part, env) for part in node.values])

    def _formatted(self, node: ast.FormattedValue, env: Env) -> Value:
        value = self.value(node.value, env)
        if node.format_spec is not None or node.conversion in (ord("r"), ord("a")):
            said = self.value(node.format_spec, env).sources if node.format_spec is not None else frozenset[Origin]()
            return value if not value.sources | said else Value(value.sources | said).decoded
        return concatenated([value])

    def _binary(self, node: ast.BinOp, env: Env) -> Value:
        left, right = self.value(node.left, env), self.value(node.right, env)
        return binary(node, left, right)

    def _boolean(self, node: ast.BoolOp, env: Env) -> Value:
        is_and, current, found = isinstance(node.op, ast.And), dict(env), list[Value]()
        for part in node.values:
            value = self.value(part, current)
            truth = value.truth
            if truth is None or truth is not is_and or part is node.values[-1]:
                found.append(value)
            if truth is not None and truth is not is_and:
                break
            branches = self.conditions.split(part, current)
            going_on = branches.holds if is_and else branches.fails
            if going_on is None:
                break
            _spread(env, current)
            current = dict(going_on)
        _spread(env, current)
        return join(found) if found else Value()

    def _unary(self, node: ast.UnaryOp, env: Env) -> Value:
        return unary(node, self.value(node.operand, env))

    def _compare(self, node: ast.Compare, env: Env) -> Value:
        for part in (node.left, *node.comparators):
            self.value(part, env)
        if len(node.ops) > 1:
            return Value()
        truth = self.conditions.compared(node, env)
        return Value() if truth is None else constant(truth)

    def _either(self, node: ast.IfExp, env: Env) -> Value:
        self.value(node.test, env)
        branches = self.conditions.split(node.test, dict(env))
        found = []
        for part, known in ((node.body, branches.holds), (node.orelse, branches.fails)):
            if known is not None:
                inner = dict(known)
                found.append(self.value(part, inner))
                _spread(env, inner)
        return join(found)

    def _attribute(self, node: ast.Attribute, env: Env) -> Value:
        if is_request(node, self.file, self.function):
            return requested(node, self.file)
        if is_typed(node):
            return unknown(node, self.file, f"`{ast.unparse(node)[:60]}` is up to whoever starts the program")
        name = dotted(node)
        if name in env:
            return env[name]
        if isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}:
            return self.around.attribute_value(node.attr, self.file, node)
        holder = self.value(node.value, env)
        if holder.cells and not isinstance(node.ctx, ast.Store):
            # A method that is not called here may be called by anybody, with anything.
            later = unknown(node, self.file, f"`{ast.unparse(node)[:60]}` may be called later")
            change_object(node.value, holder, lambda old: Value(old.sources | later.sources), env)
        if holder.refers and "?" not in holder.refers:
            full = f"{holder.refers}.{node.attr}"
            return self.around.module_attribute(full, self.file) or Value(
                unknown(node, self.file, f"`{ast.unparse(node)[:60]}` is defined elsewhere").sources,
                refers=self._meant(full),
            )
        if holder.sources or node.attr in _ATTRIBUTES:
            return holder.part
        return unknown(node, self.file, f"`{ast.unparse(node)[:60]}` was not shown")

    def _subscript(self, node: ast.Subscript, env: Env) -> Value:
        holder = self.value(node.value, env)
        if isinstance(node.slice, ast.Slice):
            return self._sliced(node.slice, holder, env)
        index = self.value(node.slice, env)
        if is_request(node, self.file, self.function):
            return requested(node, self.file)
        if holder.entries is None:
            return indexed(holder, index)
        if index.only is None:
            return looked_up(holder.element, index, node, self.file)
        found = dict(holder.entries).get(key_of(index.only))
        return found if found is not None else unknown(node, self.file, f"`{ast.unparse(node)[:60]}` is not set")

    def _sliced(self, part: ast.Slice, holder: Value, env: Env) -> Value:
        ends = [self.value(end, env).only if end is not None else Constant(type(None), None)
                for end in (part.lower, part.upper, part.step)]  # fmt: skip
        found = sliced(holder, ends)
        return found if found.constants is not None else replace(found, cells=frozenset({cell_of(part)}))

    def _list(self, node: ast.List | ast.Tuple | ast.Set, env: Env) -> Value:
        items, exact = list[Value](), True
        for part in node.elts:
            if isinstance(part, ast.Starred):
                inner = self.value(part.value, env)
                items += inner.items if inner.items is not None else [Value(inner.sources)]
                exact = exact and inner.items is not None
            else:
                items.append(self.value(part, env))
        if isinstance(node, ast.Set):
            # Nobody knows in which order they come out.
            items = [join(items)] * len(items)
        found = listed(items, cell_of(node))
        return found if exact else Value(found.sources, cells=found.cells)

    def _dict(self, node: ast.Dict, env: Env) -> Value:
        entries, more = list[tuple[Constant, Value]](), frozenset[Origin]()
        exact = True
        for key, part in zip(node.keys, node.values, strict=True):
            value = self.value(part, env)
            known = self.value(key, env) if key is not None else None
            if known is not None and known.only is not None:
                entries.append((known.only, value))
            elif key is None and value.entries is not None:
                entries += value.entries
            else:
                exact, more = False, more | value.sources | (known.sources if known else frozenset())
        found = mapped(entries, cell_of(node), more=more)
        return found if exact else Value(found.sources, cells=found.cells)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, env: Env) -> Value:
        inner = dict(env)
        for generator in node.generators:
            self.bind(generator.target, self.value(generator.iter, inner).iterated, inner)
            for test in generator.ifs:
                self.value(test, inner)
                holds = self.conditions.split(test, inner).holds
                inner = dict(holds) if holds is not None else inner
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        values = [self.value(part, inner) for part in parts]
        # What it changes on its way it has changed for good; it may also run no time at all.
        bound = {name for one in node.generators for name in _stored(one.target)}
        _spread(env, {**inner, **{name: env[name] for name in bound if name in env}})
        found = frozenset[Origin]().union(*(value.sources for value in values))
        return Value(found, cells=frozenset({cell_of(node)}))

    def _named(self, node: ast.NamedExpr, env: Env) -> Value:
        value = self.value(node.value, env)
        self.bind(node.target, value, env)
        return value

    def _lambda(self, node: ast.Lambda, env: Env) -> Value:
        """It runs later, when the names around it may hold something else."""
        names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        later = unknown(node, self.file, "what it holds when the function runs")
        self.value(node.body, {**env, **{name: later for name in names if name in env or name in _parameters(node)}})
        return Value(unknown(node, self.file, "what a function made on the spot gives").sources, refers="?")


def _parameters(node: ast.Lambda) -> frozenset[str]:
    return frozenset(one.arg for one in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs])


def _stored(target: ast.expr) -> list[str]:
    return [part.id for part in ast.walk(target) if isinstance(part, ast.Name)]


def _spread(env: Env, inner: Env) -> None:
    """Takes over what was changed on a way that was perhaps not taken."""
    met = joined([env, inner])
    if met is not None:
        env.clear()
        env.update(met)
