"""What a model hands in: the final answer of an investigation."""

from __future__ import annotations

from typing import Annotated, Final, Self

from pydantic import AwareDatetime, Field, model_validator

from services.runtime.agents.structured import Submission, Submitted

CONCLUDE: Final = "conclude"
MOST_EVIDENCE: Final = 8
# As many edges as the graph executor follows in one search by default.
MOST_EDGES: Final = 4
Value = Annotated[str, Field(max_length=4000)] | int | float | bool | None


class QueryResult(Submitted):
    """A query, and values of one row of its result."""

    query: str = Field(min_length=1, max_length=4000, description="The SELECT, as it was run.")
    row: dict[str, Value] = Field(
        min_length=1, max_length=10, description="Values of one row of its result, by column, as they stand there."
    )


class PathNode(Submitted):
    """A node on a path."""

    label: str = Field(min_length=1, max_length=128, description="Label.")
    key: str = Field(min_length=1, max_length=256, description="Key.")


class PathEdge(Submitted):
    """An edge on a path."""

    type: str = Field(min_length=1, max_length=128, description="Type.")
    backwards: bool = Field(default=False, description="True when the path goes against it.")


class GraphPath(Submitted):
    """A path in the service graph."""

    nodes: list[PathNode] = Field(min_length=2, max_length=MOST_EDGES + 1, description="Nodes, in order.")
    edges: list[PathEdge] = Field(min_length=1, max_length=MOST_EDGES, description="Edges between them: one fewer.")

    @model_validator(mode="after")
    def _is_a_path(self) -> Self:
        if len(self.edges) != len(self.nodes) - 1:
            raise ValueError("a path has one edge fewer than nodes")
        return self


class CodeLines(Submitted):
    """Lines of a file."""

    file: str = Field(min_length=1, max_length=1024, description="Path in the repository.")
    first_line: int = Field(ge=1, le=10_000_000, description="First line.")
    last_line: int = Field(ge=1, le=10_000_000, description="Last line.")
    quote: str = Field(min_length=1, max_length=2000, description="What the lines hold, word for word.")

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        if not 0 <= self.last_line - self.first_line < 200:
            raise ValueError("last_line is before first_line, or 200 lines or more after it")
        return self


class Evidence(Submitted):
    """Something that the answer rests on; exactly one of `query`, `graph_path` and `code` says where it is from."""

    claim: str = Field(
        min_length=1, max_length=1000, description="What it shows, with numbers as they stand where it is from."
    )
    query: QueryResult | None = Field(default=None, description="From the result of a query.")
    graph_path: GraphPath | None = Field(default=None, description="From the service graph.")
    code: CodeLines | None = Field(default=None, description="From configuration or code.")

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if sum(each is not None for each in (self.query, self.graph_path, self.code)) != 1:
            raise ValueError("exactly one of query, graph_path and code says where it is from")
        return self


class Moment(Submitted):
    """Something that happened."""

    time: AwareDatetime = Field(description="When, as RFC 3339.")
    event: str = Field(min_length=1, max_length=500, description="What.")


class Conclusion(Submitted):
    """The final answer."""

    cause_found: bool = Field(description="Whether what was found shows the root cause.")
    root_cause: str = Field(default="", max_length=2000, description="The root cause, in a sentence or two.")
    confidence: float = Field(ge=0, le=1, description="How sure you are of it, from 0 to 1.")
    explanation: str = Field(
        default="",
        max_length=8000,
        description="How the evidence leads to the cause; without one, what was looked at, and what would be needed.",
    )
    evidence: list[Evidence] = Field(default=[], max_length=MOST_EVIDENCE, description="What the answer rests on.")
    recommendations: list[Annotated[str, Field(max_length=1000)]] = Field(
        default=[], max_length=10, description="What to do, one thing each."
    )
    timeline: list[Moment] = Field(default=[], max_length=30, description="What happened when.")

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.cause_found and not (self.root_cause.strip() and self.evidence):
            raise ValueError("a found cause needs an explanation and evidence")
        if not self.cause_found and not self.explanation.strip():
            raise ValueError("without a cause, the explanation says what was looked at")
        return self


ANSWER: Final = Submission(CONCLUDE, "Hands in the final answer; nothing is looked at after it.", Conclusion)
