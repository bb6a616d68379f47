"""What calls come to: what they are given, what they change, and what they give back."""

from __future__ import annotations

import ast
from dataclasses import replace

from services.offline_model.code_review.conditions import Env, Evaluate
from services.offline_model.code_review.definitions import is_standard
from services.offline_model.code_review.library import Called, library_value
from services.offline_model.code_review.objects import cell_of, change_by, change_object, new_object
from services.offline_model.code_review.opinion import Need
from services.offline_model.code_review.origins import is_request, is_typed, requested, unknown
from services.offline_model.code_review.sanitizers import looks_like_one
from services.offline_model.code_review.shown import Function, ShownFile, bare_name, dotted
from services.offline_model.code_review.surroundings import Surroundings
from services.offline_model.code_review.values import OUTSIDE, UNKNOWN, Origin, Value

# What makes a list, a set or a map that can be changed later.
_MAKERS = frozenset({"list", "set", "dict", "sorted", "copy.copy", "copy.deepcopy", "collections.deque",
                     "collections.defaultdict", "collections.OrderedDict", "bytearray"})  # fmt: skip
_MAKING = frozenset({"split", "rsplit", "splitlines", "copy", "fromkeys"})
# Methods that change nothing of a list or a map, and none of the features that an XML parser has.
_READING = frozenset({"get", "items", "keys", "values", "index", "count", "copy", "join", "split", "union",
                      "intersection", "difference", "issubset", "issuperset", "isdisjoint", "add_section",
                      "setContentHandler", "setErrorHandler", "setDTDHandler", "getFeature"})  # fmt: skip


def _makes_object(called: Called) -> bool:
    return called.name in _MAKERS or (called.receiver is not None and called.method in _MAKING)


