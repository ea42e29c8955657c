"""Runs inside a sandbox, as a program of its own: calls the code under test and tells what each call gave.

Nothing in here is secret and nothing is trusted: the code under test shares this process and may read or replace all
of it. It can only say what its calls returned, and no expected value ever comes here.

    stdin    one JSON object: code or module, entry, calls, case_cpu_s, max_result_chars, nonce
    stdout   lines that begin with the nonce: {"ready": true}, {"case": i, "value": v} or {"case": i, "error": text},
             {"end": why}
"""

import importlib
import json
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

Job = dict[str, Any]


def tell(text: str) -> None:
    data = ("\n" + job["nonce"] + text + "\n").encode()
    while data:
        data = data[os.write(out, data) :]


def say(error: BaseException) -> str:
    try:
        return (type(error).__name__ + ": " + str(error))[:120]
    except BaseException:
        return "an exception that cannot be shown"


def late(signum: int, frame: object) -> None:
    raise TimeoutError(f"took more than {job['case_cpu_s']:g} s of CPU time")


# CPU time, not wall time, bounds a call: a busy machine must not fail a right answer.
def limited(function: Callable[[], Any]) -> Any:
    signal.setitimer(signal.ITIMER_PROF, job["case_cpu_s"], job["case_cpu_s"])
    try:
        return function()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def define() -> Any:
    if "code" in job:
        names: dict[str, Any] = {"__name__": "answer"}
        exec(compile(job["code"], "answer", "exec"), names)
    else:
        sys.path.insert(0, os.path.join(os.getcwd(), job["folder"]))
        names = vars(importlib.import_module(job["module"]))
    if job["entry"] not in names:
        raise NameError("no function named " + job["entry"])
    return names[job["entry"]]


def called(function: Any, call: Job) -> str:
    """The value as JSON text, encoded once: an object that changes between two looks gains nothing."""
    value = function(*call["args"], **call["kwargs"])
    if call["then"]:
        value = [getattr(value, method)(*args) for method, args in call["then"]]
    text = json.dumps(value, allow_nan=False)
    if len(text) > job["max_result_chars"]:
        raise ValueError("returned too much")
    return text


def attempted(function: Any, call: Job) -> tuple[str, str]:
    """The value as JSON text, or what went wrong; the other one is empty."""
    try:
        return called(function, call), ""
    except BaseException as error:
        return "", say(error)


def main() -> None:
    signal.signal(signal.SIGPROF, late)
    tell('{"ready": true}')
    try:
        function = limited(define)
    except BaseException as failure:
        tell(json.dumps({"end": say(failure)}))
        return
    for number, call in enumerate(job["calls"]):
        value, error = limited(partial(attempted, function, call))
        tell(json.dumps({"case": number, "error": error}) if error else f'{{"case": {number}, "value": {value}}}')
        if error.startswith("TimeoutError"):
            tell(json.dumps({"end": "stopped after a call that " + error[14:]}))
            return


if __name__ == "__main__":
    job: Job = json.loads(sys.stdin.buffer.read())
    out, null = os.dup(1), os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    main()
