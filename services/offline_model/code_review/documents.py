"""What reads bytes that may tell it to do more: unsafe loaders, and parsers of XML."""

from __future__ import annotations

import ast

from services.offline_model.code_review.flagged import Flagged, judge_each, judge_values
from services.offline_model.code_review.library import Called
from services.offline_model.code_review.opinion import FALSE_POSITIVE, TRUE_POSITIVE, Evidence, Need, Opinion, undecided
from services.offline_model.code_review.shown import bare_name, dotted
from services.offline_model.code_review.values import Value

_LOADERS = frozenset(
    {"pickle.load", "pickle.loads", "pickle.Unpickler", "cPickle.load", "cPickle.loads", "_pickle.loads",
     "_pickle.load", "dill.load", "dill.loads", "marshal.load", "marshal.loads", "jsonpickle.decode", "yaml.load",
     "yaml.load_all", "yaml.unsafe_load", "yaml.full_load", "cloudpickle.loads", "cloudpickle.load"}
)  # fmt: skip
# Loaders that take a file's name, or may take one.
_BY_NAME = frozenset({"torch.load", "joblib.load", "numpy.load", "pandas.read_pickle", "shelve.open", "np.load"})
_SAFE_LOADERS = frozenset({"yaml.SafeLoader", "yaml.CSafeLoader", "yaml.BaseLoader", "yaml.loader.SafeLoader"})
_UNSAFE_LOADERS = frozenset({"yaml.Loader", "yaml.UnsafeLoader", "yaml.CLoader", "yaml.loader.Loader"})
_TEACHES = frozenset({"add_constructor", "add_multi_constructor", "yaml_constructors", "yaml_multi_constructors",
                      "YAMLObject", "add_path_resolver"})  # fmt: skip
_PARSES = frozenset({"parse", "fromstring", "XML", "iterparse", "parseString", "fromstringlist", "feed"})
# Parsers of the standard library resolve no external entities unless they are told to.
_EXPAT = ("xml.etree.", "xml.dom.minidom.", "xml.dom.pulldom.", "xml.sax.")


def deserialization(flagged: Flagged) -> Opinion:
    """Unsafe loading: which loader, and whose bytes."""
    if flagged.is_imports:
        said = "The flagged line imports a module; nothing is loaded here."
        return Opinion(FALSE_POSITIVE, said, (flagged.evidence(said),))
    return judge_each(flagged, _load, "I see nothing that is loaded in the flagged lines.")


def _load(flagged: Flagged, called: Called) -> Opinion | None:
    what = "Bytes are loaded that can run code"
    if called.name in ("yaml.safe_load", "yaml.safe_load_all"):
        return _plain_values(flagged, called, "yaml.SafeLoader")
    if called.name in _BY_NAME:
        found = judge_values(flagged, called.node, list(called.args[:1]) or [Value(called.sources)], what)
        said = "The file is named by the program, but what is in it was not shown."
        return undecided(said) if found.verdict == FALSE_POSITIVE else found
    if called.name.startswith("yaml.load"):
        loader = called.keywords.get("Loader", called.args[1] if len(called.args) > 1 else None)
        if loader is not None and not called.spread:
            return _by_loader(flagged, called, loader)
    if called.name not in _LOADERS:
        return undecided("What this loader builds was not shown.") if called.method in (
            "load", "loads", "Unpickler", "unsafe_load", "full_load") else None  # fmt: skip
    given = [Value(called.sources)] if called.spread or not called.args else list(called.args[:1])
    found = judge_values(flagged, called.node, given, what)
    if called.name == "yaml.full_load" and found.verdict == TRUE_POSITIVE:
        return undecided("What this loader builds depends on its version, which was not shown.")
    return found


