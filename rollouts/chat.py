"""Messages to token ids and back, with a model's own tokenizer and chat template.

Later turns extend the ids that were really sampled (token in, token out): `encode_reply` gives only what goes between
a completion and the next one, found from how the template renders a conversation, so it works for any template.
"""

import json
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from assay.errors import ConfigurationError, EngineError
from assay.records import FinishReason, Image, Message, Tool
from environments.tools import with_tools

ASK, ANSWER, NEXT = "assay-question", "assay-answer", "assay-observation"


class ChatTokenizer:
    """The tokenizer at `path` (Hugging Face directory or hub id).

    Text in messages that spells a special token is broken up with a zero-width space: content can't forge a turn.
    """

    takes_images = False

    def __init__(self, path: str) -> None:
        self.path = path
        self.tokenizer = _load_tokenizer(path)
        if not getattr(self.tokenizer, "chat_template", None):
            raise ConfigurationError(
                f"The tokenizer of {path!r} has no chat template, so messages can't be encoded. Use an instruct model, "
                "or put a chat_template.jinja into its directory."
            )
        specials = {str(t) for t in self.tokenizer.added_tokens_decoder.values() if t.special}
        self._specials = re.compile("|".join(map(re.escape, sorted(specials)))) if specials else None

    def encode_chat(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> tuple[int, ...]:
        """The prompt's token ids, ending where the assistant begins.

        Tools are told as the model's template does it, in the system message where the template knows none.
        """
        self._check_images([image for message in messages for image in message.images])
        if tools and not self._knows_tools:
            messages, tools = with_tools(messages, tools), ()
        return self._encode(self._render(messages, tools, generation=True))

    def encode_completion(self, text: str) -> tuple[int, ...]:
        """The ids of an assistant message as a policy would sample it, the end token included."""
        ids = self._encode(self._defuse(text) + self._reply_frame[0])
        end = next((i for i, token in enumerate(ids) if token in self.stop_token_ids), None)
        if end is None:
            raise ConfigurationError(
                f"The chat template of {self.path!r} does not close assistant messages with a special token, so "
                "demonstrations can't be encoded. Use another model or correct its chat template."
            )
        return ids[: end + 1]

    def encode_reply(
        self,
        completion_ids: Sequence[int],
        finish_reason: FinishReason,
        observation: str,
        images: Sequence[Image] = (),
    ) -> tuple[int, ...]:
        """The ids between a completion and the next one: the end of the assistant's message (unless it was sampled),
        the observation as a user message, and the opening of the next assistant message."""
        self._check_images(images)
        text = self._reply_frame[0] + self._defuse(observation) + self._reply_frame[1]
        return self._after(completion_ids, finish_reason, self._encode(text))

    def _after(
        self, completion_ids: Sequence[int], finish_reason: FinishReason, ids: tuple[int, ...]
    ) -> tuple[int, ...]:
        """`ids`, without the end token they begin with where it was sampled."""
        ended = finish_reason == "stop" and completion_ids and completion_ids[-1] in self.stop_token_ids
        return ids[1:] if ended and ids[0] in self.stop_token_ids else ids

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text without special tokens."""
        return self.tokenizer.decode(list(token_ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)

    @cached_property
    def stop_token_ids(self) -> frozenset[int]:
        """Tokens that end a completion: those of the generation config, the tokenizer's end token, and the special
        token with which the template closes an assistant message."""
        closing = self._encode(self._reply_frame[0])[:1]
        special = set(self.tokenizer.all_special_ids)
        ends = {self.tokenizer.eos_token_id, *(t for t in closing if t in special), *self._generation_ends()}
        return frozenset(int(t) for t in ends if t is not None)

    @cached_property
    def _reply_frame(self) -> tuple[str, str]:
        """What the template puts (from an answer to the observation, from the observation to the next answer)."""
        dialogue = [
            Message(role="user", content=ASK),
            Message(role="assistant", content=ANSWER),
            Message(role="user", content=NEXT),
        ]
        return framed(self._render(dialogue, generation=True), self.path)

    def _check_images(self, images: Sequence[Image]) -> None:
        if images and not self.takes_images:
            raise EngineError(
                f"{len(images)} images were to be encoded, but the model at {self.path!r} takes none here. Use a "
                "vision-language model with the transformers engine."
            )

    def _generation_ends(self) -> list[int]:
        from transformers import GenerationConfig

        try:
            ends = GenerationConfig.from_pretrained(self.path).eos_token_id
        except OSError:  # a model without generation_config.json
            return []
        return list(ends) if isinstance(ends, (list, tuple)) else [ends] if ends is not None else []

    @cached_property
    def _knows_tools(self) -> bool:
        template = self.tokenizer.chat_template  # a text, or several by name
        return "tool_use" in template if isinstance(template, dict) else bool(re.search(r"\btools\b", template))

    def _render(self, messages: Sequence[Message], tools: Sequence[Tool] = (), *, generation: bool) -> str:
        plain = [self._plain(message) for message in messages]
        told = [{"type": "function", "function": self._plain_tool(tool)} for tool in tools]
        options = {"tools": told} if told else {}
        return self.tokenizer.apply_chat_template(plain, tokenize=False, add_generation_prompt=generation, **options)

    def _plain(self, message: Message) -> dict[str, Any]:
        return {"role": message.role, "content": self._defuse(message.content)}

    def _plain_tool(self, tool: Tool) -> dict[str, Any]:
        plain = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
        return json.loads(self._defuse(json.dumps(plain, ensure_ascii=False)))

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer.encode(text, add_special_tokens=False))

    def _defuse(self, text: str) -> str:
        return self._specials.sub(lambda m: m[0][0] + "\u200b" + m[0][1:], text) if self._specials else text


def framed(rendered: str, path: str) -> tuple[str, str]:
    """What lies (from ANSWER to NEXT, after NEXT) in a rendered dialogue. Raises ConfigurationError."""
    found = re.fullmatch(rf".*{ANSWER}(.*?){NEXT}(.*)", rendered, re.DOTALL)
    if found is None:
        raise ConfigurationError(
            f"The chat template of {path!r} does not render user, assistant, user in order, so several turns can't be "
            "encoded. Use another model or correct its chat template."
        )
    return found[1], found[2]


def missing_model(path: str, error: object = "") -> EngineError:
    """The error for a model that can't be read, with what to do."""
    reason = f" ({str(error).strip().splitlines()[0][:200]})" if str(error).strip() else ""
    return EngineError(
        f"The model {path!r} can't be loaded{reason}. It must be a Hugging Face directory or a reachable hub id. For "
        "the embedded model run `python -m training.embedded_model`; for another one set ASSAY_MODEL."
    )


def _load_tokenizer(path: str) -> Any:
    from transformers import AutoTokenizer

    if path.startswith(("/", ".")) and not Path(path).is_dir():
        raise missing_model(path, "no such directory")
    try:
        return AutoTokenizer.from_pretrained(path)
    except (OSError, ValueError) as error:
        raise missing_model(path, error) from error
