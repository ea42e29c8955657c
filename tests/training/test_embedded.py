"""The embedded trainer on a tiny model: what it does to weights, what it leaves on disk, how it resumes."""

import importlib
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from assay.errors import ConfigurationError, TrainingError
from assay.records import Image, TrainingBatch, TrainingSample
from assay.registry import build_plugin
from tests.training.making import a_batch, a_policy, a_sample
from training.backends.embedded import EmbeddedTrainer

PROMPT = [4, 20, 21, 22, 2, 5]


class Lab:
    """Makes trainers on the tiny model, each with a run folder of its own, and closes them."""

    def __init__(self, model: Path, folder: Path) -> None:
        self.model, self.folder = model, folder
        self.trainers: list[EmbeddedTrainer] = []

    def trainer(self, uri: Path | None = None, *, num_updates: int = 0, **options: Any) -> EmbeddedTrainer:
        trainer: EmbeddedTrainer = build_plugin("trainer", "embedded", {"num_threads": 1, **options})
        trainer.load(a_policy(uri or self.model, num_updates=num_updates), self.run_dir(len(self.trainers)))
        self.trainers.append(trainer)
        return trainer

    def run_dir(self, number: int) -> Path:
        return self.folder / f"run{number}"


@pytest.fixture
def lab(tiny: Path, tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tiny, tmp_path)
    yield lab
    for trainer in lab.trainers:
        trainer.close()


def samples(num_groups: int = 3, size: int = 4, **options: Any) -> list[TrainingSample]:
    """Groups of different prompts; even members are better than odd ones."""
    return [
        a_sample(
            f"{g}.{i}",
            f"g{g}",
            [*PROMPT[:3], 30 + g, *PROMPT[3:]],
            ([40 + i, 41 + g, 2], True),
            advantage=1.0 if i % 2 == 0 else -1.0,
            logprob=-math.log(102),
            **options,
        )
        for g in range(num_groups)
        for i in range(size)
    ]


def weights(trainer: EmbeddedTrainer) -> dict[str, torch.Tensor]:
    assert trainer.live is not None
    return {name: tensor.clone() for name, tensor in trainer.live.state_dict().items()}


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[n], second[n]) for n in first)


def logprob_of(trainer: EmbeddedTrainer, sample: TrainingSample) -> float:
    from training.forward import token_logprobs
    from training.packing import make_packs

    (pack,) = make_packs([sample], 10_000)
    with torch.no_grad():
        return float(token_logprobs(trainer.live, pack).sum())


def test_a_step_favours_better_siblings_over_worse_ones(lab: Lab) -> None:
    trainer, group = lab.trainer(learning_rate=1e-3), samples(1)
    before = [logprob_of(trainer, s) for s in group]
    result = trainer.train(a_batch(group))
    gains = [logprob_of(trainer, s) - b for s, b in zip(group, before, strict=True)]
    assert min(gains[::2]) > max(gains[1::2])
    assert result.num_updates == 1
    assert result.metrics["num_loss_tokens"] == 12
    assert result.metrics["num_computed_tokens"] < result.metrics["num_tokens"]


def test_a_warm_start_lowers_the_loss_over_its_epochs(lab: Lab) -> None:
    trainer = lab.trainer(sft_learning_rate=3e-3, sft_epochs=6, sft_batch_size=5)
    shown = a_batch(samples(2), "sft")
    positive = TrainingBatch(
        policy_version="p", kind="sft", samples=tuple(s for s in shown.samples if s.advantage > 0), dropped={}
    )
    before = sum(logprob_of(trainer, s) for s in positive.samples)
    result = trainer.train(positive)
    assert result.num_updates == 6  # four demonstrations fit into one minibatch
    assert sum(logprob_of(trainer, s) for s in positive.samples) > before


def test_grpo_does_not_go_on_with_the_moments_of_a_warm_start(lab: Lab) -> None:
    trainer = lab.trainer(sft_epochs=3)
    trainer.train(a_batch(samples(2), "sft"))
    trainer.train(a_batch(samples()))
    trainer.train(a_batch(samples(2, 6)))
    steps = {float(state["step"]) for state in trainer._optimizer.state.values()}
    assert steps == {2.0}  # the two of GRPO; with the warm start's they would be five


def test_training_goes_on_after_publishing_and_loading_as_if_nothing_had_happened(lab: Lab) -> None:
    straight, stopped = lab.trainer(), lab.trainer()
    for trainer in (straight, stopped):
        trainer.train(a_batch(samples()))
    directory = lab.folder / "published"
    stopped.publish(directory)
    stopped.close()
    resumed = lab.trainer(directory, num_updates=1)
    for trainer in (straight, resumed):
        trainer.train(a_batch(samples(2, 6)))
    assert same(weights(straight), weights(resumed))


