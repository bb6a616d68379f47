"""Map and reduce: a packet for each text, and one node for all that came of them."""

import operator
from typing import Annotated, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Send


class State(TypedDict):
    texts: list[str]
    summaries: Annotated[list[str], operator.add]
    digest: str


class Text(TypedDict):
    text: str


def summarise(state: Text) -> dict[str, list[str]]:
    return {"summaries": [state["text"].partition(".")[0]]}


def each_text(state: State) -> list[Send] | str:
    if not state["texts"]:
        return "join"
    return [Send("summarise", {"text": text}) for text in state["texts"]]


builder = StateGraph(State)
builder.add_node("collect", lambda state: {"texts": [text for text in state["texts"] if text.strip()]})
builder.add_node("summarise", summarise)
builder.add_node("join", lambda state: {"digest": "; ".join(state.get("summaries", []))})
builder.add_edge(START, "collect")
builder.add_conditional_edges("collect", each_text, ["summarise", "join"])
builder.add_edge("summarise", "join")
builder.add_edge("join", END)
graph = builder.compile()
