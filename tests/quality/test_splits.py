"""Held-out tasks share nothing with training tasks."""

from dataclasses import replace

import pytest

from assay.errors import DataGateError
from quality.splits import leaks, require_disjoint
from tests.builders import a_task

TRAIN = [a_task("a"), a_task("b")]


def test_disjoint_splits_pass() -> None:
    require_disjoint(TRAIN, [a_task("c", split="heldout")])
    require_disjoint(TRAIN, [])


@pytest.mark.parametrize(
    ("heldout", "field"),
    [
        (replace(a_task("c", split="heldout"), answer_digest=TRAIN[0].answer_digest), "answer"),
        (replace(a_task("c", split="heldout"), template=TRAIN[0].template), "template"),
        (replace(a_task("c", split="heldout"), prompt=TRAIN[0].prompt), "prompt"),
    ],
)
def test_a_shared_field_is_named_with_both_tasks(heldout, field: str) -> None:  # type: ignore[no-untyped-def]
    told = f"toy/heldout/c shares its {field} with toy/train/a"
    assert leaks(TRAIN, [heldout]) == [told]
    with pytest.raises(DataGateError, match=rf"1 overlaps\): {told}"):
        require_disjoint(TRAIN, [heldout])


def test_the_same_task_in_both_splits_is_told_by_every_field() -> None:
    assert len(leaks(TRAIN, [TRAIN[0]])) == 4


def test_another_domain_may_use_the_same_words() -> None:
    assert leaks(TRAIN, [replace(TRAIN[0], domain="other")]) == []
