"""A command line made into a validated config: preset or file, then overrides, then the checks that need no work.

Everything wrong is found here, before anything starts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from assay.config import DomainConfig, PostTrainConfig, parse_config, presets
from assay.errors import ConfigurationError, unknown_choice


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the command line asks for; None and empty mean: as the preset has it."""

    preset: str = "embedded"
    file: Path | None = None
    sets: Sequence[str] = ()
    domains: str = ""
    plugins: dict[str, str | None] = field(default_factory=dict)
    model: str | None = None
    seed: int | None = None
    iterations: int | None = None


def build_config(wishes: Wishes) -> PostTrainConfig:
    """The config asked for. Raises ConfigurationError naming the key, its value and what is allowed."""
    raw = _from_file(wishes.file) if wishes.file else _from_preset(wishes.preset)
    for text in wishes.sets:
        set_path(raw, *assignment(text))
    for key in ("model", "seed", "iterations"):
        if getattr(wishes, key) is not None:
            raw[key] = getattr(wishes, key)
    if wishes.domains:
        raw["domains"] = _chosen_domains(raw.get("domains") or {}, wishes.domains)
    for kind in ("engine", "sandbox", "trainer"):
        _choose_plugin(raw, kind, wishes.plugins.get(kind))
    return parse_config(raw)


def check_plugins(config: PostTrainConfig) -> None:
    """Raise ConfigurationError unless every plugin exists and takes its options."""
    from assay.registry import check_options
    from environments.catalogue import check_domain

    for name, domain in config.domains.items():
        check_domain(name, domain.options)
    for kind, choice in (("sandbox", config.sandbox), ("engine", config.engine), ("trainer", config.trainer)):
        check_options(kind, choice.id, dict(choice.options))


def set_path(raw: dict[str, Any], path: str, value: Any) -> None:
    """Set `rollout.temperature` and the like in nested dictionaries; ConfigurationError if a parent is a value."""
    *parents, last = path.split(".")
    node = raw
    for depth, key in enumerate(parents, start=1):
        child = node.setdefault(key, {})
        if not isinstance(child, dict):
            where = ".".join(parents[:depth])
            raise ConfigurationError(f"Cannot set {path}: {where} is the value {child!r} and has no keys.")
        node = child
    node[last] = value


def assignment(text: str) -> tuple[str, Any]:
    """The path and the YAML value of `key=value`; ConfigurationError when it is not that."""
    path, equals, value = text.partition("=")
    if not equals or not all(path.split(".")):
        raise ConfigurationError(f"--set {text!r} is not key=value. Example: --set rollout.temperature=1.0.")
    try:
        return path, yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise ConfigurationError(f"--set {path}: {value!r} is not a YAML value: {error}.") from error


def _from_preset(name: str) -> dict[str, Any]:
    known = presets()
    if name not in known:
        raise unknown_choice("preset", name, known)
    # A deep copy: presets share YAML anchors, and overrides must not leak from one into another.
    return dict(yaml.safe_load(yaml.safe_dump(known[name])))


def _from_file(path: Path) -> dict[str, Any]:
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"Cannot read the config file {path}: {error.strerror}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"The config file {path} is not YAML: {error}.") from error
    if not isinstance(raw, dict):
        raise ConfigurationError(f"The config file {path} holds {type(raw).__name__}, not keys; see the presets.")
    return raw


def _chosen_domains(known: dict[str, Any], names: str) -> dict[str, Any]:
    from assay.registry import known_plugins
    from environments.catalogue import check_domain

    chosen = {}
    for name in filter(None, (part.strip() for part in names.split(","))):
        if name not in known and name not in known_plugins("domain"):
            check_domain(name, {})
        chosen[name] = known.get(name, DomainConfig.model_validate({}).model_dump())
    if not chosen:
        raise unknown_choice("domain", names, known_plugins("domain"))
    return chosen


def _choose_plugin(raw: dict[str, Any], kind: str, plugin_id: str | None) -> None:
    """Options belong to one plugin: they stay only when it stays. Options alone are for the default plugin."""
    default = PostTrainConfig.model_fields[kind].default.id
    current = raw.get(kind)
    if isinstance(current, dict):
        current.setdefault("id", default)
    if plugin_id and plugin_id != (current or {}).get("id", default):
        raw[kind] = {"id": plugin_id}


# Seconds per trajectory on one CPU core with the embedded model: sampling with its share of the training step, and
# sampling alone. Measured; a busy machine needs up to twice as much.
_TRAIN_S, _SAMPLE_S, _START_S = 0.3, 0.1, 75.0


def expected_s(config: PostTrainConfig) -> float | None:
    """Rough seconds a run of the embedded model takes on two CPU cores; None for any other model or trainer."""
    if config.model or config.trainer.id != "embedded":
        return None
    evaluations = 2 + config.iterations // config.evaluate_every
    total = _START_S
    for domain in config.domains.values():
        groups = min(domain.groups_per_iteration, domain.num_train) * config.iterations
        estimates = min(config.solvability.num_tasks, domain.num_train) * config.solvability.samples_per_task
        total += groups * config.rollout.group_size * _TRAIN_S
        total += (estimates + evaluations * domain.num_heldout) * _SAMPLE_S + domain.demonstrations * 0.5
    return total
