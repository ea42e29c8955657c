"""Runs reasoning_gym in a process of its own: importing it takes seconds, generators may not end, and some scorers
evaluate the answer they are given.

Reads one order as JSON per line and answers with one line:

    {"do": "draw", "name", "level", "seed", "heldout"}    -> {"seed", "question", "answer"}
    {"do": "score", "name", "level", "seed", "answers"}   -> {"scores": [...]}
    {"do": "levels", "name", "wanted"}                    -> {"usable": [...], "faults": {level: why}}

An order that fails is answered with {"error": "..."}.
"""

import ast
import hashlib
import importlib
import json
import os
import random
import re
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

MAX_DRAWS = 200
MAX_CHARS = 20_000
# These evaluate the answer as Python where it is not the expected text: as a literal only.
EVALUATE = ("string_insertion", "spiral_matrix", "binary_matrix", "n_queens")
# These give it to sympy, whose parser evaluates it: formulas only.
FORMULAS = ("simple_integration", "intermediate_integration", "polynomial_multiplication", "puzzle24", "countdown")
MAX_LEVEL = {"jugs": 2, "sokoban": 0}
_FUNCTIONS = "sin|cos|tan|asin|acos|atan|sinh|cosh|tanh|exp|log|ln|sqrt|Abs|pi"
_FORMULA = re.compile(rf"(?:\d+(?:\.\d*)?|\b(?:{_FUNCTIONS}|[A-Za-z])\b|[-+*/^(),=\s])*", re.ASCII)
_POWERS = re.compile(r"(?:\*\*|\^)\s*\(?\s*-?\s*\d{3,}|(?:\*\*|\^)[^-+]*(?:\*\*|\^)")


def draw(name: str, level: int, seed: int, heldout: bool) -> dict[str, Any]:
    """The first item of the split at or after the seed: a question belongs to a split by its hash."""
    fault = f"in {MAX_DRAWS} draws no question belongs to the split: the set has too few questions"
    for tried in range(seed, seed + MAX_DRAWS):
        try:
            entry = _item(name, level, tried)[1]
        except Exception as error:  # some generators give up now and then
            fault = f"{type(error).__name__}: {error}"
            continue
        if _held_out(entry["question"]) == heldout:
            return {"seed": tried, "question": entry["question"], "answer": _text(entry["answer"])}
    raise ValueError(fault)


def score(name: str, level: int, seed: int, answers: list[str]) -> dict[str, Any]:
    """The set's own score of each answer, from 0 to 1."""
    dataset, entry = _item(name, level, seed)
    return {"scores": [_score(name, dataset, entry, answer) for answer in answers]}


def levels(name: str, wanted: list[int]) -> dict[str, Any]:
    """Which steps of the set's curriculum can make an item, and why the others cannot; step 1 without a curriculum."""
    usable, faults = [], {}
    for level in wanted if name in _package().factory.CURRICULA else [1]:
        try:
            if level > MAX_LEVEL.get(name, level):
                raise TimeoutError("making one item can take minutes")
            draw(name, level, 0, False)
            usable.append(level)
        except Exception as error:
            faults[str(level)] = f"{type(error).__name__}: {error}"[:300]
    return {"usable": usable, "faults": faults}


def _score(name: str, dataset: Any, entry: dict[str, Any], answer: str) -> float:
    expected = _text(entry["answer"])
    if answer != expected and (len(answer) > MAX_CHARS or (name in FORMULAS and not _is_formula(answer))):
        return 0.0
    if answer == expected:
        return _scored(dataset, entry, entry["answer"])
    try:
        return _scored(dataset, entry, answer)
    except Exception:
        # Some scorers fail on what they cannot parse: the answer's fault as long as they work on the right one.
        _scored(dataset, entry, entry["answer"])
        return 0.0


def _scored(dataset: Any, entry: dict[str, Any], answer: Any) -> float:
    return min(1.0, max(0.0, float(dataset.score_answer(answer=answer, entry=entry))))


def _is_formula(text: str) -> bool:
    return bool(_FORMULA.fullmatch(text)) and not _POWERS.search(text)


@lru_cache(maxsize=8)
def _item(name: str, level: int, seed: int) -> tuple[Any, dict[str, Any]]:
    """One item and the data set that made it; a level is a step of the curriculum, from 1."""
    package = _package()
    curriculum = package.factory.CURRICULA.get(name)
    random.seed(seed)  # some generators draw from the shared one, too
    if curriculum is None:
        dataset = package.create_dataset(name, seed=seed, size=1)
    else:
        steps = curriculum()
        steps.set_global_level(level - 1)
        config = steps.generate_configuration({"seed": seed, "size": 1})
        dataset = package.factory.DATASETS[name][0](config)
    return dataset, dataset[0]


@lru_cache(maxsize=1)
def _package() -> Any:
    package = importlib.import_module("reasoning_gym")
    for name in EVALUATE:
        module: Any = importlib.import_module(package.factory.DATASETS[name][0].__module__)
        module.eval = ast.literal_eval
    return package


def _held_out(question: str) -> bool:
    return hashlib.sha256(question.encode()).digest()[0] % 4 == 0


def _text(answer: Any) -> str | None:
    """None where the set has no reference answer."""
    return answer if isinstance(answer, str) or answer is None else str(answer)


ORDERS: dict[str, Callable[..., dict[str, Any]]] = {"draw": draw, "score": score, "levels": levels}


def main() -> None:
    """Answer orders until the other side goes away. What the package prints goes to stderr."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        order = json.loads(line)
        try:
            answer = ORDERS[order.pop("do")](**order)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        out.write(json.dumps(answer) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
