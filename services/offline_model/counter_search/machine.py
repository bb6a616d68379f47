"""Runs pieces of Python with concrete values, and notes what arrives at the flagged lines."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from services.offline_model.counter_search.calls import Calls
from services.offline_model.counter_search.expressions import MAX_STEPS
from services.offline_model.counter_search.run import Left, OutOfSteps, Raised, Unknown

MAX_TURNS = 3


class Machine(Calls):
    """Runs the statements of a function or a module in a scope."""

    def outermost(self, body: Sequence[ast.stmt]) -> Any:
        """Runs statements to their end, whatever they raise. Raises OutOfSteps."""
        try:
            self.block(body)
        except Left as left:
            return left.value
        except Raised:
            return None
        return None

    def block(self, body: Sequence[ast.stmt]) -> None:
        """Runs statements."""
        for statement in body:
            self.run.steps += 1
            if self.run.steps > MAX_STEPS:
                raise OutOfSteps
            method = getattr(self, f"_{type(statement).__name__.lower()}", None)
            if method is not None:
                method(statement)
            self._note_text(statement)

    def _note_text(self, statement: ast.stmt) -> None:
        """Without a call, what is flagged is the text that a statement makes."""
        on = statement.lineno in self.run.lines and self.file == self.run.file
        value = getattr(statement, "value", None)
        made = isinstance(value, ast.Call) and self.function_of(self.name_of(value.func)) is None
        if on and isinstance(value, ast.expr) and not made:
            self._note([self.value(value)], {})

    def _expr(self, node: ast.Expr) -> None:
        self.value(node.value)

    def _assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            self.bind(target, value)

    def _annassign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.bind(node.target, self.value(node.value))

    def _augassign(self, node: ast.AugAssign) -> None:
        self.bind(node.target, self._combine(type(node.op), self.value(node.target), self.value(node.value)))

    def _return(self, node: ast.Return) -> None:
        raise Left("return", self.value(node.value) if node.value is not None else None)

    def _global(self, node: ast.Global) -> None:
        self.declared |= set(node.names)

    def _raise(self, _node: ast.Raise) -> None:
        raise Raised

    def _break(self, _node: ast.Break) -> None:
        raise Left("break")

    def _continue(self, _node: ast.Continue) -> None:
        raise Left("continue")

    def _if(self, node: ast.If) -> None:
        self.block(node.body if self.holds(node.test) else node.orelse)

    def _while(self, node: ast.While) -> None:
        for _ in range(MAX_TURNS):
            if not self.holds(node.test) or not self._turn(node.body):
                return

    def _for(self, node: ast.For | ast.AsyncFor) -> None:
        for item in list(self._items(self.value(node.iter)))[:MAX_TURNS]:
            self.bind(node.target, item)
            if not self._turn(node.body):
                return
        self.block(node.orelse)

    _asyncfor = _for

    def _turn(self, body: Sequence[ast.stmt]) -> bool:
        try:
            self.block(body)
        except Left as left:
            if left.how == "return":
                raise
            return left.how == "continue"
        return True

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            value = self.value(item.context_expr)
            if item.optional_vars is not None:
                self.bind(item.optional_vars, value)
        self.block(node.body)

    _asyncwith = _with

    def _try(self, node: ast.Try) -> None:
        try:
            self.block(node.body)
        except Raised:
            if not node.handlers:
                raise
            handler = node.handlers[0]
            if handler.name:
                self.scope[handler.name] = self.run.unknown
            self.block(handler.body)
        else:
            self.block(node.orelse)
        finally:
            self.block(node.finalbody)

    def _match(self, node: ast.Match) -> None:
        subject = self.value(node.subject)
        for case in node.cases:
            for part in ast.walk(case.pattern):
                if isinstance(part, ast.MatchAs | ast.MatchStar) and part.name:
                    self.scope[part.name] = subject
            pattern = case.pattern
            if isinstance(pattern, ast.MatchValue) and not isinstance(subject, Unknown):
                fits = self.value(pattern.value) == subject
            elif isinstance(pattern, ast.MatchAs) and pattern.pattern is None:
                fits = True
            else:
                fits = self.run.choose(pattern, subject)
            if fits and (case.guard is None or self.holds(case.guard)):
                self.block(case.body)
                return

    def _delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.scope.pop(target.id, None)
