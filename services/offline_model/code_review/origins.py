"""Where a value comes from, as far as its expression and the bindings of the names in it say.

Four answers: the program wrote it down itself (`LITERAL`), something made it harmless (`STOPPED`), a request sent it
(`OUTSIDE`), or nothing here says (`UNKNOWN`). What is not known for sure is `UNKNOWN`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import reduce
from typing import Any

from services.offline_model.code_review.names import Binding, Function, Module
from services.offline_model.code_review.opinion import Need, OpinionClaim

MAX_BINDINGS = 10
# The colon that a body follows, and a comment behind it.
_HEAD_ENDS = re.compile(r":\s*(#[^'\"]*)?$")
NUMBERS = frozenset({"builtins.int", "builtins.float", "builtins.len", "builtins.bool"})
_MADE_OF_ARGUMENTS = frozenset({"builtins.str", "os.path.join", "pathlib.Path", "tarfile.open", "zipfile.ZipFile"})
# Methods of texts whose result is made of the text and the arguments, and of nothing else.
_TEXT_METHODS = frozenset(
    {"format", "join", "strip", "lstrip", "rstrip", "lower", "upper", "title", "encode", "decode"}
)
_REQUEST = re.compile(
    r"flask\.request\.(args|form|values|files|cookies|headers|data|json|get_json|get_data|stream|GET|POST|body)"
    r"(\.(get|getlist|read|stream|filename|strip|lower|upper|encode|decode))*"
)
_AS_CHARACTER = re.compile(r"%(\([^)]*\))?[-+ #0-9.*hlL]*c")
# What says whether a file is there, and nothing of where that is.
_EXISTENCE = frozenset({"exists", "is_file", "is_dir"})
_READ_METHODS = frozenset({"get", "items", "keys", "values", "index", "count"})


class Kind(IntEnum):
    """What a value is, from what can't do harm to what an attacker chooses."""

    LITERAL = 0
    STOPPED = 1
    UNKNOWN = 2
    OUTSIDE = 3


@dataclass(frozen=True)
class Origin:
    """Where a value comes from: the claims that show it, in words why, and what to read where it is unknown."""

    kind: Kind
    why: str = ""
    claims: tuple[OpinionClaim, ...] = ()
    needs: tuple[Need, ...] = ()

    def __or__(self, other: Origin) -> Origin:
        worst = max(self, other, key=lambda origin: origin.kind)
        claims = worst.claims if worst.kind is Kind.OUTSIDE else tuple(dict.fromkeys([*self.claims, *other.claims]))
        return Origin(worst.kind, worst.why, claims, (*self.needs, *other.needs))


_LITERAL = Origin(Kind.LITERAL)


