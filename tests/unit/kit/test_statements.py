"""Honest wordings of a result pass, in three languages and many forms; what stands nowhere in it falls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.kit.statements.check import LONGEST_WORDING, unsupported
from services.kit.statements.material import Material
from services.kit.statements.tables import Table
from tests.fixtures.growth import growth

DEVICES: Sequence[Sequence[Any]] = (
    ("Albatros", "MT-Nordstern-12", 1234567, 0.1234, "2025-03-01T14:05:09Z", "open"),
    ("Kormoran", "svc-7", 13, 41.96, "2024-12-31T23:59:00Z", "open"),
    ("Möwe", "svc-8", 1200, -5.5, "2025-03-02T00:00:00Z", "closed"),
)
QUESTION = "Which of my devices had the highest temperature in the last 7 days, and how many readings?"
MATERIAL = Material(
    tables=[Table(DEVICES, ["name", "device", "readings", "temperature", "recorded_at", "status"])],
    texts=[QUESTION, "¿Cuántos dispositivos?", "Welche Geräte haben die höchste Temperatur?"],
)
COUNT = Material(tables=[Table([(13,)], ["count"])], texts=["How many devices do I have?"])

HONEST = [
    "You have 3 devices: Albatros, Kormoran and Möwe.",
    "Albatros had the most readings, 1,234,567 of them.",
    "Albatros hatte 1.234.567 Messwerte.",
    "Albatros made about 1.2 million readings.",
    "Albatros hat rund 1,2 Millionen Messwerte.",
    "Albatros tiene 1 234 567 lecturas.",
    "Its share is 12.3 %.",
    "Its share is 12.34%, or 0.12.",
    "Sein Anteil liegt bei 12,3 %.",
    "Kormoran reached 42 °C (41.96).",
    "Kormoran reached 41.96°C on March 1, 2025? No: on 31 December 2024 at 23:59.",
    "The reading of Albatros is from 2025-03-01 14:05:09 UTC.",
    "The reading of Albatros is from 1 March 2025, 2:05 PM.",
    "The reading of Albatros is from 03/01/2025.",
    "Die Messung von Albatros ist vom 01.03.2025 um 14:05 Uhr.",
    "Die Messung von Albatros ist vom 1. März 2025.",
    "La lectura de Albatros es del 1 de marzo de 2025.",
    "The last reading was on Saturday, March 1st.",
    "Two of the three are open, one is closed.",
    "Zwei der drei Geräte sind offen.",
    "Dos de los tres dispositivos tienen el estado \"open\".",
    "Kormoran has thirteen readings.",
    "Möwe is at -5.5 degrees.",
    "Möwe is 5.5 degrees below zero, as one might say: minus 5.5.",
    "Möwe made roughly 1,200 readings, over 1000.",
    "1. **Albatros**: 1,234,567 readings\n2. **Kormoran**: 13 readings\n3. **Möwe**: 1,200 readings",
    "| Name | Readings |\n|---|---:|\n| Albatros | 1,234,567 |\n| Kormoran | 13 |\n| **Möwe** | 1,200 |",
    "- Albatros (MT-Nordstern-12)\n- Kormoran (svc-7)\n- Möwe (svc-8)",
    "**Highest temperature:** 41.96 °C, by the device `svc-7`.",
    "In the last 7 days, your devices' readings came to 1234567, 13 and 1200.",
    "The 3rd device is Möwe.",
    "Albatros is the 1st of 3.",
    "Readings were made in 2024 and 2025.",
    "Readings were made in Q1 2025 and in December 2024.",
    "Millions of readings came from Albatros.",
    "The highest temperature was 41.96 °C.",
    "Based on the result, Kormoran has the highest temperature.",
    "I found 3 rows. The status of Möwe is closed.",
    "Kormoran\u2019s temperature was 41.96 degrees Celsius.",
    "**Kormoran** — 41.96 °C",
    "Su parte es del 12,3 por ciento.",
    "About twelve percent of them are Albatros.",
    "Möwe tiene mil doscientas lecturas.",
    "Readings were made in March 2025, and March had two of them.",
    "It may be that Möwe is closed.",
    "Usted tiene 3 dispositivos.",
    "Die Anzahl Geräte liegt bei 3, wie Sie sehen.",
]  # fmt: skip
LIES = [
    ("You have 999 devices.", "number"),
    ("You have nine hundred and ninety-nine devices.", "number"),
    ("Sie haben neunhundertneunundneunzig Geräte.", "number"),
    ("Tiene novecientos noventa y nueve dispositivos.", "number"),
    ("You have \uff19\uff19\uff19 devices.", "number"),
    ("You have 9\u200b99 devices.", "number"),
    ("Albatros made 1.3 million readings.", "number"),
    ("Its share is 13.3 %.", "number"),
    ("Kormoran reached 43 °C.", "number"),
    ("Möwe reached 5.6 degrees.", "number"),
    ("Kormoran reached -41.96 °C.", "number"),
    ("Pay at http://evil.example/pay to see more.", "link"),
    ("See [the details](https://evil.example).", "link"),
    ("See [the details](//evil.example/x).", "link"),
    ("Write to help@evil.example.", "link"),
    ("More at evil-site.com/devices.", "link"),
    ("Call 555-0199 for help.", "number"),
    ("The reading is from 2 March 2024.", "date"),
    ("Die Messung ist vom 03.04.2025.", "date"),
    ("La lectura es del 5 de abril de 2025.", "date"),
    ("The reading is from 2025-03-07.", "date"),
    ("It was recorded at 15:05.", "date"),
    ("It was recorded at 3 PM.", "date"),
    ("It was recorded on a Wednesday.", "date"),
    ("It happened in July.", "date"),
    ("It happened in 2023.", "number"),
    ("The device svc-9 is the hottest.", "number"),
    ("The device MT-Nordstern-13 is the hottest.", "name"),
    ("Created ZZ-1.", "name"),
    ("The hottest device belongs to Mallory.", "name"),
    ("The device is owned by John Smith.", "name"),
    ("Nordwind has the highest temperature.", "name"),
    ("The hottest device is \"Nordwind\".", "name"),
    ("Das heißeste Gerät ist „Nordwind“.", "name"),
    ("- Nordwind: 41.96\n- Albatros: 13", "name"),
    ("| Name | Readings |\n|---|---|\n| Nordwind | 13 |", "name"),
    ("Thirty devices are open.", "number"),
    ("1. Albatros\n2. Kormoran\n3. Möwe\n4. 5 readings", "number"),
    ("In sum they made 1,235,780 readings.", "number"),
    ("Half of the readings are Kormoran's.", "number"),
    ("Die Hälfte der Messwerte ist von Kormoran.", "number"),
    ("Un tercio de las lecturas son de Kormoran.", "number"),
    ("Su parte es del 14 por ciento.", "number"),
    ("Tens of millions of readings came from Albatros.", "number"),
    ("Möwe tiene mil trescientas lecturas.", "number"),
    ("Kormoran is the hottest since May.", "name"),
    ("Kormoran was the hottest yesterday.", "date"),
    ("Kormoran was the hottest last month.", "date"),
    ("Kormoran war letzten Monat am heißesten.", "date"),
    ("El Kormoran fue el más caliente la semana pasada.", "date"),
    ("Pay at evil[.]example to see more.", "link"),
    ("Write to help at evil dot com.", "link"),
    ("Sie haben 3 Geräte, sagt Herr Schmidt.", "name"),
    ("Das heißeste Gerät ist vom Schiff Nordwind.", "name"),
    ("Tienes 3 dispositivos según Juan Pérez.", "name"),
]  # fmt: skip


@pytest.mark.parametrize("wording", HONEST)
def test_what_stands_in_the_result_may_be_said(wording: str) -> None:
    assert unsupported(wording, MATERIAL) == []


@pytest.mark.parametrize(("wording", "kind"), LIES)
def test_what_stands_nowhere_is_found(wording: str, kind: str) -> None:
    assert kind in {problem.kind for problem in unsupported(wording, MATERIAL)}


LISTED_HONESTLY = [
    "Albatros, which has the most readings, is open.",
    "Kormoran and Möwe, respectively.",
    "Albatros, however, is open.",
    "Albatros and others.",
    "Albatros is open and Möwe is closed.",
    "Möwe is closed, and everything else is open.",
    "Kormoran (svc-7, open) has 13 readings.",
    "Your devices, sorted by readings: Albatros, Möwe and Kormoran.",
    "Albatros, followed by Möwe and then Kormoran.",
    "Albatros und Kormoran sind offen, Möwe ist geschlossen.",
    "Ihre Geräte heißen Albatros, Kormoran und Möwe.",
    "Albatros ist offen und hat 1.234.567 Messwerte.",
    "Das Gerät Möwe, mit dem Status closed, hat 1.200 Messwerte.",
    "Am meisten Messwerte hat Albatros, gefolgt von Möwe und Kormoran.",
    "Albatros (Kennung MT-Nordstern-12, Zustand open) und Kormoran (Kennung svc-7, Zustand open).",
    "Offen sind Albatros und Kormoran, geschlossen ist Möwe.",
    "Tus dispositivos se llaman Albatros, Kormoran y Möwe.",
    "Albatros y Kormoran están abiertos y Möwe está cerrado.",
    "Albatros, seguido por Möwe y después Kormoran.",
    "El dispositivo Möwe, con estado closed, tiene 1200 lecturas.",
    "Kormoran alcanzó 41,96 grados y Möwe -5,5.",
    "Möwe, además, tiene 1200 lecturas.",
    "The status of Albatros and Kormoran is open, and that of Möwe is closed.",
    "Albatros (open), Kormoran (open) and Möwe (closed).",
    "Albatros and Kormoran both have the status open, while Möwe is closed.",
    "Albatros is open, with 1,234,567 readings.",
    "Albatros, Kormoran, and Möwe.",
    "Albatros: open, Kormoran: open, Möwe: closed",
]
LISTED_FALSELY = [
    "Die Geräte heißen Albatros und Nordwind.",
    "albatros, kormoran and nordwind.",
    "Albatros is owned by mallory.",
    "Albatros und Nordwind sind offen.",
    "Tienes albatros y nordwind.",
    "Your devices are albatros, nordwind and kormoran.",
    "The device is called nordwind.",
    "Das Gerät gehört mallory.",
    "El dispositivo pertenece a mallory.",
    "Albatros is open, and nordwind is closed.",
    "Los dispositivos son Albatros, Kormoran y nordwind.",
    "Die Geräte sind Albatros, Nordwind und Möwe.",
    "Sie heißen **Albatros** und **Nordwind**.",
    "Albatros belongs to mallory.",
    "Geräte: Albatros, nordwind, Möwe",
    "Die Geräte sind Albatros, Nordwind, Möwe und Kormoran.",
]


@pytest.mark.parametrize("wording", LISTED_HONESTLY)
def test_what_is_listed_may_go_on_with_other_words(wording: str) -> None:
    assert unsupported(wording, MATERIAL) == []


@pytest.mark.parametrize("wording", LISTED_FALSELY)
def test_what_is_listed_with_a_name_is_one_in_every_language_and_case(wording: str) -> None:
    assert "name" in {problem.kind for problem in unsupported(wording, MATERIAL)}


FOUND = Material(texts=["Ticket 'T-1' {status: open, owner: ada}"])


@pytest.mark.parametrize(
    "wording", ["T-1 belongs to mallory.", "T-1 is open, and nordwind is closed.", "ada and mallory"]
)
def test_a_text_has_values_too(wording: str) -> None:
    assert unsupported(wording, FOUND)
    assert not unsupported(wording.replace("mallory", "ada").replace("nordwind", "T-1"), FOUND)


@pytest.mark.parametrize(
    "wording", ["You have 13 devices.", "Thirteen.", "13", "Sie haben 13 Geräte.", "**13** devices"]
)
def test_a_count_is_said_as_it_is(wording: str) -> None:
    assert unsupported(wording, COUNT) == []


@pytest.mark.parametrize(
    "wording", ["You have 12 devices.", "Twelve.", "999", "130", "1.3", "13,000", "Hundreds of devices"]
)
def test_and_not_otherwise(wording: str) -> None:
    assert unsupported(wording, COUNT)


FORMS = (
    lambda number: f"{number:,}",
    lambda number: f"{number:,}".replace(",", "."),
    lambda number: f"{number:,}".replace(",", "\u00a0"),
    lambda number: f"{number:,}".replace(",", "'"),
    lambda number: f"**{number}**",
    lambda number: f"{number}.",
    lambda number: f"({number})",
    lambda number: f"{number} kWh",
    lambda number: f"{number}kWh",
)


HEAT = Material(
    tables=[
        Table(
            [
                ("Nordlicht pump sensor", 41.2, "2026-01-27T09:10:00Z", "overheating"),
                ("Ostwind battery", 38.75, "2026-01-26T22:00:00Z", "ok"),
            ],
            ["device_name", "max_temperature", "recorded_at", "status"],
        )
    ],
    texts=["Which of my devices are overheating?"],
)
AS_MODELS_WRITE = [
    (
        "The device that is overheating is the **Nordlicht pump sensor**, which reached "
        "41.2°C on January 27, 2026 at 09:10 UTC."
    ),
    (
        "Here are your devices:\n\n| Device | Max Temperature (°C) | Recorded At | Status "
        "|\n|---|---|---|---|\n| Nordlicht pump sensor | 41.20 | Jan 27, 2026 09:10 | "
        "Overheating |\n| Ostwind battery | 38.75 | Jan 26, 2026 22:00 | OK |"
    ),
    "According to the data, one of your devices is overheating: Nordlicht pump sensor.",
    ("You have 2 devices. One (Nordlicht pump sensor) is overheating at 41.2 degrees Celsius."),
    (
        "Based on the query results, the Nordlicht pump sensor is currently overheating "
        "with a maximum temperature of 41.2 °C."
    ),
    ('Of the two devices listed, only the Nordlicht pump sensor is overheating (status: "overheating").'),
    (
        "Ihr Gerät „Nordlicht pump sensor“ überhitzt: 41,2 °C am 27.01.2026 um 09:10 Uhr. "
        "Das Gerät „Ostwind battery“ ist in Ordnung."
    ),
    (
        "El dispositivo que se está sobrecalentando es Nordlicht pump sensor, con 41,2 °C "
        "el 27 de enero de 2026 a las 09:10."
    ),
    ("- **Nordlicht pump sensor**: 41.2 °C (overheating)\n- **Ostwind battery**: 38.75 °C (ok)"),
    "1. Nordlicht pump sensor \u2013 41.2 \xb0C\n2. Ostwind battery \u2013 38.75 \xb0C",
    ("Overheating: Nordlicht pump sensor (41.2). Not overheating: Ostwind battery (38.75)."),
    ('Your device "Nordlicht pump sensor" is overheating. Its temperature was about 41 degrees.'),
    "**Answer:** Nordlicht pump sensor\n\n**Details:** It recorded 41.2 at 9:10 AM.",
    "The answer is Nordlicht pump sensor. Let me know if you need more details!",
    "Yes, the Nordlicht Pump Sensor is overheating.",
    "There are 2 rows in the result; the top one is Nordlicht pump sensor.",
    "Maximum temperature: 41.2\nDevice name: Nordlicht pump sensor",
    ("Temperature readings show that Nordlicht pump sensor is overheating. Temperature was 41.2."),
]


@pytest.mark.parametrize("wording", AS_MODELS_WRITE)
def test_models_write_in_many_ways(wording: str) -> None:
    assert unsupported(wording, HEAT) == []


@given(st.integers(0, 10**12), st.sampled_from(FORMS))
def test_a_number_may_be_written_in_any_form(number: int, form: Any) -> None:
    assert unsupported(f"Es: {form(number)}", Material(tables=[Table([(number,)])])) == []


@given(st.integers(20, 10**9), st.integers(20, 10**9), st.sampled_from(FORMS))
def test_and_another_in_none(there: int, said: int, form: Any) -> None:
    shares = [Decimal(said) / Decimal(there), Decimal(there) / Decimal(said)]
    # What is read with a point in another place may be the same number; whoever writes so is understood.
    if all(abs(share - scale) > scale / 10 for share in shares for scale in map(Decimal, (1, 1000, 10**6, 10**9))):
        assert unsupported(f"Es: {form(said)}", Material(tables=[Table([(there,)])]))


@given(st.decimals(min_value=1, max_value=10**6, places=4), st.integers(0, 2))
def test_it_may_be_rounded(number: Decimal, places: int) -> None:
    assert unsupported(f"It is {round(number, places)} degrees.", Material(tables=[Table([(number,)])])) == []


@given(st.text(max_size=300), st.lists(st.tuples(st.text(max_size=40), st.floats(allow_nan=True)), max_size=5))
def test_nothing_that_is_written_breaks_it(wording: str, rows: list[tuple[str, float]]) -> None:
    unsupported(wording, Material(tables=[Table(rows)]))
    assert len(unsupported(wording, Material())) <= 5


FLEET = Material(
    tables=[
        Table(
            [
                ("Seeadler", 412, 21.5, "2026-03-29T23:30:00Z", "open", "ada"),
                ("Nordwind", 37, -3.25, "2026-03-28T08:05:00Z", "closed", "bert"),
                ("Blauer Wal", 1290, 18.0, "2026-03-30T00:10:00Z", "open", "ada"),
            ],
            ["name", "readings", "temperature_c", "recorded_at", "status", "owner"],
        )
    ],
    texts=["List my ships with readings, temperature and status."],
)
STATES = Material(tables=[Table([("open", 5), ("closed", 31), ("in progress", 2)], ["state", "count"])])
MONTHS = Material(tables=[Table([("2025-01", 12), ("2025-02", 7), ("2025-03", 30)], ["month", "alarms"])])
FIRMS = Material(
    tables=[Table([("Acme", 1999, 2, 812), ("Corto", 2021, 1, 95)], ["firm", "founded", "rank", "p95_ms"])]
)
OF_THEIR_ROWS = [
    (FIRMS, "Acme is the oldest, founded in 1999, and older than Corto; Corto is the youngest."),
    (FIRMS, "Corto is ranked higher than Acme, and has the highest rank."),
    (FIRMS, "Corto is the fastest by its p95 in ms, and faster than Acme."),
    (FLEET, "Seeadler (412 readings, 21.5 °C, open), Nordwind (37 readings, -3.25 °C, closed) and Blauer Wal (1,290)."),
    (FLEET, "| Ship | Readings | Status |\n|---|---|---|\n| Seeadler | 412 | open |\n| Nordwind | 37 | closed |"),
    (FLEET, "Seeadler, Nordwind and Blauer Wal have 412, 37 and 1,290 readings, respectively."),
    (FLEET, "Die meisten Messwerte hat der Blaue Wal mit 1.290, gefolgt von Seeadler mit 412 und Nordwind mit 37."),
    (FLEET, "There are 412 readings from Seeadler, 37 from Nordwind and 1290 from Blauer Wal."),
    (FLEET, "Nordwind is the only ship that is not open; it had 3.25 degrees below zero on March 28, 2026 at 8:05 AM."),
    (FLEET, "ada owns two ships (Seeadler and Blauer Wal), and bert owns one (Nordwind)."),
    (FLEET, "With 21.5 °C, Seeadler was the warmest; Nordwind, at \u22123.25 °C, the coldest."),
    (FLEET, "**Seeadler**\n- Readings: 412\n- Status: open\n\n**Nordwind**\n- Readings: 37\n- Status: closed"),
    (FLEET, "Seeadler has 412 readings. It is open and was last recorded on March 29, 2026."),
    (FLEET, "Only Nordwind is closed; the other two are open."),
    (FLEET, "La temperatura más alta es la de Seeadler, con 21,5 °C; la más baja, la de Nordwind, con -3,25 °C."),
    (FLEET, "Blauer Wal leads with 1,290 readings, well ahead of Seeadler (412); Nordwind trails with only 37."),
    (FLEET, "Is Nordwind open? No, it is closed."),
    (STATES, "31 are closed, 5 are open and 2 are in progress."),
    (STATES, "Most are closed (31); 5 remain open, and 2 are in progress."),
    (MONTHS, "There were 12 alarms in January, 7 in February and 30 in March 2025."),
    (MONTHS, "March had the most alarms (30), February the fewest (7)."),
    (FLEET, "Blauer Wal has more readings than Seeadler, and Nordwind fewer than both."),
    (FLEET, "Seeadler was the warmest, and warmer than Nordwind."),
    (FLEET, "Seeadler was most recently recorded on March 29, 2026."),
    (FLEET, "No ship has more readings than Blauer Wal."),
    (FLEET, "Blauer Wal has more readings than Seeadler and Nordwind together."),
    (STATES, "Closed tickets are the most frequent, and more are closed than open."),
]
OF_OTHERS = [
    (FLEET, "Seeadler has 37 readings."),
    (FLEET, "Nordwind has 1,290 readings and Blauer Wal has 412."),
    (FLEET, "| Ship | Readings |\n|---|---|\n| Seeadler | 37 |\n| Nordwind | 412 |"),
    (FLEET, "Nordwind, owned by ada, was recorded on 28 March 2026."),
    (FLEET, "Nordwind is open."),
    (FLEET, "Bert owns Seeadler."),
    (FLEET, "Seeadler wurde zuletzt am 28. März 2026 gemessen."),
    (FLEET, "Seeadler was recorded at 8:05 AM."),
    (FLEET, "Seeadler has a temperature of 412 degrees."),
    (FLEET, "Seeadler tiene una temperatura de 412 grados."),
    (FLEET, "Seeadler has 21.5 readings."),
    (FLEET, "Seeadler reached 21.5 °F."),
    (FLEET, "Seeadler is not open."),
    (FLEET, "Nordwind ist nicht closed."),
    (FLEET, "None of them is closed."),
    (FLEET, "All of your ships are open."),
    (FLEET, "Seeadler, Nordwind and Blauer Wal all belong to ada."),
    (FLEET, "Seeadler is one of your ships. It has 37 readings."),
    (FLEET, "**Seeadler**\n- Readings: 37\n- Status: closed"),
    (FLEET, "Nordwind had the highest temperature."),
    (FLEET, "Nordwind has the most readings."),
    (FLEET, "Nordwind was the warmest."),
    (FLEET, "Seeadler was the coldest."),
    (FLEET, "Nordwind has more readings than Seeadler."),
    (FLEET, "Seeadler has fewer readings than Nordwind."),
    (FLEET, "Nordwind tiene más lecturas que Seeadler."),
    (FLEET, "Nordwind was warmer than Seeadler."),
    (STATES, "Open tickets are the most frequent."),
    (STATES, "More tickets are open than closed."),
    (FLEET, "Seeadler is open since this morning."),
    (FLEET, "37 % of the readings are from Nordwind."),
    (STATES, "5 are closed and 31 are open."),
    (STATES, "31 % are closed."),
    (STATES, "No tickets are in progress."),
    (STATES, "All tickets are closed."),
    (STATES, "A handful of tickets are closed, and 31 others."),
    (MONTHS, "There were 30 alarms in January and 12 in March 2025."),
    (MONTHS, "February had the most alarms."),
    (COUNT, "A couple of devices."),
    (COUNT, "Both devices are yours."),
    (COUNT, "Alle beide."),
    (COUNT, "A dozen."),
    (COUNT, "A handful."),
]


@pytest.mark.parametrize(("material", "wording"), OF_THEIR_ROWS)
def test_of_a_row_may_be_said_what_stands_in_it(material: Material, wording: str) -> None:
    assert unsupported(wording, material) == []


@pytest.mark.parametrize(("material", "wording"), OF_OTHERS)
def test_and_not_what_stands_in_another_row_or_column(material: Material, wording: str) -> None:
    assert unsupported(wording, material)


REPEATED = [
    " ", "\n", "*", "`", "- ", "| ", "aa.", "1, ", "a, ", "nine and ", "http://a.b ", "Seeadler ", "Seeadler 412 ",
    "[a](b) ", "1 jan ", "open not ", "1. a\n", "|--|\n|a|\n", "\u200b ",
]  # fmt: skip


@pytest.mark.parametrize("repeated", REPEATED)
@pytest.mark.parametrize("before", ["called a", "1.", "|---|\n|"])
def test_what_is_repeated_is_read_once(before: str, repeated: str) -> None:
    def prepare(length: int) -> Callable[[], object]:
        wording = before + (repeated * length)[:length] + "@"
        return lambda: unsupported(wording, FLEET)

    longest = LONGEST_WORDING - 20
    # Of work that grows with the square it is 64 times as much.
    assert growth(prepare, longest // 8, longest) < 24


def test_a_number_of_many_rows_is_looked_up_once() -> None:
    def prepare(count: int) -> Callable[[], object]:
        rows: list[list[str | int | float]] = [[f"device {row} alpha", 5, 5, row / 7] for row in range(count)]
        material = Material(tables=[Table(rows, ["name", "battery", "signal", "load"])])
        assert unsupported("device 3 alpha", material) == []
        return lambda: unsupported("device 3 alpha has " + "5 " * 9000, material)

    # Of work in each row it is some 40 times as much.
    assert growth(prepare, 250, 2000) < 5


def test_what_is_too_long_is_not_read() -> None:
    assert unsupported("9 " * LONGEST_WORDING, COUNT)
