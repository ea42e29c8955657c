"""Document analysis: when values are the same, and what a field earns."""

from decimal import Decimal
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from environments.domains._document_metrics import (
    Tally,
    aligned,
    compare,
    evidence_share,
    fault,
    grade,
    paired,
    tally_of,
)
from environments.domains._document_values import nothing, read_amount, read_date, same

EUR = {"type": "money", "currency": "EUR"}
PERCENT = {"type": "percent", "within": 0.06, "tolerance": 0}
NUMBER = {"type": "number", "units": ["people"]}
TEXT = {"type": "text"}
NAMES = {"type": "set", "items": TEXT}
STEPS = {"type": "list", "items": TEXT}
PRICED = {"type": "object", "fields": {"name": TEXT, "price": EUR}}
PLACE = {"section": "7", "title": "Order intake", "page": 3}
NOTE = {"section": "Note 2", "title": "Restatement", "page": 9}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20) | st.decimals(allow_nan=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("spec", "found", "gold", "equal"),
    [
        (EUR, {"value": 1200000, "currency": "EUR"}, 1200000, True),
        (EUR, {"value": 1.2, "unit": "million", "currency": "EUR"}, 1200000, True),
        (EUR, {"value": "1.2", "unit": "EUR million"}, 1200000, True),
        (EUR, {"value": Decimal("1.2E+6"), "currency": "eur"}, 1200000, True),
        (EUR, "EUR 1.2 million", 1200000, True),
        (EUR, "€1.2m", 1200000, True),
        (EUR, "1,200 thousand euros", 1200000, True),
        (EUR, "1 200 000 EUR", 1200000, True),
        (EUR, "EUR 0.0012bn", 1200000, True),
        (EUR, "EUR 1.2 million", 1200001, True),
        (EUR, "EUR 1.2 million", 1200100, False),
        (EUR, 1200000, 1200000, False),
        (EUR, "1.2 million", 1200000, False),
        (EUR, "USD 1.2 million", 1200000, False),
        (EUR, "EUR 1.2 million USD", 1200000, False),
        (EUR, "EUR 1.2", 1200000, False),
        (EUR, "EUR 1200 million", 1200000, False),
        (EUR, "EUR 1,2 million", 1200000, False),
        (EUR, "EUR 1.2 to 1.3 million", 1200000, False),
        (EUR, "EUR 1.2 million lira", 1200000, False),
        (EUR, {"value": 1200000, "currency": "EUR", "note": "x"}, 1200000, False),
        (EUR, {"currency": "EUR"}, 1200000, False),
        (EUR, True, 1, False),
        (PERCENT, 12.5, 12.5, True),
        (PERCENT, "12.5 %", 12.5, True),
        (PERCENT, "12.5 percent", 12.5, True),
        (PERCENT, 12.55, 12.5, True),
        (PERCENT, 12.6, 12.5, False),
        (PERCENT, 0.125, 12.5, False),
        (PERCENT, "-3.1%", -3.1, True),
        (PERCENT, "3.1%", -3.1, False),
        (PERCENT, "EUR 12.5", 12.5, False),
        (NUMBER, 5305, 5305, True),
        (NUMBER, "5,305", 5305, True),
        (NUMBER, "5,305 employees", 5305, True),
        (NUMBER, "5.305 thousand", 5305, True),
        (NUMBER, 5306, 5305, False),
        (NUMBER, "5,305 %", 5305, False),
        (NUMBER, "53,05", 5305, False),
        ({"type": "id"}, " AR-9 ", "AR-9", True),
        ({"type": "id"}, "ar-9", "AR-9", False),
        ({"type": "id"}, "AR-9.", "AR-9", False),
        (TEXT, "ana  RUIZ", "Ana Ruiz", True),
        (TEXT, "Ruiz", "Ana Ruiz", False),
        (TEXT, "x" * 100_000, "Ana Ruiz", False),
    ],
)
def test_values_are_the_same_as_documented(spec: Any, found: Any, gold: Any, equal: bool) -> None:
    assert same(spec, found, gold) is equal


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("2024-03-14", "2024-03-14"),
        ("2024/3/14", "2024-03-14"),
        ("14 March 2024", "2024-03-14"),
        ("14th Mar. 2024", "2024-03-14"),
        ("March 14, 2024", "2024-03-14"),
        ("14.03.2024", "2024-03-14"),
        ("14/03/2024", "2024-03-14"),
        ("03/14/2024", "2024-03-14"),
        ("04/04/2024", "2024-04-04"),
        ("03/04/2024", None),
        ("30.02.2024", None),
        ("14 Marc 2024", None),
        ("March 2024", None),
        ("20240314", None),
    ],
)
def test_dates_are_read_when_they_read_one_way(text: str, iso: str | None) -> None:
    day = read_date(text)
    assert (day and day.isoformat()) == iso


@pytest.mark.parametrize("value", [None, "", " N/A ", "not found.", [], {}, [None], {"value": None, "currency": "EUR"}])
def test_ways_to_say_that_nothing_was_found(value: Any) -> None:
    assert nothing(value)
    assert tally_of(EUR, value, None) == Tally(due=0)
    assert tally_of(EUR, value, 5).omitted == 1.0


