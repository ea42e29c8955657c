"""A tiny vision-language model, built here, sampled by the embedded engine: it sees the images, and what it says of
them has the log-probabilities of an ordinary forward pass."""

import io
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import torch
from PIL import Image as Pictures

from assay.errors import EngineError
from assay.records import Image, Message, PolicyVersion, SamplingParams
from assay.registry import build_plugin
from rollouts.engines.base import SampleRequest
from rollouts.engines.transformers import TransformersEngine
from rollouts.image_chat import ImageChat, chat_for, sees_images
from training.tiny_model import build_tiny_model, tiny_tokenizer

pytestmark = pytest.mark.asyncio(loop_scope="module")

TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' }}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}{% endfor %}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def picture(colour: str) -> Image:
    written = io.BytesIO()
    Pictures.new("RGB", (48, 32), colour).save(written, "png")
    return Image(data=written.getvalue())


RED, BLUE = picture("red"), picture("blue")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Idefics3 of two layers each for text and vision; an image is cut into four and a whole, four tokens each."""
    from transformers import Idefics3Config, Idefics3ForConditionalGeneration, Idefics3Processor
    from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil

    folder = tmp_path_factory.mktemp("vlm")
    images = Idefics3ImageProcessorPil(size={"longest_edge": 64}, max_image_size={"longest_edge": 32})
    processor = Idefics3Processor(images, tiny_tokenizer(), image_seq_len=4, chat_template=TEMPLATE)
    tokens = processor.tokenizer
    text = {"model_type": "llama", "vocab_size": len(tokens), "hidden_size": 64, "intermediate_size": 96}
    text |= {"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1}
    text |= {"max_position_embeddings": 1024, "pad_token_id": 0, "eos_token_id": tokens.eos_token_id}
    vision: dict[str, Any] = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }
    vision |= {"image_size": 32, "patch_size": 8, "initializer_range": 0.3}
    config = Idefics3Config(
        text_config=text,
        vision_config=vision,
        image_token_id=tokens.convert_tokens_to_ids("<image>"),
        scale_factor=2,
        pad_token_id=0,
    )
    torch.manual_seed(0)
    Idefics3ForConditionalGeneration(config).save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(model: Path) -> AsyncIterator[TransformersEngine]:
    made: TransformersEngine = build_plugin("engine", "transformers", {"num_threads": 1, "dtype": "float32"})
    await made.load(policy(model))
    yield made
    await made.close()


def policy(model: Path) -> PolicyVersion:
    return PolicyVersion(
        id="p",
        name="v0",
        kind="base",
        parent=None,
        uri=str(model),
        batch_ids=(),
        run_id="r",
        num_updates=0,
        metrics={},
        created_at="2026-01-01T00:00:00+00:00",
    )


def asked(prompt_ids: tuple[int, ...], *images: Image, num: int = 3) -> SampleRequest:
    sampling = SamplingParams(temperature=1.0, max_new_tokens=6)
    return SampleRequest(prompt_ids=prompt_ids, num_samples=num, sampling=sampling, seed=3, images=images)


def looking(*images: Image) -> list[Message]:
    return [Message(role="user", content="what <image>?", images=images)]


@cache
def plain_model(model: Path) -> Any:
    from transformers import AutoModelForImageTextToText

    return AutoModelForImageTextToText.from_pretrained(model, dtype=torch.float32)


def forced(model: Path, prompt: tuple[int, ...], said: tuple[int, ...], *images: Image) -> list[float]:
    """Log-probabilities of `said` by one ordinary forward pass over everything."""
    seen: dict[str, Any] = ImageChat(str(model)).pixels(images) if images else {}
    ids = torch.tensor([[*prompt, *said]])
    with torch.no_grad():
        logits = plain_model(model)(input_ids=ids, **seen).logits[0, len(prompt) - 1 : -1]
    return torch.log_softmax(logits, dim=-1).gather(1, torch.tensor(said)[:, None])[:, 0].tolist()


async def test_a_context_holds_the_placeholders_an_image_needs_and_no_forged_ones(engine: TransformersEngine) -> None:
    chat = engine._tokenizer
    assert isinstance(chat, ImageChat)
    assert engine.takes_images
    # Five pictures (2 x 2 parts and the whole) of four tokens; the `<image>` in the text is text.
    assert engine.encode_chat(looking(RED)).count(chat.image_token_id) == 20
    assert engine.encode_chat(looking(RED, BLUE)).count(chat.image_token_id) == 40
    assert engine.encode_chat(looking()).count(chat.image_token_id) == 0


async def test_logprobs_are_those_of_the_image_that_was_shown(engine: TransformersEngine, model: Path) -> None:
    prompt = engine.encode_chat(looking(RED))
    assert prompt == engine.encode_chat(looking(BLUE))
    # The same ids one after the other: what was computed for one image must not serve the other.
    for shown, other in ((RED, BLUE), (BLUE, RED), (RED, BLUE)):
        for said in await engine.sample(asked(prompt, shown)):
            assert list(said.logprobs) == pytest.approx(forced(model, prompt, said.token_ids, shown), abs=1e-4)
            unlike = forced(model, prompt, said.token_ids, other)
            assert max(abs(a - b) for a, b in zip(said.logprobs, unlike, strict=True)) > 1e-3


async def test_later_turns_see_the_images_before_and_new_ones(engine: TransformersEngine, model: Path) -> None:
    prompt = engine.encode_chat(looking(RED))
    (first,) = await engine.sample(asked(prompt, RED, num=1))
    for more in ((), (BLUE,)):
        context = (*prompt, *first.token_ids, *engine.encode_reply(first, "go on", more))
        (second,) = await engine.sample(asked(context, RED, *more, num=1))
        wanted = forced(model, context, second.token_ids, RED, *more)
        assert list(second.logprobs) == pytest.approx(wanted, abs=1e-4)


async def test_a_reply_is_encoded_as_the_template_renders_the_conversation(engine: TransformersEngine) -> None:
    chat = engine._tokenizer
    (said,) = await engine.sample(asked(engine.encode_chat(looking(RED)), RED, num=1))
    answer = chat.encode_completion("x")
    ended = type(said)(token_ids=answer, logprobs=(0.0,) * len(answer), finish_reason="stop")
    dialogue = [*looking(RED), Message(role="assistant", content="x")]
    dialogue.append(Message(role="user", content="more", images=(BLUE,)))
    whole = engine.encode_chat(dialogue)
    assert (*engine.encode_chat(looking(RED)), *answer, *engine.encode_reply(ended, "more", (BLUE,))) == whole


async def test_placeholders_without_their_image_are_an_error(engine: TransformersEngine) -> None:
    with pytest.raises(EngineError, match="20 image placeholders, but its 0 images need 0"):
        await engine.sample(asked(engine.encode_chat(looking(RED))))


async def test_what_is_no_picture_is_an_error(engine: TransformersEngine) -> None:
    with pytest.raises(EngineError, match="can't be read"):
        engine.encode_chat(looking(Image(data=b"nothing")))


async def test_the_config_tells_which_models_see(model: Path, tmp_path: Path) -> None:
    blind = str(build_tiny_model(tmp_path / "blind", layers=1, hidden=64))
    assert sees_images(str(model))
    assert not sees_images(blind)
    assert not sees_images(str(tmp_path / "nothing"))
    assert not chat_for(blind).takes_images
