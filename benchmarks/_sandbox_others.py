"""The other sides of `sandbox`: bwrap by itself, and local runtimes that isolate nothing, each in its own process."""

import os
import sys
from itertools import cycle, islice
from pathlib import Path

from assay.errors import AssayError, SandboxUnsupported
from benchmarks import _bwrap_side
from benchmarks._sandbox_ours import SESSION, Series
from benchmarks._venv import ensure_venv
from benchmarks._worker import Worker

PEERS = ("swe-rex", "inspect-ai", "verifiers")
# -S: what the packages of this machine's Python hook into its start is nobody's cost.
PRINT = ("-S", "-c", "print(1)")


class Others:
    """Starts them, with their files in `folder`; without the peers' environment only bwrap is there."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.bwrap = _bwrap_side.start(folder)
        self._peers: Worker | None = None
        self._missing = ""
        try:
            python = ensure_venv("peers", "requirements-peers.txt")
            worker = [python, Path(__file__).with_name("_peers_worker.py")]
            self._peers = Worker(worker, folder / "peers.log", os.environ | {"HOME": str(folder)})
        except (AssayError, OSError) as error:
            self._missing = str(error).splitlines()[0]

    @property
    def versions(self) -> dict[str, str]:
        return dict(self._peers.greeting["versions"]) if self._peers else {}

    async def true(self, name: str, times: int) -> Series:
        """`true` by bwrap or bwrap_bare."""
        return {f"{name} true": self.bwrap.ask(do=name, payload=["true"], times=times)["seconds"]}

    async def print(self, name: str, times: int) -> Series:
        """Python printing by bwrap, bare (a subprocess) or a peer. Raises SandboxUnsupported without the peers."""
        # The same interpreter on all sides; inside bwrap the path leads to it.
        python = "python3" if name == "bwrap" else f"{sys.base_prefix}/bin/python3"
        worker = self._peer() if name in PEERS else self.bwrap
        return {f"{name} print": worker.ask(do=name, payload=[python, *PRINT], times=times)["seconds"]}

    async def session(self, times: int) -> Series:
        """swe-rex's bash session. Raises SandboxUnsupported without the peers."""
        answer = self._peer().ask(do="session", commands=list(islice(cycle(SESSION), times)))
        return {"swe-rex session first": [answer["first"]], "swe-rex session": answer["seconds"]}

    def close(self) -> None:
        self.bwrap.close()
        if self._peers:
            self._peers.close()

    def _peer(self) -> Worker:
        if self._peers is None:
            raise SandboxUnsupported(self._missing)
        return self._peers


def bwrap_per_second(workers: list[Worker], seconds: float) -> float:
    """Runs of bwrap per second by as many processes as there are workers, at once."""
    for worker in workers:
        worker.send(do="bwrap", payload=["true"], for_s=seconds)
    return sum(int(worker.answer()["count"]) for worker in workers) / seconds
