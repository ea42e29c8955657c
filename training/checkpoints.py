"""What a trainer leaves on disk: a Hugging Face directory for everybody, and in it its own state to go on from.

A directory appears complete or not at all, and so does the state, which follows later: it is six times as large.
"""

import copy
import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from assay.errors import TrainingError

# Not *.safetensors: servers load every file of that name as weights.
STATE = "trainer_state.st"
WEIGHTS = "model.safetensors"
_MOMENTS = ("step", "exp_avg", "exp_avg_sq")


def write_model(
    directory: Path,
    model: Any,
    weights: Mapping[str, torch.Tensor],
    files: Mapping[str, str],
    dtype: torch.dtype,
) -> str:
    """Write config, weights in `dtype` and `files` (name -> source path); replaces a directory that is there. Returns
    the digest of the weights file."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=directory.parent, prefix=f".{directory.name}."))
    scratch.chmod(0o755)  # others may serve what this process trained
    try:
        _write_config(scratch, model, dtype)
        _save({n: t.to(dtype).contiguous() for n, t in _untied(weights).items()}, scratch / WEIGHTS)
        for name, source in files.items():
            shutil.copyfile(source, scratch / name)
        digest = _digest(scratch / WEIGHTS)
        _replace(scratch, directory)
    except (OSError, SafetensorError) as error:
        raise _unwritable(directory, error) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return digest


def write_state(directory: Path, state: Mapping[str, torch.Tensor]) -> None:
    """Add the trainer's state to a published directory, complete or not at all. Nothing happens when the directory
    is gone: somebody has cleared it away meanwhile."""
    partial = directory / f".{STATE}.partial"
    try:
        _save(state, partial)
        os.replace(partial, directory / STATE)
    except (OSError, SafetensorError) as error:
        if directory.is_dir():
            raise _unwritable(directory, error) from error


def state_of(model: Any, optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """All weights as they are in memory, and AdamW's step and moments of those that learn."""
    state = {}
    for name, parameter in model.named_parameters():
        state[f"weight/{name}"] = parameter.detach()
        state |= {f"{key}/{name}": value for key, value in optimizer.state.get(parameter, {}).items()}
    return state


@torch.no_grad()
def restore_state(model: Any, optimizer: torch.optim.Optimizer, state: Mapping[str, torch.Tensor]) -> None:
    """The inverse of `state_of`; an empty state changes nothing. TrainingError when it belongs to other settings."""
    learning = {id(p) for group in optimizer.param_groups for p in group["params"]}
    for name, parameter in model.named_parameters() if state else ():
        weight = state.get(f"weight/{name}")
        if weight is None or weight.shape != parameter.shape:
            raise TrainingError(
                f"The state published with this policy does not fit the trainer's settings ({name} is missing or has "
                f"another shape). Use the settings it was trained with, or remove {STATE} to start from the weights."
            )
        parameter.copy_(weight)
        moments = {key: state[f"{key}/{name}"] for key in _MOMENTS if f"{key}/{name}" in state}
        if moments and id(parameter) in learning:
            optimizer.state[parameter] = moments


def read_state(directory: Path) -> dict[str, torch.Tensor]:
    """The trainer's state in a published directory; empty when there is none. TrainingError when it is damaged."""
    path = directory / STATE
    if not path.is_file():
        return {}
    try:
        with safe_open(path, framework="pt") as stored:
            return {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 - not a mapping
    except SafetensorError as error:
        raise TrainingError(
            f"{path} is damaged ({error}). Remove it to train on from the weights without the optimiser's state."
        ) from error


def _unwritable(directory: Path, error: Exception) -> TrainingError:
    return TrainingError(
        f"The policy can't be written to {directory}: {error}. Make the folder writable and see that the disk has room "
        "(about ten times the size of the weights in bfloat16)."
    )


def _write_config(directory: Path, model: Any, dtype: torch.dtype) -> None:
    config = copy.deepcopy(model.config)
    config.dtype = dtype
    config.architectures = [type(model).__name__]
    config.save_pretrained(directory)


def _untied(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Each tensor once: tied weights share their memory, and the model ties them again when it is loaded."""
    seen: set[tuple[int, torch.Size]] = set()
    kept = {}
    for name, tensor in weights.items():
        place = (tensor.data_ptr(), tensor.shape)
        if place not in seen:
            seen.add(place)
            kept[name] = tensor
    return kept


def _save(tensors: Mapping[str, torch.Tensor], path: Path) -> None:
    save_file(dict(tensors), path, metadata={"format": "pt"})
    path.chmod(0o644)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _replace(source: Path, directory: Path) -> None:
    if directory.exists():
        old = source.with_name(source.name + ".old")
        os.rename(directory, old)
        os.rename(source, directory)
        shutil.rmtree(old)
    else:
        os.rename(source, directory)
