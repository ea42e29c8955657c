"""Arguments on which the functions of `code_repair` are tried: random ones, and the edges where bugs show.

Each generator takes the randomness and the family's parameters and returns one argument list; values are JSON data.
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

Generator = Callable[[Random, Mapping[str, Any]], list[Any]]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_NAMES = _words("tea sun map oak stone river apple paint lemon tiger green basket")
_WORDS = _NAMES + _words("note bee sand east boat tent neon seat absent banana noon toast soda street a to ox")


def _around(rng: Random, options: Mapping[str, Any]) -> int:
    """A number near the parameter `k`, often exactly it."""
    k = int(options.get("k", 5))
    return rng.choice((k, k, k - 1, k + 1, rng.randint(0, 9), rng.randint(k, k + 9)))


def ints(rng: Random, options: Mapping[str, Any]) -> list[Any]:
    return [[_around(rng, options) for _ in range(rng.choice((0, 1, 2, 3, 3, 4, 5)))]]


def filled_ints(rng: Random, options: Mapping[str, Any]) -> list[Any]:
    return [[rng.randint(0, 9) for _ in range(rng.randint(2, 5))]]


def ints_with_x(rng: Random, options: Mapping[str, Any]) -> list[Any]:
    return [[_around(rng, options) for _ in range(rng.randint(1, 5))]]


def multiples(rng: Random, options: Mapping[str, Any]) -> list[Any]:
    k = options["k"]
    return [[rng.choice((k * rng.randint(1, 4), rng.randint(1, 20))) for _ in range(rng.randint(1, 5))]]


def small_ints(rng: Random, options: Mapping[str, Any]) -> list[Any]:
    return [[rng.randint(1, 5) for _ in range(rng.choice((0, 1, 2, 3, 4)))]]


def long_list(rng: Random, options: Mapping[str, Any]) -> list[Any]:
    return [rng.sample(range(1, 20), rng.randint(5, 8))]


def near_bounds(rng: Random, options: Mapping[str, Any]) -> list[Any]:
    edges = [options[name] + step for name in ("lo", "hi") for step in (-1, 0, 0, 1)]
    return [[rng.choice(edges) for _ in range(rng.randint(1, 4))]]


def number(rng: Random, options: Mapping[str, Any]) -> list[Any]:
    edges = [options[name] + step for name in ("k", "lo", "hi") if name in options for step in (-1, 0, 1)]
    return [rng.choice((*edges, *[rng.randint(-20, 30) for _ in range(4)]))]


def positive(rng: Random, options: Mapping[str, Any]) -> list[Any]:
    return [rng.choice((options["k"], options["k"] + 1, *[rng.randint(1, 24) for _ in range(6)]))]


def words(rng: Random, options: Mapping[str, Any]) -> list[Any]:
    return [rng.sample(_WORDS, rng.randint(2, 4))]


def letters(rng: Random, options: Mapping[str, Any]) -> list[Any]:
    """One word or two run together, more often with the wanted letter at one of its ends."""
    word = rng.choice(_WORDS) + rng.choice(("", "", rng.choice(_WORDS)))
    wanted = str(options.get("c", options.get("a", "")))
    return [rng.choice((word, wanted + word, word + wanted, wanted + word + wanted))]


def table(rng: Random, options: Mapping[str, Any]) -> list[Any]:
    names = rng.sample(_NAMES, 3)
    return [{name: rng.randint(1, 30) for name in names[:2]}, rng.choice(names)]


def rows(rng: Random, options: Mapping[str, Any]) -> list[Any]:
    width = options["k"] + 2
    return [[[rng.randint(1, 9) for _ in range(width)] for _ in range(rng.randint(1, 3))]]


GENERATORS: Mapping[str, Generator] = {
    function.__name__: function
    for function in (
        ints,
        filled_ints,
        ints_with_x,
        multiples,
        small_ints,
        long_list,
        near_bounds,
        number,
        positive,
        words,
        letters,
        table,
        rows,
    )
}
