"""Statements that the stand-in makes of questions: by an example, of the tables' own words, or none."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlglot
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from services.kit.text.policy_file import load_policy_file
from services.local.database import WORLD_VOCABULARY
from services.offline_model.data_questions.compose import CannotCompose, compose
from services.offline_model.data_questions.tables import read_schema
from services.offline_model.data_questions.templates import filled_in
from services.offline_model.prompt_data import Example
from services.offline_model.vocabulary import Vocabulary

TABLES = """
- devices(device_id integer, ship_id integer, name text, kind text /* Where it measures: engine_room, cold_store, cargo_hold, cabin, weather_deck or fuel_tank. */, status text /* active, maintenance, offline (stopped reporting) or retired (never reports). */, installed_at timestamp with time zone); only the caller's own rows are visible
- device_current_data(device_id integer, temperature numeric(5,2) /* degrees Celsius */, humidity numeric(5,2), pressure numeric, battery numeric, status text /* ok, warning (hot or low battery) or critical */, updated_at timestamp with time zone); only the caller's own rows are visible
- ships(ship_id integer, name text, kind text, home_port text, built_year integer); shared by all callers
- device_readings(reading_id bigint, device_id integer, recorded_at timestamp with time zone, temperature numeric, humidity numeric, pressure numeric, battery numeric); only the caller's own rows are visible
"""  # noqa: E501
DOCUMENT = yaml.load((Path(__file__).parents[3] / "examples/harbour/examples.yaml").read_text(), yaml.CSafeLoader)
EXAMPLES = [Example(question=entry["question"], sql=entry["sql"]) for entry in DOCUMENT["examples"]]
SCHEMA = read_schema(TABLES.splitlines(), EXAMPLES, load_policy_file(WORLD_VOCABULARY, Vocabulary))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.question)
def test_an_example_answers_its_own_question_unchanged(example: Example) -> None:
    assert filled_in(example, example.question, SCHEMA) == example.sql


@pytest.mark.parametrize(
    ("shown", "question", "sql"),
    [
        ("Show the last 10 readings of device 36", "Show the last 5 readings of device 12", ("36", "12", "10", "5")),
        ("List the devices on the Dawn Plover", "List the devices on the Iron Gannet", ("Dawn Plover", "Iron Gannet")),
        ("Average temperature of the last 24 hours", "Average temperature of the last 2 days", ("24 hours", "2 days")),
        ("Which devices are offline?", "Which devices are retired?", ("offline", "retired")),
        (
            "How many devices are in a critical state?",
            "How many devices are in a warning state?",
            ("critical", "warning"),
        ),
    ],
)
def test_an_example_is_filled_in(shown: str, question: str, sql: tuple[str, ...]) -> None:
    example = next(each for each in EXAMPLES if each.question == shown)
    expected = example.sql
    for old, new in zip(sql[::2], sql[1::2], strict=True):
        expected = expected.replace(old, new)
    assert filled_in(example, question, SCHEMA) == expected


@pytest.mark.parametrize(
    ("shown", "question"),
    [
        ("Are any cold stores too warm?", "Are any engine rooms too warm?"),  # the bound is a cold store's
        ("Which engine room sensors are hot?", "Which engine room sensors are cold?"),
        ("Show devices installed since 2025", "Show devices installed since 2024"),  # the statement has a date
        ("Count devices with temperature > 10", "Count devices with temperature < 10"),
        ("Show the current temperature of device 36", "Show the current temperature of 3 devices"),
        ("How many readings are there?", "How many ships are there?"),
        ("Which ships were built before 2010?", "Which were built before 2010 ships?"),
    ],
)
def test_an_example_that_differs_in_more_does_not_fit(shown: str, question: str) -> None:
    example = next(each for each in EXAMPLES if each.question == shown)
    assert filled_in(example, question, SCHEMA) == ""


@settings(deadline=None, max_examples=40)
@given(
    st.integers(min_value=-(10**6), max_value=10**6),
    st.sampled_from(["temperature", "battery", "pressure", "humidity"]),
)
def test_every_number_and_column_arrives(number: int, column: str) -> None:
    assert compose(f"Count devices with {column} > {number}", SCHEMA).endswith(f".{column} > {number}")


WORDS = """how many average highest per each last 7 days devices ships temperature battery of on above 20 2025 Dawn
Plover offline cold stores device 36 top 3 and by kind readings"""


@settings(deadline=None, max_examples=100)
@given(st.text(max_size=200) | st.lists(st.sampled_from(WORDS.split())).map(" ".join))
def test_any_question_gets_a_statement_or_none(question: str) -> None:
    try:
        written = compose(SCHEMA.corrected(question), SCHEMA)
    except CannotCompose:
        return
    assert sqlglot.parse_one(written, dialect="postgres") is not None


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [("How many devcies are actve?", "How many devices are active?"), ("averge humidity", "average humidity"),
     ("How many shops are there?", "How many shops are there?"), ("temprature per shipp", "temperature per ship")],
)  # fmt: skip
def test_slips_are_mended_where_they_are_certain(misspelt: str, meant: str) -> None:
    assert SCHEMA.corrected(misspelt) == meant


@pytest.mark.parametrize(
    "question",
    [
        "What's the weather like in London?",
        "Give me the password of the admin",
        "",
        "?",
        "Which devices are out of battery?",
        "Which devices are on battery?",
        "List devices on battery",
    ],
)
def test_what_is_no_certain_question_of_these_tables(question: str) -> None:
    with pytest.raises(CannotCompose):
        compose(question, SCHEMA)
