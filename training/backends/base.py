"""What a trainer is: verified samples in, a policy version's weights out.

One file per backend: `embedded` trains on this machine; a cluster backend hands the batch to a GPU cluster.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol

from assay.records import PolicyVersion, TrainingBatch, record


@record
class TrainResult:
    """What one training call did. `metrics`: loss, grad_norm, ratio_mean, clip_rate, kl, tokens_per_s, ..."""

    num_updates: int
    metrics: Mapping[str, float]


class Trainer(Protocol):
    """Holds one policy's weights and optimiser between calls."""

    id: ClassVar[str]
    Config: ClassVar[type[Any]]
    takes_images: ClassVar[bool]
    """Whether it trains on samples with images; one that does not refuses them with a TrainingError."""

    def load(self, policy: PolicyVersion, run_dir: Path) -> None:
        """Take the weights at `policy.uri`, and the optimiser state saved with them when there is one.
        `run_dir` is the experiment folder (TensorBoard, checkpoints)."""
        ...

    def train(self, batch: TrainingBatch) -> TrainResult:
        """Update on one batch (blocking). Raises TrainingError when the loss is not finite."""
        ...

    def publish(self, directory: Path) -> str:
        """Write a Hugging Face directory, with the state needed to resume beside it; returns the weights' digest."""
        ...

    @property
    def live(self) -> Any | None:
        """The module whose weights an engine in this process may read, or None for a remote trainer."""
        ...

    def settings_digest(self) -> str:
        """Hash of everything that decides what `train` does to the weights."""
        ...

    def close(self) -> None:
        """Idempotent; frees memory."""
        ...
