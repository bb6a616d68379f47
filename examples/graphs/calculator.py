"""A model and its tool. Put a model of yours in the place of `Arithmetic`, which needs no key."""

import operator
import re
from typing import Annotated, Any, Literal

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

MAX_ROUNDS = 4


@tool
def multiply(a: int, b: int) -> int:
    """Multiplies two numbers."""
    return a * b


class Arithmetic(BaseChatModel):
    """Stands in for a model: asks for the product of the two numbers in the question, then says what came of it."""

    @property
    def _llm_type(self) -> str:
        return "arithmetic"

    def bind_tools(self, tools: Any, **kwargs: Any) -> "Arithmetic":
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        usage = {"input_tokens": 20, "output_tokens": 5, "total_tokens": 25}
        if isinstance(messages[-1], ToolMessage):
            answer = AIMessage(f"It is {messages[-1].content}.", usage_metadata=usage)
        else:
            a, b = [int(number) for number in re.findall(r"\d+", messages[-1].text)[:2]]
            call = {"name": "multiply", "args": {"a": a, "b": b}, "id": f"multiply-{a}-{b}"}
            answer = AIMessage("", tool_calls=[call], usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=answer)])


class State(MessagesState):
    rounds: Annotated[int, operator.add]


async def ask_model(state: State) -> dict[str, Any]:
    answer = await Arithmetic().bind_tools([multiply]).ainvoke(state["messages"])
    return {"messages": [answer], "rounds": 1}


def should_continue(state: State) -> Literal["tools", "give_up", "__end__"]:
    last = state["messages"][-1]
    if not last.tool_calls:
        return END
    if state["rounds"] >= MAX_ROUNDS:
        return "give_up"
    return "tools"


builder = StateGraph(State)
builder.add_node("model", ask_model)
builder.add_node("tools", ToolNode([multiply]))
builder.add_node("give_up", lambda state: {"messages": [AIMessage("I could not finish.")]})
builder.add_edge(START, "model")
builder.add_conditional_edges("model", should_continue)
builder.add_edge("tools", "model")
graph = builder.compile()
