"""Runs OUR OWN generated projects and their mutants in this process; submissions never come here.

Modules are kept apart from the ones of this process. Every loop and every function counts its rounds, so a mutant
that never ends is stopped at the same place in every process, whatever the machine.
"""

import ast
import builtins
import json
import marshal
import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import CodeType, ModuleType
from typing import Any

from environments.domains._project_kind import Case, Files
from environments.verifying.judge import same

MAX_ROUNDS = 4_000
_TICK = "__assay_tick__"
Result = tuple[str, Any]
"""`("value", JSON data)` or `("error", the exception's name)`."""


class _TooLong(BaseException):
    """Not an Exception, so the code under test does not catch it."""


def _count(block: list[ast.stmt]) -> None:
    """Put a count at the head of every loop and function."""
    for node in block:
        for name in ("body", "orelse", "finalbody"):
            _count(getattr(node, name, []))
        for handler in getattr(node, "handlers", []):
            _count(handler.body)
        if isinstance(node, (ast.While, ast.For, ast.FunctionDef)):
            where = {"lineno": node.lineno, "col_offset": 0}
            call = ast.Call(ast.Name(_TICK, ast.Load(), **where), [], [], **where)
            node.body.insert(0, ast.Expr(call, **where))


@lru_cache(maxsize=2048)
def _compiled(text: str) -> CodeType:
    tree = ast.parse(text)
    _count(tree.body)
    return compile(tree, "<project_repair>", "exec")


class Loaded:
    """A project whose functions can be called, one after the other: what they leave behind stays."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = {path.removesuffix(".py").replace("/", "."): text for path, text in files.items()}
        self._modules: dict[str, ModuleType] = {}
        self._rounds = 0
        self._names = {**vars(builtins), "__import__": self._import, _TICK: self._tick}

    def __call__(self, target: str, args: Sequence[Any]) -> Result:
        """What a function gives; a value that is no JSON data is an error."""
        self._rounds = 0
        module, _, name = target.partition(":")
        try:
            value = getattr(self._load(module), name)(*marshal.loads(marshal.dumps(list(args))))
            return "value", json.loads(json.dumps(value, allow_nan=False))
        except (Exception, _TooLong) as error:
            return "error", type(error).__name__

    def _tick(self) -> None:
        self._rounds += 1
        if self._rounds > MAX_ROUNDS:
            raise _TooLong

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


def load(files: Files) -> Callable[[str, Sequence[Any]], Result]:
    """Calls of the project's functions."""
    return Loaded(files)


def results(files: Files, cases: Sequence[Case]) -> list[Result]:
    """What each case gives, in order, in one loaded project."""
    call = load(files)
    return [call(target, args) for target, args in cases]


def failures(
    files: Files, cases: Sequence[Case], right: Sequence[Result], *, most: int | None = None
) -> list[int] | None:
    """The numbers of the cases that do not give the right result, looking for at most so many.

    None for a program that does not end.
    """
    call, found = load(files), []
    for number, (target, args) in enumerate(cases):
        result = call(target, args)
        if result == ("error", _TooLong.__name__):
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
