"""Examples of the demo world adapted to questions near them, and refused for questions that only look near."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlglot
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from services.kit.text.policy_file import load_policy_file
from services.local.database import WORLD_VOCABULARY
from services.offline_model.data_questions.adapt import Adapted, adapt
from services.offline_model.data_questions.schema import Schema, read_schema
from services.offline_model.data_questions.statement import CannotEdit
from services.offline_model.prompt_data import Example
from services.offline_model.vocabulary import Vocabulary

TABLES = """
- devices(device_id integer, ship_id integer, name text, kind text /* Where it measures: engine_room, cold_store, cargo_hold, cabin, weather_deck or fuel_tank. */, status text /* active, maintenance, offline (stopped reporting) or retired (never reports). */, installed_at timestamp with time zone); only the caller's own rows are visible
- device_current_data(device_id integer, temperature numeric /* degrees Celsius */, humidity numeric, pressure numeric, battery numeric, status text, updated_at timestamp with time zone); only the caller's own rows are visible
- ships(ship_id integer, name text, kind text, home_port text, built_year integer); shared by all callers
- device_readings(reading_id bigint, device_id integer, recorded_at timestamp with time zone, temperature numeric, humidity numeric, pressure numeric, battery numeric); only the caller's own rows are visible
"""  # noqa: E501
DOCUMENT = yaml.safe_load((Path(__file__).parents[3] / "examples/harbour/examples.yaml").read_text())
EXAMPLES = [Example(question=entry["question"], sql=entry["sql"]) for entry in DOCUMENT["examples"]]
VOCABULARY = load_policy_file(WORLD_VOCABULARY, Vocabulary)
SCHEMA = read_schema(TABLES, "\n".join(DOCUMENT["notes"]), EXAMPLES, VOCABULARY)


def nearest(question: str, shown: list[Example] = EXAMPLES, schema: Schema = SCHEMA) -> Adapted | None:
    found = []
    for example in shown:
        try:
            found.append(adapt(example, question, schema))
        except CannotEdit:
            continue
    return max(found, key=lambda adapted: adapted.nearness, default=None)


def same(sql: str) -> str:
    return sqlglot.parse_one(sql, dialect="postgres").sql(dialect="postgres")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.question)
def test_an_example_answers_its_own_question_unchanged(example: Example) -> None:
    found = nearest(example.question)
    assert found is not None
    assert (found.sql, found.nearness) == (example.sql, 1.0)


@pytest.mark.parametrize(
    ("question", "sql"),
    [
        (
            "How many devices are hotter than 12 degrees?",
            "SELECT count(*) AS devices FROM device_current_data WHERE temperature > 12",
        ),
        (
            "How many devices have temperature between 10 and 20?",
            "SELECT count(*) AS devices FROM device_current_data WHERE temperature BETWEEN 10 AND 20",
        ),
        (
            "How many of my devices are below -5.5 degrees?",
            "SELECT count(*) AS devices FROM device_current_data WHERE temperature < -5.5",
        ),
        (
            "Show devices with humidity above 60 and temperature over 20",
            "SELECT d.device_id, d.name, c.humidity FROM devices AS d JOIN device_current_data AS c USING (device_id) "
            "WHERE c.humidity > 60 AND c.temperature > 20 ORDER BY c.humidity DESC",
        ),
        (
            "Show the three devices with the lowest battery",
            "SELECT d.device_id, d.name, c.battery FROM devices AS d JOIN device_current_data AS c USING (device_id) "
            "ORDER BY c.battery, d.device_id LIMIT 3",
        ),
        (
            "Maximum temperature per ship over the last 2 weeks",
            "SELECT s.name AS ship, max(r.temperature) AS highest FROM ships AS s JOIN devices AS d USING (ship_id) "
            "JOIN device_readings AS r USING (device_id) WHERE r.recorded_at > (SELECT max(recorded_at) FROM "
            "device_readings) - INTERVAL '2 weeks' GROUP BY s.name ORDER BY highest DESC, ship",
        ),
        (
            "Average humidity of the last 48 hours",
            "SELECT round(avg(humidity), 2) AS average_humidity FROM device_readings "
            "WHERE recorded_at > (SELECT max(recorded_at) FROM device_readings) - INTERVAL '48 hours'",
        ),
        (
            "devices on the ship 'High Water'",
            "SELECT d.device_id, d.name, d.kind, d.status FROM devices AS d JOIN ships AS s USING (ship_id) "
            "WHERE s.name = 'High Water' ORDER BY d.device_id",
        ),
        (
            "How many devices are on the Iron Gannet?",
            "SELECT count(*) FROM devices AS d JOIN ships AS s USING (ship_id) WHERE s.name = 'Iron Gannet'",
        ),
        (
            "Which devices are retired?",
            "SELECT device_id, name, kind FROM devices WHERE status = 'retired' ORDER BY device_id",
        ),
        ("How many devices are offline?", "SELECT count(*) FROM devices WHERE status = 'offline'"),
        (
            "Show the last 5 readings of device 12",
            "SELECT recorded_at, temperature, humidity, pressure, battery FROM device_readings "
            "WHERE device_id = 12 ORDER BY recorded_at DESC LIMIT 5",
        ),
        (
            "Show devices installed since 2024",
            "SELECT device_id, name, installed_at FROM devices WHERE installed_at >= '2024-01-01' "
            "ORDER BY installed_at",
        ),
        (
            "Which ships were built after 2015?",
            "SELECT name, kind, built_year FROM ships WHERE built_year > 2015 ORDER BY built_year",
        ),
        (
            "Which devices have a battery below 30 percent?",
            "SELECT d.device_id, d.name, c.battery FROM devices AS d JOIN device_current_data AS c USING (device_id) "
            "WHERE c.battery < 30 ORDER BY c.battery DESC NULLS LAST",
        ),
        (
            "Which 3 devices have the lowest battery?",
            "SELECT d.device_id, d.name, c.battery FROM devices AS d JOIN device_current_data AS c USING (device_id) "
            "ORDER BY c.battery, d.device_id LIMIT 3",
        ),
        ("Count devices", "SELECT count(*) AS devices FROM devices"),
    ],
)
def test_near_questions(question: str, sql: str) -> None:
    found = nearest(question)
    assert found is not None
    assert _plain(found.sql) == _plain(same(sql))


def _plain(sql: str) -> str:
    return same(sql).lower()


@pytest.mark.parametrize(
    "question",
    [
        "What's the weather like in London?",
        "What is the average salary of the crew?",
        "What is the average salary of my devices?",
        "Who is the captain of the Dawn Plover?",
        "Tell me a joke",
        "Delete all devices",
        "Give me the password of the admin",
        "How many devices are below 5 percent?",  # of what?
        "List devices on the Ardent Tern with temperature > 5",  # no example has both
        "Are any engine rooms too warm?",  # the example's bound is a cold store's
        "List devices with low temperature",  # the example's bound is a battery's
        "Temperature of the devices in Rotterdam on 3 March",
        "",
        "?",
    ],
)
def test_questions_without_a_near_example(question: str) -> None:
    assert nearest(question) is None


@pytest.mark.parametrize(
    ("shown", "question", "why"),
    [
        ("Count devices with temperature > 10", "Count devices on the Dawn Plover", "'Dawn Plover'"),
        (
            "Count devices with temperature > 10",
            "Count devices with temperature > 10 in the last 3 days",
            "time window",
        ),
        ("Count devices with temperature > 10", "Which devices have a temperature > 10", "a count"),
        ("List my devices", "List my devices and device 7", "number 7"),
        ("Show the current temperature of device 36", "Show the current temperature of 3 devices", "number 3"),
        ("How many readings are there?", "How many ships are there?", "something else"),
    ],
)
def test_what_has_no_place_is_said(shown: str, question: str, why: str) -> None:
    example = next(example for example in EXAMPLES if example.question == shown)
    with pytest.raises(CannotEdit, match=why):
        adapt(example, question, SCHEMA)


@settings(deadline=None, max_examples=40)
@given(
    st.integers(min_value=-(10**6), max_value=10**6),
    st.sampled_from(["temperature", "battery", "pressure", "humidity"]),
)
def test_every_number_and_column_arrives(number: int, column: str) -> None:
    found = nearest(f"Count devices with {column} > {number}")
    assert found is not None
    assert found.sql.lower().endswith(f"where {column} > {number}") or f".{column} > {number}" in found.sql.lower()


@settings(deadline=None, max_examples=40)
@given(st.text(max_size=200))
def test_any_question_is_adapted_or_refused(question: str) -> None:
    found = nearest(question, EXAMPLES[:8])
    assert found is None or sqlglot.parse_one(found.sql, dialect="postgres") is not None


@pytest.mark.parametrize("sql", ["DROP TABLE devices", "not SQL at all (", "SELECT " + "(" * 3000, "x" * 30_000])
def test_a_broken_example_is_no_example(sql: str) -> None:
    with pytest.raises(CannotEdit):
        adapt(Example(question="Count hot devices", sql=sql), "Count cold devices", SCHEMA)
