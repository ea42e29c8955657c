"""What an inference engine is: token ids in, token ids and their log-probabilities out, under one policy version.

One file per engine; one conformance suite runs over all of them.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from assay.records import FinishReason, Image, Message, PolicyVersion, SamplingParams, Tool, record


@record
class SampleRequest:
    """`num_samples` completions of one prompt. `seed` makes them reproducible where the engine can.

    `images` are those of the whole context, in the order of their placeholders in `prompt_ids`.
    """

    prompt_ids: tuple[int, ...]
    num_samples: int
    sampling: SamplingParams
    seed: int
    images: tuple[Image, ...] = ()


@record
class Completion:
    """`token_ids` [C] as sampled, the end token included when `finish_reason` is stop; `logprobs` [C] in nats under
    the distribution that was sampled from (after temperature)."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish_reason: FinishReason


class Engine(Protocol):
    """Samples from the loaded policy version. Concurrent `sample` calls are batched by the engine."""

    id: ClassVar[str]
    Config: ClassVar[type[Any]]

    @property
    def policy_version(self) -> str:
        """Id of the loaded version; EngineError before `load`."""
        ...

    @property
    def takes_images(self) -> bool:
        """Whether the loaded policy sees images; False before `load` where that depends on the model."""
        ...

    def can_show_images(self, model: str) -> bool:
        """Whether a policy with this model (directory or hub id) would see images. Loads no weights."""
        ...

    async def load(self, policy: PolicyVersion, live: Any | None = None) -> None:
        """Serve this version from now on. `live` is the trainer's module when it lives in this process: its weights
        are taken from memory instead of `policy.uri`."""
        ...

    async def sample(self, request: SampleRequest) -> list[Completion]:
        """`request.num_samples` completions, in order. Raises EngineError."""
        ...

    def encode_chat(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> tuple[int, ...]:
        """The prompt's token ids with the tools told in it, ending where the assistant begins. An image is as many
        placeholder ids as the model needs for it."""
        ...

    def encode_reply(self, completion: Completion, observation: str, images: Sequence[Image] = ()) -> tuple[int, ...]:
        """The ids that go between a completion and the next one: what closes the assistant's message (nothing if
        the end token was sampled), the observation as a user message, its images first, and the opening of the next
        one. Images are only given to an engine that takes them."""
        ...

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text without special tokens."""
        ...

    async def close(self) -> None:
        """Idempotent; frees memory and stops servers this engine started."""
        ...
