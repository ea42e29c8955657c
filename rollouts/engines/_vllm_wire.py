"""What is sent to and read from vLLM's `/v1/completions`: token ids both ways, never text."""

from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from assay.errors import EngineError
from rollouts.engines.base import Completion

# The seed of sample i is `seed + i`, which must stay a signed 64-bit number.
SEED_BITS = 62


class _Logprobs(BaseModel):
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]] | None = None


class _Choice(BaseModel):
    index: int
    token_ids: list[int]
    logprobs: _Logprobs
    finish_reason: Literal["stop", "length"]


class _Reply(BaseModel):
    choices: list[_Choice]


def completion_body(
    model: str,
    prompt_ids: tuple[int, ...],
    *,
    num_samples: int,
    temperature: float,
    max_new_tokens: int,
    seed: int,
    stop_token_ids: tuple[int, ...],
    num_top: int = 0,
) -> dict[str, Any]:
    """The request's JSON. `num_top` asks for that many best log-probabilities beside the sampled token's.

    Everything that narrows the distribution is switched off explicitly, because a server may take defaults (top_k,
    top_p, penalties) from the model's generation_config.json.
    """
    return {
        "model": model,
        "prompt": list(prompt_ids),
        "n": num_samples,
        "temperature": temperature,
        "max_tokens": max_new_tokens,
        "seed": seed % (1 << SEED_BITS),
        # The end tokens are ours alone, the same for every engine.
        "ignore_eos": True,
        "stop_token_ids": list(stop_token_ids),
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "logprobs": num_top,
        "return_token_ids": True,
        "return_tokens_as_token_ids": True,
    }


def read_completions(reply: Any, num_samples: int) -> list[Completion]:
    """The samples in order. Raises EngineError unless the reply holds `num_samples` of them, whole."""
    choices = sorted(_parse(reply).choices, key=lambda choice: choice.index)
    if len(choices) != num_samples:
        raise EngineError(f"The vLLM server returned {len(choices)} completions of {num_samples}.")
    return [_completion(choice) for choice in choices]


def read_top_logprobs(reply: Any) -> dict[str, float]:
    """Log-probabilities of the best tokens at the first sampled position, by token."""
    choices = _parse(reply).choices
    top = choices[0].logprobs.top_logprobs if choices else None
    if not top:
        raise EngineError("The vLLM server returned no top_logprobs although they were asked for.")
    return top[0]


def _parse(reply: Any) -> _Reply:
    try:
        return _Reply.model_validate(reply)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:3])
        raise EngineError(
            f"The server's reply to /v1/completions is not what vLLM sends ({problems}). Token ids and "
            "log-probabilities are needed: use a vLLM server that knows return_token_ids (0.32 does)."
        ) from error


def _completion(choice: _Choice) -> Completion:
    logprobs = choice.logprobs.token_logprobs
    if len(logprobs) != len(choice.token_ids):
        raise EngineError(
            f"The vLLM server returned {len(choice.token_ids)} token ids but {len(logprobs)} log-probabilities."
        )
    return Completion(token_ids=tuple(choice.token_ids), logprobs=tuple(logprobs), finish_reason=choice.finish_reason)
