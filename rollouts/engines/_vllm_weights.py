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


@record
class Weights:
    """`path` is a directory or hub id. `sketch` differs only if the weights do; None when nothing is on this disk."""

    path: str
    sketch: str | None


@contextmanager
def exported(live: Any, folder: str, dtype: str) -> Iterator[Weights]:
    """`live` (a transformers module) as a directory in `folder`, in memory when that is empty; gone afterwards.

    `dtype` is what the server computes in: bfloat16 or float32.
    """
    num_bytes = 4 * sum(parameter.numel() for parameter in live.parameters())
    with tempfile.TemporaryDirectory(dir=folder or _scratch(num_bytes), prefix="assay-weights-") as directory:
        # Another user's server must be able to read it.
        os.chmod(directory, 0o755)
        live.save_pretrained(directory, state_dict=_state(live, dtype))
        for file in Path(directory).iterdir():
            file.chmod(0o644)
        yield Weights(path=directory, sketch=sketch(Path(directory)))


def published(uri: str) -> Weights:
    """The weights at `uri`. Raises EngineError when it looks like a path but holds no weights."""
    directory = Path(uri)
    if directory.is_dir():
        if not any(directory.glob("*.safetensors")):
            raise EngineError(f"{directory} holds no *.safetensors; publish the policy as a Hugging Face directory.")
        return Weights(path=str(directory.absolute()), sketch=sketch(directory))
    if directory.is_absolute() or uri.startswith("."):
        raise EngineError(f"The policy's weights {uri} are not there; publish the version or name another one.")
    return Weights(path=uri, sketch=None)


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


def _state(live: Any, dtype: str) -> dict[str, Any]:
    """The state with tied weights once, as safetensors wants it, in the precision that is served."""
    convert = "bfloat16" if dtype == "bfloat16" else "float"
    state: dict[str, Any] = {}
    seen: set[int] = set()
    for name, tensor in live.state_dict().items():
        if tensor.data_ptr() not in seen:
            seen.add(tensor.data_ptr())
            state[name] = getattr(tensor, convert)() if tensor.is_floating_point() else tensor
    return state


def _scratch(num_bytes: int) -> str:
    """Shared memory when it has room for the weights twice, else the machine's temporary folder."""
    if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 2 * num_bytes:
        return str(MEMORY)
    return tempfile.gettempdir()
