"""Run an untrusted function on given arguments in a sandbox, and compare what comes back outside of it.

    here                                   sandbox (own process, no expected values inside)
    code, entry, arguments --- stdin --->  define the function, call it once per argument list
    compare with the expected values <---  one JSON line per call, on a descriptor printing does not reach

The code under test can lie about what it returned, but it would have to know the answer: an `__eq__` that is
always true, `os._exit(0)` or a forged report gain nothing.
"""

import json
import math
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from assay.errors import SandboxError
from assay.records import record
from environments.sandboxes.base import Sandbox

CASE_CPU_S = 0.5
_MAX_RESULT_CHARS = 10_000

# Runs inside the sandbox. CPU time, not wall time, bounds a call: a busy machine must not fail a right answer.
_HARNESS = f"""
import json, os, signal, sys
job = json.loads(sys.stdin.buffer.read())
out, null = os.dup(1), os.open(os.devnull, os.O_RDWR)
for fd in (0, 1, 2):
    os.dup2(null, fd)
def tell(**line):
    text = "\\n" + job["nonce"] + json.dumps(line, allow_nan=False) + "\\n"
    data = text.encode()
    while data:
        data = data[os.write(out, data):]
def say(error):
    try:
        return (type(error).__name__ + ": " + str(error))[:120]
    except BaseException:
        return "an exception that cannot be shown"
def late(signum, frame):
    raise TimeoutError("took more than {CASE_CPU_S:g} s of CPU time")
def call(function, args):
    signal.setitimer(signal.ITIMER_PROF, {CASE_CPU_S}, {CASE_CPU_S})
    try:
        value = function(*args)
        if len(json.dumps(value, allow_nan=False)) > {_MAX_RESULT_CHARS}:
            raise ValueError("returned too much")
        return {{"value": value}}
    except BaseException as error:
        return {{"error": say(error)}}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
def define():
    signal.setitimer(signal.ITIMER_PROF, {CASE_CPU_S}, {CASE_CPU_S})
    try:
        names = {{"__name__": "answer"}}
        exec(compile(job["code"], "answer", "exec"), names)
        if job["entry"] not in names:
            raise NameError("no function named " + job["entry"])
        return names[job["entry"]]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
signal.signal(signal.SIGPROF, late)
tell(ready=True)
try:
    function = define()
except BaseException as error:
    tell(end=say(error))
else:
    for number, args in enumerate(job["inputs"]):
        result = call(function, args)
        tell(case=number, **result)
        if result.get("error", "").startswith("TimeoutError"):
            tell(end="stopped after a call that " + result["error"][14:])
            break
"""


@record
class CaseResult:
    """What one call gave: a JSON value, or the error in words."""

    value: Any = None
    error: str | None = None

    def shown(self) -> str:
        """For people and the policy: `returned 3` or `raised KeyError: 'b'`."""
        return f"returned {clipped(self.value)}" if self.error is None else f"raised {self.error[:80]}"


async def run_cases(
    sandbox: Sandbox, code: str, entry: str, inputs: Sequence[Sequence[Any]], *, timeout_s: float
) -> list[CaseResult]:
    """One result per argument list, in order; a call that never answered is an error of the code.

    Raises SandboxError when not even the interpreter came up: then nothing can be said about the code.
    """
    nonce = secrets.token_hex(8)
    job = json.dumps({"code": code, "entry": entry, "inputs": list(inputs), "nonce": nonce})
    done = await sandbox.exec(
        ["python3", "-I", "-S", "-B", "-c", _HARNESS], stdin=job.encode(), timeout_s=timeout_s, max_output=1 << 20
    )
    lines = _lines(done.stdout, nonce)
    if not any("ready" in line for line in lines):
        raise SandboxError(
            f"Python did not start in the sandbox (exit {done.exit_code}, signal {done.signal}, timed out "
            f"{done.timed_out}): {done.stderr[-300:]!r}. Check that python3 runs there."
        )
    missing = f"no result within {timeout_s:g} s" if done.timed_out else "the process ended before it returned"
    return _results(lines, len(inputs), missing)


def _lines(stdout: str, nonce: str) -> list[dict[str, Any]]:
    found = []
    for line in stdout.split("\n"):
        if line.startswith(nonce):
            try:
                entry = json.loads(line[len(nonce) :])
            except (ValueError, RecursionError):
                continue
            found += [entry] if isinstance(entry, dict) else []
    return found


def _results(lines: list[dict[str, Any]], num_cases: int, missing: str) -> list[CaseResult]:
    missing = next((str(line["end"]) for line in lines if "end" in line), missing)
    return [_result([line for line in lines if _is_case(line, number)], missing) for number in range(num_cases)]


def _is_case(line: Mapping[str, Any], number: int) -> bool:
    return type(line.get("case")) is int and line["case"] == number


def _result(lines: list[dict[str, Any]], missing: str) -> CaseResult:
    """One line per call is the contract; several values for one call are none."""
    if len(lines) != 1:
        return CaseResult(error=missing if not lines else "several results for one call")
    if "value" in lines[0]:
        return CaseResult(value=lines[0]["value"])
    return CaseResult(error=str(lines[0].get("error", missing)))


def same(found: Any, expected: Any) -> bool:
    """Equality of JSON values: numbers by value (floats within 1e-9 relative), booleans are not numbers.

    Tuples arrive as lists, so a tuple equals a list with the same items.

    >>> same(2.0, 2), same(True, 1), same([1, [2]], [1, [2]])
    (True, False, True)
    """
    if isinstance(expected, bool) or isinstance(found, bool):
        return found is expected
    if isinstance(expected, (int, float)):
        return isinstance(found, (int, float)) and _close(found, expected)
    if isinstance(expected, list):
        return isinstance(found, list) and len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(expected, dict):
        return (
            isinstance(found, dict) and set(found) == set(expected) and all(same(found[k], expected[k]) for k in found)
        )
    return type(found) is type(expected) and found == expected


def _close(found: float, expected: float) -> bool:
    if isinstance(found, int) and isinstance(expected, int):
        return found == expected
    try:
        return math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-12)
    except OverflowError:
        return False


def clipped(value: Any, limit: int = 60) -> str:
    """A value in Python's notation, shortened in the middle of nowhere rather than filling the context."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."
