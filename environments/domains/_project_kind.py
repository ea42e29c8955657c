"""What a kind of small project is: module templates, features, names, a specification, inputs for its functions.

A template's line may end in a condition on the drawn values; lines whose condition fails are left out:

    fee = amount * $rate // 100      #? fee              only if `fee` is true
    fee = 0                          #? !fee             only if it is not
    fee = max(fee, $least)           #? fee&least=5      only if all of these hold

`$name` is a drawn value, `$pkg` the project's package, `$lib` the package of its library module. The features decide
the split: training and held-out tasks of a kind never share a combination of them.
"""

import ast
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from random import Random
from string import Template
from typing import Any

from assay.records import Split, record
from environments.domains._common import side

Values = Mapping[str, Any]
Case = tuple[str, list[Any]]
"""A function as `module:name`, and its arguments as JSON data."""
Files = dict[str, str]

_CONDITION = re.compile(r"[ \t]*#\?[ \t]*(\S+)[ \t]*$")
_VALUE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_STAND_IN = "stand_in_"
_LIBRARY_PACKAGE = "vendor"


@record
class Kind:
    """`modules` by name in the package; `library` is the one that a vendored package could hold.

    `cases(rng, values)` draws inputs one by one; `spec` are the lines that say what is right.
    """

    id: str
    summary: str
    modules: Mapping[str, str]
    library: str
    features: Mapping[str, Sequence[Any]]
    constants: Mapping[str, Sequence[Any]]
    spec: str
    cases: Callable[[Random, Values], Case]

    def variants(self, split: Split) -> list[dict[str, Any]]:
        """The combinations of features that belong to a split."""
        rows = itertools.product(*self.features.values())
        return side([dict(zip(self.features, row, strict=True)) for row in rows], split, f"project_repair/{self.id}")

    def draw(self, rng: Random, variant: Values) -> dict[str, Any]:
        """A variant with constants and names."""
        return {**variant, **{name: rng.choice(options) for name, options in self.constants.items()}}

    def canonical(self, variant: Values) -> dict[str, Any]:
        """A variant with the first of all constants and names: the same for all tasks of the variant."""
        return {**variant, **{name: options[0] for name, options in self.constants.items()}}

    def module_paths(self, values: Values, *, vendored: bool) -> dict[str, str]:
        """Module name -> path, for example `{"stock": "shop/stock.py"}`."""
        package = dict.fromkeys(self.modules, values["pkg"])
        if vendored:
            package[self.library] = _LIBRARY_PACKAGE
        return {name: f"{package[name]}/{name}.py" for name in self.modules}

    def files(self, values: Values, *, vendored: bool = False) -> Files:
        """The right project: path -> source, in the layout that `ast.unparse` gives, so no file stands out."""
        lib = _LIBRARY_PACKAGE if vendored else values["pkg"]
        paths = self.module_paths(values, vendored=vendored)
        features = tuple(str(values[name]) if values[name] else "" for name in self.features)
        drawn = {**values, "lib": lib}
        made = {
            paths[name]: Template(text).substitute(drawn)
            for name, text in _laid_out(self.id, tuple(self.modules.items()), tuple(self.features), features)
        }
        packages = {values["pkg"]: self.summary, lib: self.summary if lib == values["pkg"] else "Vendored packages."}
        return {**{f"{name}/__init__.py": f'"""{said}"""\n' for name, said in packages.items()}, **made}

    def specification(self, values: Values) -> str:
        """What is right, in lines that begin with a dash."""
        return fill(self.spec, {**values, "lib": values["pkg"]})


def fill(template: str, values: Values) -> str:
    """The template's lines whose conditions hold, with the values put in."""
    return Template(_kept(template, values)).substitute(values)


def _kept(template: str, values: Values) -> str:
    kept = [line for line, condition in _lines(template) if holds(condition, values)]
    return "\n".join(kept).strip() + "\n"


@lru_cache(maxsize=512)
def _laid_out(
    kind_id: str, modules: tuple[tuple[str, str], ...], names: tuple[str, ...], features: tuple[str, ...]
) -> list[tuple[str, str]]:
    """The modules with some features in the final layout, their values still to be put in."""
    values = dict(zip(names, features, strict=True))
    return [(name, _layout(_kept(text, values))) for name, text in modules]


def _layout(text: str) -> str:
    """As `ast.unparse` lays it out; to Python, a value that is still to come is a name."""
    named = _VALUE.sub(lambda match: f"{_STAND_IN}{match.group(1) or match.group(2)}_0", text)
    laid_out = ast.unparse(ast.parse(named)) + "\n"
    return re.sub(rf"{_STAND_IN}(\w+?)_0", r"${\1}", laid_out)


@lru_cache(maxsize=512)
def _lines(template: str) -> tuple[tuple[str, str], ...]:
    """Each line without its condition, and the condition (empty: always)."""
    found = []
    for line in template.split("\n"):
        match = _CONDITION.search(line)
        found.append((line[: match.start()], match.group(1)) if match else (line, ""))
    return tuple(found)


def holds(condition: str, values: Values) -> bool:
    """Whether every part of a condition is true: `name`, `name=value`, each with `!` for not, joined by `&`."""
    return all(_part(part, values) for part in condition.split("&") if part)


def _part(part: str, values: Values) -> bool:
    if part.startswith("!"):
        return not _part(part[1:], values)
    name, given, wanted = part.partition("=")
    return str(values[name]) == wanted if given else bool(values[name])
