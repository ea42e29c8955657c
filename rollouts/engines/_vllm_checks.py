"""What is asked of a vLLM server before anything is sampled from it: the right model, tokenizer and log-probabilities.

All checks look at what the server does, so they hold for servers that somebody else started.
"""

from typing import Any, Protocol

from pydantic import BaseModel, ValidationError

from assay.errors import EngineError
from assay.records import record
from rollouts.engines._vllm_http import Client
from rollouts.engines._vllm_wire import completion_body, read_top_logprobs

PROBE_TEXT = 'Sort {"b": 12, "a": [3.5]} and say: done!'
NUM_TOP = 5
# Log-probabilities of one prompt differ by about 0.02 between two batches in bf16.
SMALLEST_GAP = 0.1


class Tokenizer(Protocol):
    """The part of the policy's tokenizer that the checks use."""

    def decode(self, token_ids: Any) -> str: ...


class _Card(BaseModel):
    id: str
    root: str | None = None
    parent: str | None = None
    max_model_len: int | None = None


class _Cards(BaseModel):
    data: list[_Card]


@record
class Served:
    """A served model: its name in requests, the path or hub id it was started with, its context limit in tokens."""

    name: str
    root: str
    max_model_len: int | None


async def find_model(client: Client, name: str) -> Served:
    """The model of that name, or the only one when `name` is empty. Raises EngineError naming what is served."""
    reply = await client.get("/v1/models")
    try:
        cards = [card for card in _Cards.model_validate(reply).data if card.parent is None]
    except ValidationError as error:
        raise EngineError(f"{client.url}/v1/models does not list models: {str(reply)[:200]}.") from error
    matching = [card for card in cards if name in ("", card.id)]
    if len(matching) != 1:
        served = ", ".join(card.id for card in cards) or "nothing"
        wanted = f"no model {name!r}" if name else "more or less than one model"
        raise EngineError(f"The vLLM server at {client.url} serves {wanted}; it serves {served}. Set model_name.")
    card = matching[0]
    return Served(name=card.id, root=card.root or card.id, max_model_len=card.max_model_len)


async def check_tokenizer(client: Client, served: Served, tokenizer: Tokenizer) -> None:
    """Raises EngineError unless the server's token ids mean the same text to the policy's tokenizer."""
    body = {"model": served.name, "prompt": PROBE_TEXT, "add_special_tokens": False}
    reply = await client.post("/tokenize", body)
    token_ids = reply.get("tokens") if isinstance(reply, dict) else None
    text = tokenizer.decode(token_ids) if token_ids else None
    if text is None or text.strip() != PROBE_TEXT:
        raise EngineError(
            f"The vLLM server at {client.url} (model {served.root!r}) has another tokenizer than the policy: its token "
            f"ids for {PROBE_TEXT!r} read {text!r}. Serve the policy's own model."
        )


async def check_logprobs(client: Client, served: Served, prompt_ids: tuple[int, ...]) -> None:
    """Raises EngineError unless log-probabilities are those of the distribution that is sampled from.

    Halving the temperature doubles every difference between two log-probabilities. A server that reports them
    before temperature (vLLM's default) leaves the differences as they are.

    >>> # at T=1: {a: -0.5, b: -1.5}; at T=0.5 processed: {a: -0.13, b: -2.13}, raw: {a: -0.5, b: -1.5}
    """
    warm = await _top(client, served, prompt_ids, 1.0)
    cold = await _top(client, served, prompt_ids, 0.5)
    best, other = max(warm, key=warm.__getitem__), min(warm, key=warm.__getitem__)
    gap = warm[best] - warm[other]
    if best not in cold or other not in cold or gap < SMALLEST_GAP or max(warm.values()) > 0:
        raise EngineError(
            f"Cannot tell which log-probabilities the vLLM server at {client.url} reports: {warm} at T=1, "
            f"{cold} at T=0.5. "
            "Start it with --logprobs-mode processed_logprobs."
        )
    growth = (cold[best] - cold[other]) / gap
    if abs(growth - 2.0) > 0.4:
        raise EngineError(
            f"The vLLM server at {client.url} reports log-probabilities from before temperature: at T=0.5 a gap of "
            f"{gap:.3f} nats is {growth:.2f} times that of T=1, not 2. Training on them stalls. Start the server with "
            "--logprobs-mode processed_logprobs."
        )


async def _top(client: Client, served: Served, prompt_ids: tuple[int, ...], temperature: float) -> dict[str, float]:
    """The sampled token comes on top of the best ones and differs between temperatures; only the best are kept."""
    body = completion_body(
        served.name,
        prompt_ids,
        num_samples=1,
        temperature=temperature,
        max_new_tokens=1,
        seed=0,
        stop_token_ids=(),
        num_top=NUM_TOP,
    )
    top = read_top_logprobs(await client.post("/v1/completions", body))
    return dict(sorted(top.items(), key=lambda item: -item[1])[:NUM_TOP])
