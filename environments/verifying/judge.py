"""Run untrusted code on given arguments in a sandbox, and compare what comes back outside of it.

    here                                   sandbox (own process, no expected values inside)
    code, entry, arguments --- stdin --->  define the function, call it once per argument list
    compare with the expected values <---  one JSON line per call, on a descriptor printing does not reach

The code under test can lie about what it returned, but it would have to know the answer: an `__eq__` that is
always true, `os._exit(0)` or a forged report gain nothing. What scores this way is `out_of_process`.
"""

import json
import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from pathlib import Path
from typing import Any

from assay.errors import SandboxError
from assay.records import record
from environments.sandboxes.base import Sandbox

CASE_CPU_S = 0.5
_MAX_RESULT_CHARS = 10_000
_FOLDER = "project"
_HARNESS = Path(__file__).with_name("_harness.py").read_text()


@record
class Project:
    """Source files by path, such as `shop/cart.py`, and the function or class `entry` of `module` (`shop.cart`)."""

    files: Mapping[str, str]
    module: str
    entry: str


@record
class Call:
    """Arguments as JSON data. With `then`, methods (name, arguments) are called in turn on what the call returned,
    and the result is the list of what these gave."""

    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    then: Sequence[tuple[str, Sequence[Any]]] = ()


@record
class CaseResult:
    """What one call gave: a JSON value, or the error in words."""

    value: Any = None
    error: str | None = None

    def gives(self, expected: Any) -> bool:
        """Whether the call returned a value equal to `expected`, as `same` has it."""
        return self.error is None and same(self.value, expected)

    def shown(self) -> str:
        """For people and the policy: `returned 3` or `raised KeyError: 'b'`."""
        return f"returned {clipped(self.value)}" if self.error is None else f"raised {self.error[:80]}"


async def run_cases(
    sandbox: Sandbox, code: str, entry: str, inputs: Sequence[Sequence[Any]], *, timeout_s: float
) -> list[CaseResult]:
    """One result per argument list, in order; a call that never answered is an error of the code.

    Raises SandboxError when not even the interpreter came up: then nothing can be said about the code.
    """
    calls = [Call(args=args) for args in inputs]
    return await _run(sandbox, {"code": code, "entry": entry}, calls, timeout_s, CASE_CPU_S)


async def run_project(
    sandbox: Sandbox, project: Project, calls: Sequence[Call], *, timeout_s: float, case_cpu_s: float = CASE_CPU_S
) -> list[CaseResult]:
    """As `run_cases`, for code in several files; give a fresh sandbox, and only paths that `take_sources` let through.

    `case_cpu_s` is the CPU time of importing the module, and of each call.
    """
    for path, text in project.files.items():
        await sandbox.write(f"{_FOLDER}/{path}", text.encode("utf-8", "surrogatepass"))
    job = {"folder": _FOLDER, "module": project.module, "entry": project.entry}
    return await _run(sandbox, job, calls, timeout_s, case_cpu_s)


async def _run(
    sandbox: Sandbox, job: Mapping[str, Any], calls: Sequence[Call], timeout_s: float, case_cpu_s: float
) -> list[CaseResult]:
    nonce = secrets.token_hex(8)
    limits = {"case_cpu_s": case_cpu_s, "max_result_chars": _MAX_RESULT_CHARS}
    text = json.dumps({**job, **limits, "calls": [asdict(call) for call in calls], "nonce": nonce})
    done = await sandbox.exec(
        ["python3", "-I", "-S", "-B", "-c", _HARNESS],
        stdin=text.encode(),
        timeout_s=timeout_s,
        max_output=(1 << 20) + 2 * _MAX_RESULT_CHARS * len(calls),
    )
    lines = _lines(done.stdout, nonce)
    if not any("ready" in line for line in lines):
        raise SandboxError(
            f"Python did not start in the sandbox (exit {done.exit_code}, signal {done.signal}, timed out "
            f"{done.timed_out}): {done.stderr[-300:]!r}. Check that python3 runs there."
        )
    missing = f"no result within {timeout_s:g} s" if done.timed_out else "the process ended before it returned"
    return _results(lines, len(calls), missing)


def _lines(stdout: str, nonce: str) -> list[dict[str, Any]]:
    found = []
    for line in stdout.split("\n"):
        if line.startswith(nonce):
            try:
                entry = json.loads(line[len(nonce) :], parse_constant=_refuse)
            except (ValueError, RecursionError):
                continue
            found += [entry] if isinstance(entry, dict) else []
    return found


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


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
    return CaseResult(error=str(lines[0].get("error", missing)).encode("utf-8", "replace").decode())


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
