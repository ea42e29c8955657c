"""Runs inside a verifying sandbox: a trusted process that forks one child per test file and keeps the books.

    this process   pytest is loaded, nothing of the agent ever is; other processes cannot look into it
       └── child   imports the tests and the agent's code, reports on a pipe, ends; everything left of it is killed

What a child reports can be forged by the code it imports. What cannot: that each child was run, how it ended, which
files it changed, and the one result that leaves on a descriptor no child has. Judging all this is `suite`'s business.

    stdin    one JSON object: files, canaries, cpu_s, wall_s
    stdout   "ready", then one JSON object: runs (by file) and changed (protected paths)
"""

import ctypes
import hashlib
import importlib
import json
import os
import resource
import select
import signal
import stat
import sys
import time
from collections.abc import Mapping
from typing import Any, NoReturn

_PACKAGES, _TESTS, _SOURCE = "packages", "tests", "source"
_SET_DUMPABLE = 4
_MAX_REPORT_BYTES = 1 << 20
_MAX_PROTECTED_BYTES = 8 << 20
_OPTIONS = ("-q", "-s", "--assert=plain", "--import-mode=importlib", "--noconftest", "--continue-on-collection-errors")
_SWITCHED_OFF = ("cacheprovider", "junitxml", "faulthandler", "doctest", "pastebin")

Run = dict[str, Any]


class Reporter:
    """The pytest plugin in the child: one line per event."""

    def __init__(self, pipe: int) -> None:
        self.pipe = pipe

    def tell(self, **line: Any) -> None:
        data = (json.dumps(line) + "\n").encode()
        while data:
            data = data[os.write(self.pipe, data) :]

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.tell(broken=report.nodeid, said=str(report.longrepr)[-300:])

    def pytest_runtest_logreport(self, report: Any) -> None:
        said = "" if report.passed else str(report.longrepr)[-300:]
        self.tell(id=report.nodeid, when=report.when, outcome=report.outcome, said=said)


def load_pytest() -> None:
    """Everything that pytest loads by itself, so that children find it in memory and read none of it from files."""
    config = importlib.import_module("_pytest.config")
    for name in config.default_plugins:
        importlib.import_module(f"_pytest.{name}")
    importlib.import_module("packaging.requirements")


def set_dumpable(value: int) -> None:
    """0: processes of the same user can neither read this one's memory and descriptors nor trace it."""
    if ctypes.CDLL(None).prctl(_SET_DUMPABLE, value, 0, 0, 0) != 0:
        raise OSError("prctl(PR_SET_DUMPABLE) failed")


def digests(known: Mapping[str, str] | None = None) -> dict[str, str]:
    """SHA-256 of every file below the protected folders. With `known`, files that are not in it are not read."""
    found = {}
    for top in (_PACKAGES, _TESTS):
        for folder, _, names in os.walk(top):
            for name in names:
                path = os.path.join(folder, name)
                found[path] = _digest(path) if known is None or path in known else "new"
    return found


def _digest(path: str) -> str:
    """Of a regular file; anything else, and what has grown large, is only named: it may be a trap."""
    status = os.lstat(path)
    if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_PROTECTED_BYTES:
        return "not a regular file of moderate size"
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError as error:
        return str(error)


def run_file(job: Run, file: str, deadline: float) -> Run:
    """What one child reported and how it ended: `cut` says why it was stopped, `status` is negative for a signal."""
    reader, writer = os.pipe()
    pid = forked()
    if pid == 0:
        in_child(job, file, writer)
    os.close(writer)
    os.set_blocking(reader, False)
    child = os.pidfd_open(pid)
    reports, cut = listen(reader, child, deadline)
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    os.close(reader)
    os.close(child)
    return {"reports": reports.decode(errors="replace"), "cut": cut, "status": os.waitstatus_to_exitcode(status)}


def forked() -> int:
    """As `os.fork`; processes of the last child that are still ending may fill the sandbox for a moment."""
    for _ in range(200):
        try:
            return os.fork()
        except BlockingIOError:
            time.sleep(0.02)
    return os.fork()


def listen(reader: int, child: int, deadline: float) -> tuple[bytes, str]:
    """What came through the pipe until the child ended, and why it was cut off, if it was."""
    said, watched = b"", {reader, child}
    while ready := select.select(watched, [], [], max(0.0, deadline - time.monotonic()))[0]:
        chunk = _available(reader) if reader in ready else b""
        said += chunk
        if len(said) > _MAX_REPORT_BYTES:
            return said[:_MAX_REPORT_BYTES], "too many reports"
        if child in ready and not chunk:
            return said, ""
        if reader in ready and not chunk:
            watched.discard(reader)  # closed early: the end is left to wait for
    return said, "out of time"


def _available(reader: int) -> bytes:
    try:
        return os.read(reader, 65536)
    except BlockingIOError:
        return b""


def end_all_others() -> None:
    """Nothing of a child outlives it; PID 1 and this process are spared by the kernel."""
    try:
        os.kill(-1, signal.SIGKILL)
    except ProcessLookupError:
        return


def in_child(job: Run, file: str, writer: int) -> NoReturn:
    """The untrusted part; ends the process."""
    try:
        os.setsid()
        reporter = Reporter(os.dup2(writer, 3, inheritable=False))
        os.closerange(4, 1 << 16)
        resource.setrlimit(resource.RLIMIT_CPU, (job["cpu_s"], job["cpu_s"] + 1))
        set_dumpable(1)
        reporter.tell(end=run_pytest([file, *job["canaries"]], reporter))
    except BaseException as error:
        reporter.tell(broken=file, said=f"{type(error).__name__}: {error}"[:300])
        reporter.tell(end=-1)
    finally:
        os._exit(0)


def run_pytest(files: list[str], reporter: Reporter) -> int:
    tests, source = os.path.abspath(_TESTS), os.path.abspath(_SOURCE)
    os.chdir(source)
    # Last of all: a name that the standard library, pytest or the tests have already cannot be taken.
    sys.path += [tests, source]
    off = [word for name in _SWITCHED_OFF for word in ("-p", f"no:{name}")]
    where = ["-c", os.path.join(tests, "assay.ini"), "--rootdir", tests]
    pytest = importlib.import_module("pytest")
    paths = [os.path.join(tests, file) for file in files]
    return int(pytest.main([*where, *_OPTIONS, *off, *paths], plugins=[reporter]))


def run_all(job: Run) -> Run:
    """Every file in turn, until the time is up or a protected file was changed."""
    before, deadline = digests(), time.monotonic() + job["wall_s"]
    runs: Run = {}
    changed: list[str] = []
    for file in job["files"]:
        runs[file] = run_file(job, file, deadline)
        end_all_others()
        after = digests(before)
        changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
        if changed:
            break
    return {"runs": runs, "changed": changed[:20]}


def main() -> None:
    job = json.loads(sys.stdin.buffer.read())
    out, null = os.dup(1), os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    set_dumpable(0)
    sys.path.append(os.path.abspath(_PACKAGES))
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    load_pytest()
    os.write(out, b"ready\n")
    data = (json.dumps(run_all(job)) + "\n").encode()
    while data:
        data = data[os.write(out, data) :]


if __name__ == "__main__":
    main()
