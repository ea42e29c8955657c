"""Messages with images to token ids, for vision-language models: the model's own processor spreads each image out.

    "<image>What is it?"  ─► <fake_token_around_image><image>...<image><fake_token_around_image>What is it?

Only families that were tried are taken: their positions count tokens and their attention over an image is causal, as
the embedded engine computes them.
"""

import io
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from assay.errors import EngineError
from assay.records import FinishReason, Image, Message, Tool
from environments.tools import with_tools
from rollouts.chat import ANSWER, ASK, NEXT, ChatTokenizer, framed, missing_model

FAMILIES = ("idefics3",)


def sees_images(path: str) -> bool:
    """Whether the model at this directory or hub id is a vision-language one that images are shown to. Reads its
    config only; False where there is none to read."""
    from transformers import PretrainedConfig

    try:
        found, _ = PretrainedConfig.get_config_dict(path)
    except (OSError, ValueError):
        return False
    return found.get("model_type") in FAMILIES


def chat_for(path: str) -> ChatTokenizer:
    """The tokenizer of a model, with its eyes where it has some."""
    return ImageChat(path) if sees_images(path) else ChatTokenizer(path)


class ImageChat(ChatTokenizer):
    """The processor at `path`: tokenizer, chat template and image processor."""

    takes_images = True

    def __init__(self, path: str) -> None:
        from transformers import AutoProcessor

        super().__init__(path)
        try:
            self.processor = AutoProcessor.from_pretrained(path)
        except (OSError, ValueError, ImportError) as error:
            raise missing_model(path, error) from error
        self.image_token_id = int(self.tokenizer.convert_tokens_to_ids(self.processor.image_token))
        self._num_placeholders = lru_cache(maxsize=4096)(self._count)

    def encode_chat(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> tuple[int, ...]:
        """The prompt's token ids, every image spread out, ending where the assistant begins."""
        if tools and not self._knows_tools:
            messages, tools = with_tools(messages, tools), ()
        images = [image for message in messages for image in message.images]
        return self._spread(self._render(messages, tools, generation=True), images)

    def encode_reply(
        self,
        completion_ids: Sequence[int],
        finish_reason: FinishReason,
        observation: str,
        images: Sequence[Image] = (),
    ) -> tuple[int, ...]:
        """The ids between a completion and the next one, the images before the observation."""
        if not images:
            return super().encode_reply(completion_ids, finish_reason, observation)
        dialogue = [
            Message(role="user", content=ASK),
            Message(role="assistant", content=ANSWER),
            Message(role="user", content=NEXT, images=tuple(images)),
        ]
        before, after = framed(self._render(dialogue, generation=True), self.path)
        ids = self._spread(before + self._defuse(observation) + after, images)
        return self._after(completion_ids, finish_reason, ids)

    def keys(self, prompt_ids: tuple[int, ...], images: Sequence[Image]) -> tuple[int, ...]:
        """The prompt with each placeholder replaced by a negative number that stands for its image, so that equal keys
        mean equal contexts. Raises EngineError when placeholders and images do not match."""
        owners = [-1 - int(image.digest[:15], 16) for image in images for _ in range(self._num_placeholders(image))]
        places = [i for i, token in enumerate(prompt_ids) if token == self.image_token_id]
        if len(places) != len(owners):
            raise EngineError(
                f"The context has {len(places)} image placeholders, but its {len(images)} images need {len(owners)}: "
                "the policy said a placeholder itself, or images are missing from the request."
            )
        keys = list(prompt_ids)
        for place, owner in zip(places, owners, strict=True):
            keys[place] = owner
        return tuple(keys)

    def pixels(self, images: Sequence[Image]) -> dict[str, Any]:
        """What the model's forward pass takes for these images, a batch of one."""
        return dict(self.processor.image_processor([[_opened(image) for image in images]], return_tensors="pt"))

    def _count(self, image: Image) -> int:
        return self._spread(self.processor.image_token, [image]).count(self.image_token_id)

    def _spread(self, text: str, images: Sequence[Image]) -> tuple[int, ...]:
        if not images:
            return self._encode(text)
        opened = [[_opened(image) for image in images]]
        return tuple(self.processor(text=[text], images=opened, add_special_tokens=False)["input_ids"][0])

    def _plain(self, message: Message) -> dict[str, Any]:
        pictures: list[dict[str, str]] = [{"type": "image"} for _ in message.images]
        return {"role": message.role, "content": [*pictures, {"type": "text", "text": self._defuse(message.content)}]}


def _opened(image: Image) -> Any:
    from PIL import Image as Pictures
    from PIL import UnidentifiedImageError

    try:
        return Pictures.open(io.BytesIO(image.data)).convert("RGB")
    except (UnidentifiedImageError, OSError, Pictures.DecompressionBombError) as error:
        raise EngineError(f"The image {image.digest[:16]} ({image.media_type}) can't be read: {error}.") from error
