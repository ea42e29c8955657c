"""Images of prompts and replies as a person meets them: a line in a terminal, base64 in JSON, inline in a report."""

import base64
import binascii
import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

from console.runs import Row


def image_view(media_type: str, data: bytes) -> Row:
    """What is known of one image; `base64` is the file."""
    return {
        "media_type": media_type,
        "num_bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "base64": base64.b64encode(data).decode(),
    }


def with_views(message: Row) -> Row:
    """A message of a stored prompt, its images as views; one that is no base64 is shown as empty."""
    images = [
        image_view(str(image.get("media_type")), _bytes(image.get("base64"))) for image in message.get("images", ())
    ]
    return message | ({"images": images} if images else {})


def turn_views(turn: Row) -> Row:
    """A row of `turns`, its images as views."""
    return turn | {"images": [image_view(image["media_type"], image["data"]) for image in turn["images"] or ()]}


def image_lines(images: Iterable[Row]) -> Iterator[str]:
    """`[image 1: image/png, 12,345 bytes, sha256 0f...]`, one line each."""
    for number, image in enumerate(images, start=1):
        yield f"  [image {number}: {image['media_type']}, {image['num_bytes']:,} bytes, sha256 {image['sha256']}]"


def data_uri(image: Row) -> str:
    """The file as an address that needs no request; empty for what is no PNG or JPEG by type and first bytes."""
    starts = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff"}
    start = starts.get(image["media_type"])
    if start is None or not base64.b64decode(image["base64"]).startswith(start):
        return ""
    return f"data:{image['media_type']};base64,{image['base64']}"


def _bytes(text: Any) -> bytes:
    try:
        return base64.b64decode(str(text), validate=True)
    except (binascii.Error, ValueError):
        return b""
