"""What this machine's processor is good at, measured rather than read from its flags."""

import time
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

# The shape of a small model's projections; bfloat16 loses digits, so a tie goes to float32.
ROWS, INPUTS, OUTPUTS = 64, 576, 1536
WORTH_IT = 1.25


@lru_cache(maxsize=1)
def fast_dtype() -> "torch.dtype":
    """bfloat16 where the processor multiplies it at least 1.25 times as fast as float32, else float32.

    The flags do not tell: with `avx512_bf16` alone bfloat16 was measured at half the speed of float32, without it at a
    tenth, with `amx_bf16` at several times. Costs 10 to 200 ms, once per process.
    """
    import torch

    return torch.bfloat16 if WORTH_IT * _seconds(torch.bfloat16) < _seconds(torch.float32) else torch.float32


def _seconds(dtype: "torch.dtype") -> float:
    """The shortest of six matrix products."""
    import torch

    rows, weight = torch.ones(ROWS, INPUTS, dtype=dtype), torch.ones(OUTPUTS, INPUTS, dtype=dtype)
    shortest = float("inf")
    with torch.no_grad():
        for _ in range(6):
            start = time.perf_counter()
            torch.nn.functional.linear(rows, weight)
            shortest = min(shortest, time.perf_counter() - start)
    return shortest