def test_a_value_for_what_is_absent_is_wrong_and_not_due() -> None:
    found = tally_of(EUR, "EUR 5", None)
    assert (found.wrong, found.due, found.right) == (1.0, 0, 0.0)


def test_sets_know_no_order_and_count_what_is_missing_and_too_much() -> None:
    assert tally_of(NAMES, ["c", "a", "b"], ["a", "b", "c"]).right == 1.0
    found = tally_of(NAMES, ["b", "a", "x", "y"], ["a", "b", "c", "d"])
    assert (found.right, found.wrong, found.omitted) == (0.5, 0.5, 0.0)
    short = tally_of(NAMES, ["b"], ["a", "b"])
    assert (short.right, short.wrong, short.omitted, short.precision, short.recall) == (0.5, 0.0, 0.5, 1.0, 0.5)
    twice = tally_of(NAMES, ["a", "a", "b"], ["a", "b"])
    assert (twice.right, twice.wrong) == (1.0, 0.5)


def test_lists_are_aligned_in_order() -> None:
    assert tally_of(STEPS, ["a", "b", "c"], ["a", "b", "c"]).right == 1.0
    moved = tally_of(STEPS, ["b", "c", "a"], ["a", "b", "c"])
    assert moved.right == pytest.approx(2 / 3)
    assert moved.wrong == pytest.approx(1 / 3)
    shifted = tally_of(STEPS, ["x", "a", "b", "c"], ["a", "b", "c"])
    assert shifted.right == 1.0
    assert shifted.wrong == pytest.approx(1 / 3)


def test_a_record_of_a_list_earns_its_share_of_right_leaves() -> None:
    spec = {"type": "list", "items": PRICED}
    gold = [{"name": "a", "price": 5}, {"name": "b", "price": 7}]
    found = tally_of(spec, [{"name": "a", "price": "EUR 5"}, {"name": "b", "price": "EUR 8"}], gold)
    assert (found.right, found.wrong, found.omitted) == (0.75, 0.25, 0.0)
    blank = tally_of(spec, [{"name": "a", "price": "EUR 5"}, {"name": "b", "price": None}], gold)
    assert (blank.right, blank.wrong, blank.omitted) == (0.75, 0.0, 0.25)
    extra = tally_of(spec, [{"name": "a", "price": "EUR 5", "note": "x"}, {"name": "b", "price": "EUR 7"}], gold)
    assert (extra.right, extra.wrong) == (1.0, 0.25)


def test_a_hallucination_costs_more_than_an_omission() -> None:
    spec = {"type": "object", "fields": {"a": EUR, "b": TEXT, "c": TEXT}}
    gold = {"a": 5, "b": "x", "c": None}
    places = {name: {"groups": [[PLACE]], "related": []} for name in ("a", "b")}
    cited = {"a": PLACE, "b": PLACE}

    def graded(**values: Any) -> Any:
        return grade(spec, {"values": values, "evidence": cited}, gold, places)

    assert graded(a="EUR 5", b="x").perfect
    assert graded(a="EUR 5").field_score == 0.5
    assert graded(a="EUR 5", b="y").field_score == 0.25
    assert graded(a="EUR 5", b="y").restraint == pytest.approx(2 / 3)
    assert graded(a="EUR 5", b="x", c="y").field_score == 0.75
    assert not graded(a="EUR 5", b="x", c="y").perfect
    assert graded(a="EUR 5", b="x", d="y").num_unknown == 1
    assert not graded(a="EUR 5", b="x", d="y").perfect


def test_values_that_are_no_object_are_one_unknown_thing() -> None:
    spec = {"type": "object", "fields": {"a": TEXT}}
    assert compare(spec, ["x"], {"a": "x"})[1] == 1
    assert compare(spec, None, {"a": "x"})[1] == 0


@pytest.mark.parametrize(
    ("cited", "share"),
    [
        ([PLACE], 1.0),
        (PLACE, 1.0),
        ([{"section": 7, "page": 3}], 1.0),
        ([{"section": "Section 7", "page": "3"}], 1.0),
        ([{"section": "7: Order intake", "page": 3}], 1.0),
        ([{"section": "order  intake", "page": 3}], 1.0),
        ([{"section": "7"}], 0.0),
        (["7"], 0.0),
        ([{"section": "7", "page": 4}], 0.0),
        ([{"section": "Note 7", "page": 3}], 0.0),
        ([{"section": "8", "page": 3}, {"section": "7", "page": 3}], 0.5),
        ([{"section": str(i), "page": 3} for i in range(64)], 1 / 64),
        ([], 0.0),
        (None, 0.0),
        ([{"section": None}], 0.0),
        ([True, [], {}], 0.0),
    ],
)
def test_evidence_names_a_true_place(cited: Any, share: float) -> None:
    assert evidence_share(cited, {"groups": [[PLACE]], "related": []}) == pytest.approx(share)


