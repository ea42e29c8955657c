"""Runs under `.venv-trl`: TRL's GRPOTrainer, one step for every line on stdin, one line of JSON for every step.

Knows nothing of Assay. Settings favour TRL: no gradient checkpointing, no reference model, nothing logged or saved.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer


def say(**values: Any) -> None:
    """One line that the other side reads; libraries print lines of their own."""
    sys.stdout.write("@@ " + json.dumps(values) + "\n")
    sys.stdout.flush()


class TakeTurns(TrainerCallback):
    """Waits before every step and tells afterwards how long it took."""

    def __init__(self) -> None:
        self.started = self.generate_s = 0.0
        self.num_tokens = 0

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        if not sys.stdin.readline():
            raise SystemExit(0)
        self.generate_s, self.num_tokens = 0.0, 0
        self.started = time.perf_counter()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        total_s = time.perf_counter() - self.started
        say(total_s=total_s, generate_s=self.generate_s, num_tokens=self.num_tokens)

    def time_generation(self, trainer: GRPOTrainer) -> None:
        """Everything from prompts to completions counts as generation."""
        generate = trainer._generate

        def timed(*arguments: Any, **keywords: Any) -> Any:
            started = time.perf_counter()
            result = generate(*arguments, **keywords)
            self.generate_s += time.perf_counter() - started
            self.num_tokens += sum(map(len, result[1]))
            return result

        trainer._generate = timed


def reward(completion_ids: list[list[int]], **_: Any) -> list[float]:
    """The share of even token ids, as the other side has it."""
    return [sum(i % 2 == 0 for i in ids) / len(ids) for ids in completion_ids]


def make_trainer(order: dict[str, Any], turns: TakeTurns) -> GRPOTrainer:
    config = GRPOConfig(
        output_dir=order["folder"],
        per_device_train_batch_size=order["samples"],
        gradient_accumulation_steps=order["groups"],
        num_generations=order["samples"],
        max_completion_length=order["tokens"],
        max_steps=order["steps"],
        learning_rate=order["learning_rate"],
        lr_scheduler_type="constant",
        temperature=order["temperature"],
        top_k=0,
        top_p=1.0,
        beta=0.0,
        shuffle_dataset=False,
        gradient_checkpointing=False,
        bf16=order["dtype"] == "bfloat16",
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        dataloader_num_workers=0,
        seed=0,
    )
    tokenizer = AutoTokenizer.from_pretrained(order["model"], padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(order["model"], dtype=torch.float32)
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=reward,
        args=config,
        train_dataset=Dataset.from_list([{"prompt": prompt} for prompt in order["prompts"]]),
        processing_class=tokenizer,
        callbacks=[turns],
    )
    turns.time_generation(trainer)
    return trainer


def main() -> None:
    order = json.loads(Path(sys.argv[1]).read_text())
    torch.set_num_threads(order["threads"])
    turns = TakeTurns()
    trainer = make_trainer(order, turns)
    say(ready=True)
    trainer.train()


if __name__ == "__main__":
    main()
