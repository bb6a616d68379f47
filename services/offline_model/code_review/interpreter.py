"""What statements do to the names in them, on every way that the code can take.

A loop is gone round until nothing new comes of it; ways that meet are joined; a way that a constant closes is not
taken. What these rules do not know makes a value unknown, never harmless.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from services.offline_model.code_review.conditions import Env, joined
from services.offline_model.code_review.expressions import Expressions
from services.offline_model.code_review.objects import change_object
from services.offline_model.code_review.origins import unknown
from services.offline_model.code_review.shown import Function, ShownFile
from services.offline_model.code_review.surroundings import Surroundings
from services.offline_model.code_review.values import UNKNOWN, Origin, Value, constant, join, of

MAX_ROUNDS = 6
_STOPS = frozenset({"sys.exit", "exit", "quit", "os._exit", "os.abort"})
# Web frameworks, whose `abort` raises.
_ABORTS = frozenset({"flask.abort", "werkzeug.exceptions.abort", "bottle.abort", "quart.abort"})

# Managers that stop no exception; of any other nobody knows.
_LETS_THROUGH = frozenset(
    {"open", "io.open", "os.fdopen", "gzip.open", "tarfile.open", "zipfile.ZipFile", "contextlib.closing",
     "contextlib.nullcontext", "tempfile.NamedTemporaryFile", "tempfile.TemporaryDirectory", "subprocess.Popen",
     "urllib.request.urlopen", "requests.Session", "sqlite3.connect", "threading.Lock"}
)  # fmt: skip

_Entered = Callable[[Env], tuple[Env | None, Env | None]]


@dataclass
class _Loop:
    breaks: list[Env] = field(default_factory=list)
    continues: list[Env] = field(default_factory=list)


class Interpreter:
    """Runs the statements of one function, or of a module."""

    def __init__(self, around: Surroundings, file: ShownFile, function: Function | None) -> None:
        self.expressions = Expressions(around, file, function)
        self.returned: list[Value] = []
        self.bound: dict[str, Value] = {}
        self._file = file
        self._loops: list[_Loop] = []
        self._before_failure: list[list[Env]] = []

    def run(self, body: Sequence[ast.stmt], env: Env) -> Env | None:
        """Returns what is known after the statements; None when they never end, or leave. Raises TooManyWays."""
        current: Env | None = dict(env)
        for statement in body:
            if current is None:
                return None
            for states in self._before_failure:
                states.append(current)
            meant = dict(current)
            current = self._statement(statement, meant)
            # What leaves may have given names values on its way out.
            for states in self._before_failure:
                states.append(meant)
            if current is not None:
                self._note(current)
        for states in self._before_failure:
            if current is not None:
                states.append(current)
        return current

    def _note(self, env: Env) -> None:
        for name, value in env.items():
            old = self.bound.get(name)
            self.bound[name] = value if old is None or old == value else join([old, value])

    def _statement(self, node: ast.stmt, env: Env) -> Env | None:
        run = getattr(self, f"_{type(node).__name__.lower()}", None)
        if run is not None:
            after: Env | None = run(node, env)
            return after
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.expr):
                self.expressions.value(part, env)
        return env

    def _expr(self, node: ast.Expr, env: Env) -> Env | None:
        calls = self.expressions.calls
        self.expressions.value(node.value, env)
        # What a call is given may hold others that never come back, and are never made.
        if not isinstance(node.value, ast.Call):
            return env
        return None if calls.ended is node.value or calls.last_name in _STOPS | _ABORTS else env

    def _assign(self, node: ast.Assign, env: Env) -> Env:
        value = self.expressions.value(node.value, env)
        for target in node.targets:
            self.expressions.bind(target, value, env)
        return env

    def _annassign(self, node: ast.AnnAssign, env: Env) -> Env:
        if node.value is not None:
            self.expressions.bind(node.target, self.expressions.value(node.value, env), env)
        return env

    def _augassign(self, node: ast.AugAssign, env: Env) -> Env:
        read = ast.copy_location(ast.BinOp(_loaded(node.target), node.op, node.value), node)
        value = self.expressions.value(ast.fix_missing_locations(read), env)
        held = self.expressions.value(_loaded(node.target), env)
        if held.cells:
            change_object(node.target, held, lambda _: value, env)
        self.expressions.bind(node.target, value, env)
        return env

    def _return(self, node: ast.Return, env: Env) -> None:
        self.returned.append(self.expressions.value(node.value, env) if node.value is not None else constant(None))

    def _raise(self, node: ast.Raise, env: Env) -> None:
        for part in (node.exc, node.cause):
            if part is not None:
                self.expressions.value(part, env)

    def _break(self, _node: ast.Break, env: Env) -> None:
        if self._loops:
            self._loops[-1].breaks.append(env)

    def _continue(self, _node: ast.Continue, env: Env) -> None:
        if self._loops:
            self._loops[-1].continues.append(env)

    def _assert(self, node: ast.Assert, env: Env) -> Env:
        # Python leaves assertions out when it is told to: they stop nothing for sure.
        branches = self.expressions.conditions.split(node.test, dict(env))
        return joined([env, branches.holds]) or env if branches.holds is not None else env

    def _if(self, node: ast.If, env: Env) -> Env | None:
        branches = self.expressions.conditions.split(node.test, env)
        after = [
            self.run(body, known)
            for body, known in ((node.body, branches.holds), (node.orelse, branches.fails))
            if known is not None
        ]
        return joined([one for one in after if one is not None])

    def _while(self, node: ast.While, env: Env) -> Env | None:
        def entered(current: Env) -> tuple[Env | None, Env | None]:
            branches = self.expressions.conditions.split(node.test, current)
            return branches.holds, branches.fails

        return self._looped(node, env, entered)

    def _for(self, node: ast.For | ast.AsyncFor, env: Env) -> Env | None:
        def entered(current: Env) -> tuple[Env | None, Env | None]:
            held = self.expressions.value(node.iter, current)
            inner = dict(current)
            self.expressions.bind(node.target, held.iterated, inner)
            return (None if held.items == () else inner), current

        return self._looped(node, env, entered)

    _asyncfor = _for

    def _looped(self, node: ast.While | ast.For | ast.AsyncFor, env: Env, entered: _Entered) -> Env | None:
        current, left, loop = env, None, _Loop()
        for round_ in itertools.count():
            loop = _Loop()
            self._loops.append(loop)
            inner, left = entered(dict(current))
            after = self.run(node.body, inner) if inner is not None else None
            self._loops.pop()
            again = joined([one for one in (current, after, *loop.continues) if one is not None])
            if again is None or again == current:
                break
            # Every step after that makes another name unknown, until none is left that changes.
            current = self._given_up(again, current) if round_ >= MAX_ROUNDS - 1 else again
        ended = self.run(node.orelse, left) if left is not None else None
        return joined([one for one in (ended, *loop.breaks) if one is not None])

    def _given_up(self, env: Env, before: Env) -> Env:
        """A loop that brings something new every time: what it changes may be anything."""
        anything = Origin(UNKNOWN, "a loop changes it", self._file.path, 0)
        return {
            name: value if before.get(name) == value else Value(value.sources | of(anything).sources)
            for name, value in env.items()
        }

    def _with(self, node: ast.With | ast.AsyncWith, env: Env) -> Env | None:
        swallows = False
        for item in node.items:
            value = self.expressions.value(item.context_expr, env)
            if item.optional_vars is not None:
                self.expressions.bind(item.optional_vars, value, env)
            swallows = swallows or not (
                isinstance(item.context_expr, ast.Call) and self.expressions.calls.last_name in _LETS_THROUGH
            )
        if not swallows:
            return self.run(node.body, env)
        states = list[Env]()
        self._before_failure.append(states)
        after = self.run(node.body, env)
        self._before_failure.pop()
        return joined([one for one in (env, *states, after) if one is not None])

    _asyncwith = _with

    def _try(self, node: ast.Try, env: Env) -> Env | None:
        states = list[Env]()
        jumps = [(places, len(places)) for loop in self._loops for places in (loop.breaks, loop.continues)]
        returned = len(self.returned)
        self._before_failure.append(states)
        after = self.run(node.body, env)
        self._before_failure.pop()
        ended = [self.run(node.orelse, after)] if after is not None else []
        failed = joined([env, *states]) or env
        for handler in node.handlers:
            inner = dict(failed)
            if handler.type is not None:
                self.expressions.value(handler.type, inner)
            if handler.name:
                inner[handler.name] = unknown(handler, self._file, "what an exception says")
            ended.append(self.run(handler.body, inner))
        left = joined([one for one in ended if one is not None])
        if not node.finalbody:
            return left
        # A loop is left through it too, and what was returned may be changed by it.
        for places, before in jumps:
            places[before:] = [one for jump in places[before:] if (one := self.run(node.finalbody, jump)) is not None]
        later = unknown(node, self._file, "what is done to it when it was returned")
        self.returned[returned:] = [
            Value(one.sources | later.sources) if one.cells else one for one in self.returned[returned:]
        ]
        # It runs on every way out, also where something failed or was returned.
        final = self.run(node.finalbody, joined([failed, *([left] if left is not None else [])]) or failed)
        return self.run(node.finalbody, left) if left is not None and final is not None else None

    _trystar = _try

    def _match(self, node: ast.Match, env: Env) -> Env | None:
        subject = self.expressions.value(node.subject, env)
        after, open_ = list[Env](), True
        for case in node.cases:
            fits = _fits(case.pattern, subject)
            if fits is False or not open_:
                continue
            inner = dict(env)
            for name in _captured(case.pattern):
                # What a pattern takes out of a value is a part of it.
                whole = isinstance(case.pattern, ast.MatchAs) and case.pattern.name == name
                inner[name] = subject if whole else Value(subject.sources, texts=None).changed
            known: Env | None = inner
            if case.guard is not None:
                known = self.expressions.conditions.split(case.guard, inner).holds
            if known is not None:
                ended = self.run(case.body, known)
                after += [ended] if ended is not None else []
            open_ = not (fits is True and case.guard is None)
        return joined([*after, env] if open_ else after)

    def _functiondef(self, node: Function, env: Env) -> Env:
        for part in [*node.decorator_list, *node.args.defaults, *(one for one in node.args.kw_defaults if one)]:
            self.expressions.value(part, env)
        env[node.name] = self._made(node)
        return env

    def _made(self, node: Function | ast.ClassDef) -> Value:
        """What a name holds that a function or a class has: no library's, whatever it is called."""
        return Value(unknown(node, self._file, f"what `{node.name}` is").sources, refers=f"?.{node.name}")

    _asyncfunctiondef = _functiondef

    def _classdef(self, node: ast.ClassDef, env: Env) -> Env:
        bound = dict(self.bound)
        self.run(node.body, env)
        self.bound = bound
        env[node.name] = self._made(node)
        return env

    def _import(self, node: ast.Import | ast.ImportFrom, env: Env) -> Env:
        for alias in node.names:
            if alias.name == "*":
                for name, value in env.items():
                    env[name] = Value(value.sources | unknown(node, self._file, f"whose `{name}` it is").sources)
            env.pop(alias.asname or alias.name.partition(".")[0], None)
        return env

    _importfrom = _import

    def _delete(self, node: ast.Delete, env: Env) -> Env:
        for target in node.targets:
            if isinstance(target, ast.Name):
                env.pop(target.id, None)
            elif isinstance(target, ast.Subscript):
                held = self.expressions.value(target.value, env)
                change_object(target.value, held, lambda old: Value(old.sources), env)
        return env


