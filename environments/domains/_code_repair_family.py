"""What a function family of `code_repair` is: a template, its parameters, the bugs it can get, another right form.

A family is a template: `$f` is the function's name, `$v` its argument, the rest are the parameters in `options`.
A bug replaces one piece of the right code. Everything here is trusted and ends for every input.

To add a family, append one to a list (`_code_repair_lists`, `_numbers`, `_texts`); the tests show whether its inputs
see each bug.
"""

from collections.abc import Mapping
from string import Template
from typing import Any

from assay.records import record

Options = Mapping[str, Any]


@record
class Bug:
    """`kind` names the mistake; `old` (its first occurrence in the template) becomes `new`."""

    kind: str
    old: str
    new: str


@record
class Family:
    """`inputs` names the generator of arguments (`_code_repair_inputs`); `other` behaves like `code`."""

    id: str
    level: int
    does: str
    names: tuple[str, ...]
    variables: tuple[str, ...]
    code: str
    other: str
    options: tuple[Options, ...]
    bugs: tuple[Bug, ...]
    inputs: str


def fill(template: str, options: Options) -> str:
    """The template with its parameters put in."""
    return Template(template).substitute(options).strip() + "\n"


def broken(family: Family, bug: Bug) -> str:
    """The family's template with the bug in it."""
    if bug.old not in family.code:
        raise ValueError(f"code_repair family {family.id}: bug {bug.kind!r} replaces {bug.old!r}, which is not there")
    return family.code.replace(bug.old, bug.new, 1)


def each(**values: tuple[Any, ...]) -> tuple[Options, ...]:
    """One option set per position: `each(k=(1, 2), j=(0, 1))` pairs them."""
    names = list(values)
    return tuple(dict(zip(names, row, strict=True)) for row in zip(*values.values(), strict=True))


def bugs(*rows: tuple[str, str, str]) -> tuple[Bug, ...]:
    """Rows of kind, old, new."""
    return tuple(Bug(kind=kind, old=old, new=new) for kind, old, new in rows)