def test_evidence_covers_every_ingredient_and_any_true_place_of_it_counts() -> None:
    other = {**PLACE, "section": "12", "title": "At a glance"}
    places = {"groups": [[PLACE, other], [NOTE]], "related": [{**PLACE, "section": "4", "title": "Old"}]}
    assert evidence_share([PLACE, NOTE], places) == 1.0
    assert evidence_share([other, NOTE], places) == 1.0
    assert evidence_share([PLACE], places) == 0.5
    assert evidence_share([PLACE, NOTE, {"section": "4", "page": 3}], places) == 1.0
    assert evidence_share([{"section": "4", "page": 3}], places) == 0.0


def test_sections_only_where_there_are_no_pages() -> None:
    place = {"section": "7", "title": "Order intake"}
    assert evidence_share(["7"], {"groups": [[place]]}) == 1.0
    assert evidence_share([{"section": "7", "page": 99}], {"groups": [[place]]}) == 1.0


def test_gold_that_cannot_be_graded_by_is_told() -> None:
    spec = {"type": "object", "fields": {"a": TEXT, "b": {"type": "object", "fields": {"c": NAMES}}}}
    places = {"a": {"groups": [[PLACE]]}, "b.c": {"groups": [[PLACE]]}}
    assert fault(spec, {"a": "x", "b": {"c": ["y"]}}, places) == ""
    assert "b.c" in fault(spec, {"a": "x"}, places)
    assert "b.c" in fault(spec, {"a": "x", "b": {"c": []}}, places)
    assert "places lack 'a'" in fault(spec, {"a": "x", "b": {"c": None}}, {})


@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=5, unique=True), st.randoms())
def test_sets_are_whole_in_every_order_and_lists_only_in_one(names: list[str], rng: Any) -> None:
    found = list(names)
    rng.shuffle(found)
    assert tally_of(NAMES, found, names).right == 1.0
    assert (tally_of(STEPS, found, names).right == 1.0) is (found == names)


@given(st.integers(1, 4), st.integers(1, 4), st.data())
def test_pairing_is_the_best_and_alignment_never_crosses(rows: int, columns: int, data: Any) -> None:
    cell = st.sampled_from((0.0, 0.25, 0.5, 1.0))
    matrix = data.draw(st.lists(st.lists(cell, min_size=columns, max_size=columns), min_size=rows, max_size=rows))
    total = sum(matrix[i][j] for i, j in paired(matrix))
    short, long = sorted((rows, columns))
    best = max(
        sum(matrix[i][j] if rows <= columns else matrix[j][i] for i, j in enumerate(order))
        for order in permutations(range(long), short)
    )
    assert total == pytest.approx(best)
    pairs = aligned(matrix)
    assert pairs == sorted(pairs)
    assert len({i for i, _ in pairs}) == len({j for _, j in pairs}) == len(pairs)
    assert sum(matrix[i][j] for i, j in pairs) <= total + 1e-9


@given(st.integers(1, 10**7))
def test_an_amount_is_the_same_in_every_unit(steps: int) -> None:
    value = steps * 100
    for text in (f"EUR {value:,}", f"{value / 1000} thousand EUR", f"€{Decimal(value) / 10**6:f}m", f"{value} euros"):
        amount = read_amount(text)
        assert amount is not None, text
        assert (amount.value, amount.unit) == (Decimal(value), "EUR")


@given(st.dates())
def test_a_date_is_the_same_in_every_form(day: Any) -> None:
    iso = day.isoformat()
    forms = (
        iso,
        f"{day.day}.{day.month}.{day.year:04d}",
        f"{day.day} {day:%B} {day.year:04d}",
        f"{day:%b} {day.day}, {day.year:04d}",
    )
    assert [same({"type": "date"}, form, iso) for form in forms] == [True] * len(forms)


@settings(max_examples=40, deadline=None)
@given(ANYTHING, ANYTHING)
def test_grading_never_raises_and_stays_in_range(values: Any, cited: Any) -> None:
    spec = {
        "type": "object",
        "fields": {
            "a": EUR,
            "b": TEXT,
            "c": {"type": "date"},
            "d": {"type": "list", "items": PRICED},
            "e": {"type": "object", "fields": {"f": NAMES, "g": PERCENT}},
        },
    }
    gold = {"a": 5, "b": "x", "c": "2024-01-01", "d": [{"name": "a", "price": 5}], "e": {"f": ["u", "v"], "g": None}}
    places = {path: {"groups": [[PLACE]], "related": []} for path in ("a", "b", "c", "d", "e.f")}
    for given_values in (values, dict.fromkeys("abcde", values), {"e": dict.fromkeys("fg", values), "d": [values]}):
        for evidence in (cited, dict.fromkeys(("a", "b", "d"), cited)):
            found = grade(spec, {"values": given_values, "evidence": evidence}, gold, places)
            assert 0.0 <= found.field_score <= 1.0
            assert 0.0 <= found.restraint <= 1.0
            assert 0.0 <= found.evidence_score <= 1.0
            assert 0.0 <= found.omission_rate <= 1.0
            assert not found.perfect
