"""The network: services of the machine, ways out of it, and socket families whose kernel code nobody needs inside."""

import asyncio
import contextlib
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from environments.sandboxes.base import SandboxSpec
from environments.sandboxes.bubblewrap import Bubblewrap
from tests.environments.sandboxes.attacks.programs import CALLS, told
from tests.environments.sandboxes.attacks.weaker import weaker
from tests.environments.sandboxes.probing import Attack, run_attack

REACH = """
answer = {}
for name, (family, kind, address) in facts["services"].items():
    address = tuple(address) if isinstance(address, list) else address
    with socket.socket(family, kind) as client:
        client.settimeout(2)
        def ask(): client.connect(address); client.send(b"x")
        answer[name] = attempt(ask)
"""
LISTEN = """
import contextlib, tempfile
def listen(folder, name):
    "Sockets on which somebody listens, and what a client must know of them."
    wanted = {"tcp": (2, 1, ("127.0.0.1", 0)), "tcp6": (10, 1, ("::1", 0)), "udp": (2, 2, ("127.0.0.1", 0)),
              "abstract": (1, 1, "\\0" + name), "abstract datagram": (1, 2, "\\0d" + name),
              "path": (1, 1, f"{folder}/{name}")}
    sockets, services = [], {}
    for title, (family, kind, address) in wanted.items():
        made = socket.socket(family, kind)
        try: made.bind(address)
        except OSError: continue  # no IPv6 here
        if kind == 1: made.listen()
        bound = made.getsockname()
        services[title] = [family, kind, bound.decode() if isinstance(bound, bytes) else bound]
        sockets.append(made)
    return sockets, services
"""


@pytest.fixture
def services() -> Iterator[dict[str, Any]]:
    """Services of this machine, by the same program that makes them on the stand-in machine."""
    scope: dict[str, Any] = {"socket": socket}
    exec(LISTEN, scope)
    folder = Path(f"/tmp/assay-{secrets.token_hex(6)}")  # short, for a socket's path
    folder.mkdir(mode=0o755)
    with contextlib.ExitStack() as stack:
        sockets, services = scope["listen"](folder, secrets.token_hex(8))
        for made in sockets:
            stack.enter_context(made)
        yield services
    for left in folder.iterdir():
        left.unlink()
    folder.rmdir()


async def test_services_of_the_machine_are_not_reached(attack: Attack, services: dict[str, Any]) -> None:
    control = weaker(
        CALLS + REACH,
        without=["--unshare-net"],
        plus=["--ro-bind", "/srv", "/srv"],
        machine=f"{LISTEN}\nkept, services = listen('/srv', 'door')\nfacts['services'] = services",
    )
    assert control
    assert set(control.values()) == {"worked"}
    answers = await attack(told(CALLS + REACH, services=services))
    assert len(answers) == len(services)
    # A datagram into the empty loopback is sent to nobody.
    assert {name for name, answer in answers.items() if answer == "worked"} <= {"udp"}


SEND = """
query = b"\\0\\1\\1\\0\\0\\1" + bytes(6) + bytes([7]) + b"hunter2" + b"\\7example\\0\\0\\1\\0\\1"
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
    answer = attempt(client.sendto, query, ("127.0.0.1", facts["port"]))
"""
RESOLVER = """
resolver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
resolver.bind(("127.0.0.1", 0)); resolver.settimeout(1)
facts["port"] = resolver.getsockname()[1]
"""


async def test_no_secret_leaves_in_a_question_to_the_machines_resolver(attack: Attack) -> None:
    heard = "answer = 'hunter2' in str(resolver.recv(512))"
    assert weaker(CALLS + SEND, without=["--unshare-net"], machine=RESOLVER, afterwards=heard) is True
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as resolver:
        resolver.bind(("127.0.0.1", 0))
        resolver.settimeout(0.3)
        await attack(told(CALLS + SEND, port=resolver.getsockname()[1]))
        with pytest.raises(TimeoutError):
            resolver.recv(512)


SPY = """
port = f"{facts['port']:04X}"
answer = any(port in line.split()[1] for line in open("/proc/net/tcp").read().splitlines()[1:])
"""


async def test_connections_of_the_machine_are_not_seen(attack: Attack) -> None:
    machine = "server = socket.create_server(('127.0.0.1', 0)); facts['port'] = server.getsockname()[1]"
    assert weaker(SPY, without=["--unshare-net"], machine=machine) is True
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert await attack(told(SPY, port=server.getsockname()[1])) is False


FAMILIES = {
    "vsock": (40, 1, 0),
    "netlink route": (16, 3, 0),
    "netlink audit": (16, 3, 9),
    "netlink connector": (16, 3, 11),
    "netlink netfilter": (16, 3, 12),
    "netlink crypto": (16, 3, 21),
    "kernel crypto": (38, 5, 0),
    "sctp": (2, 5, 132),
    "dccp": (2, 6, 33),
    "mptcp": (2, 1, 262),
    "udp lite": (2, 2, 136),
    "ping": (2, 2, 1),
    "unix packets": (1, 5, 0),
    "unix raw": (1, 3, 0),
    "bluetooth": (31, 3, 1),
    "can": (29, 3, 1),
    "tipc": (30, 1, 0),
    "rds": (21, 5, 0),
    "kcm": (41, 2, 0),
    "express data path": (44, 3, 0),
    "rxrpc": (33, 2, 2),
}
PROTOCOLS = ("mptcp", "udp lite")
MISSING = {"EAFNOSUPPORT", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT"}


@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in PROTOCOLS])
async def test_unusual_sockets_cannot_be_made(attack: Attack, family: str) -> None:
    """Network namespaces do not stop these. Some want privileges (EPERM, EACCES), but their code is reached."""
    code = f"{CALLS}answer = attempt(socket.socket, *{FAMILIES[family]})"
    control = weaker(code, without=["--seccomp"])
    assert await attack(code) in {"EAFNOSUPPORT", "EPERM", "EPROTONOSUPPORT"}
    if control in MISSING:
        pytest.skip(f"held, but this kernel has no {family} sockets, so there is no control")
    assert control in {"worked", "EPERM", "EACCES"}


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_unusual_protocols_cannot_be_spoken(attack: Attack, protocol: str) -> None:
    code = f"{CALLS}answer = attempt(socket.socket, *{FAMILIES[protocol]})"
    control = weaker(code, without=["--seccomp"])
    if control in MISSING:
        pytest.skip(f"this kernel has no {protocol}")
    assert control == "worked"
    assert await attack(code) in {"EAFNOSUPPORT", "EPROTONOSUPPORT", "EPERM"}


async def test_two_sandboxes_do_not_talk_to_each_other(backend: Bubblewrap, attack: Attack) -> None:
    listen = "with socket.socket(socket.AF_UNIX) as s:\n s.bind('\\0meet'); s.listen(); s.settimeout(1)"
    listen += "\n try: s.accept(); answer = True\n except OSError: answer = False"
    meet = "with socket.socket(socket.AF_UNIX) as s: answer = attempt(s.connect, '\\0meet')"
    machine = "s = socket.socket(socket.AF_UNIX); s.bind('\\0meet'); s.listen()"
    assert weaker(CALLS + meet, without=["--unshare-net"], machine=machine) == "worked"
    other = await backend.create(SandboxSpec())
    waiting = asyncio.create_task(run_attack(other, listen))
    await asyncio.sleep(0.4)
    assert await attack(CALLS + meet) == "ECONNREFUSED"
    assert await waiting is False
    await other.destroy()
