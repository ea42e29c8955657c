"""Policy weights as a directory that a vLLM server can read: the published one, or an export of live weights."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from assay.errors import EngineError
from assay.records import record

BLOCK = 1 << 16
NUM_BLOCKS = 64
MEMORY = Path("/dev/shm")
INDEX = "model.safetensors.index.json"


@record
class Weights:
    """`path` is a directory or hub id. `sketch` differs only if the weights do; None when nothing is on this disk."""

    path: str
    sketch: str | None

    def surely_differ_from(self, sketch: str | None) -> bool:
        """False when they are equal, and when nobody can tell."""
        return None not in (sketch, self.sketch) and sketch != self.sketch


@contextmanager
def exported(live: Any, tokenizer: Any, folder: str, dtype: str) -> Iterator[Weights]:
    """The trainer's weights as a whole Hugging Face directory in `folder`, or in memory when that is empty.

    `live` has `config` and `state_dict()`; `dtype`, bfloat16 or float32, is what the server computes in. The directory
    is gone after the block.
    """
    import torch
    from safetensors.torch import save_file

    state = _untied(live.state_dict(), getattr(torch, dtype))
    num_bytes = sum(tensor.numel() * tensor.element_size() for tensor in state.values())
    with tempfile.TemporaryDirectory(dir=folder or _scratch(num_bytes), prefix="assay-weights-") as name:
        directory = Path(name)
        live.config.save_pretrained(directory)
        tokenizer.save_pretrained(directory)
        save_file(state, directory / "model.safetensors", metadata={"format": "pt"})
        _let_others_read(directory)
        yield Weights(path=str(directory), sketch=sketch(directory))


@contextmanager
def published(uri: str) -> Iterator[Weights]:
    """The weights at `uri`, a directory or hub id. Raises EngineError when it looks like a path but holds none."""
    directory = Path(uri)
    if directory.is_dir():
        with _model_files_only(directory.absolute()) as clean:
            yield Weights(path=str(clean), sketch=sketch(clean))
    elif directory.is_absolute() or uri.startswith("."):
        raise EngineError(f"The policy's weights {uri} are not there; publish the version or name another one.")
    else:
        yield Weights(path=uri, sketch=None)


def sketch(directory: Path) -> str:
    """A digest of evenly spaced blocks of every weight file.

    Unequal sketches prove unequal weights, in milliseconds. Equal ones prove nothing.
    """
    digest = hashlib.sha256()
    for path in sorted(directory.glob("*.safetensors")):
        size = path.stat().st_size
        with path.open("rb") as file:
            for i in range(NUM_BLOCKS):
                file.seek(i * max(size - BLOCK, 0) // (NUM_BLOCKS - 1))
                digest.update(file.read(BLOCK))
    return digest.hexdigest()


@contextmanager
def _model_files_only(directory: Path) -> Iterator[Path]:
    """`directory`, or a view of it: vLLM would take every *.safetensors in it, the trainer's state too, for weights."""
    files = sorted(directory.glob("*.safetensors"))
    extra = {file for file in files if not file.name.startswith("model")}
    if len(extra) == len(files):
        raise EngineError(f"{directory} holds no model*.safetensors; publish the policy as a Hugging Face directory.")
    if not extra or (directory / INDEX).is_file():
        yield directory
        return
    with tempfile.TemporaryDirectory(prefix="assay-weights-") as name:
        for path in set(directory.iterdir()) - extra:
            (Path(name) / path.name).symlink_to(path)
        Path(name).chmod(0o755)
        yield Path(name)


def _untied(state: Any, dtype: Any) -> dict[str, Any]:
    """Copies in `dtype`, tied weights once, as safetensors wants them."""
    kept: dict[str, Any] = {}
    seen: set[int] = set()
    for name, tensor in state.items():
        if tensor.data_ptr() not in seen:
            seen.add(tensor.data_ptr())
            kept[name] = (tensor.to(dtype) if tensor.is_floating_point() else tensor).detach().contiguous()
    return kept


def _scratch(num_bytes: int) -> str:
    """Shared memory when it has room for the weights twice, else the machine's temporary folder."""
    if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 2 * num_bytes:
        return str(MEMORY)
    return tempfile.gettempdir()


def _let_others_read(directory: Path) -> None:
    """The server may run as another user."""
    directory.chmod(0o755)
    for file in directory.iterdir():
        file.chmod(0o644)
