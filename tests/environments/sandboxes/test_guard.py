"""The guard by itself, on commands that harm nobody: what it answers, and that nothing of a command is left."""

import json
import secrets
import subprocess
import sys
from typing import Any

from environments.sandboxes._guarded import GUARD, READY
from tests.environments.sandboxes.probing import processes_with, wait_until


def start(argv: list[str], data: bytes = b"", **options: Any) -> "subprocess.Popen[bytes]":
    request = {"argv": argv, "env": {"PATH": "/usr/bin:/bin"}, "cwd": "/", "num_stdin": len(data), "timeout_s": 20}
    request |= {"max_output": 1000, "user": None, "own_pids": False, "rlimits": {}, **options}
    words = json.dumps(request).encode()
    command = [sys.executable, "-I", "-S", "-c", GUARD]
    guard = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert guard.stdin
    guard.stdin.write(b"%016d" % len(words) + words + data)
    guard.stdin.flush()
    return guard


def answer(guard: "subprocess.Popen[bytes]") -> tuple[dict[str, Any], bytes]:
    assert guard.stdout
    said = guard.stdout.read()
    guard.communicate()
    assert said.startswith(READY)
    header, _, output = said[len(READY) :].partition(b"\n")
    return json.loads(header), output


def test_output_and_exit_code_are_told_apart_by_their_lengths() -> None:
    header, output = answer(start(["sh", "-c", "echo out; echo err >&2; exit 3"]))
    assert (header["exit_code"], header["signal"], header["num_stdout"]) == (3, None, 4)
    assert output == b"out\nerr\n"


def test_input_arrives_and_ends_while_the_request_stays_open() -> None:
    assert answer(start(["cat"], b"x" * 300_000, max_output=1 << 20))[1] == b"x" * 300_000


def test_a_missing_folder_is_not_a_missing_command() -> None:
    assert answer(start(["true"], cwd="/no-such-folder"))[0]["exit_code"] == 126
    assert answer(start(["no-such-command"]))[0]["exit_code"] == 127


def test_when_whoever_asked_is_gone_the_command_ends_with_all_it_started() -> None:
    marker = f"8633.{secrets.randbelow(10**12):012}"
    guard = start(["sh", "-c", f"setsid sleep {marker} & sleep {marker}"])
    wait_until(lambda: len(processes_with(f"sleep\0{marker}")) == 2)
    guard.communicate()
    assert processes_with(f"sleep\0{marker}") == []


def test_rlimits_hold_for_the_command() -> None:
    assert answer(start(["sh", "-c", "ulimit -n"], rlimits={"RLIMIT_NOFILE": 33}))[1] == b"33\n"
