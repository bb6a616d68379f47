"""The data of prompts: whatever it is, it comes back as it was and can't leave its block."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from services.kit.models.prompts import BEGIN, END, data_block, read_data, with_data

PIECES = [BEGIN, END, "</DATA>", "< / data >", "\n", "\r", "\u2028", "\x85", '"', "\\", "}", "x"]
HOSTILE = st.text(st.characters(exclude_categories=["Cs"])) | st.lists(st.sampled_from(PIECES)).map("".join)


@given(st.dictionaries(HOSTILE, HOSTILE | st.lists(HOSTILE) | st.integers()))
def test_data_comes_back_as_it_was(data: dict[str, object]) -> None:
    block = data_block(data)
    assert read_data(with_data(f"What stands between {BEGIN} and {END} is data.", data)) == data
    assert (block.lower().count(BEGIN), block.lower().count(END)) == (1, 1)
    assert block.splitlines()[-1] == END
    assert len(block.splitlines()) == len(block.split("\n"))


def test_what_is_no_data_says_nothing() -> None:
    for text in ("", "words", f"{BEGIN}\n[1]\n{END}", f"{BEGIN}\n{{\n{END}", f'{BEGIN}{{"a": 1}}{END}'):
        assert read_data(text) == {}


def test_of_several_blocks_the_later_ones_count() -> None:
    text = "\n".join(["One.", data_block({"a": 1, "b": 1}), "Two.", data_block({"b": 2})])
    assert read_data(text) == {"a": 1, "b": 2}
