"""What a name is bound to where a call uses it: functions that were shown, and only where nothing else can be meant."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from services.offline_model.code_review.shown import Function, Shown, ShownFile, bare_name, dotted

# A name that is imported from module to module: further than that nobody follows it by eye.
MAX_HOPS = 5
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_STAR = "*"


@dataclass(frozen=True)
class Imported:
    """A name that an import binds: to a name of a module, or to a module where `name` is empty."""

    module: str
    name: str
    line: int


Binding = Imported | ast.AST


def functions_named(shown: Shown, file: ShownFile, called: ast.expr) -> list[tuple[ShownFile, Function]]:
    """Returns the functions that a name, or a module's attribute, is bound to; none where it may be anything else."""
    around = file.function_at(called.lineno)
    name = dotted(called)
    root, _, rest = name.partition(".")
    while around is not None:
        local = dict(_grouped(_bound(around.body)))
        if any(isinstance(one, ast.arg) and one.arg == root for one in ast.walk(around.args)):
            return []
        if root in local and not _is_global(around, root):
            return [] if bare_name(called) in shown.patched else _named(shown, file, local[root], rest, 0)
        around = file.function_around(around)
    return _of_module(shown, file, name)


def _of_module(shown: Shown, file: ShownFile, name: str, hops: int = 0) -> list[tuple[ShownFile, Function]]:
    """Returns the functions that a module's name, dotted where it is one of a module's, stands for."""
    if hops > MAX_HOPS or name.rpartition(".")[2] in shown.patched:
        return []
    root, _, rest = name.partition(".")
    bound = dict(_grouped(_bound(_at_top(file))))
    bindings = bound.get(root, [])
    if any(isinstance(node, ast.Global) and root in node.names for node in file.nodes):
        return []
    first = min((_line(one) for one in bindings), default=0)
    stars = [one for one in bound.get(_STAR, []) if isinstance(one, Imported) and one.line > first]
    if bindings:
        return [] if stars else _named(shown, file, bindings, rest, hops)
    if len(stars) != 1 or root.startswith("_"):
        return []
    source = module_of(shown, file, stars[0].module)
    return _of_module(shown, source, name, hops + 1) if source else []


def _named(
    shown: Shown, file: ShownFile, bindings: list[Binding], rest: str, hops: int
) -> list[tuple[ShownFile, Function]]:
    """Returns what bindings come to; all of them have to be functions, or one import."""
    functions = [one for one in bindings if isinstance(one, Function)]
    if not rest and len(functions) == len(bindings):
        return [(file, one) for one in functions]
    # `import a.b` and `import a.c` bind the same name to the same package.
    imports = {(one.module, one.name) for one in bindings if isinstance(one, Imported)}
    if len(imports) != 1 or not all(isinstance(one, Imported) for one in bindings):
        return []
    [(module, name)] = imports
    *packages, last = [part for part in (name, *rest.split(".")) if part] or [""]
    owner = module_of(shown, file, ".".join([module.removesuffix("."), *packages]) if packages else module)
    return _of_module(shown, owner, last, hops + 1) if owner and last else []


def module_of(shown: Shown, file: ShownFile, module: str) -> ShownFile | None:
    """Returns the file of a module, as an import in another names it; both lie below the same folder of sources."""
    here = PurePosixPath(file.path).parent.parts
    level = len(module) - len(module.lstrip("."))
    parts = tuple(part for part in module.lstrip(".").split(".") if part)
    if level > len(here) + 1:
        return None
    roots = [here[: len(here) - level + 1]] if level else [here[:depth] for depth in range(len(here) + 1)]
    paths = [path for root in roots for path in _paths((*root, *parts))]
    found = [one for path in paths if (one := shown.file(path)) is not None]
    return found[0] if len(found) == 1 else None


def _paths(parts: tuple[str, ...]) -> list[str]:
    package = "/".join((*parts, "__init__.py"))
    return [package, "/".join(parts) + ".py"] if parts else [package]


def _at_top(file: ShownFile) -> list[ast.stmt]:
    """Returns the statements of a module itself: a part of a file may begin inside of a function or a class."""
    return [one for one in file.statements if not file.lines.get(one.lineno, "")[:1].isspace()]


def _grouped(bound: Iterable[tuple[str, Binding]]) -> Iterator[tuple[str, list[Binding]]]:
    names: dict[str, list[Binding]] = {}
    for name, binding in bound:
        names.setdefault(name, []).append(binding)
    yield from names.items()


def _bound(statements: Iterable[ast.AST]) -> Iterator[tuple[str, Binding]]:
    """Yields every name that statements bind in their own scope, and to what."""
    for node in statements:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name, node
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from _imported(node)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id, node
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            yield node.name, node
        elif isinstance(node, ast.MatchMapping) and node.rest:
            yield node.rest, node
        if not isinstance(node, _SCOPES):
            yield from _bound(ast.iter_child_nodes(node))


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, Imported]]:
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield alias.asname or alias.name, Imported(module, "" if alias.name == _STAR else alias.name, node.lineno)
        else:
            first = alias.name.partition(".")[0]
            yield alias.asname or first, Imported(alias.name if alias.asname else first, "", node.lineno)


def _line(binding: Binding) -> int:
    return binding.line if isinstance(binding, Imported) else int(getattr(binding, "lineno", 0))


def _is_global(function: Function, name: str) -> bool:
    return any(isinstance(node, (ast.Global, ast.Nonlocal)) and name in node.names for node in ast.walk(function))