def _loaded(target: ast.expr) -> ast.expr:
    if isinstance(target, ast.Name):
        return ast.copy_location(ast.Name(target.id, ast.Load()), target)
    if isinstance(target, ast.Attribute):
        return ast.copy_location(ast.Attribute(target.value, target.attr, ast.Load()), target)
    if isinstance(target, ast.Subscript):
        return ast.copy_location(ast.Subscript(target.value, target.slice, ast.Load()), target)
    return target


def _fits(pattern: ast.pattern, subject: Value) -> bool | None:
    """Tells whether a pattern fits a value; None when that is not known."""
    if isinstance(pattern, ast.MatchAs) and pattern.pattern is None:
        return True
    if isinstance(pattern, ast.MatchAs) and pattern.pattern is not None:
        return _fits(pattern.pattern, subject)
    if isinstance(pattern, ast.MatchOr):
        each = [_fits(part, subject) for part in pattern.patterns]
        return True if True in each else False if all(one is False for one in each) else None
    if subject.constants is None:
        return None
    if isinstance(pattern, ast.MatchValue) and isinstance(pattern.value, ast.Constant):
        found = [one.value == pattern.value.value for one in subject.constants]
    elif isinstance(pattern, ast.MatchSingleton):
        found = [one.value is pattern.value for one in subject.constants]
    else:
        return None
    return True if found and all(found) else None if any(found) else False


def _captured(pattern: ast.pattern) -> Iterator[str]:
    for part in ast.walk(pattern):
        if isinstance(part, ast.MatchAs | ast.MatchStar) and part.name:
            yield part.name
        elif isinstance(part, ast.MatchMapping) and part.rest:
            yield part.rest
