"""What the container backend asks an engine for; with an engine the conformance suite runs, see conftest."""

import os
import socket
import struct
from pathlib import Path

import pytest

from assay.errors import SandboxUnavailable, SandboxUnsupported
from environments.sandboxes import _engine
from environments.sandboxes.base import Limits, SandboxSpec
from environments.sandboxes.container import Container

docker = pytest.importorskip("docker", reason="needs the extra `container`")
CONFIG = Container.Config(runtime="runsc")


def test_the_request_isolates_and_limits() -> None:
    from docker.models.containers import _create_container_args

    spec = SandboxSpec(limits=Limits(memory_bytes=100, disk_bytes=10, max_processes=5))
    options = _engine.options(CONFIG, spec, "box", "sha256:ab")
    request = _create_container_args({**options, "version": "1.41"})
    host = request["host_config"]
    assert (host["NetworkMode"], host["ReadonlyRootfs"], host["CapDrop"]) == ("none", True, ["ALL"])
    assert (host["SecurityOpt"], host["Runtime"]) == (["no-new-privileges:true"], "runsc")
    assert (host["Memory"], host["MemorySwap"], host["PidsLimit"], host["ShmSize"]) == (130, 130, 21, 10)
    assert host["Tmpfs"]["/workspace"].startswith("size=10,")
    assert int(request["user"].partition(":")[0]) >= 20_000


def test_the_network_is_there_only_when_it_was_asked_for() -> None:
    assert _engine.options(CONFIG, SandboxSpec(network="full"), "box", "i")["network_mode"] == "bridge"


def test_streams_are_told_apart_and_the_end_is_seen() -> None:
    ours, theirs = socket.socketpair()
    stream = _engine.ExecStream(ours)
    for number, data in ((1, b"ready\n"), (2, b"oops"), (1, b"{}\n")):
        theirs.sendall(struct.pack(">BxxxL", number, len(data)) + data)
    theirs.shutdown(socket.SHUT_WR)
    assert [stream.receive(), stream.receive(), stream.receive()] == [b"ready\n", b"{}\n", b""]
    assert stream.complaint == "oops"
    stream.close()
    theirs.close()


def test_only_containers_of_ended_processes_of_this_machine_are_strays() -> None:
    assert not _engine.is_stray(_engine.owner())
    assert not _engine.is_stray("another-machine/1/1")
    assert not _engine.is_stray("")
    assert _engine.is_stray(f"{socket.gethostname()}/{os.getpid()}/0")  # the pid now belongs to a later process


async def test_without_an_engine_the_error_says_what_to_start(tmp_path: Path) -> None:
    backend = Container(Container.Config(base_url=f"unix://{tmp_path}/none.sock"))
    with pytest.raises(SandboxUnavailable, match=r"No container engine answers.*podman system service"):
        await backend.create(SandboxSpec())
    assert not (await backend.probe()).works


async def test_a_folder_as_image_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(SandboxUnsupported, match="docker load"):
        await Container(Container.Config()).create(SandboxSpec(image=str(tmp_path)))
