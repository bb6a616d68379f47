"""State of pydantic, a limit in code, and a person who is asked with JSON."""

from typing import Literal

from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from pydantic import BaseModel


class Item(BaseModel):
    name: str
    price: float


class Refund(BaseModel):
    items: list[Item] = []
    total: float = 0.0
    paid: float = 0.0


def by_total(state: Refund) -> Literal["review", "pay"]:
    if state.total > 50:
        return "review"
    return "pay"


def review(state: Refund) -> Command[Literal["pay", "__end__"]]:
    answer = interrupt({"question": f"Pay back {state.total:g}?", "options": ["yes", "no"]})
    return Command(goto="pay" if answer == "yes" else END)


def make_graph() -> StateGraph:
    builder = StateGraph(Refund)
    builder.add_node("add_up", lambda state: {"total": sum(item.price for item in state.items)})
    builder.add_node("review", review)
    builder.add_node("pay", lambda state: {"paid": state.total})
    builder.add_edge(START, "add_up")
    builder.add_conditional_edges("add_up", by_total)
    builder.add_edge("pay", END)
    return builder