def test_the_number_of_workers_changes_nothing(lab: Lab) -> None:
    one, three = lab.trainer(max_pack_tokens=10), lab.trainer(max_pack_tokens=10, num_threads=3)
    for trainer in (one, three):
        trainer.train(a_batch(samples(6)))
    assert same(weights(one), weights(three))


def test_how_a_batch_is_packed_changes_nothing_but_rounding(lab: Lab) -> None:
    first, second = lab.trainer(max_pack_tokens=1), lab.trainer(max_pack_tokens=100_000)
    norms = [t.train(a_batch(samples(6))).metrics["grad_norm"] for t in (first, second)]
    assert norms[0] == pytest.approx(norms[1], rel=1e-4)


def test_groups_that_agree_belong_to_the_mean(lab: Lab) -> None:
    few = a_batch(samples(2, 4))  # 8 samples
    many = TrainingBatch(policy_version="p", kind="grpo", samples=few.samples, dropped={"no_signal": 24, "invalid": 9})
    alone, among = (lab.trainer().train(batch).metrics["grad_norm"] for batch in (few, many))
    assert among == pytest.approx(alone * 8 / 32, rel=1e-4)


def test_a_pack_that_fails_fails_the_batch_with_its_reason(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = lab.trainer(max_pack_tokens=1, num_threads=2)
    before = weights(trainer)

    def broken(logprobs: torch.Tensor, pack: Any) -> Any:
        if pack.token_ids[3] == 32:
            raise RuntimeError("out of memory")
        return logprobs.sum(), {}

    monkeypatch.setattr(trainer, "_grpo_loss", broken)
    with pytest.raises((RuntimeError, TrainingError), match="out of memory"):
        trainer.train(a_batch(samples(4)))
    assert same(weights(trainer), before)


def test_a_batch_can_be_split_into_several_steps(lab: Lab) -> None:
    assert lab.trainer(updates_per_batch=2).train(a_batch(samples(5))).num_updates == 2
    assert lab.trainer(updates_per_batch=9).train(a_batch(samples(5))).num_updates == 5


def test_a_loss_that_is_not_finite_is_an_error_and_takes_no_step(lab: Lab) -> None:
    trainer = lab.trainer()
    before = weights(trainer)
    bad = [a_sample("bad", "g", PROMPT, ([7, 2], True), advantage=3e38, logprob=-100)]
    with pytest.raises(TrainingError, match="not finite"):
        trainer.train(a_batch(bad))
    assert same(weights(trainer), before)
    trainer.train(a_batch(samples()))  # and it can go on


def test_an_empty_batch_is_an_error_that_says_what_was_dropped(lab: Lab) -> None:
    empty = TrainingBatch(policy_version="p", kind="grpo", samples=(), dropped={"no_signal": 8})
    with pytest.raises(TrainingError, match=r"no_signal.*8"):
        lab.trainer().train(empty)


def test_samples_with_images_are_refused_and_nothing_is_trained(lab: Lab) -> None:
    trainer, (first, *rest) = lab.trainer(), samples(1)
    before = weights(trainer)
    with pytest.raises(TrainingError, match=r"1 samples of batch .* hold images"):
        trainer.train(a_batch([replace(first, images=(Image(data=b"x"),)), *rest]))
    assert same(before, weights(trainer))


def test_a_published_directory_is_an_ordinary_model(lab: Lab) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    trainer = lab.trainer()
    trainer.train(a_batch(samples()))
    directory = lab.folder / "published"
    digest = trainer.publish(directory)
    model = AutoModelForCausalLM.from_pretrained(directory)
    assert model.dtype == torch.bfloat16
    for name, tensor in weights(trainer).items():
        assert torch.equal(model.state_dict()[name], tensor.to(torch.bfloat16))
    assert AutoTokenizer.from_pretrained(directory).chat_template
    assert trainer.publish(directory) == digest  # publishing again replaces it by the same


def test_a_directory_can_be_cleared_away_while_its_state_is_written(lab: Lab) -> None:
    import shutil

    trainer = lab.trainer()
    trainer.train(a_batch(samples()))
    trainer.publish(lab.folder / "short-lived")
    shutil.rmtree(lab.folder / "short-lived", ignore_errors=True)
    trainer.train(a_batch(samples()))


def test_without_its_state_a_published_policy_is_trained_from_its_weights(lab: Lab) -> None:
    trainer = lab.trainer(resumable=False)
    trainer.train(a_batch(samples()))
    trainer.publish(lab.folder / "published")
    assert not list((lab.folder / "published").glob("trainer_state*"))
    lab.trainer(lab.folder / "published", num_updates=1).train(a_batch(samples()))


def test_a_state_of_other_settings_is_refused(lab: Lab) -> None:
    trainer = lab.trainer()
    trainer.publish(lab.folder / "published")
    trainer.close()
    with pytest.raises(TrainingError, match="does not fit"):
        lab.trainer(lab.folder / "published", lora_rank=2)


def test_adapters_learn_alone_and_are_merged_for_everybody_else(lab: Lab) -> None:
    from transformers import AutoModelForCausalLM

    trainer = lab.trainer(lora_rank=4, learning_rate=1e-2)
    before = weights(trainer)
    trainer.train(a_batch(samples()))
    after = weights(trainer)
    assert before.keys() == after.keys() == AutoModelForCausalLM.from_pretrained(lab.model).state_dict().keys()
    assert torch.equal(before["model.embed_tokens.weight"], after["model.embed_tokens.weight"])
    assert not torch.equal(before["model.layers.0.mlp.up_proj.weight"], after["model.layers.0.mlp.up_proj.weight"])
    trainer.publish(lab.folder / "published")
    trainer.close()
    resumed = lab.trainer(lab.folder / "published", lora_rank=4, learning_rate=1e-2)
    for name, tensor in weights(resumed).items():
        torch.testing.assert_close(tensor, after[name])


def test_frozen_layers_do_not_learn(lab: Lab) -> None:
    trainer = lab.trainer(frozen_layers=1)
    before = weights(trainer)
    trainer.train(a_batch(samples()))
    changed = {name for name, tensor in weights(trainer).items() if not torch.equal(tensor, before[name])}
    assert "model.layers.1.mlp.up_proj.weight" in changed
    assert not any(name.startswith(("model.layers.0.", "model.embed")) for name in changed)


def test_the_divergence_from_a_reference_is_zero_at_first_and_grows(lab: Lab) -> None:
    trainer = lab.trainer(kl_coef=0.1, reference=str(lab.model), learning_rate=1e-2)
    first, second = (trainer.train(a_batch(samples())).metrics["kl"] for _ in range(2))
    assert first == pytest.approx(0, abs=1e-6)
    assert second > 1e-4


def test_scalars_are_in_tensorboard_and_a_later_process_goes_on_in_the_same_folder(lab: Lab) -> None:
    accumulator = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")

    first = lab.trainer()
    first.train(a_batch(samples()))
    first.close()
    lab.trainers.clear()
    second = lab.trainer(num_updates=1)
    second.train(a_batch(samples()))
    second.close()
    steps = []
    for file in sorted(lab.run_dir(0).rglob("events.out.tfevents.*")):
        log = accumulator.EventAccumulator(str(file))
        log.Reload()
        if "grpo/loss" in log.Tags()["scalars"]:
            steps += [event.step for event in log.Scalars("grpo/loss")]
    assert sorted(steps) == [1, 2]


def test_a_nemo_file_holds_everything_that_the_policy_is(lab: Lab) -> None:
    from training.backends._nemo_policy import Policy

    trainer = lab.trainer(save_nemo=True)
    trainer.train(a_batch(samples()))
    trained = weights(trainer)
    trainer.close()
    restored = Policy.restore_from(str(lab.run_dir(0) / "policy.nemo"))
    assert same(dict(restored.model.state_dict()), trained)
    assert {"tokenizer.json", "chat_template.jinja"} <= restored.files.keys()
    assert Path(restored.files["tokenizer.json"]).read_bytes() == (lab.model / "tokenizer.json").read_bytes()


def test_a_missing_model_is_a_clear_error(lab: Lab) -> None:
    with pytest.raises(TrainingError, match=r"nowhere.*can't be loaded.*embedded_model"):
        lab.trainer(lab.folder / "nowhere")


def test_settings_that_decide_nothing_do_not_change_the_digest() -> None:
    def digest(**options: Any) -> str:
        return EmbeddedTrainer(EmbeddedTrainer.Config(**options)).settings_digest()

    assert digest() == digest(num_threads=3) == digest(resumable=False)
    assert digest() != digest(learning_rate=1e-4)


def test_settings_that_exclude_each_other_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="reference"):
        build_plugin("trainer", "embedded", {"kl_coef": 0.1})
    with pytest.raises(ConfigurationError, match="exclude"):
        build_plugin("trainer", "embedded", {"lora_rank": 4, "frozen_layers": 1})
