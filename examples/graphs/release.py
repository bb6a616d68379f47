"""A graph inside a node, branches that join, and an entry that decides."""

import operator
from typing import Annotated, TypedDict

from langgraph.graph import END, START, StateGraph


class Release(TypedDict):
    kind: str
    log: Annotated[list[str], operator.add]


checks = StateGraph(Release)
checks.add_node("lint", lambda state: {"log": ["lint"]})
checks.add_node("test", lambda state: {"log": ["test"]})
checks.add_edge(START, "lint")
checks.add_conditional_edges("lint", lambda state: END if state["kind"] == "draft" else "test", ["test", END])


def begin(state: Release) -> list[str] | str:
    if state["kind"] == "none":
        return "skip"
    return ["checks", "build"]


builder = StateGraph(Release)
builder.add_node("checks", checks.compile())
builder.add_node("build", lambda state: {"log": ["build"]})
builder.add_node("publish", lambda state: {"log": ["publish"]})
builder.add_node("skip", lambda state: {"log": ["nothing to do"]})
builder.add_conditional_edges(START, begin, ["checks", "build", "skip"])
builder.add_edge(["checks", "build"], "publish")
builder.add_edge("publish", END)
builder.add_edge("skip", END)
graph = builder.compile()
