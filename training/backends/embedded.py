"""The embedded trainer: GRPO and supervised warm starts on this machine's processor.

    samples -> packs (what siblings share is computed once) -> worker threads -> AdamW on float32 weights

The policy is a NeMo model and its experiment folder is NeMo's (`_nemo_policy`); the update itself is plain torch.
"""

import logging
import math
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from assay.errors import TrainingError
from assay.ids import content_hash
from assay.processor import fast_dtype
from assay.records import PolicyVersion, TrainingBatch, TrainingSample
from assay.registry import PluginConfig
from assay.settings import settings
from training.backends.base import TrainResult

if TYPE_CHECKING:
    import torch

    from training.backends._nemo_policy import Experiment, Policy
    from training.packing import Pack


class EmbeddedTrainer:
    """Holds one policy's float32 weights and AdamW's moments between calls. Not safe to call from two threads."""

    id: ClassVar[str] = "embedded"
    takes_images: ClassVar[bool] = False

    class Config(PluginConfig):
        learning_rate: float = Field(2e-5, gt=0, le=1, description="AdamW, for GRPO")
        weight_decay: float = Field(0.0, ge=0, le=1)
        grad_clip: float = Field(1.0, gt=0, description="Largest norm of the gradient")
        updates_per_batch: int = Field(1, ge=1, le=64, description="A GRPO batch's groups are split into so many steps")
        clip_low: float = Field(0.2, gt=0, lt=1)
        clip_high: float = Field(0.28, gt=0, le=10)
        ratio_cap: float = Field(5.0, gt=1, description="No importance ratio counts for more")
        kl_coef: float = Field(0.0, ge=0, le=10, description="Weight of the divergence from `reference`")
        reference: str = Field("", description="Model for the divergence: hub id or path; needed with kl_coef")
        sft_learning_rate: float = Field(2e-5, gt=0, le=1, description="AdamW, for demonstrations")
        sft_epochs: int = Field(2, ge=1, le=100)
        sft_batch_size: int = Field(8, ge=1, le=4096, description="Demonstrations per step")
        lora_rank: int = Field(0, ge=0, le=1024, description="0 trains all weights, which is faster on a processor")
        lora_alpha: int = Field(16, ge=1)
        frozen_layers: int = Field(0, ge=0, description="First layers (and embeddings) that do not learn")
        dtype: Literal["auto", "float32", "bfloat16"] = Field(
            "auto", description="Of matrix products; auto: the faster of the two on this processor"
        )
        max_pack_tokens: int = Field(512, ge=1, description="Tokens per forward pass and worker: bounds memory")
        num_threads: int = Field(0, ge=0, le=64, description="Worker threads; 0 means ASSAY_NUM_THREADS, at most 4")
        resumable: bool = Field(True, description="Write weights and moments in float32 beside each published version")
        save_nemo: bool = Field(False, description="Write policy.nemo into the run's folder when the trainer closes")

        @model_validator(mode="after")
        def _consistent(self) -> Self:
            if self.kl_coef and not self.reference:
                raise ValueError("kl_coef is set but reference is empty; name the model to stay close to")
            if self.lora_rank and self.frozen_layers:
                raise ValueError("lora_rank and frozen_layers exclude each other; set one of them to 0")
            return self

    def __init__(self, config: Config) -> None:
        self.config = config
        self._policy: Policy | None = None
        self._reference: Any = None
        self._optimizer: Any = None
        self._experiment: Experiment | None = None
        self._workers: ThreadPoolExecutor | None = None
        self._writer = ThreadPoolExecutor(1, "publisher")
        self._writing: Future[None] | None = None
        self._num_updates = 0

    def load(self, policy: PolicyVersion, run_dir: Path) -> None:
        """Take the weights at `policy.uri`, and the state published with them. TrainingError when there are none."""
        import torch

        logging.getLogger("nv_one_logger").setLevel(logging.ERROR)  # reports on telemetry when NeMo is imported
        from training.backends._nemo_policy import Experiment, Policy, read_model
        from training.checkpoints import read_state, restore_state
        from training.memory import keep_freed_memory

        self._finish_writing()
        keep_freed_memory()
        torch.set_num_threads(1)  # packs run in threads of ours: they scale better and tolerate busy machines
        config = self.config
        self._policy = self._optimizer = None  # two policies at once would not fit
        self._policy = Policy.from_source(
            policy.uri,
            lora_rank=config.lora_rank,
            lora_alpha=config.lora_alpha,
            frozen_layers=config.frozen_layers,
        )
        self._optimizer = torch.optim.AdamW(
            list(self._policy.trainable.values()), lr=config.learning_rate, weight_decay=config.weight_decay, fused=True
        )
        self._num_updates = policy.num_updates
        self._kind: str = policy.kind
        restore_state(self._policy.model, self._optimizer, read_state(Path(policy.uri)))
        if config.kl_coef and self._reference is None:
            self._reference = read_model(config.reference).requires_grad_(False)
        if self._experiment is None or self._experiment.folder != run_dir:
            self._experiment = Experiment(run_dir)
        self._workers = self._workers or ThreadPoolExecutor(
            config.num_threads or min(settings().num_threads, 4), "trainer"
        )

    def train(self, batch: TrainingBatch) -> TrainResult:
        """Update on one batch (blocking). Raises TrainingError when it is empty, when it holds images, which this
        trainer would not see, or when the loss is not finite."""
        if not batch.samples:
            raise TrainingError(f"Batch {batch.id} has no samples (dropped: {dict(batch.dropped)}); nothing to train.")
        _refuse_images(batch)
        self._finish_writing()
        started = time.monotonic()
        self._begin(batch.kind)
        minibatches = self._demonstrations(batch) if batch.kind == "sft" else self._groups(batch)
        weight = _signal_share(batch) if batch.kind == "grpo" else 1.0
        figures = [self._step(minibatch, batch.kind, weight) for minibatch in minibatches]
        metrics = _summary(figures) | {"wall_s": time.monotonic() - started}
        metrics["tokens_per_s"] = metrics["num_tokens"] / metrics["wall_s"]
        return TrainResult(num_updates=len(figures), metrics=metrics)

    def publish(self, directory: Path) -> str:
        """Write a Hugging Face directory in bfloat16; returns the weights' digest. The state to resume from is written
        behind the caller's back, while rollouts are sampled; `train`, `load`, `publish` and `close` wait for it."""
        import torch

        from training.checkpoints import state_of, write_model, write_state

        self._finish_writing()
        policy = self._loaded()
        digest = write_model(directory, policy.model, policy.weights(), policy.files, torch.bfloat16)
        if self.config.resumable:
            self._writing = self._writer.submit(write_state, directory, state_of(policy.model, self._optimizer))
        return digest

    @property
    def live(self) -> Any | None:
        """Weights for an engine in this process: an object with `config` and `state_dict()`; None before `load`."""
        return None if self._policy is None else self._policy.live

    def settings_digest(self) -> str:
        """Hash of everything that decides what `train` does to the weights."""
        return content_hash(["embedded-2", self.config.model_dump(exclude={"num_threads", "resumable", "save_nemo"})])

    def close(self) -> None:
        """Idempotent; frees memory, and writes `policy.nemo` when the config asks for it."""
        self._finish_writing()
        if self._policy is not None and self._experiment is not None and self.config.save_nemo:
            self._policy.save_to(str(self._experiment.folder / "policy.nemo"))
        if self._workers is not None:
            self._workers.shutdown()
        if self._experiment is not None:
            self._experiment.close()
        self._policy = self._optimizer = self._reference = self._experiment = self._workers = None

    def _finish_writing(self) -> None:
        """Wait until the published state is on disk; raises what went wrong."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def _begin(self, kind: str) -> None:
        """Between demonstrations and GRPO AdamW starts afresh: the moments of one objective's gradients, several times
        larger, would keep the steps of the other small for hundreds of updates."""
        if {self._kind, kind} == {"sft", "grpo"}:
            self._optimizer.state.clear()
        self._kind = kind

    def _loaded(self) -> "Policy":
        if self._policy is None:
            raise TrainingError("No policy is loaded into the trainer. Call load(policy, run_dir) first.")
        return self._policy

    def _groups(self, batch: TrainingBatch) -> list[list[TrainingSample]]:
        """The batch's groups, shuffled by the batch's id and split into the configured number of steps."""
        groups: dict[str, list[TrainingSample]] = {}
        for sample in sorted(batch.samples, key=lambda s: (s.group_id, s.trajectory_id)):
            groups.setdefault(sample.group_id, []).append(sample)
        order = list(groups.values())
        Random(batch.id).shuffle(order)
        num_steps = min(self.config.updates_per_batch, len(order))
        return [[s for group in order[i::num_steps] for s in group] for i in range(num_steps)]

    def _demonstrations(self, batch: TrainingBatch) -> list[list[TrainingSample]]:
        """Every epoch's minibatches, shuffled by the batch's id and the epoch."""
        size = self.config.sft_batch_size
        minibatches = []
        for epoch in range(self.config.sft_epochs):
            order = sorted(batch.samples, key=lambda s: s.trajectory_id)
            Random(f"{batch.id}/{epoch}").shuffle(order)
            minibatches += [order[i : i + size] for i in range(0, len(order), size)]
        return minibatches

    def _step(self, samples: Sequence[TrainingSample], kind: str, weight: float) -> dict[str, float]:
        """One optimiser step; figures are means per loss token, and counts."""
        import torch

        from training.packing import make_packs
        from training.steps import update

        config, policy, workers = self.config, self._loaded(), self._workers
        assert workers is not None, "load() makes the workers together with the policy"
        packs = make_packs(samples, config.max_pack_tokens)
        for group in self._optimizer.param_groups:
            group["lr"] = config.sft_learning_rate if kind == "sft" else config.learning_rate
        figures = update(
            policy.model,
            self._optimizer,
            packs,
            self._sft_loss if kind == "sft" else self._grpo_loss,
            weight=weight,
            grad_clip=config.grad_clip,
            dtype=fast_dtype() if config.dtype == "auto" else getattr(torch, config.dtype),
            workers=workers,
        )
        self._num_updates += 1
        figures |= {
            "num_tokens": sum(len(sample.token_ids) for sample in samples),
            "num_loss_tokens": sum(pack.num_loss_tokens for pack in packs),
            "num_computed_tokens": sum(pack.num_tokens for pack in packs),
        }
        if self._experiment is not None:
            self._experiment.log({f"{kind}/{name}": value for name, value in figures.items()}, self._num_updates)
        return figures

    def _grpo_loss(self, logprobs: "torch.Tensor", pack: "Pack") -> "tuple[torch.Tensor, dict[str, float]]":
        import torch

        from training.forward import token_logprobs
        from training.losses import Clip, grpo_loss

        reference = None
        if self._reference is not None:
            with torch.no_grad():
                reference = token_logprobs(self._reference, pack)
        clip = Clip(self.config.clip_low, self.config.clip_high, self.config.ratio_cap)
        return grpo_loss(
            logprobs, pack.logprobs, pack.advantages, clip, reference=reference, kl_coef=self.config.kl_coef
        )

    def _sft_loss(self, logprobs: "torch.Tensor", pack: "Pack") -> "tuple[torch.Tensor, dict[str, float]]":
        from training.losses import sft_loss

        return sft_loss(logprobs, pack.advantages), {}


def _summary(steps: Sequence[dict[str, float]]) -> dict[str, float]:
    """Counts are summed over the steps, all else is averaged."""
    return {
        name: math.fsum(step[name] for step in steps) / (1 if name.startswith("num_") else len(steps))
        for name in steps[0]
    }


def _refuse_images(batch: TrainingBatch) -> None:
    """The model would learn to answer without having seen what was asked about."""
    seeing = [sample.trajectory_id for sample in batch.samples if sample.images]
    if seeing:
        raise TrainingError(
            f"{len(seeing)} samples of batch {batch.id} hold images, among them {seeing[0]}, but the embedded trainer "
            "takes none and would train on the text alone. Use a trainer that takes images, or domains without."
        )


def _signal_share(batch: TrainingBatch) -> float:
    """The share of comparable trajectories that carry signal.

    Those of groups that agree have an advantage of 0: they belong to the mean although they are left out. Without them
    the last few groups of a policy that solves nearly all would move it as far as a full batch does.
    """
    num_used = len(batch.samples)
    return num_used / (num_used + batch.dropped.get("no_signal", 0))
