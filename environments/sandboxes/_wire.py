"""How Assay and the supervisor talk: one packet of descriptors each way, the content in memory files.

A packet is a few bytes, so sending never waits for the other side, however large a command's output is.
A memory file holds one line of JSON and then raw bytes.
"""

import errno
import fcntl
import json
import os
import socket
from typing import Any

_SEALS = 0x1 | 0x2 | 0x4 | 0x8  # F_SEAL_SEAL, SHRINK, GROW, WRITE
_F_ADD_SEALS = 1033
_MAX_DESCRIPTORS = 64

Header = dict[str, Any]


def memory_file(data: bytes) -> int:
    """A sealed, read-only anonymous file with `data`, positioned at its start."""
    fd = os.memfd_create("assay", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    seal(fd)
    return fd


def seal(fd: int) -> None:
    """Nobody can change the memory file any more."""
    fcntl.fcntl(fd, _F_ADD_SEALS, _SEALS)


def send(connection: socket.socket, header: Header, payload: bytes = b"", descriptors: tuple[int, ...] = ()) -> None:
    """Send header and payload, and open descriptors with them. Raises OSError when the other side is gone."""
    content = memory_file(json.dumps(header).encode() + b"\n" + payload)
    try:
        socket.send_fds(connection, [b"\n"], [content, *descriptors])
    finally:
        os.close(content)


def receive(connection: socket.socket) -> tuple[Header, bytes, list[int]] | None:
    """Header, payload and descriptors of one packet; None when the other side is gone. Raises OSError."""
    message, descriptors, _, _ = socket.recv_fds(connection, 1, _MAX_DESCRIPTORS)
    if message and not descriptors:
        raise OSError(errno.EMFILE, "No descriptor was left to receive a message with; raise the limit (ulimit -n)")
    for descriptor in descriptors:
        # Python does this for what it opens but not for what it receives (and 3.11 drops MSG_CMSG_CLOEXEC here).
        os.set_inheritable(descriptor, False)
    if not message:
        return None
    content, *others = descriptors
    with open(content, "rb") as file:
        header, _, payload = file.read().partition(b"\n")
    return json.loads(header), payload, others
