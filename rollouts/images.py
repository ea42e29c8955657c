"""Images on their way to the policy: which a prompt holds, and what happens where the engine takes none.

prompt   ─► an engine that takes none is refused before any work
reply    ─► such an engine gets the text with a note for each image that was left out, and the episode counts them
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from assay.errors import ConfigurationError
from assay.records import Image, Message, TaskSpec
from environments.base import Reply

LEFT_OUT = "[an image was left out: this engine takes no images]"
NUM_LEFT_OUT = "num_images_left_out"
"""The metric that counts them; absent where there were none."""


def images_in(messages: Iterable[Message]) -> tuple[Image, ...]:
    """The images of messages, in the order in which the context holds them."""
    return tuple(image for message in messages for image in message.images)


def without_images(reply: Reply) -> Reply:
    """The reply as an engine that takes no images tells it: a note at the end for each.

    >>> without_images(Reply(action="", observation="a door", done=False, images=(Image(data=b""),))).observation
    'a door\\n[an image was left out: this engine takes no images]'
    """
    parts = [reply.observation] if reply.observation else []
    return replace(reply, observation="\n".join([*parts, *[LEFT_OUT] * len(reply.images)]), images=())


def refuse_unseen(tasks: Sequence[TaskSpec], what: str, advice: str) -> None:
    """Raise ConfigurationError, naming domains, when a task shows an image in its prompt; `what` takes none."""
    domains = sorted({task.domain for task in tasks if images_in(task.prompt)})
    if domains:
        names = ", ".join(domains)
        raise ConfigurationError(
            f"The tasks of {names} hold images, but {what} takes no images, so the policy would have to guess what "
            f"they show. {advice}, or leave out {names}."
        )
