"""What a model gets to see of a message history."""

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from services.runtime.agents.prompt_messages import INTERNAL, prompt_messages

SYSTEM, HUMAN = SystemMessage("be brief"), HumanMessage("how many?")


def asks(*ids: str, text: str = "") -> AIMessage:
    """An assistant message that asks for tools."""
    return AIMessage(text, tool_calls=[{"name": "execute_db_query", "args": {}, "id": i} for i in ids])


def says(tool_call_id: str, *, internal: bool = False) -> ToolMessage:
    """A tool's answer."""
    return ToolMessage("rows: 1", tool_call_id=tool_call_id, additional_kwargs={INTERNAL: True} if internal else {})


def shape(messages: list[BaseMessage]) -> list[str]:
    """The messages in short: type, and the ids asked for or answered."""
    return [
        " ".join(
            [m.type, *(str(c["id"]) for c in getattr(m, "tool_calls", ())), getattr(m, "tool_call_id", "")]
        ).strip()
        for m in messages
    ]


def test_a_valid_sequence_is_sent_as_it_is() -> None:
    history = [SYSTEM, HUMAN, asks("a", "b"), says("a"), says("b"), AIMessage("one")]
    assert prompt_messages(history) == history


def test_orphans_are_left_out() -> None:
    history = [SYSTEM, HUMAN, says("x"), asks("a"), says("a"), says("y"), AIMessage("one"), says("a")]
    assert shape(prompt_messages(history)) == ["system", "human", "ai a", "tool a", "ai"]


def test_internal_answers_and_the_calls_they_answer_are_left_out() -> None:
    history = [SYSTEM, HUMAN, asks("a", "b"), says("a"), says("b", internal=True)]
    assert shape(prompt_messages(history)) == ["system", "human", "ai a", "tool a"]
    assert shape(prompt_messages([HUMAN, asks("a"), says("a", internal=True)])) == ["human"]


def test_calls_without_an_answer_are_left_out_but_the_text_stays() -> None:
    assert shape(prompt_messages([HUMAN, asks("a", text="let me look"), HUMAN])) == ["human", "ai", "human"]


def test_a_second_answer_to_one_call_is_left_out() -> None:
    assert shape(prompt_messages([HUMAN, asks("a"), says("a"), says("a")])) == ["human", "ai a", "tool a"]


def test_the_history_itself_is_not_touched() -> None:
    asked = asks("a", "b")
    prompt_messages([HUMAN, asked, says("a")])
    assert [call["id"] for call in asked.tool_calls] == ["a", "b"]
