"""Held-out tasks share nothing with training tasks."""

from dataclasses import replace

import pytest

from assay.errors import EnvironmentAuthorError
from quality.splits import check_splits, leaks
from tests.builders import a_task

TRAIN = [a_task("a"), a_task("b")]


def test_disjoint_splits_pass() -> None:
    check_splits([*TRAIN, a_task("c", split="heldout")])
    check_splits([*TRAIN, TRAIN[0]])


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
    with pytest.raises(EnvironmentAuthorError, match=rf"1 overlaps\): {told}"):
        check_splits([heldout, *TRAIN])


def test_the_same_task_in_both_splits_is_told_by_every_field() -> None:
    assert len(leaks(TRAIN, [TRAIN[0]])) == 4


def test_another_domain_may_use_the_same_words() -> None:
    assert leaks(TRAIN, [replace(TRAIN[0], domain="other")]) == []
