"""The policy file: what nodes and edges there may be, what each role may read and write of them, and limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from services.graph_executor.elements import KEY
from services.kit.identity.caller import Caller

# What Cypher takes without quotes; the executor's own bookkeeping begins with two underscores.
IDENTIFIER = r"^[A-Za-z][A-Za-z0-9_]{0,62}$"
Name = Annotated[str, StringConstraints(pattern=IDENTIFIER)]
ProcedureName = Annotated[str, StringConstraints(pattern=r"^[a-z][A-Za-z]*(\.[a-z][A-Za-z]*){1,3}$")]
LONGEST_TIMEOUT_MS = 60_000
# With 15 digits, larger ones are told as infinite.
LARGEST_NUMBER = 1e308
EVERY_CALLER = "*"
ALL = "*"
Labels = list[Name] | Literal["*"]
ROLE_GRAPH_WRITER = "graph_writer"


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class PropertyRule(_Strict):
    """What a property holds."""

    type: Literal["string", "integer", "number", "boolean", "strings"] = Field(description="Type of its values.")
    values: list[str] | None = Field(None, min_length=1, description="The only values; of strings.")
    max_length: int = Field(2000, ge=1, le=100_000, description="Most characters of a string.")

    @model_validator(mode="after")
    def _values_are_strings(self) -> Self:
        if self.values is not None and self.type != "string":
            raise ValueError("`values` goes with the type string")
        return self


class LabelRule(_Strict):
    """What nodes of a label hold besides their key."""

    properties: dict[Name, PropertyRule] = Field(default_factory=dict, description="Properties that may be there.")
    required: list[Name] = Field(default_factory=list, description="Properties that must be there.")


class EdgeRule(_Strict):
    """Where edges of a type may lead, and what they hold."""

    start: list[Name] = Field(alias="from", min_length=1, description="Labels of the nodes they begin at.")
    end: list[Name] = Field(alias="to", min_length=1, description="Labels of the nodes they end at.")
    properties: dict[Name, PropertyRule] = Field(default_factory=dict, description="Properties that may be there.")


class RoleRule(_Strict):
    """What a role may do."""

    read: Labels = Field(default_factory=list, description='Labels of nodes that may be read; "*" for all.')
    write: Labels = Field(default_factory=list, description='Labels of nodes that may be written; "*" for all.')


class Limits(_Strict):
    """Bounds of one call."""

    rows: int = Field(200, ge=1, le=10_000, description="Most rows or nodes in a result.")
    text_rows: int = Field(50, ge=1, le=1000, description="Most rows in the text that the model reads.")
    result_bytes: int = Field(1 << 20, ge=1024, le=3 << 20, description="Most bytes of a result.")
    path_length: int = Field(4, ge=1, le=10, description="Most edges in a row that a query may follow.")
    timeout_ms: int = Field(3000, ge=50, le=LONGEST_TIMEOUT_MS, description="Longest that a query may run.")
    query_length: int = Field(4000, ge=100, le=20_000, description="Most characters of a Cypher query.")
    depth: int = Field(8, ge=3, le=10, description="Deepest nesting of one; each level doubles the time to read it.")
    list_length: int = Field(10_000, ge=10, le=100_000, description="Longest list that range() may make.")
    node_edges: int = Field(200, ge=0, le=2000, description="Most edges of a node that is deleted with them.")
    query_memory_bytes: int = Field(128 << 20, ge=8 << 20, description="Memory that one query may take in the server.")


class GraphPolicy(_Strict):
    """A policy file."""

    version: Literal[1] = Field(description="Version of this format.")
    labels: dict[Name, LabelRule] = Field(min_length=1, description="Labels that nodes may have.")
    edges: dict[Name, EdgeRule] = Field(default_factory=dict, description="Types that edges may have.")
    roles: dict[str, RoleRule] = Field(min_length=1, description='Rights by role of the token; "*" is every caller.')
    procedures: list[ProcedureName] = Field(
        default_factory=list, description="Procedures that cypher_query may call; none by default."
    )
    limits: Limits = Field(default_factory=Limits, description="Bounds of one call.")

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if problems := list(self._problems()):
            raise ValueError("; ".join(problems))
        return self

    def _problems(self) -> Iterator[str]:
        for label, rule in self.labels.items():
            yield from (
                f"labels.{label}.required: {name} is not in its properties"
                for name in rule.required
                if name not in rule.properties
            )
            if KEY in rule.properties:
                yield f"labels.{label}.properties: {KEY} is every node's, and no property of its own"
        for kind, edge in self.edges.items():
            yield from self._unknown(f"edges.{kind}.from", edge.start)
            yield from self._unknown(f"edges.{kind}.to", edge.end)
            if kind in self.labels:
                yield f"edges.{kind}: is also a label"
        for role, rights in self.roles.items():
            yield from self._unknown(f"roles.{role}.read", rights.read)
            yield from self._unknown(f"roles.{role}.write", rights.write)
        yield from (f"procedures: {name} writes, or tells of what is not the caller's" for name in self._unsafe())

    def _unknown(self, where: str, labels: Labels) -> Iterator[str]:
        return (f"{where}: there is no label {label}" for label in labels if label not in (*self.labels, ALL))

    def _unsafe(self) -> Iterator[str]:
        # What tells of labels, properties and queries tells of the bookkeeping too.
        return (name for name in self.procedures if name.startswith(("db.", "dbms.")))


class Access:
    """What a caller may do by a policy: with a node, what they may do with each of its labels."""

    def __init__(self, policy: GraphPolicy, caller: Caller) -> None:
        rights = [policy.roles[role] for role in (EVERY_CALLER, *sorted(caller.roles)) if role in policy.roles]
        self.writable = _labels(policy, [right.write for right in rights])
        self.readable = _labels(policy, [right.read for right in rights]) | self.writable
        self.reads_all = self.readable == set(policy.labels)
        self.writes_all = self.writable == set(policy.labels)
        self.writes_cypher = ROLE_GRAPH_WRITER in caller.roles and self.writes_all

    def reads(self, labels: Iterable[str]) -> bool:
        """Tells whether nodes may be read that have all of these."""
        return self.readable.issuperset(labels)

    def writes(self, labels: Iterable[str]) -> bool:
        """Tells whether nodes may be written that have all of these."""
        return self.writable.issuperset(labels)


def _labels(policy: GraphPolicy, lists: list[Labels]) -> frozenset[str]:
    return frozenset(policy.labels if ALL in lists else (label for labels in lists for label in labels))


def check_properties(rules: Mapping[str, PropertyRule], properties: Mapping[str, object], what: str) -> Iterator[str]:
    """Yields what is wrong with properties, in words for the model."""
    for name, value in properties.items():
        rule = rules.get(name)
        if rule is None:
            known = ", ".join(sorted(rules)) or "none"
            yield f"{what} has no property {name!r}; it has: {known}"
        elif problem := _problem(rule, value):
            yield f"the property {name!r} of {what} {problem}"


def _problem(rule: PropertyRule, value: object) -> str:
    if not _has_type(rule, value):
        return f"must be of the type {rule.type}"
    texts = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    if rule.values is not None and value not in rule.values:
        return f"must be one of: {', '.join(rule.values)}"
    if any(len(text) > rule.max_length for text in texts):
        return f"may have at most {rule.max_length} characters"
    return ""


def _has_type(rule: PropertyRule, value: object) -> bool:
    if rule.type == "strings":
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    if isinstance(value, bool):
        return rule.type == "boolean"
    if isinstance(value, float) and abs(value) > LARGEST_NUMBER:
        return False
    kinds = {"string": (str,), "integer": (int,), "number": (int, float), "boolean": ()}
    return isinstance(value, kinds[rule.type])
