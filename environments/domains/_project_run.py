"""Runs OUR OWN generated projects and their mutants in this process; submissions never come here.

Modules are kept apart from the ones of this process. Every loop and every function counts its rounds, so a mutant
that never ends is stopped at the same place in every process, whatever the machine.
"""

import builtins
import json
import marshal
import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import CodeType, ModuleType
from typing import Any

from environments.domains._project_kind import Case, Files
from environments.verifying.judge import same

MAX_ROUNDS = 4_000
_TICK = "__assay_tick__"
# Sources have the layout of `ast.unparse`: a head is one line, and its block begins on the next.
_HEAD = re.compile(r"^( *)((?:def|for|while) .*:)$", re.MULTILINE)
Result = tuple[str, Any]
"""`("value", JSON data)` or `("error", the exception's name)`."""
ENDLESS: Result = ("error", "endless")


@lru_cache(maxsize=2048)
def _compiled(text: str) -> CodeType:
    return compile(_HEAD.sub(rf"\1\2\n\1    {_TICK}()", text), "<project_repair>", "exec")


class Loaded:
    """A project whose functions can be called, one after the other: what they leave behind stays."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = {path.removesuffix(".py").replace("/", "."): text for path, text in files.items()}
        self._modules: dict[str, ModuleType] = {}
        self._names: dict[str, Any] = {**vars(builtins), "__import__": self._import}

    def __call__(self, target: str, args: Sequence[Any]) -> Result:
        """What a function gives; a value that is no JSON data is an error."""
        rounds = iter(range(MAX_ROUNDS))
        # Raises StopIteration when there are no rounds left; whatever becomes of that, none are left afterwards.
        self._names[_TICK] = rounds.__next__
        module, _, name = target.partition(":")
        try:
            value = getattr(self._load(module), name)(*marshal.loads(marshal.dumps(list(args))))
            found: Result = ("value", json.loads(json.dumps(value, allow_nan=False)))
        except Exception as error:
            found = ("error", type(error).__name__)
        return found if next(rounds, None) is not None else ENDLESS

    def _load(self, name: str) -> ModuleType:
        if name not in self._modules:
            module = ModuleType(name)
            vars(module)["__builtins__"] = self._names
            self._modules[name] = module
            try:
                exec(_compiled(self._files[name]), vars(module))
            except BaseException:
                del self._modules[name]
                raise
        return self._modules[name]

    def _import(self, name: str, given: Any = None, own: Any = None, names: Any = (), level: int = 0) -> Any:
        if name in self._files:
            return self._load(name)
        return builtins.__import__(name, given, own, names, level)


def results(files: Files, cases: Sequence[Case]) -> list[Result]:
    """What each case gives, in order, in one loaded project."""
    call = Loaded(files)
    return [call(target, args) for target, args in cases]


def failures(
    files: Files, cases: Sequence[Case], right: Sequence[Result], *, most: int | None = None
) -> list[int] | None:
    """The numbers of the cases that do not give the right result, looking for at most so many.

    None for a program that does not end.
    """
    call, found = Loaded(files), []
    for number, (target, args) in enumerate(cases):
        result = call(target, args)
        if result == ENDLESS:
            return None
        if not agrees(result, right[number]):
            found.append(number)
        if len(found) == most:
            break
    return found


def agrees(found: Result, right: Result) -> bool:
    """Whether a result is as good as the right one; an error never is."""
    return found[0] == right[0] == "value" and same(found[1], right[1])


def is_plain(result: Result) -> bool:
    """Whether a right result can be compared everywhere: a value with moderate numbers."""
    return result[0] == "value" and _moderate(result[1])


def _moderate(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_moderate, value))
    if isinstance(value, dict):
        return all(map(_moderate, value.values()))
    if isinstance(value, (int, float)):
        return math.isfinite(value) and abs(value) < 1e15
    return len(value) < 2000 if isinstance(value, str) else True
