"""What both sides of a benchmark work on: one model, real prompts, and completions of exactly one length.

The model is the machine's, with an end token that it never says, so that neither side stops early and both sample the
same number of tokens. Nothing else about it changes.
"""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.errors import ConfigurationError
from assay.records import PolicyVersion
from assay.registry import build_plugin
from assay.settings import settings

TEMPERATURE = 0.8
LEARNING_RATE = 2e-5
SEED = 17
# No special tokens: the text's last newline opens the answer.
TEMPLATE = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"


@dataclass(frozen=True)
class Workload:
    """`groups` prompts of `samples` completions of `tokens` tokens."""

    groups: int
    samples: int
    tokens: int

    @property
    def num_tokens(self) -> int:
        return self.groups * self.samples * self.tokens

    def prompts(self, round_index: int) -> list[str]:
        """Prompts of record extraction, others in every round: no cache of an earlier round helps."""
        domain = build_plugin("domain", "record_extraction", {})
        first = round_index * self.groups
        tasks = [domain.make_task("train", first + i, SEED) for i in range(self.groups)]
        return ["\n".join(message.content for message in task.prompt) + "\n" for task in tasks]


def a_policy(uri: Path, name: str) -> PolicyVersion:
    """A policy version as an engine or trainer wants it."""
    return PolicyVersion(
        id=name,
        name=name,
        kind="base",
        parent=None,
        uri=str(uri),
        batch_ids=(),
        run_id="benchmark",
        num_updates=0,
        metrics={},
        created_at="2026-01-01T00:00:00Z",
    )


def reward(token_ids: Sequence[int]) -> float:
    """The share of even token ids: costs nothing, differs between siblings, means nothing."""
    return sum(token_id % 2 == 0 for token_id in token_ids) / len(token_ids)


def endless_model() -> Path:
    """A Hugging Face directory with the machine's model and an end token that it never says."""
    source, target = Path(settings().model_uri), settings().home_dir / "benchmarks" / "model"
    if not source.is_dir():
        raise ConfigurationError(f"{source} is not there. Run `make model`, or set ASSAY_MODEL to a model's directory.")
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for weights in source.glob("model*.safetensors*"):
        (target / weights.name).symlink_to(weights.resolve())
    end = _write_tokenizer(source, target)
    for name in ("config.json", "generation_config.json"):
        values = json.loads((source / name).read_text()) if (source / name).is_file() else {}
        (target / name).write_text(json.dumps(values | {"eos_token_id": end}))
    return target


def _write_tokenizer(source: Path, target: Path) -> int:
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(source)
    used = {tokenizer.eos_token_id, tokenizer.bos_token_id, tokenizer.pad_token_id, tokenizer.unk_token_id}
    unused = [i for i, token in tokenizer.added_tokens_decoder.items() if token.special and i not in used]
    if not unused:
        raise ConfigurationError(f"The tokenizer of {source} has no spare special token; benchmark another model.")
    tokenizer.eos_token = tokenizer.convert_ids_to_tokens(unused[-1])
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(target)
    return unused[-1]
