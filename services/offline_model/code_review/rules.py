"""What makes a finding a weakness, and what makes it none: one rule for each kind, read from the flagged statement."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, Final

from services.offline_model.code_review.names import Module
from services.offline_model.code_review.opinion import (
    FALSE_POSITIVE,
    TRUE_POSITIVE,
    Need,
    Opinion,
    OpinionClaim,
    undecided,
)
from services.offline_model.code_review.origins import Kind, Origin, Origins

_EXECUTES = frozenset({"execute", "executemany", "executescript"})
_SHELLS = frozenset({"os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"})
_PROGRAMS = frozenset(f"subprocess.{name}" for name in ("run", "call", "check_call", "check_output", "Popen"))
_MAY_RUN_CODE = frozenset({"builtins.eval", "builtins.exec", "builtins.compile", "builtins.__import__"})
_TO_A_PROGRAM = ("executable", "env", "cwd", "preexec_fn", "input", "stdin")
_LOADS = frozenset(
    {"pickle.load", "pickle.loads", "marshal.load", "marshal.loads", "dill.load", "dill.loads", "yaml.unsafe_load"}
)
_SAFE_LOADERS = frozenset({"yaml.SafeLoader", "yaml.CSafeLoader", "yaml.BaseLoader"})
_UNSAFE_LOADERS = frozenset({"yaml.Loader", "yaml.UnsafeLoader", "yaml.CLoader"})
_TEACHES_LOADERS = frozenset({"add_constructor", "add_multi_constructor", "yaml_constructors", "YAMLObject"})
_REQUESTS = frozenset(f"requests.{verb}" for verb in ("get", "post", "put", "patch", "delete", "head", "options"))
_OPENS = frozenset({"builtins.open", "io.open", "os.open", "flask.send_file", "pathlib.Path"})
_WEAK_HASHES = frozenset({"md4", "md5", "sha1"})
# The words in names of secrets, and of what is about one and none itself.
_SECRETS = frozenset(
    {"password", "passwords", "passwd", "pwd", "passphrase", "secret", "secrets", "token", "apikey", "otp"}
)
_ABOUT = frozenset(
    {"field", "name", "header", "url", "uri", "path", "file", "type", "label", "prompt", "env", "id", "length"}
)
_PLACEHOLDER = re.compile(r"change|dummy|placeholder|example|x{3,}|\*{3,}|todo|your|insert|test|[<{%]", re.IGNORECASE)
_LOOKS_RANDOM = re.compile(r"(?=[^\s/:.]{8,}$)(?=.*\d)(?=.*[A-Za-z])")


@dataclass(frozen=True)
class Flagged:
    """A flagged statement of a file that was read whole."""

    module: Module
    statement: ast.stmt

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """The parts of the statement; of one with a body, those of its head."""
        inner = {id(part) for part in ast.walk(self.statement)
                 if isinstance(part, ast.stmt | ast.ExceptHandler) and part is not self.statement}  # fmt: skip
        found: list[ast.AST] = [self.statement]
        for node in found:
            found += [part for part in ast.iter_child_nodes(node) if id(part) not in inner]
        return found

    @cached_property
    def calls(self) -> list[ast.Call]:
        """The calls in it."""
        return [node for node in self.nodes if isinstance(node, ast.Call)]

    @cached_property
    def origins(self) -> Origins:
        """Where its values come from."""
        return Origins(self.module, self.statement)

    def calls_of(self, names: Iterable[str]) -> list[ast.Call]:
        """The calls of functions by their full names."""
        return [call for call in self.calls if self.module.full_name(call.func) in names]

    def decided(self, verdict: str, why: str, *claims: OpinionClaim) -> Opinion:
        """Returns a verdict, its claims with the lines that bind the names in the expressions that they quote."""
        if verdict == FALSE_POSITIVE and (other := self._call_beside([claim.node for claim in claims])):
            return undecided(f"What `{self.module.source(other.func)}` does here with what it is given does not show.")
        named = list(claims)
        for claim in claims:
            names = [part for part in ast.walk(claim.node) if isinstance(part, ast.Name)]
            own = {part.id for part in names if isinstance(part.ctx, ast.Store)}
            if isinstance(claim.node, ast.expr):
                named += [cited for part in names if part.id not in own for cited in self.origins.cited(part)]
        return Opinion(verdict, why, tuple(dict.fromkeys(named)))

    def _call_beside(self, judged: list[ast.AST]) -> ast.Call | None:
        """Returns a call that the finding may be about too: one that is given what is not known."""
        parts = {id(part) for each in judged for part in ast.walk(each)}
        for call in self.calls:
            name = self.module.full_name(call.func)
            known = id(call) in parts or (name.startswith("builtins.") and name not in _MAY_RUN_CODE)
            given = [*call.args, *(word.value for word in call.keywords)]
            holds = any(each is part for part in ast.walk(call) for each in judged)
            if not (known or holds) and any(self.origins.of(each).kind > Kind.STOPPED for each in given):
                return call
        return None

    def by_origin(self, given: list[ast.expr], what: str, *, least: Kind | None = Kind.LITERAL) -> Opinion:
        """Judges by where values come from: one from a request makes a weakness, and one unknown leaves it open.

        least: what is good enough for no weakness, None for nothing: what the program names may have any content.
        """
        if not given:
            return undecided("I see nothing here that the finding can be about, by names that this file settles.")
        whole: Origin = reduce(Origin.__or__, map(self.origins.of, given))
        if whole.kind is Kind.OUTSIDE:
            part = next(part for each in given for part in ast.walk(each) if self.origins.is_from_outside(part))
            claims = [self.origins.claim("{} takes part here", part), *whole.claims]
            return self.decided(TRUE_POSITIVE, f"{what}: {whole.why}.", *claims)
        if least is None or whole.kind > least:
            return undecided(f"{what}: {whole.why or 'its name is known, its content is not'}.", *whole.needs)
        why = whole.why or "every part of it is written down in this file"
        here = (self.origins.claim("{} is all that matters here", each) for each in given)
        return self.decided(FALSE_POSITIVE, f"{what}: {why}.", *here, *whole.claims)

    def by_what_is_there(self, found: Sequence[ast.AST], why: str, says: str) -> Opinion:
        """Calls a weakness what is there to be seen, and leaves it open where nothing is."""
        if not found:
            return undecided("I see nothing here that the finding can be about, by names that this file settles.")
        return self.decided(TRUE_POSITIVE, why, self.origins.claim(says, found[0]))

    def by_secret(self, call: ast.Call, parts: Iterable[ast.AST], does: str) -> Opinion:
        """Judges by what things are called: enough to call a weakness one, never enough to call it none."""
        names = [getattr(part, "id", getattr(part, "attr", getattr(part, "name", ""))) for part in parts]
        secret = next((name for name in names if isinstance(name, str) and _is_secret(name)), "")
        if secret:
            claim = self.origins.claim("{} is called here", call.func)
            return self.decided(TRUE_POSITIVE, f"{does} what is called {secret}.", claim)
        function = self.module.function_around(self.statement)
        needs = [Need("callers", function.name)] if function else []
        return undecided("What the result is for does not show here.", *needs)


Rule = Callable[[Flagged], Opinion]


def sql(flagged: Flagged) -> Opinion:
    """A statement's text is put together from what a request sent, and run."""
    run = [call.args[0] for call in flagged.calls if _method(call) in _EXECUTES and call.args]
    texts: list[ast.expr] = [
        node for node in flagged.nodes
        if isinstance(node, ast.JoinedStr | ast.BinOp) or (isinstance(node, ast.Call) and _method(node) == "format")
    ]  # fmt: skip
    inside = {id(part) for text in texts for part in ast.walk(text) if part is not text}
    given = run or [text for text in texts if id(text) not in inside]
    opinion = flagged.by_origin(given, "The text of an SQL statement", least=Kind.STOPPED)
    if opinion.verdict == FALSE_POSITIVE and any(
        getattr(node, "name", "") in _EXECUTES for node in flagged.module.nodes
    ):
        return undecided("This file has an execute() of its own, which may put statements together.")
    if opinion.verdict != TRUE_POSITIVE or run:
        return opinion
    executed = _executed_later(flagged)
    if executed is None:
        return undecided("The text is put together from a request; that it is run as SQL does not show here.")
    claims = (flagged.origins.claim("{} is run as SQL", executed), *flagged.origins.cited(executed))
    return Opinion(TRUE_POSITIVE, opinion.why, tuple(dict.fromkeys([*opinion.claims, *claims])))