class Origins:
    """Says where values of one file come from, as the flagged statement uses them."""

    def __init__(self, module: Module, flagged: ast.stmt) -> None:
        self._module = module
        self._flagged = flagged
        self._known: dict[int, Origin] = {}

    def of(self, node: ast.expr | None) -> Origin:
        """Returns the origin of an expression, the worst of its parts; each is looked at once."""
        if node is None:
            return Origin(Kind.UNKNOWN, "it is not written down here")
        if id(node) not in self._known:
            self._known[id(node)] = Origin(Kind.UNKNOWN, f"`{self._module.source(node)}` is made of itself")
            self._known[id(node)] = self._of(node)
        return self._known[id(node)]

    def _of(self, node: ast.expr) -> Origin:
        if isinstance(node, ast.Constant):
            return _LITERAL
        if isinstance(node, ast.Name):
            return self._of_name(node)
        if self.is_request(node):
            claim = self.claim("{} comes from a request", node)
            doubt = self.is_checked(node, node)
            return Origin(Kind.UNKNOWN, doubt) if doubt else Origin(Kind.OUTSIDE, claim.says, (claim,))
        if isinstance(node, ast.Call):
            return self._of_call(node)
        if isinstance(node, ast.Subscript):
            return self.of(node.value)
        if isinstance(node, ast.IfExp):
            return self._worst([node.body, node.orelse])
        if isinstance(node, ast.GeneratorExp | ast.ListComp | ast.SetComp):
            return self.of(node.elt)
        if isinstance(node, ast.FormattedValue | ast.BinOp) and _is_formatted(node):
            return self._formatted([part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)])
        if isinstance(node, ast.JoinedStr | ast.FormattedValue | ast.BinOp | ast.BoolOp | ast.List | ast.Tuple | ast.Set
                      | ast.Dict | ast.NamedExpr | ast.Starred | ast.UnaryOp):  # fmt: skip
            return self._worst([part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)])
        return self._unknown(node)

    def claim(self, says: str, node: ast.AST) -> OpinionClaim:
        """A claim about a node, whose code takes the place of `{}`."""
        first, last = node.lineno, node.end_lineno or node.lineno  # type: ignore[attr-defined]
        return OpinionClaim(says.replace("{}", f"`{self._module.source(node)}`"), first, last, node)

    def is_from_outside(self, node: ast.AST) -> bool:
        """Tells whether a name, or a part of a request, is just what a request sent."""
        is_whole = isinstance(node, ast.Name) or (isinstance(node, ast.expr) and self.is_request(node))
        return is_whole and isinstance(node, ast.expr) and self.of(node).kind is Kind.OUTSIDE

    def cited(self, name: ast.Name) -> tuple[OpinionClaim, ...]:
        """Cites every line that binds a name."""
        bindings = self._module.bindings(name)
        return tuple(self._claim_of(name.id, binding) for binding in bindings if binding.how != "builtin")

    def _worst(self, parts: Iterable[ast.expr]) -> Origin:
        return reduce(Origin.__or__, (self.of(part) for part in parts), _LITERAL)

    def _formatted(self, parts: Iterable[ast.expr]) -> Origin:
        """Returns the origin of a text that a format makes; of a number that may be any character."""
        found = self._worst(parts)
        is_number = found.kind is Kind.STOPPED
        return Origin(Kind.UNKNOWN, "what a format makes of a number I don't follow") if is_number else found

    def _of_name(self, name: ast.Name) -> Origin:
        bindings = self._module.bindings(name)
        if not 0 < len(bindings) <= MAX_BINDINGS:
            return self._unknown(name)
        found = [self._of_binding(name, binding) for binding in bindings]
        whole = reduce(Origin.__or__, found)
        if whole.kind is Kind.OUTSIDE:
            twice = f"`{name.id}` is set more than once, and I don't follow in which order"
            doubt = twice if len(bindings) > 1 else self.is_checked(name, name)
            return Origin(Kind.UNKNOWN, doubt) if doubt else whole
        return whole

    def _of_binding(self, name: ast.Name, binding: Binding) -> Origin:
        if binding.how == "parameter" and isinstance(binding.node, Function):
            return self._of_parameter(name.id, binding.node)
        is_shared = _is_container(binding.value) and not self._is_only_read(name.id)
        if is_shared or binding.how not in ("value", "entered"):
            return self._unknown(name)
        value = self.of(binding.value)
        return Origin(value.kind, value.why, (self._claim_of(name.id, binding), *value.claims), value.needs)

    def _claim_of(self, name: str, binding: Binding) -> OpinionClaim:
        node: Any = binding.node
        if isinstance(node, ast.stmt) and hasattr(node, "body"):
            head = self._head(node)
            return OpinionClaim(f"`{head}` binds {name}", node.lineno, node.lineno + head.count("\n"), node)
        return self.claim(f"{{}} sets {name}", node)

    def _head(self, node: Any) -> str:
        """Returns a definition or a block up to its body."""
        lines = self._module.text.split("\n")[node.lineno - 1 : max(node.lineno, node.body[0].lineno - 1)]
        ends = (number for number, line in enumerate(lines, start=1) if _HEAD_ENDS.search(line))
        head = "\n".join(lines[: next(ends, len(lines))])
        return _HEAD_ENDS.sub(":", head).strip()

    def _of_parameter(self, name: str, function: Function) -> Origin:
        """One caller in this file that passes on what a request sent is enough to know; others may be anywhere."""
        bound = self._claim_of(name, Binding("parameter", function))
        for call in (node for node in self._module.nodes if isinstance(node, ast.Call)):
            bindings = self._module.bindings(call.func) if isinstance(call.func, ast.Name) else ()
            is_ours = len(bindings) == 1 and bindings[0].node is function
            given = self.of(_argument(call, function, name)) if is_ours else _LITERAL
            if given.kind is Kind.OUTSIDE:
                claims = (bound, self.claim(f"{name} is given by {{}}", call), *given.claims)
                return Origin(Kind.OUTSIDE, given.why, claims)
        return Origin(Kind.UNKNOWN, f"`{name}` is whatever its callers give", needs=(Need("callers", function.name),))

    def is_request(self, node: ast.expr) -> bool:
        """Tells whether an expression is a part of a request, as it was sent."""
        converts = any(isinstance(part, ast.keyword) and part.arg == "type" for part in ast.walk(node))
        return not converts and _REQUEST.fullmatch(self._dotted(node)) is not None

    def _dotted(self, node: ast.expr) -> str:
        """Returns the dotted name of a chain of attributes, keys and calls."""
        if isinstance(node, ast.Call):
            return self._dotted(node.func)
        if isinstance(node, ast.Subscript):
            return self._dotted(node.value)
        if isinstance(node, ast.Attribute):
            return f"{self._dotted(node.value)}.{node.attr}"
        # What things are called is enough to call a weakness one.
        return self._module.full_name(node) or ("flask.request" if self._is_called_request(node) else "")

    def _is_called_request(self, node: ast.expr) -> bool:
        bindings = self._module.bindings(node) if isinstance(node, ast.Name) and node.id == "request" else ()
        return [each.how for each in bindings] == ["parameter"]

    def _of_call(self, call: ast.Call) -> Origin:
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        name = self._module.full_name(call.func)
        if name in NUMBERS:
            why = f"`{self._module.source(call.func)}` makes a number of what it is given"
            return Origin(Kind.STOPPED, why, (self.claim("{} is a number", call),))
        if name in _MADE_OF_ARGUMENTS:
            return self._worst(given)
        if isinstance(call.func, ast.Attribute):
            receiver = call.func.value
            if call.func.attr == "get":
                return self._worst([receiver, *call.args[1:]])
            if call.func.attr in _TEXT_METHODS:
                return self._formatted([receiver, *given])
        return self._unknown(call.func)

    def _is_only_read(self, name: str) -> bool:
        """Tells whether nothing in the file changes, or passes on, what a name of a list or a map holds."""
        return all(
            self._reads(node) for node in self._module.nodes
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
        )  # fmt: skip

    def _reads(self, name: ast.Name) -> bool:
        parent = self._module.parents[id(name)]
        if isinstance(parent, ast.Attribute):
            outer = self._module.parents[id(parent)]
            return parent.attr in _READ_METHODS and isinstance(outer, ast.Call) and outer.func is parent
        if isinstance(parent, ast.Subscript):
            return isinstance(parent.ctx, ast.Load)
        if isinstance(parent, ast.Call):
            return self._module.statement_around(name) is self._flagged
        return isinstance(parent, ast.Compare | ast.For | ast.comprehension | ast.FormattedValue | ast.BinOp)

    def is_checked(self, value: ast.expr, where: ast.AST) -> str:
        """Returns why a value may be harmless after all; nothing when nothing in the function looks at it."""
        same = ast.dump(ast.Name(value.id, ast.Load()) if isinstance(value, ast.Name) else value)
        for node in ast.walk(self._module.function_around(where) or self._module.tree):
            if any(ast.dump(part) == same for part in self._looked_at(node)):
                line, shown = self._module.statement_around(node).lineno, self._module.source(value)
                return f"`{shown}` is looked at in line {line}, and whether that is enough I can't judge"
        return ""

    def _looked_at(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yields what a condition, or a call that may refuse it, looks at."""
        if isinstance(node, ast.If | ast.While | ast.Assert | ast.IfExp) and not _is_existence(node.test):
            yield from ast.walk(node.test)
        elif isinstance(node, ast.Compare):
            yield from (node.left, *node.comparators)
        elif isinstance(node, ast.Match):
            yield node.subject
        elif isinstance(node, ast.Call) and not self._passes_on(node):
            yield from node.args
            if isinstance(node.func, ast.Attribute) and node.func.attr not in _TEXT_METHODS | _EXISTENCE:
                yield node.func.value

    def _passes_on(self, call: ast.Call) -> bool:
        """Tells whether a call is where the value goes: the flagged statement, a function of this file, the answer."""
        statement = self._module.statement_around(call)
        if statement is self._flagged or isinstance(statement, ast.Return):
            return True
        bindings = self._module.bindings(call.func) if isinstance(call.func, ast.Name) else ()
        return any(binding.node is self._module.function_around(self._flagged) for binding in bindings)

    def _unknown(self, node: ast.expr) -> Origin:
        shown = self._module.source(node)
        needs = (Need("definition", shown),) if isinstance(node, ast.Name | ast.Attribute) else ()
        return Origin(Kind.UNKNOWN, f"where `{shown}` comes from does not show here", needs=needs)


def _is_existence(test: ast.expr) -> bool:
    asked = test.operand if isinstance(test, ast.UnaryOp) else test
    return isinstance(asked, ast.Call) and isinstance(asked.func, ast.Attribute) and asked.func.attr in _EXISTENCE


def _is_formatted(node: ast.FormattedValue | ast.BinOp) -> bool:
    """Tells whether a format may make a number any character."""
    if isinstance(node, ast.FormattedValue):
        return node.format_spec is not None
    text = getattr(node.left, "value", None)
    return isinstance(node.op, ast.Mod) and not (isinstance(text, str) and not _AS_CHARACTER.search(text))


def _is_container(value: ast.expr | None) -> bool:
    """Tells whether a value may be changed under another name."""
    parts = ast.walk(value) if value is not None else ()
    return any(isinstance(part, ast.Dict | ast.List | ast.Set | ast.ListComp | ast.SetComp) for part in parts)


def _argument(call: ast.Call, function: Function, name: str) -> ast.expr | None:
    """Returns what a call gives a parameter; None when that is not written down."""
    given = next((keyword.value for keyword in call.keywords if keyword.arg == name), None)
    parameters = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    if given is not None or name not in parameters or any(isinstance(each, ast.Starred) for each in call.args):
        return given
    at = parameters.index(name)
    return call.args[at] if at < len(call.args) else None
