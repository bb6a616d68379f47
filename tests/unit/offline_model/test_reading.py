"""Questions taken apart."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.kit.text.policy_file import load_policy_file
from services.local.database import WORLD_VOCABULARY
from services.offline_model.data_questions.reading import Number, QuestionReading, Window
from services.offline_model.data_questions.reading import read_question as read
from services.offline_model.vocabulary import Vocabulary

VOCABULARY = load_policy_file(WORLD_VOCABULARY, Vocabulary)


def read_question(question: str) -> QuestionReading:
    return read(question, VOCABULARY)


@pytest.mark.parametrize(
    ("question", "operator", "values"),
    [
        ("temperature > 10", "gt", ("10",)),
        ("temperature above 10.5 degrees", "gt", ("10.5",)),
        ("hotter than -3 °C", "gt", ("-3",)),
        ("exceeded 60 degrees", "gt", ("60",)),
        ("built after 2010", "gt", ("2010",)),
        ("battery under 50 percent", "lt", ("50",)),
        ("colder than 5", "lt", ("5",)),
        ("fewer than 5 devices", "lt", ("5",)),
        ("at least 7", "ge", ("7",)),
        ("no less than 7", "ge", ("7",)),
        ("greater than or equal to 7", "ge", ("7",)),
        ("10 degrees or more", "ge", ("10",)),
        ("installed since 2025", "ge", ("2025",)),
        ("at most 7", "le", ("7",)),
        ("20 % or less", "le", ("20",)),
        ("humidity <= 20", "le", ("20",)),
        ("battery = 3", "eq", ("3",)),
        ("battery != 3", "ne", ("3",)),
        ("between 10 and 20", "between", ("10", "20")),
        ("from 10 to 20 degrees", "between", ("10", "20")),
        ("more than five devices", "gt", ("5",)),
    ],
)
def test_comparisons(question: str, operator: str, values: tuple[str, ...]) -> None:
    [comparison] = read_question(f"Show what is {question}").comparisons
    assert (comparison.operator, comparison.values) == (operator, values)


@pytest.mark.parametrize(
    ("question", "window"),
    [
        ("over the last 7 days", Window(7, "day")),
        ("in the past 24 hours", Window(24, "hour")),
        ("in the last 24h", Window(24, "hour")),
        ("during the previous week", Window(1, "week")),
        ("for the last two months", Window(2, "month")),
        ("of today", None),
    ],
)
def test_windows(question: str, window: Window | None) -> None:
    assert read_question(f"Average temperature {question}").window == window


@pytest.mark.parametrize(
    ("question", "top"),
    [
        ("top 5 hottest devices", 5),
        ("show the 3 coldest devices", 3),
        ("the 4 devices with the lowest battery", 4),
        ("the last 10 readings", 10),
        ("Which 3 devices have the lowest battery?", 3),
        ("Which device has the lowest battery?", 1),
        ("Which is my oldest device?", 1),
        ("Which devices are hot?", None),
        ("the last 10 days", None),
    ],
)
def test_top(question: str, top: int | None) -> None:
    assert read_question(question).top == top


def test_names_and_numbers() -> None:
    reading = read_question("Show device 12 and sensor TX-9 on the 'grey skerry' or the Dawn Plover")
    assert reading.names == ("TX-9", "grey skerry", "Dawn Plover")
    assert reading.numbers == (Number("12", "device"),)


@settings(deadline=None)
@given(st.text(max_size=300))
def test_any_question_can_be_read(question: str) -> None:
    assert read_question(question) == read_question(question)
