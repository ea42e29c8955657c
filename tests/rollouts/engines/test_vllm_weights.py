"""Weights on their way to a vLLM server: exports of live modules, published directories, sketches."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from assay.errors import EngineError
from rollouts.chat import ChatTokenizer
from rollouts.engines._vllm_weights import BLOCK, exported, published, sketch
from training.tiny_model import build_tiny_model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return build_tiny_model(tmp_path / "model", layers=1, hidden=64)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_an_export_reads_back_as_the_live_model_and_is_gone_afterwards(model: Path, tmp_path: Path, dtype: str) -> None:
    live = AutoModelForCausalLM.from_pretrained(model)
    with torch.no_grad():
        live.model.norm.weight.fill_(1.5)
    with exported(live, ChatTokenizer(str(model)).tokenizer, str(tmp_path), dtype) as weights:
        back = AutoModelForCausalLM.from_pretrained(weights.path, dtype=torch.float32)
        for (name, ours), theirs in zip(live.named_parameters(), back.parameters(), strict=True):
            assert torch.equal(ours.to(getattr(torch, dtype)).float(), theirs), name
        assert AutoTokenizer.from_pretrained(weights.path).chat_template
        assert "lm_head.weight" not in load_file(Path(weights.path) / "model.safetensors"), "tied weights go once"
    assert not Path(weights.path).exists()


def test_a_published_directory_is_served_as_it_is(model: Path) -> None:
    with published(str(model)) as weights:
        assert weights.path == str(model)


def test_a_trainers_state_beside_the_weights_is_hidden_from_the_server(model: Path) -> None:
    save_file({"weight/x": torch.zeros(3)}, model / "trainer_state.safetensors")
    with published(str(model)) as weights:
        served = Path(weights.path)
        assert [file.name for file in served.glob("*.safetensors")] == ["model.safetensors"]
        assert AutoModelForCausalLM.from_pretrained(served).config.num_hidden_layers == 1
        assert ChatTokenizer(weights.path).stop_token_ids
    assert not served.exists()
    assert (model / "model.safetensors").is_file()


def test_a_directory_without_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"holds no model\*\.safetensors"), published(str(tmp_path)):
        pass


def test_a_hub_id_is_passed_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    with published("org/model") as weights:
        assert weights.path == "org/model"
        assert not weights.surely_differ_from("x"), "nobody can tell"


def test_a_sketch_sees_the_first_and_the_last_byte_of_a_large_file(tmp_path: Path) -> None:
    content = bytearray(200 * BLOCK + 7)
    path = tmp_path / "model.safetensors"
    sketches = []
    for change in (None, 0, len(content) - 1):
        changed = bytearray(content)
        if change is not None:
            changed[change] = 1
        path.write_bytes(changed)
        sketches.append(sketch(tmp_path))
    path.write_bytes(content)
    assert len(set(sketches)) == 3
    assert sketch(tmp_path) == sketches[0]
