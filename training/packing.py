"""Samples -> packs: what is said twice is computed once.

A pack is one row of N tokens that holds several groups as a forest. Its first tokens, the stem, are what all prompts
of the pack begin with. After it each group is a tree: prompt and completions share a node for as long as they agree.

    stem ─┬─ group A: rest of the prompt ─┬─ {"name": "An ─┬─ na", ...
          │                               │                └─ ton", ...
          │                               └─ Sorry ...
          └─ group B: ...

A token sees the tokens on its path to the root and nothing else, and its position is its depth, so its
log-probability is that of the sequence on its own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from assay.records import TrainingSample


@dataclass(frozen=True, slots=True)
class Block:
    """The tokens `start:stop` of a pack; `visible` [stop - start, stem + stop - start] says what each may attend to:
    first the stem, then the block itself. The stem's own block has no stem before it."""

    start: int
    stop: int
    stem: int
    visible: torch.Tensor


@dataclass(frozen=True, slots=True)
class Pack:
    """N tokens in one row, and the T tokens in the loss.

    Loss token t is `targets[t]`, predicted at token `predictors[rows[t]]`; `predictors` [U] names each place once,
    `temperatures` [U] is how it was sampled from. `advantages`, `logprobs` (of sampling, nats) are per loss token.
    """

    token_ids: torch.Tensor
    positions: torch.Tensor
    blocks: tuple[Block, ...]
    predictors: torch.Tensor
    temperatures: torch.Tensor
    rows: torch.Tensor
    targets: torch.Tensor
    advantages: torch.Tensor
    logprobs: torch.Tensor

    @property
    def num_tokens(self) -> int:
        return len(self.token_ids)

    @property
    def num_loss_tokens(self) -> int:
        return len(self.targets)


def make_packs(samples: Sequence[TrainingSample], max_tokens: int) -> list[Pack]:
    """Packs of about `max_tokens` tokens at most; a group is never divided, so a larger one gets a larger pack.

    Groups lie in the order of their prompts, which gives long stems; the result depends on the samples only, not on
    their order.
    """
    groups: dict[str, list[TrainingSample]] = {}
    for sample in sorted(samples, key=lambda s: (s.group_id, s.trajectory_id)):
        groups.setdefault(sample.group_id, []).append(sample)
    ordered = sorted(groups.values(), key=lambda g: (g[0].token_ids[: g[0].prompt_len], g[0].group_id))
    return [_pack(chosen) for chosen in _portions(ordered, max_tokens)]


def _portions(groups: Sequence[list[TrainingSample]], max_tokens: int) -> Iterator[list[list[TrainingSample]]]:
    """Neighbouring groups, evenly, so that no portion is much smaller than the others."""
    sizes = [_tree_size(group) for group in groups]
    num_portions = max(1, -(-sum(sizes) // max_tokens))
    goal = sum(sizes) / num_portions
    portion: list[list[TrainingSample]] = []
    size = 0
    for group, group_size in zip(groups, sizes, strict=True):
        if portion and size + group_size / 2 > goal:
            yield portion
            portion, size = [], 0
        portion.append(group)
        size += group_size
    if portion:
        yield portion


def _tree_size(group: Sequence[TrainingSample]) -> int:
    tree = _Tree(0, 0)
    for sample in group:
        tree.add(sample.token_ids)
    return len(tree.token_ids)


class _Tree:
    """Token sequences merged by common beginnings. Nodes are numbered from `first`; depths start at `depth`."""

    def __init__(self, first: int, depth: int) -> None:
        self.first, self.depth = first, depth
        self.token_ids: list[int] = []
        self.parents: list[int] = []
        self.depths: list[int] = []
        self._children: dict[tuple[int, int], int] = {}

    def add(self, token_ids: Sequence[int]) -> list[int]:
        """The node of each token, in order."""
        path, node = [], -1
        for depth, token in enumerate(token_ids, start=self.depth):
            child = self._children.setdefault((node, token), len(self.token_ids))
            if child == len(self.token_ids):
                self.token_ids.append(token)
                self.parents.append(node)
                self.depths.append(depth)
            node = child
            path.append(self.first + node)
        return path

    def block(self, stem: int) -> Block:
        size = len(self.token_ids)
        visible = np.zeros((size, stem + size), dtype=bool)
        visible[:, :stem] = True
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                visible[node, stem:] = visible[parent, stem:]
            visible[node, stem + node] = True
        return Block(self.first, self.first + size, stem, torch.from_numpy(visible))


def _pack(groups: Sequence[Sequence[TrainingSample]]) -> Pack:
    stem = _stem([sample for group in groups for sample in group])
    root = _Tree(0, 0)
    root.add(groups[0][0].token_ids[:stem])
    trees = [root] if stem else []
    loss = _Loss()
    num_tokens = stem
    for group in groups:
        tree = _Tree(num_tokens, stem)
        for sample in group:
            loss.add(sample, [*range(stem), *tree.add(sample.token_ids[stem:])])
        num_tokens += len(tree.token_ids)
        trees.append(tree)
    return Pack(
        token_ids=torch.tensor([token for tree in trees for token in tree.token_ids]),
        positions=torch.tensor([depth for tree in trees for depth in tree.depths]),
        blocks=tuple(tree.block(stem if tree is not root else 0) for tree in trees),
        predictors=torch.tensor([node for node, _ in loss.places], dtype=torch.long),
        temperatures=torch.tensor([temperature for _, temperature in loss.places]),
        rows=torch.tensor(loss.rows, dtype=torch.long),
        targets=torch.tensor(loss.targets, dtype=torch.long),
        advantages=torch.tensor(loss.advantages),
        logprobs=torch.tensor(loss.logprobs),
    )


def _stem(samples: Sequence[TrainingSample]) -> int:
    """How many tokens all prompts begin with; 0 for a single group, whose tree shares them anyway."""
    if len({sample.group_id for sample in samples}) == 1:
        return 0
    shortest = min(sample.prompt_len for sample in samples)
    prompts = np.array([sample.token_ids[:shortest] for sample in samples])
    differs = (prompts != prompts[0]).any(axis=0)
    return int(differs.argmax()) if differs.any() else shortest


class _Loss:
    """Collects the loss tokens of a pack; a place that predicts for several samples is kept once."""

    def __init__(self) -> None:
        self.places: dict[tuple[int, float], int] = {}
        self.rows: list[int] = []
        self.targets: list[int] = []
        self.advantages: list[float] = []
        self.logprobs: list[float] = []

    def add(self, sample: TrainingSample, path: Sequence[int]) -> None:
        for i, in_loss in enumerate(sample.loss_mask):
            if in_loss and i:
                place = (path[i - 1], sample.temperature)
                self.rows.append(self.places.setdefault(place, len(self.places)))
                self.targets.append(sample.token_ids[i])
                self.advantages.append(sample.advantage)
                self.logprobs.append(sample.logprobs[i])