def _by_loader(flagged: Flagged, called: Called, loader: Value) -> Opinion:
    node = next((keyword.value for keyword in called.node.keywords if keyword.arg == "Loader"), None)
    node = node if node is not None else (called.node.args[1] if len(called.node.args) > 1 else called.node)
    name = loader.refers or dotted(node)
    if isinstance(node, ast.Name) and any(
        isinstance(one, ast.Global) and node.id in one.names for file in flagged.shown.python for one in file.nodes
    ):
        return undecided(f"Which loader {node.id} is when this runs was not shown.")
    if name in _SAFE_LOADERS:
        return _plain_values(flagged, called, name)
    if name in _UNSAFE_LOADERS:
        return judge_values(flagged, called.node, list(called.args[:1]), "Bytes are loaded that can run code")
    own = (flagged.file,) if isinstance(node, ast.Name) and node.id not in flagged.file.imports else ()
    for file in own:
        for found in file.nodes:
            if isinstance(found, ast.ClassDef) and found.name == bare_name(node):
                plain = all(_says_nothing(one) for one in (*found.body, *found.keywords, *found.decorator_list))
                plain = plain and sum(one.name == found.name for one in flagged.shown.classes) == 1
                safe = len(found.bases) == 1 and file.full_name(found.bases[0]) in _SAFE_LOADERS
                if not (plain and safe):
                    return undecided(f"What {found.name} builds, I can't judge.")
                shows = Evidence(f"{found.name} is a loader of plain values.", file.path, found.lineno, found.lineno)
                opinion = _plain_values(flagged, called, found.name)
                return Opinion(opinion.verdict, opinion.justification, (*opinion.evidence, shows), opinion.needs)
    missing = bare_name(node)
    needs = (Need("definition", missing),) if missing and not name.startswith("yaml.") else ()
    return undecided(f"Which values {missing or 'the loader'} builds was not shown.", *needs)


def _says_nothing(node: ast.AST) -> bool:
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _plain_values(flagged: Flagged, called: Called, loader: str) -> Opinion:
    for file in flagged.shown.python:
        for node in file.nodes:
            said = (
                node.attr
                if isinstance(node, ast.Attribute)
                else node.name
                if isinstance(node, ast.alias)
                else node.id
                if isinstance(node, ast.Name)
                else str(node.value)
                if isinstance(node, ast.Constant)
                else ""
            )
            if said in _TEACHES:
                return undecided(f"The program teaches a loader more than plain values, perhaps {loader}.")
    said = "The loader builds plain values only."
    return Opinion(FALSE_POSITIVE, said, (flagged.evidence(said, called.node),))


def external_entities(flagged: Flagged) -> Opinion:
    """External entities: whether the parser resolves them."""
    return judge_each(flagged, lambda one, called: _parse(one, called, external=True),
                      "I see no document that is parsed in the flagged lines.")  # fmt: skip


def xml(flagged: Flagged) -> Opinion:
    """XML parsing: which parser, and whose document."""
    return judge_each(flagged, lambda one, called: _parse(one, called, external=False),
                      "I see no document that is parsed in the flagged lines.")  # fmt: skip


def _parse(flagged: Flagged, called: Called, *, external: bool) -> Opinion | None:
    parser = (
        called.receiver if called.receiver is not None and called.receiver.made_by == "xml.sax.make_parser" else None
    )
    if called.method not in _PARSES or not called.given or (called.name.startswith(".") and parser is None):
        return None
    if called.name.startswith("defusedxml.") and (called.keywords or called.spread or len(called.args) > 1):
        return undecided("What defusedxml's parser is told to let through was not followed.")
    if called.name.startswith("defusedxml."):
        said = "The parser is defusedxml's."
        return Opinion(FALSE_POSITIVE, said, (flagged.evidence(said, called.node),))
    document = judge_values(
        flagged, called.node, list(called.args[:1]) or [Value(called.sources)], "A document is parsed"
    )
    if parser is not None:
        return _by_features(flagged, called, parser, document)
    own = "parser" in called.keywords or len(called.args) > 1 or called.spread
    if external and called.name.startswith(_EXPAT) and not own:
        said = "The parser resolves no external entities unless it is told to, and it is not."
        return Opinion(FALSE_POSITIVE, said, (flagged.evidence(said, called.node),))
    if document.verdict == FALSE_POSITIVE and called.method in ("parse", "iterparse"):
        return undecided("The file is named by the program, but what is in it was not shown.")
    if document.verdict == TRUE_POSITIVE:
        return undecided("The document comes from outside; what this parser does with its entities was not shown.")
    return document


def _by_features(flagged: Flagged, called: Called, parser: Value, document: Opinion) -> Opinion:
    """A parser whose features are told to it one by one."""
    is_set = any(isinstance(one, ast.Attribute) and one.attr.startswith("_external") for one in flagged.file.nodes)
    if parser.entries is None or is_set:
        return undecided("Which features the parser has was not shown.")
    on = [value for key, value in parser.entries if "external" in str(key.value)]
    if all(value.truth is False for value in on):
        said = "The parser resolves no external entities unless it is told to, and it is not."
        return Opinion(FALSE_POSITIVE, said, (flagged.evidence(said, called.node),))
    if any(value.truth is True for value in on) and document.verdict == TRUE_POSITIVE:
        said = "The parser is told to resolve external entities, and the document comes from outside."
        return Opinion(TRUE_POSITIVE, said, document.evidence)
    return undecided("The parser is told to resolve external entities; whose document it is was not shown.")
