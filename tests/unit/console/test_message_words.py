"""Messages of the contract in words: no name of the contract's is one."""

from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from signalbox.v1 import data_chat_pb2, guard_pb2, hosted_pb2

from services.console.message_words import LONGEST_VALUE, words_of


def test_names_and_choices_are_words() -> None:
    told = guard_pb2.ScreenResponse(
        verdict=guard_pb2.SCREEN_VERDICT_BLOCK, stage=guard_pb2.SCREEN_STAGE_DETERMINISTIC, reason="other_user"
    )
    told.token_usage.total_tokens = 12
    assert words_of(told) == [
        ("verdict", "block"), ("reason", "other_user"), ("stage", "deterministic"),
        ("token usage · total tokens", "12"),
    ]  # fmt: skip
    assert words_of(data_chat_pb2.DataChatInput(question="How many?", want_csv=True)) == [
        ("question", "How many?"), ("want csv", "yes"),
    ]  # fmt: skip


def test_a_choice_of_a_later_release_is_its_number() -> None:
    assert words_of(_parsed(guard_pb2.ScreenResponse(), {"verdict": 99})) == [("verdict", "99")]


def test_what_a_team_named_keeps_its_name() -> None:
    given = _parsed(hosted_pb2.GraphInput(), {"input": {"max_words": 3, "by_team": {"blue_one": "x"}}})
    assert words_of(given) == [("input · by_team · blue_one", "x"), ("input · max_words", "3")]


def test_a_long_text_is_cut() -> None:
    [(_, text)] = words_of(data_chat_pb2.DataChatInput(question="a" * (LONGEST_VALUE + 1)))
    assert text == "a" * LONGEST_VALUE + "…"


def _parsed(message: Message, values: dict[str, object]) -> Message:
    return ParseDict(values, message)
