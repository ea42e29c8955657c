"""The trainable policy as a NeMo model, and the experiment folder of a run.

`Policy` is a `ModelPT`: a validated config, and `.nemo` files that carry weights, config and tokenizer, so one file is
enough to go on elsewhere. `exp_manager` makes the run's folder with TensorBoard. Importing NeMo takes seconds: only
the embedded backend imports this module, when it loads.
"""

import contextlib
import dataclasses
import json
import logging
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Trainer
from nemo.core import ModelPT
from nemo.core.classes import common
from nemo.utils import logging as nemo_logging
from nemo.utils.exp_manager import exp_manager
from omegaconf import MISSING, DictConfig, OmegaConf

from assay.errors import TrainingError
from training import forward

# NeMo restores classes from these packages only.
_HOME = "training.backends._nemo_policy."
if _HOME not in common.ALLOWED_TARGET_PREFIXES:
    common.ALLOWED_TARGET_PREFIXES.append(_HOME)
nemo_logging.setLevel(nemo_logging.ERROR)
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)  # it resets its level when it is imported

_DOT = "__"  # stands for the dot of a file's name, which would separate levels in OmegaConf


@dataclasses.dataclass
class PolicyConfig:
    """What a policy is made of. `source` is where the weights were first read from; `architecture` is the model's
    config as JSON, from which a `.nemo` file is restored without `source`. `files` are the tokenizer's."""

    source: str = MISSING
    architecture: str = MISSING
    lora_rank: int = 0
    lora_alpha: int = 16
    frozen_layers: int = 0
    files: dict[str, str] = dataclasses.field(default_factory=dict)
    target: str = _HOME + "Policy"
    nemo_version: str = ""


class Policy(ModelPT):
    """`model` is the language model in float32; which of its parameters learn follows from the config."""

    def __init__(self, cfg: DictConfig, trainer: Trainer | None = None) -> None:
        config = OmegaConf.merge(OmegaConf.structured(PolicyConfig), cfg)
        super().__init__(cfg=config, trainer=trainer)
        self._folder = tempfile.TemporaryDirectory(prefix="assay-policy-")
        self.files = self._keep_files(config.files)
        restoring = self._is_model_being_restored()
        self.model = _model_of(config.architecture) if restoring else read_model(config.source)
        _choose_trainable(self.model, config)

    @classmethod
    def from_source(cls, source: str, *, lora_rank: int, lora_alpha: int, frozen_layers: int) -> "Policy":
        """The policy whose weights lie at a Hugging Face directory or hub id. TrainingError when there are none."""
        with tempfile.TemporaryDirectory(prefix="assay-policy-") as folder:
            config = PolicyConfig(
                source=source,
                architecture=_copy_small_files(source, Path(folder)),
                lora_rank=lora_rank,
                lora_alpha=lora_alpha,
                frozen_layers=frozen_layers,
                files={path.name.replace(".", _DOT): str(path) for path in sorted(Path(folder).iterdir())},
            )
            return cls(OmegaConf.structured(config))

    @property
    def trainable(self) -> dict[str, torch.nn.Parameter]:
        """The parameters that learn, by name."""
        return {name: p for name, p in self.model.named_parameters() if p.requires_grad}

    @property
    def live(self) -> Any:
        """What an engine reads weights from: `config` and `state_dict()` of the plain model."""
        return Merged(self) if self.cfg.lora_rank else self.model

    def weights(self) -> dict[str, torch.Tensor]:
        """The weights under the names of the plain model, adapters merged."""
        return _merged(self.model) if self.cfg.lora_rank else dict(self.model.state_dict())

    def _keep_files(self, files: Mapping[str, str]) -> dict[str, str]:
        """Copies of the tokenizer's files and the generation config, by name; they live as long as the policy and go
        into its `.nemo` file."""
        kept = {}
        for key, path in files.items():
            own = Path(self._folder.name) / key.replace(_DOT, ".")
            if not path.startswith("nemo:"):
                shutil.copyfile(path, own)
                path = str(own)
            found = self.register_artifact(f"files.{key}", path)
            if found != str(own):
                shutil.copyfile(found, own)
            kept[own.name] = str(own)
        return kept

    def setup_training_data(self, train_data_config: Any) -> None:
        """Batches are handed to the trainer one by one."""

    def setup_validation_data(self, val_data_config: Any) -> None:
        """Evaluation happens in environments, not on a data set."""

    @classmethod
    def list_available_models(cls) -> None:
        """None are published."""


