"""The languages whose symbols are known: grammar, file names, and what counts as a definition or a call.

Tables of tree-sitter's node types, read by `symbols.py` in one walk over the tree. Not tree-sitter queries: those take
quadratic time on some files that do not parse (a minute for 300 kB of asterisks), and cannot be interrupted.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType

import tree_sitter_c
import tree_sitter_cpp
import tree_sitter_go
import tree_sitter_java
import tree_sitter_javascript
import tree_sitter_json
import tree_sitter_python
import tree_sitter_toml
import tree_sitter_typescript
from tree_sitter import Language as Grammar

from services.code_executor.line_ends import INNER_RETURN

FUNCTION, CLASS, DECLARATION, VARIABLE = "function", "class", "declaration", "variable"
# Kinds that a node's parts decide: what it is set to, and what it declares.
VALUE, DECLARATOR = "value", "declarator"
# Kinds that are only mentioned, not defined, when they have no body: `struct S *p`.
BODIED = frozenset({"struct", "union", "class", "enum"})

_PYTHON = {"function_definition": FUNCTION, "class_definition": CLASS, "assignment": VALUE}
_C = {
    "function_definition": FUNCTION, "struct_specifier": "struct", "union_specifier": "union", "enum_specifier": "enum",
    "type_definition": "type", "preproc_def": "macro", "preproc_function_def": "macro", "declaration": DECLARATOR,
}  # fmt: skip
_CPP = {
    **_C, "namespace_definition": "namespace", "class_specifier": CLASS, "alias_declaration": "type",
    "concept_definition": "type", "field_declaration": DECLARATOR,
}  # fmt: skip
_JAVA = {
    "class_declaration": CLASS, "interface_declaration": "interface", "enum_declaration": "enum",
    "record_declaration": "record", "annotation_type_declaration": "annotation", "method_declaration": FUNCTION,
    "constructor_declaration": FUNCTION, "compact_constructor_declaration": FUNCTION, "field_declaration": VARIABLE,
    "constant_declaration": VARIABLE, "enum_constant": VARIABLE,
}  # fmt: skip
_GO = {
    "function_declaration": FUNCTION, "method_declaration": FUNCTION, "type_spec": "type", "type_alias": "type",
    "method_elem": DECLARATION, "const_spec": VARIABLE, "var_spec": VARIABLE,
}  # fmt: skip
_JAVASCRIPT = {
    "function_declaration": FUNCTION, "generator_function_declaration": FUNCTION, "class_declaration": CLASS,
    "method_definition": FUNCTION, "function_expression": FUNCTION, "variable_declarator": VALUE,
    "assignment_expression": VALUE, "pair": VALUE, "field_definition": VALUE,
}  # fmt: skip
_TYPESCRIPT = {
    **_JAVASCRIPT, "abstract_class_declaration": CLASS, "interface_declaration": "interface",
    "type_alias_declaration": "type", "enum_declaration": "enum", "internal_module": "namespace",
    "module": "namespace", "function_signature": DECLARATION, "method_signature": DECLARATION,
    "abstract_method_signature": DECLARATION, "public_field_definition": VALUE,
}  # fmt: skip

# Node type of a call, and the field that holds what is called; "" stands for the last named child.
_PYTHON_CALLS = {"call": "function", "decorator": ""}
_C_CALLS = {"call_expression": "function"}
_CPP_CALLS = {"call_expression": "function", "new_expression": "type"}
_JAVA_CALLS = {"method_invocation": "name", "object_creation_expression": "type", "method_reference": ""}
_GO_CALLS = {"call_expression": "function"}
_JAVASCRIPT_CALLS = {"call_expression": "function", "new_expression": "constructor"}

_PYTHON_NAMES = frozenset({*dir(builtins), "self", "cls"})
_GO_NAMES = frozenset({
    "append", "cap", "clear", "close", "complex", "copy", "delete", "imag", "len", "make", "max", "min", "new",
    "panic", "print", "println", "real", "recover", "any", "bool", "byte", "comparable", "error", "float32",
    "float64", "int", "int8", "int16", "int32", "int64", "rune", "string", "uint", "uint8", "uint16", "uint32",
    "uint64", "uintptr",
})  # fmt: skip
_JAVASCRIPT_NAMES = frozenset({
    "Array", "BigInt", "Boolean", "Date", "Error", "Function", "Infinity", "JSON", "Map", "Math", "NaN", "Number",
    "Object", "Promise", "RegExp", "Set", "String", "Symbol", "arguments", "console", "document", "globalThis",
    "undefined", "window",
})  # fmt: skip
# To the grammar, other than to compilers, these end no comment.
_SEPARATORS = re.compile("[\u2028\u2029]")
_ODD_ENDS = re.compile(f"{INNER_RETURN.pattern}|[\x85\u2028\u2029]")
# Of characters that its syntax is made of: an escape is the character itself, wherever it stands.
_JAVA_ESCAPES = re.compile(r"(?<!\\)(?:\\\\)*\\u+00(?:0[aAdD]|[2-7][0-9a-fA-F])")


@dataclass(frozen=True)
class Language:
    """A language: its name, how its files' names end, its grammar, and the node types that matter.

    own_names: names that the language itself gives a meaning, which connect nothing. odd_ends: characters within a line
    at which some of its compilers end it, and others do not. disguises: what is another character to its compiler.
    """

    name: str
    suffixes: tuple[str, ...]
    load: Callable[[], object]
    definitions: Mapping[str, str] = field(default_factory=dict)
    calls: Mapping[str, str] = field(default_factory=dict)
    own_names: frozenset[str] = frozenset()
    odd_ends: re.Pattern[str] | None = _ODD_ENDS
    disguises: re.Pattern[str] | None = None

    def is_ambiguous(self, text: str) -> bool:
        """Tells whether a text may be another program to some compiler than it seems."""
        return any(pattern is not None and pattern.search(text) for pattern in (self.odd_ends, self.disguises))


LANGUAGES = (
    Language(
        "python",
        (".py", ".pyi", ".pyw"),
        tree_sitter_python.language,
        _PYTHON,
        _PYTHON_CALLS,
        _PYTHON_NAMES,
        odd_ends=None,
    ),
    Language("c", (".c",), tree_sitter_c.language, _C, _C_CALLS, odd_ends=INNER_RETURN),
    Language(
        "cpp",
        # A header may be either; what C has, C++ parses.
        (".h", ".cc", ".cpp", ".cxx", ".c++", ".hh", ".hpp", ".hxx", ".h++", ".ipp", ".inl"),
        tree_sitter_cpp.language,
        _CPP,
        _CPP_CALLS,
        odd_ends=INNER_RETURN,
    ),
    Language("java", (".java",), tree_sitter_java.language, _JAVA, _JAVA_CALLS, odd_ends=None, disguises=_JAVA_ESCAPES),
    Language("go", (".go",), tree_sitter_go.language, _GO, _GO_CALLS, _GO_NAMES, odd_ends=INNER_RETURN),
    Language(
        "javascript",
        (".js", ".mjs", ".cjs", ".jsx"),
        tree_sitter_javascript.language,
        _JAVASCRIPT,
        _JAVASCRIPT_CALLS,
        _JAVASCRIPT_NAMES,
        odd_ends=None,
    ),
    Language(
        "typescript",
        (".ts", ".mts", ".cts"),
        tree_sitter_typescript.language_typescript,
        _TYPESCRIPT,
        _JAVASCRIPT_CALLS,
        _JAVASCRIPT_NAMES,
        odd_ends=_SEPARATORS,
    ),
    Language(
        "tsx",
        (".tsx",),
        tree_sitter_typescript.language_tsx,
        _TYPESCRIPT,
        _JAVASCRIPT_CALLS,
        _JAVASCRIPT_NAMES,
        odd_ends=_SEPARATORS,
    ),
    # What incidents cite: nothing in these is defined or called.
    Language("json", (".json",), tree_sitter_json.language, odd_ends=None),
    Language("toml", (".toml",), tree_sitter_toml.language),
)
_BY_SUFFIX = MappingProxyType({suffix: language for language in LANGUAGES for suffix in language.suffixes})
# Of files that define something.
SUFFIXES = tuple(suffix for suffix, language in _BY_SUFFIX.items() if language.definitions)


def language_of(path: str) -> Language | None:
    """Returns the language of a file by its name, or None."""
    _, dot, suffix = path.rpartition("/")[2].rpartition(".")
    return _BY_SUFFIX.get((dot + suffix).lower())


@cache
def grammar_of(name: str) -> Grammar:
    """Returns the grammar of a language."""
    return Grammar(next(language for language in LANGUAGES if language.name == name).load())
