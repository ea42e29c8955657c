"""What a task of `terminal` is made of: a template draws a problem, a problem says what is asked and what must be left.

    Template.make(rng, level) -> Problem:  asks, files, setup  |  checks, kept  |  oracle, wrong, equivalent

All paths and commands are relative to the task's folder. Checks are data, made by the functions below; they are
compared outside of the sandbox (`_terminal_compare`), or the artifacts are run in a new one on inputs never shown.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from random import Random
from typing import Any

from assay.records import record

Check = Mapping[str, Any]

NAMES = (
    "ada", "boris", "carla", "dmitri", "elena", "farid", "greta", "hugo", "ines", "jonas", "karin", "luis", "mona",
    "nils", "olga", "pablo", "quinn", "rosa", "samir", "tilda", "ursula", "viktor", "wanda", "yusuf", "zoe",
)  # fmt: skip
WORDS = (
    "anchor", "basin", "candle", "delta", "ember", "fabric", "garnet", "harbor", "island", "jacket", "kernel",
    "lantern", "marble", "needle", "orchid", "pepper", "quartz", "ribbon", "saddle", "timber", "umbrella", "velvet",
    "walnut", "yarn", "zephyr", "bridge", "copper", "dagger", "engine", "funnel", "glacier", "hammer", "ivory",
)  # fmt: skip


@record
class Problem:
    """`kept` names files that must stay as they are. `collected` are patterns besides the paths that checks name.

    `oracle`, `wrong` and `equivalent` are commands in bash. `has_state_hash` is False where programs write times
    into the folder, so that equal commands leave different bytes (git's index). `num_already_right` counts the
    checks that hold before anything is done.
    """

    asks: str
    files: Mapping[str, str]
    checks: Sequence[Check]
    oracle: str
    wrong: Sequence[str]
    equivalent: Sequence[str]
    setup: str = ""
    kept: Sequence[str] = ()
    collected: Sequence[str] = ()
    has_state_hash: bool = True
    num_already_right: int = 0


@record
class Template:
    """`programs` must be in the sandbox. `make` must end for every draw; levels are 1 to 3."""

    id: str
    programs: tuple[str, ...] = field(default=())
    make: Callable[[Random, int], Problem]


def template(name: str, *programs: str) -> Callable[[Callable[[Random, int], Problem]], Template]:
    """Makes a template of a function."""
    return lambda make: Template(id=name, programs=programs, make=make)


def text(path: str, expected: str) -> Check:
    """The file's exact text; only newlines at its very end are left open."""
    return {"kind": "text", "path": path, "expected": expected}


def lines(path: str, expected: Sequence[object]) -> Check:
    """These lines in this order."""
    return text(path, "".join(f"{line}\n" for line in expected))


def line_set(path: str, expected: Sequence[object]) -> Check:
    """These lines in any order, each as often as here."""
    return {"kind": "line_set", "path": path, "expected": [str(line) for line in expected]}


def json_value(path: str, expected: Any) -> Check:
    """A JSON text with this value, whatever its layout and the order of its keys."""
    return {"kind": "json", "path": path, "expected": expected}


def csv_rows(path: str, expected: Sequence[Sequence[object]]) -> Check:
    """A CSV text with these rows, quoted or not."""
    return {"kind": "csv", "path": path, "expected": [[str(cell) for cell in row] for row in expected]}


def ini_values(path: str, expected: Mapping[str, Mapping[str, str]]) -> Check:
    """An INI file with exactly these sections, keys and values, whatever its layout, order and comments."""
    return {"kind": "ini", "path": path, "expected": {name: dict(keys) for name, keys in expected.items()}}


def answered(expected: object) -> Check:
    """The answer given with `finish`, without spaces around it."""
    return {"kind": "answer", "path": "", "expected": str(expected)}


def runs(path: str, command: str, expected: str, files: Mapping[str, str] | None = None) -> Check:
    """What `command` prints in a new sandbox that holds the artifacts, of which `path` is one, and `files`.

    Spaces at the end of lines are left open.
    """
    return {"kind": "run", "path": path, "command": command, "files": dict(files or {}), "expected": expected}


def table(rows: Sequence[Sequence[object]], sep: str = ",") -> str:
    """The text of a table of plain cells."""
    return "".join(sep.join(map(str, row)) + "\n" for row in rows)


def size(level: int, *sizes: int) -> int:
    """The size for a level, e.g. `size(level, 8, 20, 50)`."""
    return sizes[level - 1]