@dataclasses.dataclass(frozen=True)
class Merged:
    """A policy with adapters, seen as the plain model."""

    policy: Policy

    @property
    def config(self) -> Any:
        return self.policy.model.config

    def state_dict(self) -> dict[str, torch.Tensor]:
        return self.policy.weights()


class Experiment:
    """A run's folder, made by `exp_manager`; a later process of the same run goes on in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._trainer = Trainer(
            accelerator="cpu",
            devices=1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        settings = {
            "explicit_log_dir": str(folder),
            "resume_if_exists": True,
            "resume_ignore_no_checkpoint": True,
            "create_tensorboard_logger": True,
            "create_checkpoint_callback": False,
            "create_preemption_callback": False,
            "log_step_timing": False,
            "log_tflops_per_sec_per_gpu": False,
        }
        exp_manager(self._trainer, OmegaConf.create(settings))

    def log(self, figures: dict[str, float], step: int) -> None:
        """Scalars for TensorBoard."""
        for logger in self._trainer.loggers:
            logger.log_metrics(figures, step)
            logger.save()

    def close(self) -> None:
        """Write what is buffered."""
        for logger in self._trainer.loggers:
            logger.finalize("success")


def read_model(source: str) -> Any:
    """The float32 model at a Hugging Face directory or hub id, with the trainer's attention."""
    from transformers import AutoModelForCausalLM
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    forward.register()
    try:
        return AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32, attn_implementation=forward.NAME)
    except (OSError, ValueError) as error:
        raise _missing(source, error) from error


def _model_of(architecture: str) -> Any:
    """A model of this architecture, its weights still to be filled in."""
    from transformers import AutoConfig, AutoModelForCausalLM

    forward.register()
    values = json.loads(architecture)
    config = AutoConfig.for_model(values.pop("model_type"), **values)
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation=forward.NAME)


def _copy_small_files(source: str, folder: Path) -> str:
    """Write the source's tokenizer and generation config into `folder`; returns the model's config as JSON."""
    from transformers import AutoConfig, AutoTokenizer, GenerationConfig

    try:
        architecture = AutoConfig.from_pretrained(source).to_json_string(use_diff=False)
        AutoTokenizer.from_pretrained(source).save_pretrained(folder)
    except (OSError, ValueError) as error:
        raise _missing(source, error) from error
    with contextlib.suppress(OSError):  # not every model has one
        GenerationConfig.from_pretrained(source).save_pretrained(folder)
    return architecture


def _choose_trainable(model: Any, config: PolicyConfig) -> None:
    if not getattr(model, "_supports_attention_backend", False):
        raise TrainingError(
            f"{type(model).__name__} does not take attention backends, so the embedded trainer can't train it. Use "
            "another model or a cluster backend."
        )
    model.train()
    if config.lora_rank:
        from peft import LoraConfig, inject_adapter_in_model

        lora = LoraConfig(r=config.lora_rank, lora_alpha=config.lora_alpha, target_modules="all-linear")
        with torch.random.fork_rng():
            torch.manual_seed(0)  # adapters start at random
            inject_adapter_in_model(lora, model)
    elif config.frozen_layers:
        layers = model.get_decoder().layers
        if config.frozen_layers > len(layers):
            raise TrainingError(f"frozen_layers is {config.frozen_layers} but the model has {len(layers)} layers.")
        model.get_input_embeddings().requires_grad_(False)
        layers[: config.frozen_layers].requires_grad_(False)


@torch.no_grad()
def _merged(model: Any) -> dict[str, torch.Tensor]:
    from peft.tuners.tuners_utils import BaseTunerLayer

    weights: dict[str, torch.Tensor] = {}
    adapted = {name: m for name, m in model.named_modules() if isinstance(m, BaseTunerLayer)}
    for name, tensor in model.state_dict().items():
        owner, _, rest = name.partition(".base_layer.")
        if rest == "weight" and owner in adapted:
            weights[f"{owner}.weight"] = tensor + adapted[owner].get_delta_weight("default")
        elif ".lora_" not in name:
            weights[name.replace(".base_layer.", ".")] = tensor
    return weights


def _missing(source: str, error: object) -> TrainingError:
    return TrainingError(
        f"The model {source!r} can't be loaded ({str(error).strip().splitlines()[0][:200]}). It must be a Hugging Face "
        "directory or a reachable hub id. For the embedded model run `python -m training.embedded_model`."
    )
