"""A command in a pod as a `_streams.Stream`: its standard streams over one websocket."""

from typing import Any

_FRAME = 1 << 18  # bytes of input per websocket message


class PodStream:
    """The streams of a command in a pod; `connection` is a `kubernetes.stream.ws_client.WSClient` of bytes."""

    def __init__(self, connection: Any) -> None:
        self.complaint = ""
        self._connection = connection
        self._closed = False

    def send(self, data: bytes) -> None:
        for start in range(0, len(data), _FRAME):
            self._connection.write_stdin(data[start : start + _FRAME])

    def receive(self) -> bytes:
        while not self._closed:
            # Looked at every second, for `close` comes from another thread.
            self._connection.update(timeout=1)
            self.complaint = (self.complaint + self._read("stderr").decode(errors="replace"))[-4000:]
            if data := self._read("stdout"):
                return data
            if not self._connection.is_open():
                return b""
        return b""

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._connection.close()

    def _read(self, name: str) -> bytes:
        # Reading a channel that has nothing would wait for the next frame.
        if name == "stdout":
            return self._connection.read_stdout(timeout=0) or b""
        return self._connection.read_stderr(timeout=0) or b""