def command(flagged: Flagged) -> Opinion:
    """A shell reads what a request sent."""
    calls = flagged.calls_of(_SHELLS | _PROGRAMS)
    words = {word.arg: word.value for call in calls for word in call.keywords}
    shell = words.get("shell")
    if len(calls) != 1 or len(calls[0].args) != 1 or None in words or not isinstance(shell, ast.Constant | None):
        return undecided("I see no one call here whose name, command and shell are written down in this file.")
    given = [calls[0].args[0], *(words[name] for name in _TO_A_PROGRAM if name in words)]
    if flagged.calls_of(_SHELLS) or (shell is not None and shell.value):
        return flagged.by_origin(given, "The command that a shell reads", least=Kind.STOPPED)
    opinion = flagged.by_origin(given, "What is run", least=Kind.STOPPED)
    said = "A program is given what a request sent, and no shell; whether it takes that for orders I can't judge."
    return undecided(said) if opinion.verdict == TRUE_POSITIVE else opinion


def evaluated(flagged: Flagged) -> Opinion:
    """Code is run that a request sent."""
    given = _first(flagged.calls_of({"builtins.eval", "builtins.exec"}))
    return flagged.by_origin(given, "The code that is run", least=None)


def loaded(flagged: Flagged) -> Opinion:
    """What builds any object reads what a request sent."""
    calls = flagged.calls_of({"yaml.load", "yaml.load_all"})
    loaders = [word.value for call in calls for word in call.keywords if word.arg == "Loader"]
    loaders += [call.args[1] for call in calls if len(call.args) > 1]
    names = {flagged.module.full_name(loader) for loader in loaders}
    if calls and len(loaders) == len(calls) and names <= _SAFE_LOADERS:
        if flagged.module.mentioned(_TEACHES_LOADERS):
            return undecided("This file teaches a loader to build more than plain values.")
        said = "{} builds plain values only"
        return flagged.decided(
            FALSE_POSITIVE, "The loader builds plain values only.", flagged.origins.claim(said, loaders[0])
        )
    if calls and not (names and names <= _UNSAFE_LOADERS):
        return undecided(
            "Which loader is used does not show here.",
            *(Need("definition", flagged.module.source(each)) for each in loaders),
        )
    return flagged.by_origin(_first(calls or flagged.calls_of(_LOADS)), "What is loaded can run code", least=None)


