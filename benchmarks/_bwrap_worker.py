"""Runs bwrap by itself, from a small Python process that knows nothing of Assay: the bound for any sandbox over it.

Started with the path of a plan: {"commands": {NAME: argv}, "seccomp": file, "user": [uid, gid] or null}. In an argv
the words @work, @seccomp and @status stand for a fresh work dir and descriptors; a command without @work gets none,
and its output is thrown away unread.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Any


def say(**values: Any) -> None:
    sys.stdout.write("@@ " + json.dumps(values) + "\n")
    sys.stdout.flush()


class Launcher:
    """Runs the commands of a plan from nothing to nothing."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan
        # Absent rather than None: setting a user keeps Python from starting processes the quick way.
        uid, gid = plan["user"] or (None, None)
        self.user: dict[str, Any] = {"user": uid, "group": gid, "extra_groups": []} if plan["user"] else {}

    def run(self, argv: list[str], payload: list[str]) -> None:
        """One command; RuntimeError when it fails."""
        work = self._work_dir() if "@work" in argv else ""
        seccomp = os.open(self.plan["seccomp"], os.O_RDONLY)
        reader, status = os.pipe()
        words = {"@work": work, "@seccomp": str(seccomp), "@status": str(status)}
        command = [*(words.get(word, word) for word in argv), *payload]
        output: dict[str, Any] = {"capture_output": True} if work else {"stdout": subprocess.DEVNULL}
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, pass_fds=(seccomp, status), env={}, **output, **self.user
        )
        os.close(seccomp)
        os.close(status)
        os.read(reader, 4096)
        os.close(reader)
        if work:
            shutil.rmtree(work)
        if done.returncode != 0:
            raise RuntimeError(f"{command} failed: {done.returncode}, {done.stderr!r}")

    def bare(self, payload: list[str]) -> None:
        """The same without any isolation."""
        subprocess.run(payload, stdin=subprocess.DEVNULL, capture_output=True, check=True)

    def _work_dir(self) -> str:
        path = tempfile.mkdtemp(prefix="assay-bench-")
        if self.plan["user"]:
            os.chown(path, *self.plan["user"])
        return path

    def once(self, order: dict[str, Any]) -> None:
        if order["do"] == "bare":
            self.bare(order["payload"])
        else:
            self.run(self.plan["commands"][order["do"]], order["payload"])

    def timed(self, order: dict[str, Any]) -> list[float]:
        """Seconds of each of `times` runs."""
        seconds = []
        for _ in range(order["times"]):
            began = time.perf_counter()
            self.once(order)
            seconds.append(time.perf_counter() - began)
        return seconds

    def sustained(self, order: dict[str, Any]) -> int:
        """How many runs `for_s` seconds are enough for."""
        until, count = time.monotonic() + order["for_s"], 0
        while time.monotonic() < until:
            self.once(order)
            count += 1
        return count


def main() -> None:
    with open(sys.argv[1]) as file:
        launcher = Launcher(json.load(file))
    say(ready=True)
    for line in sys.stdin:
        order = json.loads(line)
        try:
            if "for_s" in order:
                say(count=launcher.sustained(order))
            else:
                say(seconds=launcher.timed(order))
        except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
            say(error=str(error))


if __name__ == "__main__":
    main()
