"""Measured comparisons, each in one run on one machine, alternating: `python -m benchmarks [NAME ...] [--steps N]`.

grpo_step   one GRPO step of the embedded trainer and of TRL's GRPOTrainer
engines     tokens per second of the transformers and the vllm engine
sandbox     creating, running, resetting and leaving no trace: against bwrap by itself and against local runtimes
environments  tasks generated and verifications done per second, by domain
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from assay.errors import AssayError
from benchmarks import engines, environments, grpo_step, sandbox
from benchmarks.workload import Workload


class Result(Protocol):
    """What a benchmark found."""

    def as_json(self) -> dict[str, Any]: ...
    def as_text(self) -> str: ...


BENCHMARKS: dict[str, Callable[[Workload, int], Coroutine[Any, Any, Result]]] = {
    "grpo_step": grpo_step.run,
    "engines": engines.run,
    "sandbox": sandbox.run,
    "environments": environments.run,
}


def main(arguments: list[str] | None = None) -> int:
    """0 when everything asked for was measured, 1 when something could not be."""
    options = _parser().parse_args(arguments)
    workload = Workload(groups=options.groups, samples=options.samples, tokens=options.tokens)
    results = []
    for name in options.names or list(BENCHMARKS):
        try:
            result = asyncio.run(BENCHMARKS[name](workload, options.steps))
        except AssayError as error:
            sys.stderr.write(f"{name}: {error}\n")
            continue
        results.append(result)
        if not options.json:
            print(result.as_text(), flush=True)
    if options.json:
        print(json.dumps([result.as_json() for result in results], indent=2))
    return 0 if len(results) == len(options.names or BENCHMARKS) else 1


def _name(text: str) -> str:
    if text not in BENCHMARKS:
        raise argparse.ArgumentTypeError(f"no benchmark is called {text!r}; there are {', '.join(BENCHMARKS)}")
    return text


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    # Not `choices`: with nargs="*" argparse checks the empty list of "all" against them.
    parser.add_argument("names", nargs="*", type=_name, metavar="NAME", help="default: all")
    parser.add_argument("--steps", type=int, default=5, help="measured rounds of each side, after one of warming up")
    parser.add_argument("--groups", type=int, default=8, help="prompts per step")
    parser.add_argument("--samples", type=int, default=8, help="completions per prompt")
    parser.add_argument("--tokens", type=int, default=40, help="new tokens per completion")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    return parser


if __name__ == "__main__":
    sys.exit(main())
