"""A character-level Llama of 0.8M parameters as a Hugging Face directory, for tests and demonstrations.

It has all that a real model has (config, safetensors, fast tokenizer, chat template) and trains in seconds on one
core. Every engine and trainer takes its directory like any other.
"""

import string
from pathlib import Path
from typing import Any

ROLES = ("system", "user", "assistant")
SPECIAL = ("<|pad|>", "<|unk|>", "<|end|>", *(f"<|{role}|>" for role in ROLES))
CHARACTERS = "\n" + "".join(c for c in string.printable if c.isprintable())
TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def build_tiny_model(directory: Path, seed: int = 0, *, layers: int = 4, hidden: int = 128) -> Path:
    """Write a randomly initialised model; equal arguments give equal weights. `hidden` is a multiple of 32."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = tiny_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=3 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 32,
        num_key_value_heads=hidden // 64,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


def tiny_tokenizer() -> Any:
    """One token per printable ASCII character or newline; anything else is `<|unk|>`. Turns end with `<|end|>`."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: i for i, token in enumerate((*SPECIAL, *CHARACTERS))}
    raw = Tokenizer(models.WordLevel(vocabulary, unk_token="<|unk|>"))
    raw.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    raw.decoder = decoders.Fuse()
    raw.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    return PreTrainedTokenizerFast(
        tokenizer_object=raw,
        pad_token="<|pad|>",
        unk_token="<|unk|>",
        eos_token="<|end|>",
        chat_template=TEMPLATE,
        clean_up_tokenization_spaces=False,
    )
