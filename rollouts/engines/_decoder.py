"""Decoding many samples at once, where siblings that have said the same so far are computed once.

    admit(jobs)   prompt -> keys/values (from the prefix cache as far as they are known) -> a row with all its samples
    step()        one forward pass over all rows; every sample draws its own token; a row whose samples disagree splits

A row is one distinct continuation. At first a group is a single row; late in training, when most siblings agree, it
stays close to one. Rows come and go between steps, so new prompts join a running batch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import torch

from assay.ids import derive_seed
from assay.records import FinishReason
from rollouts.engines._attention import DecodeStep, Prefill, Prompts
from rollouts.engines._prefixes import Context, PrefixCache
from rollouts.engines.base import Completion, SampleRequest
from rollouts.image_chat import ImageChat

_BELOW_ONE = 1.0 - 2.0**-24  # the largest float32 below 1


@dataclass(eq=False, slots=True)
class Job:
    """One request and what has come out of it. `deliver` is called once with all completions, in order."""

    request: SampleRequest
    deliver: Callable[[list[Completion]], None]
    cancelled: Callable[[], bool]
    max_new_tokens: int
    done: dict[int, Completion] = field(default_factory=dict)

    def finish(self, index: int, completion: Completion) -> None:
        self.done[index] = completion
        if len(self.done) == self.request.num_samples:
            self.deliver([self.done[i] for i in range(self.request.num_samples)])


@dataclass(eq=False, slots=True)
class Sample:
    """One completion under way, with its own source of randomness."""

    job: Job
    index: int
    random: Random
    logprobs: list[float] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Row:
    """A distinct continuation. `tail_ids` follow the shared prompt segment in the key/value store; `said` are the
    tokens sampled so far, of which the last is not in the store yet."""

    segment_ids: tuple[int, ...]
    segment: torch.Tensor
    tail_ids: tuple[int, ...]
    said: tuple[int, ...]
    samples: list[Sample]
    temperature: float

    @property
    def position(self) -> int:
        return len(self.segment_ids) + len(self.tail_ids)


class Decoder:
    """Holds the rows of one worker. Not shared between threads; the model and the prefix cache may be."""

    def __init__(
        self, model: Any, stop_token_ids: frozenset[int], prefixes: PrefixCache, eyes: ImageChat | None = None
    ) -> None:
        self.model, self.stop_token_ids, self.prefixes, self.eyes = model, stop_token_ids, prefixes, eyes
        self.rows: list[Row] = []
        self._tails = torch.empty(0)
        self._segments: list[torch.Tensor] = []
        self._prompts: Prompts | None = None

    @property
    def num_samples(self) -> int:
        return sum(len(row.samples) for row in self.rows)

    @torch.inference_mode()
    def admit(self, jobs: Sequence[Job]) -> None:
        """Start these jobs; equal prompts at equal temperature share a row. Draws each sample's first token."""
        groups: dict[tuple[tuple[int, ...], float], list[Job]] = {}
        for job in jobs:
            groups.setdefault((self._keys(job.request), job.request.sampling.temperature), []).append(job)
        first = len(self.rows)
        logits = []
        for (keys, temperature), members in sorted(groups.items(), key=lambda item: item[0]):
            context, last = self._prefill(keys, members[0].request)
            segment_length = context.segment.shape[3]
            samples = [s for job in members for s in _samples(job)]
            row = Row(keys[:segment_length], context.segment, keys[segment_length:], (), samples, temperature)
            self._append(row, context.tail)
            logits.append(last)
        if logits:
            self._branch(first, torch.cat(logits))

    @torch.inference_mode()
    def step(self) -> None:
        """Advance every sample by one token."""
        self._drop_cancelled()
        if not self.rows:
            return
        tokens = torch.tensor([[row.said[-1] for row in self.rows]])
        positions = torch.tensor([[row.position for row in self.rows]])
        logits = self._forward(tokens, positions, self._layout())
        for row in self.rows:
            row.tail_ids += row.said[-1:]
        self._branch(0, logits)

    def _forward(
        self, tokens: torch.Tensor, positions: torch.Tensor, layout: Any, keep: int = 0, **seen: torch.Tensor
    ) -> torch.Tensor:
        """Logits [N, V] of the last `keep` tokens, or of all when 0. `seen` are the pixels of the tokens' images."""
        output = self.model(
            input_ids=tokens, position_ids=positions, use_cache=False, layout=layout, logits_to_keep=keep, **seen
        )
        return output.logits[0]

    def _keys(self, request: SampleRequest) -> tuple[int, ...]:
        """What tells contexts apart: the prompt's ids, and where a model has eyes, the images behind placeholders."""
        return request.prompt_ids if self.eyes is None else self.eyes.keys(request.prompt_ids, request.images)

    def _prefill(self, keys: tuple[int, ...], request: SampleRequest) -> tuple[Context, torch.Tensor]:
        """Keys and values of a prompt, and the logits [1, V] after it."""
        prompt_ids, seen = request.prompt_ids, {}
        known, num_known = self.prefixes.longest(keys)
        num_known = min(num_known, len(keys) - 1)
        if self.eyes is not None and any(key < 0 for key in keys[num_known:]):
            # A new image is seen with all before it: the model places the images of a context by their order.
            known, num_known, seen = None, 0, self.eyes.pixels(request.images)
        past = torch.cat((known.segment, known.tail), dim=3)[:, :, :, :num_known] if known and num_known else None
        layout = Prefill(past, len(prompt_ids) - num_known)
        positions = torch.arange(num_known, len(prompt_ids)).unsqueeze(0)
        logits = self._forward(torch.tensor([prompt_ids[num_known:]]), positions, layout, keep=1, **seen)
        stored = layout.stored
        if known is not None and num_known >= known.segment.shape[3]:
            context = Context(keys, known.segment, stored[:, :, :, known.segment.shape[3] :].clone())
        else:
            context = Context(keys, stored, stored[:, :, :, :0])
        self.prefixes.put(context)
        return context, logits

    def _branch(self, first: int, logits: torch.Tensor) -> None:
        """Draw for the rows from `first` on (logits [R - first, V]), finish samples, split rows."""
        kept: list[tuple[int, Row]] = [(i, row) for i, row in enumerate(self.rows[:first])]
        drawn = _draw(logits, self.rows[first:])
        for slot, (row, tokens) in enumerate(zip(self.rows[first:], drawn, strict=True), start=first):
            children = self._children(row, tokens)
            if not children:
                self._remember(slot, row)
            kept += [(slot, child) for child in children]
        self._arrange(kept)

    def _children(self, row: Row, tokens: list[tuple[int, float]]) -> list[Row]:
        """The rows that go on after each sample has said its token."""
        going: dict[int, list[Sample]] = {}
        for sample, (token, logprob) in zip(row.samples, tokens, strict=True):
            sample.logprobs.append(logprob)
            reason = self._end(sample, token)
            if reason is None:
                going.setdefault(token, []).append(sample)
            else:
                completion = Completion(
                    token_ids=(*row.said, token), logprobs=tuple(sample.logprobs), finish_reason=reason
                )
                sample.job.finish(sample.index, completion)
        return [
            Row(row.segment_ids, row.segment, row.tail_ids, (*row.said, token), samples, row.temperature)
            for token, samples in going.items()
        ]

    def _end(self, sample: Sample, token: int) -> FinishReason | None:
        if token in self.stop_token_ids:
            return "stop"
        return "length" if len(sample.logprobs) >= sample.job.max_new_tokens else None

    def _remember(self, slot: int, row: Row) -> None:
        """Keep an ended row: a later turn may go on from it."""
        tail = self._tails[:, :, slot, :, : len(row.tail_ids)].clone()
        self.prefixes.put(Context(row.segment_ids + row.tail_ids, row.segment, tail))

    def _arrange(self, kept: list[tuple[int, Row]]) -> None:
        """Rows into slots 0..n-1, moving as few tails as possible."""
        slots: list[Row | None] = [None] * len(kept)
        moved: list[tuple[int, Row]] = []
        for slot, row in kept:
            if slot < len(slots) and slots[slot] is None:
                slots[slot] = row
            else:
                moved.append((slot, row))
        free = [i for i, row in enumerate(slots) if row is None]
        for target, (_, row) in zip(free, moved, strict=True):
            slots[target] = row
        width = max((len(row.tail_ids) for _, row in moved), default=0)
        self._reserve(len(slots), 0)
        if width:
            self._tails[:, :, free, :, :width] = self._tails[:, :, [slot for slot, _ in moved], :, :width]
        self.rows = [row for row in slots if row is not None]

    def _append(self, row: Row, tail: torch.Tensor) -> None:
        layers, _, heads, _, width = row.segment.shape
        if self._tails.numel() == 0:
            # Zeros: unused room is masked, but a weight of 0 times uninitialised memory can still be NaN.
            self._tails = row.segment.new_zeros(layers, 2, 8, heads, 32, width)
        self._reserve(len(self.rows) + 1, tail.shape[3])
        self._tails[:, :, len(self.rows), :, : tail.shape[3]] = tail
        self.rows.append(row)

    def _reserve(self, num_rows: int, length: int) -> None:
        """Room for so many rows with so long tails; grows by doubling."""
        _, _, rows, _, room, _ = shape = list(self._tails.shape)
        if num_rows <= rows and length <= room:
            return
        shape[2] = rows if num_rows <= rows else max(num_rows, 2 * rows)
        shape[4] = room if length <= room else max(length, 2 * room)
        grown = self._tails.new_zeros(shape)
        grown[:, :, :rows, :, :room] = self._tails
        self._tails = grown

    def _layout(self) -> DecodeStep:
        lengths = [len(row.tail_ids) for row in self.rows]
        self._reserve(len(self.rows), max(lengths) + 1)
        unique = {id(row.segment): row.segment for row in self.rows}
        if self._prompts is None or [id(s) for s in self._segments] != list(unique):
            self._segments = list(unique.values())
            self._prompts = Prompts(self._segments)
        places = {key: i for i, key in enumerate(unique)}
        return DecodeStep(self._prompts, self._tails, [places[id(row.segment)] for row in self.rows], lengths)

    def _drop_cancelled(self) -> None:
        for row in self.rows:
            row.samples = [s for s in row.samples if not s.job.cancelled()]
        if not all(row.samples for row in self.rows):
            self._arrange([(i, row) for i, row in enumerate(self.rows) if row.samples])