def path(flagged: Flagged) -> Opinion:
    """A file's name is what a request sent, or an archive from a request is unpacked under the names that it holds."""
    for call in flagged.calls:
        if _method(call) == "extractall" and isinstance(call.func, ast.Attribute):
            if call.keywords or len(call.args) > 1:
                return undecided("Which members of the archive are unpacked does not show here.")
            return flagged.by_origin([call.func.value], "The archive names the files that are written", least=None)
    given = [*_first(flagged.calls_of(_OPENS)), *flagged.calls_of({"os.path.join"})]
    given += [node for node in flagged.nodes if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)]
    opinion = flagged.by_origin(given, "The name of a file")
    names = [node for node in flagged.nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    doubt = next(filter(None, (flagged.origins.is_checked(name, name) for name in names)), "")
    return undecided(f"{opinion.why} But {doubt}.") if opinion.verdict == TRUE_POSITIVE and doubt else opinion


def weak_hash(flagged: Flagged) -> Opinion:
    """A password is hashed by what is fast or broken."""
    calls = [call for call in flagged.calls if flagged.module.full_name(call.func).startswith("hashlib.")]
    names = [flagged.module.full_name(call.func).removeprefix("hashlib.") for call in calls]
    if names == ["new"] and calls[0].args and isinstance(calls[0].args[0], ast.Constant):
        names = [str(calls[0].args[0].value).lower()]
    if len(names) != 1 or names == ["new"]:
        return undecided("I see no one hash here that is named in this file.")
    [call], [name] = calls, names
    if name not in _WEAK_HASHES:
        claim = flagged.origins.claim("{} is called here", call.func)
        return flagged.decided(FALSE_POSITIVE, f"{name} is no weak hash.", claim)
    return flagged.by_secret(call, [part for each in call.args for part in ast.walk(each)], f"{name} hashes")


def random_number(flagged: Flagged) -> Opinion:
    """A secret is made of numbers that can be guessed."""
    calls = [call for call in flagged.calls if flagged.module.full_name(call.func).startswith("random.")]
    if not calls:
        return undecided("I see no random number here whose source this file settles.")
    function = flagged.module.function_around(flagged.statement)
    made = [node for node in flagged.nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return flagged.by_secret(calls[0], [*([function] if function else []), *made], "Numbers that can be guessed make")


def literal_secret(flagged: Flagged) -> Opinion:
    """A secret stands in the code."""
    given: list[tuple[Any, Any]] = [
        (to, node.value) for node in flagged.nodes if isinstance(node, ast.Assign | ast.AnnAssign | ast.keyword)
        for to in getattr(node, "targets", None) or [getattr(node, "target", node)]
    ]  # fmt: skip
    named = ((getattr(to, "id", getattr(to, "attr", getattr(to, "arg", ""))), value) for to, value in given)
    secrets = [(name, value) for name, value in named if name and _is_secret(name)]
    if len(secrets) != 1 or not isinstance(getattr(secrets[0][1], "value", None), str):
        return undecided("I see no one text here that something called a secret is given.")
    [(name, value)] = secrets
    if any(len(flagged.module.bindings(to)) > 1 for to, _ in given if isinstance(to, ast.Name)):
        return undecided(f"{name} is set more than once, and I don't follow in which order.")
    claim = flagged.origins.claim(f"{name} is given {{}}", value)
    if not value.value:
        return flagged.decided(FALSE_POSITIVE, "The text is empty, and opens nothing.", claim)
    if _PLACEHOLDER.search(value.value) or not _LOOKS_RANDOM.match(value.value):
        said = f"Whether what {name} is given is a secret can't be told from how it looks."
        return undecided(said, Need("callers", name))
    return flagged.decided(TRUE_POSITIVE, f"{name} is given a text that looks like a secret.", claim)


def unverified(flagged: Flagged) -> Opinion:
    """A connection is told not to look at the other side's certificate."""
    told = [word for call in flagged.calls for word in call.keywords
            if word.arg == "verify" and isinstance(word.value, ast.Constant) and word.value.value is False]  # fmt: skip
    return flagged.by_what_is_there(told, "The server's certificate is not looked at.", "{} says so")


def timeout(flagged: Flagged) -> Opinion:
    """A request waits for ever."""
    calls = flagged.calls_of(_REQUESTS)
    silent = [call for call in calls if not any(word.arg in ("timeout", None) for word in call.keywords)]
    return flagged.by_what_is_there(silent, "A silent server holds the request for ever.", "{} has no timeout")


def temporary_name(flagged: Flagged) -> Opinion:
    """A name is chosen for a file that somebody else may make first."""
    calls = flagged.calls_of({"tempfile.mktemp"})
    why = "mktemp() gives a name and no file: somebody else can make the file first."
    return flagged.by_what_is_there(calls, why, "{} makes no file")


def _executed_later(flagged: Flagged) -> ast.Name | None:
    """Returns where the text that a flagged assignment makes is run, in its function."""
    names = {node.id for node in flagged.nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    around = flagged.module.function_around(flagged.statement) or flagged.module.tree
    calls = (node for node in ast.walk(around) if isinstance(node, ast.Call) and _method(node) in _EXECUTES)
    return next((name for name in _first(calls) if isinstance(name, ast.Name) and name.id in names), None)


def _is_secret(name: str) -> bool:
    words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}
    return bool(words & _SECRETS or {"api", "key"} <= words or {"private", "key"} <= words) and not words & _ABOUT


def _first(calls: Iterable[ast.Call]) -> list[ast.expr]:
    return [argument for call in calls for argument in call.args[:1]]


def _method(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


BY_CWE: Final[dict[str, Rule]] = {
    **dict.fromkeys(("CWE-89", "CWE-564", "CWE-943"), sql), **dict.fromkeys(("CWE-78", "CWE-77", "CWE-88"), command),
    **dict.fromkeys(("CWE-94", "CWE-95", "CWE-96"), evaluated),
    **dict.fromkeys(("CWE-22", "CWE-23", "CWE-36", "CWE-73"), path), "CWE-502": loaded,
    **dict.fromkeys(("CWE-326", "CWE-327", "CWE-328"), weak_hash),
    **dict.fromkeys(("CWE-330", "CWE-338"), random_number), "CWE-295": unverified, "CWE-377": temporary_name,
    **dict.fromkeys(("CWE-259", "CWE-321", "CWE-798"), literal_secret),
}  # fmt: skip
# Bandit's rules, whose numbers Ruff shares: they say more than the CWE that Bandit names.
BY_RULE: Final[dict[str, Rule]] = {
    "608": sql, **dict.fromkeys(("602", "603", "604", "605", "606"), command), "102": evaluated, "307": evaluated,
    **dict.fromkeys(("301", "302", "506"), loaded),
    "202": path, "303": weak_hash, "324": weak_hash, "311": random_number, "501": unverified, "113": timeout,
    **dict.fromkeys(("105", "106", "107"), literal_secret), "306": temporary_name,
}  # fmt: skip
