"""Reading example files: what is right is read, what is wrong is named."""

from pathlib import Path

import pytest

from services.sql_executor.example_file import ExampleFileError, read_example_file

HARBOUR = Path(__file__).resolve().parents[3] / "examples" / "harbour" / "examples.yaml"


def write(path: Path, text: str) -> Path:
    file = path / "examples.yaml"
    file.write_text(text)
    return file


def test_the_harbour_file_is_read() -> None:
    content = read_example_file(HARBOUR)
    assert len(content.examples) >= 40
    assert len(content.notes) >= 15
    assert "SELECT count(*) AS devices FROM device_current_data WHERE temperature > 10" in {
        each.sql for each in content.examples
    }


def test_texts_are_stripped_and_notes_are_optional(tmp_path: Path) -> None:
    content = read_example_file(
        write(tmp_path, 'version: 1\nexamples: [{question: "  How many? ", sql: " SELECT 1 "}]')
    )
    assert [(each.question, each.sql) for each in content.examples] == [("How many?", "SELECT 1")]
    assert content.notes == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "file: Input should be a valid dictionary"),
        ("- 1", "file: Input should be a valid dictionary"),
        ("version: [", "is not YAML"),
        ("version: 2\nexamples: [{question: a, sql: SELECT 1}]", "version: Input should be 1"),
        ("version: 1\nexamples: []", "examples: List should have at least 1 item"),
        ("version: 1\nexamples: [{question: a}]", r"examples\.0\.sql: Field required"),
        (
            'version: 1\nexamples: [{question: "  ", sql: SELECT 1}]',
            r"examples\.0\.question: String should have at least",
        ),
        ('version: 1\nexamples: [{question: "a\\0b", sql: SELECT 1}]', r"examples\.0\.question: String should match"),
        (
            "version: 1\nexamples: [{question: 7, sql: SELECT 1}]",
            r"examples\.0\.question: Input should be a valid string",
        ),
        ("version: 1\nexamples: [{question: a, sql: b, user: 1}]", r"examples\.0\.user: Extra inputs"),
        (
            "version: 1\nexamples: [{question: How many, sql: a}, {question: how  MANY, sql: b}]",
            "'how  MANY' is there twice",
        ),
        ("version: 1\nexamples: [{question: a, sql: b}]\nnotes: [x, x]", "notes: 'x' is there twice"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ExampleFileError, match=message):
        read_example_file(write(tmp_path, text))


def test_a_missing_or_undecodable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ExampleFileError, match=r"can't read the example file .*nowhere\.yaml"):
        read_example_file(tmp_path / "nowhere.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ExampleFileError, match="can't read the example file"):
        read_example_file(tmp_path / "binary.yaml")