class CallResults:
    """Evaluates the calls in one function, or in a module.

    ended: the last call that never comes back. last_name: the full name of what was called last.
    """

    def __init__(self, around: Surroundings, file: ShownFile, function: Function | None, evaluate: Evaluate) -> None:
        self.ended: ast.Call | None = None
        self.last_name = ""
        self._around = around
        self._file = file
        self._function = function
        self._evaluate = evaluate

    def value(self, node: ast.Call, env: Env) -> Value:
        """Returns what a call gives back, after its changes in the env. Raises TooManyWays."""
        receiver = self._evaluate(node.func.value, env) if isinstance(node.func, ast.Attribute) else None
        args, spread = list[Value](), False
        for part in node.args:
            value = self._evaluate(part.value if isinstance(part, ast.Starred) else part, env)
            if isinstance(part, ast.Starred):
                spread = spread or value.items is None
                args += value.items if value.items is not None else [Value(value.sources)]
            else:
                args.append(value)
        keywords: dict[str, Value] = {}
        for keyword in node.keywords:
            value = self._evaluate(keyword.value, env)
            if keyword.arg is None and value.entries is not None:
                keywords |= {str(key.value): item for key, item in value.entries}
            elif keyword.arg is None:
                spread, keywords = True, {**keywords, "**": value}
            else:
                keywords[keyword.arg] = value
        called = Called(node, self._called_name(node, receiver, env), receiver, tuple(args), keywords, spread)
        self._around.seen_call(called)
        found = self._given_back(called, env)
        if _makes_object(called) and not found.cells and found.constants is None:
            found = replace(found, cells=frozenset({cell_of(node)}))
        self.last_name = called.name
        return found

    def _called_name(self, node: ast.Call, receiver: Value | None, env: Env) -> str:
        """Returns the full name of what is called; `.name` for a method of an object, `?` for who knows."""
        if isinstance(node.func, ast.Attribute):
            if receiver is not None and receiver.refers:
                full = f"{receiver.refers}.{node.func.attr}"
                return f"?.{full}" if self._around.is_replaced(full) else full
            root = dotted(node.func).partition(".")[0]
            unshown = (
                root and root not in env and root not in self._file.imports and isinstance(node.func.value, ast.Name)
            )
            if unshown and self._around.global_value(root, self._file) is None and root not in {"self", "cls"}:
                return dotted(node.func)
            return f".{node.func.attr}"
        if isinstance(node.func, ast.Name):
            if node.func.id in env:
                return env[node.func.id].refers or "?"
            found = self._file.imports.get(node.func.id)
            if found is None and not self._around.is_shown(node, self._file):
                bound = self._around.global_value(node.func.id, self._file)
                is_other = self._file.star_line or self._around.is_replaced(node.func.id)
                known = f"?.{node.func.id}" if is_other else node.func.id
                return known if bound is None else bound.refers or "?"
            return f"?.{found}" if found and self._around.is_replaced(found) else found or node.func.id
        return self._evaluate(node.func, env).refers or "?"

    def _given_back(self, called: Called, env: Env) -> Value:
        node = called.node
        if is_request(node, self._file, self._function):
            return requested(node, self._file)
        if is_typed(node):
            return unknown(node, self._file, "it is up to whoever starts the program")
        if called.name == "getattr" and len(called.args) > 1 and called.args[1].only and called.args[0].refers:
            full = f"{called.args[0].refers}.{called.args[1].only.value}"
            return Value(unknown(node, self._file, f"`{full}` is defined elsewhere").sources, refers=full)
        if self._changes(called, env):
            return library_value(called, self._around.weakness, self._file) or Value(called.sources)
        if self._around.is_shown(node, self._file):
            value, ends = self._around.returned(called, self._file)
            self.ended = node if ends else self.ended
            self._may_fill(called, env)
            if value is not None:
                return value
        if looks_like_one(node, self._around.weakness, self._file):
            need = Need("lines", self._file.path, 1)
            return unknown(node, self._file, f"which {called.method}() it goes through", need)
        found = library_value(called, self._around.weakness, self._file)
        if found is not None:
            return found
        made = new_object(called, cell_of(node))
        if made is not None:
            return made
        self._may_fill(called, env)
        name = called.method if called.name != "?" else bare_name(node.func)
        is_known = not name or is_standard(name) or is_standard(called.name)
        missing = None if is_known else Need("definition", name)
        outside = [one for one in called.sources if one.kind == OUTSIDE]
        gives = unknown(node, self._file, f"{name or 'a call'}() gives it", missing)
        passed = Value(frozenset(outside)).doubted
        bound = self._bound_elsewhere(node, env) if missing else frozenset()
        return Value(gives.sources | bound | passed.sources, made_by=called.name)

    def _bound_elsewhere(self, node: ast.Call, env: Env) -> frozenset[Origin]:
        """Returns the doubt about a name that is imported, or made, in lines of its file that were not shown."""
        root = dotted(node.func).partition(".")[0]
        if not root or root in env or root in self._file.imports or not self._file.unread:
            return frozenset()
        need = Need("file", self._file.path)
        return unknown(node, self._file, f"what `{root}` is, lines that were not shown say", need).sources

    def _changes(self, called: Called, env: Env) -> bool:
        """Changes the object that a call is made on, if it is one of those that change their object."""
        node, receiver = called.node, called.receiver
        if receiver is None or not isinstance(node.func, ast.Attribute) or receiver.refers:
            return False
        how = change_by(called, receiver)
        if how is None:
            return False
        change_object(node.func.value, receiver, how, env)
        return True

    def _may_fill(self, called: Called, env: Env) -> None:
        """What is not known may put anything into the objects that it is given, and set any attribute."""
        note = Origin(UNKNOWN, f"{called.method}() may have filled it", self._file.path, called.node.lineno)
        sources = called.sources | {note}
        held = called.receiver
        itself = (held,) if held is not None and held.cells and called.method not in _READING else ()
        for one in (*called.given, *itself):
            if one.cells:
                change_object(called.node, one, lambda old: Value(old.sources | sources), env)
        for name in [name for name in env if "." in name]:
            del env[name]
