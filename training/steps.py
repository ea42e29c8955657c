"""One optimiser step over any number of packs, computed by worker threads.

Packs are independent forward and backward passes; their gradients are added in the packs' order, so the result does
not depend on the number of workers.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from assay.errors import TrainingError
from training.forward import token_logprobs
from training.packing import Pack

PackLoss = Callable[[torch.Tensor, Pack], tuple[torch.Tensor, dict[str, float]]]


def update(
    model: Any,
    optimizer: torch.optim.Optimizer,
    packs: Sequence[Pack],
    loss: PackLoss,
    *,
    weight: float,
    grad_clip: float,
    dtype: torch.dtype,
    workers: ThreadPoolExecutor,
) -> dict[str, float]:
    """Step once on `weight` times the mean loss per token of all packs.

    Returns `loss` (unweighted) and its figures as means per token, and the `grad_norm` before clipping. Raises
    TrainingError, and leaves the weights alone, when that is not finite.
    """
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    num_tokens = sum(pack.num_loss_tokens for pack in packs)
    if not num_tokens:
        raise TrainingError("The batch's samples have no tokens in the loss: every completion is empty.")
    turns = _Turns()

    def one(number: int, pack: Pack) -> dict[str, float]:
        with turns.taking(number):
            with torch.autocast("cpu", dtype=dtype) if dtype != torch.float32 else nullcontext():
                logprobs = token_logprobs(model, pack)
            total, figures = loss(logprobs, pack)
            gradients = list(torch.autograd.grad(total * weight / num_tokens, parameters, materialize_grads=True))
            turns.wait(number)
            for parameter in reversed(parameters):
                gradient = gradients.pop()  # freed at once: two of these lists would be a gigabyte
                parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)
        return {"loss": total.item(), **figures}

    means: dict[str, float] = defaultdict(float)
    optimizer.zero_grad()
    for figures in workers.map(one, range(len(packs)), packs):
        for name, value in figures.items():
            means[name] += value / num_tokens
    norm = torch.nn.utils.clip_grad_norm_(parameters, grad_clip).item()
    if not torch.isfinite(torch.tensor([norm, means["loss"]])).all():
        optimizer.zero_grad()
        raise TrainingError(
            f"The loss ({means['loss']}) or its gradient's norm ({norm}) is not finite, so no step was taken. Lower "
            "the learning rate, or look for extreme log-probabilities in the batch."
        )
    optimizer.step()
    optimizer.zero_grad()
    return {**means, "grad_norm": norm}


class _Turns:
    """Lets packs add their gradients one after the other, in order, however long each of them takes."""

    def __init__(self) -> None:
        self._next = 0
        self._failure: BaseException | None = None
        self._changed = threading.Condition()

    def wait(self, number: int) -> None:
        """Return when all packs before this one have had their turn; raises when one of them failed."""
        with self._changed:
            self._changed.wait_for(lambda: self._next == number or self._failure is not None)
            if self._failure is not None:
                raise TrainingError(f"Another pack of the batch failed: {self._failure!r}.") from self._failure

    @contextmanager
    def taking(self, number: int) -> Iterator[None]:
        """Around the work of one pack: its end is the next one's turn, its failure everybody's."""
        try:
            yield
        except BaseException as error:
            with self._changed:
                self._failure = self._failure or error
                self._changed.notify_all()
            raise
        with self._changed:
            self._next = number + 1
            self._changed.notify_all()
