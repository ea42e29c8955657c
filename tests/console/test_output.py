"""Untrusted text cannot act on the terminal, and tables stay aligned whatever is in them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from console.output import cell_text, clean, clock, one_line, put_json, table

HARMFUL = {*range(0x20), 0x7F, *range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)} - {0x0A, 0x09}
HOSTILE = st.text(alphabet=st.one_of(st.sampled_from("\x1b\x9b\x07\r[]0;m\\\u202e"), st.characters()))


@given(HOSTILE)
def test_cleaned_text_holds_no_control_character_and_cleaning_again_changes_nothing(text: str) -> None:
    cleaned = clean(text)
    assert not HARMFUL & set(map(ord, cleaned))
    assert clean(cleaned) == cleaned


@given(st.text(alphabet=st.characters(exclude_categories=["Cc", "Cf", "Cs"])))
def test_ordinary_text_is_left_as_it_is(text: str) -> None:
    assert clean(text) == text


@pytest.mark.parametrize(
    ("hostile", "harmless"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;new title\x07text", "text"),
        ("\x1b]52;c;ZXZpbA==\x1b\\text", "text"),
        ("\x9b2Jtext", "text"),
        ("passed\rfailed", "passedfailed"),
        ("a\tb\nc", "a\tb\nc"),
    ],
)
def test_escape_sequences_go_with_their_arguments(hostile: str, harmless: str) -> None:
    assert clean(hostile) == harmless


@given(HOSTILE, st.integers(2, 40))
def test_a_cut_line_fits_its_width(text: str, width: int) -> None:
    line = one_line(text, width)
    assert cell_len(line) <= width
    assert "\n" not in line


def test_a_table_aligns_wide_characters_and_sets_numbers_to_the_right() -> None:
    text = table(["name", "n"], [["日本", 5], ["ab\nc", 1234], [None, None]])
    assert text.split("\n") == ["name     n", "----  ----", "日本     5", "ab c  1234", ""]


def test_cells_show_floats_short_and_nested_values_as_json() -> None:
    assert cell_text(0.123456) == "0.1235"
    assert cell_text({"a": [1]}) == '{"a": [1]}'
    assert cell_text(None) == ""


def test_json_output_escapes_what_a_terminal_would_act_on(capsys: pytest.CaptureFixture[str]) -> None:
    put_json({"text": "\x1b[31m\x9b"})
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\x9b" not in out
    assert json.loads(out) == {"text": "\x1b[31m\x9b"}


def test_clocks_grow_hours_when_needed() -> None:
    assert [clock(5), clock(125), clock(3725)] == ["0:05", "2:05", "1:02:05"]
