"""An engine that says what a script tells it to: for tests, demonstrations and dry runs, without a model.

Tokens are UTF-8 bytes, so it needs no tokenizer. Sample i of a request says completion i of the script (around in
circles), which sets exact pass rates: three right completions out of four give 0.75 to every group of four or eight.
An image is the text `[image DIGEST]` before the message, so a script can answer it.
"""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import Field

from assay.errors import EngineError
from assay.records import FinishReason, Image, Message, PolicyVersion, Tool
from assay.registry import PluginConfig
from environments.tools import with_tools
from rollouts.engines.base import Completion, SampleRequest

END, OPEN = 256, 257  # after the 256 bytes: closes a message, opens one
VOCABULARY = 258


class ScriptedEngine:
    """Deterministic. The log-probabilities of a completion sum to that of drawing it from its script."""

    id: ClassVar[str] = "scripted"

    class Config(PluginConfig):
        script: dict[str, list[str]] = Field(
            default_factory=dict,
            description="Completions by a text that occurs in the last message of the prompt; the first match counts",
        )
        default: list[str] = Field(["I do not know."], min_length=1, description="Completions of all other prompts")

    def __init__(self, config: Config) -> None:
        self.config = config
        if empty := [text for text, completions in config.script.items() if not completions]:
            raise EngineError(f"The script has no completions for {empty}; give each text at least one.")
        self._policy_version = ""

    @property
    def policy_version(self) -> str:
        """Id of the loaded version; EngineError before `load`."""
        if not self._policy_version:
            raise EngineError("No policy is loaded into the engine. Call load(policy) first.")
        return self._policy_version

    @property
    def takes_images(self) -> bool:
        """True: a script may name their digests."""
        return True

    def can_show_images(self, model: str) -> bool:
        """True: there is no model."""
        return True

    async def load(self, policy: PolicyVersion, live: Any | None = None) -> None:
        """Take the version's id; there are no weights."""
        self._policy_version = policy.id

    async def sample(self, request: SampleRequest) -> list[Completion]:
        """Completions of the script, in order; greedy sampling repeats the first. Raises EngineError before `load`."""
        self.policy_version  # noqa: B018 - raises when nothing is loaded
        if not request.prompt_ids or request.num_samples < 1:
            raise EngineError(f"Can't sample {request.num_samples} completions of {len(request.prompt_ids)} tokens.")
        script = self._script(request.prompt_ids)
        greedy = request.sampling.greedy
        chosen = [script[0 if greedy else i % len(script)] for i in range(request.num_samples)]
        shares = {text: 1.0 if greedy else script.count(text) / len(script) for text in script}
        return [_completion(text, shares[text], request.sampling.max_new_tokens) for text in chosen]

    def encode_chat(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> tuple[int, ...]:
        """The prompt's token ids, ending where the assistant begins."""
        messages = with_tools(messages, tools)
        return (*(token for m in messages for token in (OPEN, *_told(m.content, m.images), END)), OPEN)

    def encode_reply(self, completion: Completion, observation: str, images: Sequence[Image] = ()) -> tuple[int, ...]:
        """The ids between a completion and the next one."""
        closing = () if completion.finish_reason == "stop" else (END,)
        return (*closing, OPEN, *_told(observation, images), END, OPEN)

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text without special tokens."""
        return bytes(token for token in token_ids if token < END).decode(errors="replace")

    async def close(self) -> None:
        """Idempotent; nothing is held."""
        self._policy_version = ""

    def _script(self, prompt_ids: Sequence[int]) -> list[str]:
        starts = [i for i, token in enumerate(prompt_ids) if token == OPEN]
        last = self.decode(prompt_ids[starts[-2] :] if len(starts) > 1 else prompt_ids)
        return next((said for text, said in self.config.script.items() if text in last), self.config.default)


def _told(text: str, images: Sequence[Image]) -> bytes:
    return "".join([*(f"[image {image.digest}]\n" for image in images), text]).encode()


def _completion(text: str, share: float, limit: int) -> Completion:
    ids = (*text.encode(), END)
    reason: FinishReason = "stop" if len(ids) <= limit else "length"
    ids = ids[:limit]
    return Completion(token_ids=ids, logprobs=(math.log(share), *(0.0 for _ in ids[1:])), finish_reason=reason)
