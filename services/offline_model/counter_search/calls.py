"""Calls: what they give back, and what those on the flagged lines are given."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import regex

from services.offline_model.counter_search.attacks import ANYTHING, MARK, harm
from services.offline_model.counter_search.expressions import Expressions
from services.offline_model.counter_search.parsers import Parser, hash_of, parse_of, parser_made
from services.offline_model.counter_search.pure import FUNCTIONS, method_of
from services.offline_model.counter_search.run import Function, Left, Raised, Scope, Unknown

MAX_CALLS_DEEP = 8


class Calls(Expressions):
    """Expressions with calls among them."""

    def name_of(self, node: ast.expr) -> str:
        """Returns the full name of what is called, as far as imports tell."""
        written = ast.unparse(node)
        first, dot, rest = written.partition(".")
        return f"{self.run.program.aliases[self.file].get(first, first)}{dot}{rest}"

    def _e_call(self, node: ast.Call) -> Any:
        owner = self.value(node.func.value) if isinstance(node.func, ast.Attribute) else None
        given: list[Any] = []
        for part in node.args:
            value = self.value(part.value if isinstance(part, ast.Starred) else part)
            given += list(self._items(value)) if isinstance(part, ast.Starred) else [value]
        keywords = {keyword.arg or "**": self.value(keyword.value) for keyword in node.keywords}
        name = self.name_of(node.func)
        on = node.lineno <= self.run.lines[-1] and self.run.lines[0] <= (node.end_lineno or node.lineno)
        if (
            on
            and self.file == self.run.file
            and not self.run.program.exempt(node, name)
            and not self._is_pure(name, owner, node)
        ):
            if self.run.weakness in ("entities", "algorithm"):
                self._note_use(name, owner, given, keywords)
                return self._given_back(node, name, owner, given, keywords)
            archive = owner is not None and name.endswith((".extractall", ".extract"))
            told = [owner, *given] if archive else given
            if not (given or keywords or owner is None or self._is_noted(node.func)):
                told = [owner]
            self._note(told, keywords)
        of_text = isinstance(owner, str) and hasattr(str, name.rpartition(".")[2])
        if isinstance(node.func, ast.Attribute) and self.is_request(node.func) and not of_text:
            sent = self.run.send(ast.unparse(node))
            return [sent] if node.func.attr in ("getlist", "values", "items") else sent
        return self._given_back(node, name, owner, given, keywords)

    def _is_noted(self, called: ast.expr) -> bool:
        """Tells whether a method is one of what another call gave back, which was noted itself."""
        made = called.value if isinstance(called, ast.Attribute) else None
        return isinstance(made, ast.Call) and self.function_of(self.name_of(made.func)) is None

    def _is_pure(self, name: str, owner: Any, node: ast.Call) -> bool:
        """Tells whether a call only computes, so that what it makes has yet to go somewhere."""
        own = isinstance(node.func, ast.Attribute) and not isinstance(owner, Unknown) and owner is not None
        return (
            self.function_of(name) is not None
            or (own and self._method_of(owner, name.rpartition(".")[2]) is not None)
            or self.is_request(node)
        )

    def _given_back(self, node: ast.Call, name: str, owner: Any, given: list[Any], keywords: dict[str, Any]) -> Any:
        function, bare = self.function_of(name), name.rpartition(".")[2]
        if function is not None and not keywords:
            return self._guarded(function, *given)
        made = parser_made(name, keywords)
        if made is not None:
            return made
        if isinstance(owner, Parser):
            return owner.told(bare, [self.name_of(part) for part in node.args], given)
        if name == "globals":
            return self.module(self.file)
        known = self.run.program.functions.get(bare)
        if (
            known is not None
            and self.run.deep < MAX_CALLS_DEEP
            and not (owner is not None and not isinstance(owner, Unknown))
        ):
            return self._followed(known, given, keywords)
        if bare == "update" and isinstance(owner, dict) and given and isinstance(given[0], str):
            return owner.update(dict.fromkeys(owner, given[0]))
        if isinstance(node.func, ast.Attribute) and not isinstance(owner, Unknown):
            method = self._method_of(owner, node.func.attr)
            if method is not None:
                return self._guarded(method, *given, **keywords)
        if name in ("abort", "flask.abort", "werkzeug.exceptions.abort", "sys.exit", "exit", "os._exit"):
            raise Raised
        return self._through([owner, *given, *keywords.values()])

    def _followed(self, known: tuple[str, Function], given: list[Any], keywords: dict[str, Any]) -> Any:
        file, function = known
        names = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
        names = names[1:] if names[:1] in (["self"], ["cls"]) else names
        scope: Scope = {one.arg: self.run.unknown for one in (*function.args.args, *function.args.kwonlyargs)}
        inner = type(self)(self.run, file, scope)
        for name, default in zip(reversed(names), reversed(function.args.defaults), strict=False):
            scope[name] = inner.value(default)
        scope |= dict(zip(names, given, strict=False)) | {k: v for k, v in keywords.items() if k != "**"}
        if function.args.vararg is not None:
            scope[function.args.vararg.arg] = given[len(names) :]
        self.run.deep += 1
        try:
            inner.block(function.body)
        except Left as left:
            return left.value
        finally:
            self.run.deep -= 1
        return None

    def _note(self, given: Sequence[Any], keywords: Mapping[str, Any]) -> None:
        self.run.reached = True
        for mark in (MARK, ANYTHING):
            if harm(self.run.weakness, given, keywords, mark):
                self.run.arrived.add(mark)

    def _note_use(self, name: str, owner: Any, given: Sequence[Any], keywords: Mapping[str, Any]) -> None:
        """Notes what a flagged call does by what it was told before, or is told first."""
        use = parse_of if self.run.weakness == "entities" else hash_of
        found = use(name, owner, given, keywords)
        self.run.reached = self.run.reached or found is not None
        self.run.arrived |= found or set()

    def function_of(self, name: str) -> Callable[..., Any] | None:
        """Returns a function that may really be called, by its full name."""
        return FUNCTIONS.get(name) or self.run.program.patterns.functions.get(name)

    def _method_of(self, owner: Any, name: str) -> Callable[..., Any] | None:
        if isinstance(owner, regex.Pattern):
            return self.run.program.patterns.method_of(owner, name)
        return method_of(owner, name)

    def block(self, body: Sequence[ast.stmt]) -> None:
        """Runs statements."""
        raise NotImplementedError