def _samples(job: Job) -> list[Sample]:
    return [Sample(job, i, Random(derive_seed(job.request.seed, i))) for i in range(job.request.num_samples)]


def _draw(logits: torch.Tensor, rows: Sequence[Row]) -> list[list[tuple[int, float]]]:
    """For each row (logits [R, V]) one (token, log-probability) per sample, by inverting the distribution function.

    Each sample uses one uniform number of its own per token, so what it draws does not depend on the others.
    Greedy rows take the most likely token and report its log-probability at temperature 1.
    """
    temperatures = torch.tensor([row.temperature or 1.0 for row in rows]).unsqueeze(1)
    logprobs = torch.log_softmax(logits.float() / temperatures, dim=-1)
    cumulative = logprobs.exp().cumsum(dim=-1)
    most = max(len(row.samples) for row in rows)
    uniform = torch.zeros(len(rows), most)
    for i, row in enumerate(rows):
        for j, sample in enumerate(row.samples):
            uniform[i, j] = min(sample.random.random(), _BELOW_ONE)
    tokens = torch.searchsorted(cumulative, uniform * cumulative[:, -1:], right=True)
    tokens.clamp_(max=logits.shape[1] - 1)
    greedy = torch.tensor([row.temperature == 0 for row in rows]).unsqueeze(1)
    tokens = torch.where(greedy, logprobs.argmax(dim=-1, keepdim=True), tokens)
    chosen = logprobs.gather(1, tokens)
    return [
        list(zip(ids[: len(row.samples)], values[: len(row.samples)], strict=True))
        for row, ids, values in zip(rows, tokens.tolist(), chosen.tolist(), strict=True)
    ]
