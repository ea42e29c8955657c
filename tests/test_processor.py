"""Precision is chosen by what was measured."""

from collections.abc import Iterator

import pytest
import torch

from assay import processor


@pytest.fixture(autouse=True)
def _measure_anew() -> Iterator[None]:
    processor.fast_dtype.cache_clear()
    yield
    processor.fast_dtype.cache_clear()


@pytest.mark.parametrize(
    ("bfloat16", "float32", "chosen"),
    [(1.0, 4.0, torch.bfloat16), (2.0, 1.0, torch.float32), (1.0, 1.1, torch.float32)],
)
def test_bfloat16_only_where_it_is_clearly_faster(
    monkeypatch: pytest.MonkeyPatch, bfloat16: float, float32: float, chosen: torch.dtype
) -> None:
    seconds = {torch.bfloat16: bfloat16, torch.float32: float32}
    monkeypatch.setattr(processor, "_seconds", seconds.__getitem__)
    assert processor.fast_dtype() is chosen


def test_this_processor_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first = processor.fast_dtype()
    monkeypatch.setattr(processor, "_seconds", lambda _: pytest.fail("measured again"))
    assert processor.fast_dtype() is first
