"""What to do: the parameters of the flows, as a person or a schedule writes them. Unknown keys are errors.

Presets are named values of `PostTrainConfig`; they live in `prefect.yaml` under `definitions.presets`, where the
deployments use them too.
"""

from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from assay.errors import ConfigurationError, unknown_choice
from assay.ids import short_id


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PluginChoice(_Strict):
    """A plugin and its options; the options are checked against the plugin's own Config."""

    id: str
    options: dict[str, Any] = Field(default_factory=dict)


class DomainConfig(_Strict):
    """How much of one domain takes part."""

    num_train: int = Field(48, ge=1, le=100_000, description="Tasks in the training pool")
    num_heldout: int = Field(48, ge=1, le=10_000, description="Held-out tasks for evaluation")
    groups_per_iteration: int = Field(8, ge=1, le=1024, description="Groups rolled out per iteration")
    demonstrations: int = Field(0, ge=0, le=100_000, description="Oracle demonstrations for the warm start")
    include_defects: bool = Field(False, description="Add the domain's deliberately broken tasks")
    options: dict[str, Any] = Field(default_factory=dict, description="The domain's own options")


class InspectionConfig(_Strict):
    """How tasks are proven."""

    repetitions: int = Field(3, ge=1, le=100, description="Oracle and no-op runs that must agree")
    seed: int = 0


class SolvabilityConfig(_Strict):
    """How the trainable band is found. Rates are of the posterior mean."""

    samples_per_task: int = Field(4, ge=1, le=256, description="Rollouts per task for a first estimate")
    num_tasks: int = Field(24, ge=1, le=100_000, description="Tasks per domain that are estimated afresh")
    min_rate: float = Field(0.12, ge=0, le=1, description="Below it a task is too hard: 0 of 4 has mean 0.10")
    max_rate: float = Field(0.88, ge=0, le=1, description="Above it a task is saturated: 4 of 4 has mean 0.90")
    max_age: int = Field(3, ge=0, le=1000, description="Policy versions after which an outcome no longer counts")

    @model_validator(mode="after")
    def _ordered(self) -> "SolvabilityConfig":
        if self.min_rate >= self.max_rate:
            raise ValueError(f"min_rate {self.min_rate} must be below max_rate {self.max_rate}")
        return self


class RolloutConfig(_Strict):
    """How trajectories are sampled."""

    group_size: int = Field(8, ge=2, le=256)
    temperature: float = Field(0.8, gt=0, le=2)
    max_concurrency: int = Field(64, ge=1, le=10_000, description="Episodes at once")
    max_invalid_rate: float = Field(0.5, ge=0, le=1, description="More invalid rollouts than this fail the batch")
    deadline_s: float = Field(1800, gt=0, description="One rollout's time limit, its wait for the engine included")
    state_hashes: bool = Field(
        False, description="Record a digest of the work dir after every turn, which `assay replay` compares"
    )


class PostTrainConfig(_Strict):
    """Everything `post_train` needs besides the machine's settings."""

    name: str = Field("post-train", min_length=1, max_length=80)
    seed: int = Field(0, ge=0)
    model: str = Field("", description="Hub id or path of the base model; empty means the machine's default")
    domains: dict[str, DomainConfig] = Field(min_length=1)
    engine: PluginChoice = PluginChoice(id="transformers")
    sandbox: PluginChoice = PluginChoice(id="bubblewrap")
    trainer: PluginChoice = PluginChoice(id="embedded")
    inspection: InspectionConfig = InspectionConfig()
    solvability: SolvabilityConfig = SolvabilityConfig()
    rollout: RolloutConfig = RolloutConfig()
    iterations: int = Field(10, ge=1, le=100_000)
    evaluate_every: int = Field(5, ge=1, description="Iterations between held-out evaluations; the last is evaluated")
    keep_versions: int = Field(2, ge=1, description="Published weights kept besides base, warm start and latest")

    def digest(self) -> str:
        """Identity of the work this config describes; runs of equal configs resume each other."""
        return short_id("cfg", self.model_dump(mode="json"))


class StageConfig(_Strict):
    """One stage of a run, for flows started by themselves. Empty fields mean the newest of the run."""

    run: PostTrainConfig
    run_id: str = Field("", description="Empty: the newest run of this config, or a new one")
    policy: str = Field("", description="Policy id; empty: the newest of the run")
    iteration: int = Field(-1, ge=-1, description="-1: the one after the newest trained policy")


def prefect_yaml() -> Path:
    """`prefect.yaml` of the checkout, or the copy that ships in the wheel."""
    root = Path(__file__).resolve().parent
    for candidate in (root.parent / "prefect.yaml", root / "prefect.yaml"):
        if candidate.is_file():
            return candidate
    raise ConfigurationError(f"prefect.yaml was found neither in {root.parent} nor in {root}; reinstall Assay.")


def presets() -> dict[str, dict[str, Any]]:
    """Raw presets by name."""
    document = yaml.safe_load(prefect_yaml().read_text())
    return dict(document["definitions"]["presets"])


def load_preset(name: str, overrides: dict[str, Any] | None = None) -> PostTrainConfig:
    """A preset with dotted overrides applied: `{"rollout.temperature": 1.0}`."""
    known = presets()
    if name not in known:
        raise unknown_choice("preset", name, known)
    raw: dict[str, Any] = yaml.safe_load(yaml.safe_dump(known[name]))
    for path, value in (overrides or {}).items():
        _set_path(raw, path, value)
    return parse_config(raw)


def parse_config(raw: dict[str, Any]) -> PostTrainConfig:
    """A validated config; ConfigurationError lists every wrong key with its path, value and what is expected."""
    try:
        return PostTrainConfig(**raw)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, e['loc']))}: {e['msg']} (got {e.get('input')!r})" for e in error.errors()
        )
        raise ConfigurationError(f"The config is not valid: {problems}.") from error


def _set_path(raw: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for key in parents:
        raw = raw.setdefault(key, {})
    raw[last] = value
